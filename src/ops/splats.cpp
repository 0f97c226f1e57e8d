#include "ops/splats.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

constexpr double kMostCovered = 0.99, kLeastCovered = 1.0 / 255;

std::vector<TensorType> infer_parts(const Node& node, const std::vector<TensorType>& inputs) {
  const Shape& splats = inputs[0].shape;
  if (inputs[0].dtype != DType::F32 || splats.size() != 2 || splats[1] != kSplatWords || splats[0] < 1 ||
      inputs[1].dtype != DType::I32 || inputs[1].shape.size() != 1)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(splats), " and ",
         to_string(inputs[1].dtype), to_string(inputs[1].shape), ", expected f32 [N, 9] and i32 [places]");
  const SplatGrid grid = splat_grid(node, inputs[1].shape);
  return {{DType::F32, {grid.height, grid.width, 4}, Layout::Plain}};
}

std::vector<TensorType> infer_blend(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 4, {"width", "height", "threshold"});
  const std::vector<TensorType> result = infer_parts(node, inputs);
  const int64_t listed = splat_grid(node, inputs[1].shape).listed;
  for (size_t i = 2; i < 4; ++i)
    if (has_input(node, inputs, i) &&
        (inputs[i].dtype != DType::I32 || inputs[i].shape != Shape{i == 2 ? inputs[0].shape[0] : listed}))
      fail(ErrorCode::InvalidGraph, node.op, i == 2 ? "ends" : "order", " is ", to_string(inputs[i].dtype),
           to_string(inputs[i].shape), ", expected i32 [", i == 2 ? inputs[0].shape[0] : listed, "]");
  return result;
}

std::vector<TensorType> infer_back(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"width", "height", "threshold"});
  infer_parts(node, inputs);
  const SplatGrid grid = splat_grid(node, inputs[1].shape);
  if (inputs[2].dtype != DType::F32 || inputs[2].shape != Shape{grid.height, grid.width, 8})
    fail(ErrorCode::InvalidGraph, node.op, "pixels are ", to_string(inputs[2].dtype), to_string(inputs[2].shape),
         ", expected f32 [", grid.height, ", ", grid.width, ", 8]");
  return {{DType::F32, {grid.listed, kSplatWords}, Layout::Plain}};
}

// Visits the splats that a pixel sees, the nearest first: visit(place, splat, covered, light before it, dx, dy).
template <class Visit>
void see(const SplatGrid& grid, const RefTensor& splats, const RefTensor& lists, int64_t x, int64_t y, Visit visit) {
  const auto tile = static_cast<size_t>(y / kSplatTile * grid.across + x / kSplatTile);
  double light = 1;
  for (auto place = static_cast<int64_t>(lists.data[tile]); place < static_cast<int64_t>(lists.data[tile + 1]);
       ++place) {
    const double* s = splats.data.data() +
                      kSplatWords * static_cast<int64_t>(lists.data[static_cast<size_t>(grid.tiles + 1 + place)]);
    const double dx = s[0] - (static_cast<double>(x) + 0.5), dy = s[1] - (static_cast<double>(y) + 0.5);
    const double power = -0.5 * (s[2] * dx * dx + s[4] * dy * dy) - s[3] * dx * dy;
    const double covered = std::min(kMostCovered, s[5] * std::exp(power));
    if (power > 0 || covered < kLeastCovered) continue;
    if (light * (1 - covered) < grid.threshold) return;
    visit(place, s, covered, light, dx, dy);
    light *= 1 - covered;
  }
}

void reference_blend(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const SplatGrid grid = splat_grid(node, inputs[1]->shape);
  for (int64_t y = 0; y < grid.height; ++y)
    for (int64_t x = 0; x < grid.width; ++x) {
      double* pixel = outputs[0].data.data() + (y * grid.width + x) * 4;
      pixel[3] = 1;
      see(grid, *inputs[0], *inputs[1], x, y,
          [&](int64_t, const double* s, double covered, double light, double, double) {
            for (int c = 0; c < 3; ++c) pixel[c] += s[6 + c] * covered * light;
            pixel[3] = light * (1 - covered);
          });
    }
}

void reference_back(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const SplatGrid grid = splat_grid(node, inputs[1]->shape);
  for (int64_t y = 0; y < grid.height; ++y)
    for (int64_t x = 0; x < grid.width; ++x) {
      const double *pixel = inputs[2]->data.data() + (y * grid.width + x) * 8, *g = pixel + 4;
      double behind[3] = {pixel[0], pixel[1], pixel[2]};  // the colour of what has not been visited
      see(grid, *inputs[0], *inputs[1], x, y,
          [&](int64_t place, const double* s, double covered, double light, double dx, double dy) {
            double* d = outputs[0].data.data() + place * kSplatWords;
            double by_covered = -g[3] * pixel[3] / (1 - covered);
            for (int c = 0; c < 3; ++c) {
              behind[c] -= s[6 + c] * covered * light;
              by_covered += g[c] * (s[6 + c] * light - behind[c] / (1 - covered));
              d[6 + c] += g[c] * covered * light;
            }
            if (covered >= kMostCovered) return;
            const double by_power = by_covered * covered;
            d[0] -= by_power * (s[2] * dx + s[3] * dy);
            d[1] -= by_power * (s[4] * dy + s[3] * dx);
            d[2] -= 0.5 * by_power * dx * dx;
            d[3] -= by_power * dx * dy;
            d[4] -= 0.5 * by_power * dy * dy;
            d[5] += by_power / s[5];
          });
    }
}

std::vector<Value> gradient_blend(const Backward& back) {
  const Value splats = back.inputs[0], lists = back.inputs[1], ends = back.inputs[2], order = back.inputs[3];
  if (!ends || !order)
    fail(ErrorCode::Unsupported, back.node.op, "has no lists of places by splat, which its gradient needs");
  const int64_t places = order.shape()[0];
  const Value pixels = concat({back.outputs[0], back.gradients[0]}, 2);
  const Value each = apply("splat_blend_back", {splats, lists, pixels}, back.node.attrs);
  const Value rows = apply("place", {counted(each.graph(), places), order}, {{"axis", int64_t{0}}, {"k", places}});
  return {apply("segment_sum", {each, ends, rows}), {}, {}, {}};
}

// About one splat in sixteen listed meets a pixel for certain; the work depends on the scene.
double flops_of(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 20.0 * kSplatTile * kSplatTile * static_cast<double>(splat_grid(node, inputs[1].shape).listed);
}

}  // namespace

SplatGrid splat_grid(const Node& node, const Shape& lists) {
  SplatGrid grid{node.attrs.integer("width"),         node.attrs.integer("height"), 0, 0, 0,
                 node.attrs.number("threshold", 1e-4)};
  if (grid.width < 1 || grid.height < 1)
    fail(ErrorCode::InvalidGraph, node.op, "a picture of ", grid.width, " x ", grid.height, " pixels");
  grid.across = ceil_div(grid.width, kSplatTile);
  grid.tiles = grid.across * ceil_div(grid.height, kSplatTile);
  grid.listed = lists[0] - grid.tiles - 1;
  if (grid.listed < 1)
    fail(ErrorCode::InvalidGraph, node.op, "lists have ", lists[0], " elements, expected more than one for each of ",
         grid.tiles, " tiles");
  return grid;
}

const OpDef kSplatBlend = {
    .name = "splat_blend",
    .infer = infer_blend,
    .reference = reference_blend,
    .gradient = gradient_blend,
    .flops = flops_of,
};

const OpDef kSplatBlendBack = {
    .name = "splat_blend_back",
    .infer = infer_back,
    .reference = reference_back,
    .flops = flops_of,
};

}  // namespace gyrus
