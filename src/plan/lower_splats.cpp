// Splats of tiles, blended and back. Any workgroup has some pixels of one tile; a splat's gradient in a tile is the sum
// of several dispatches where a workgroup has fewer lanes than a tile has pixels.
#include <algorithm>

#include "core/error.h"
#include "ops/splats.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

constexpr uint32_t kPixels = kSplatTile * kSplatTile;

struct BlendShape {
  uint32_t wg = 0, batch = 0;
  uint64_t stage() const { return uint64_t{wg} * std::max(2 * batch, static_cast<uint32_t>(kSplatWords)); }
};

uint64_t array_bytes(uint64_t words) { return round_up(words * 4, 16); }

// The most lanes, and for them the most splats at a time, that workgroup memory holds.
template <class Bytes>
BlendShape blend_shape(const Limits& limits, uint32_t most_batch, const std::string& label, Bytes bytes) {
  for (uint32_t wg = workgroup_size(limits, kPixels); wg > 0; wg /= 2)
    for (uint32_t batch = std::min(wg, most_batch); batch > 0; batch /= 2)
      if (bytes(BlendShape{wg, batch}) <= limits.max_compute_workgroup_storage_size) return {wg, batch};
  fail(ErrorCode::OverLimits, label, "splats do not fit ", limits.max_compute_workgroup_storage_size,
       " bytes of workgroup memory");
}

uint64_t forward_bytes(const BlendShape& s) { return array_bytes(uint64_t{s.batch} * kSplatWords) + 32; }

uint64_t backward_bytes(const BlendShape& s) {
  return array_bytes(s.stage()) + array_bytes(3ull * s.wg) + 2 * array_bytes(uint64_t{s.batch} * kSplatWords) + 32;
}

Kernel blend_kernel(Lowering& lowering, const Node& node, const char* file, const BlendShape& shape,
                    const SplatGrid& grid) {
  Kernel k(lowering, file, label_of(node));
  k.workgroup(shape.wg).constant("batch", shape.batch);
  k.read("splats", *lowering.storage(node.inputs[0])).read("lists", *lowering.storage(node.inputs[1]));
  k.param("tiles", grid.tiles).param("across", grid.across).param("width", grid.width).param("height", grid.height);
  k.param("threshold", static_cast<float>(grid.threshold));
  k.shared("batch", wgsl::f32, uint64_t{shape.batch} * kSplatWords);
  k.shared("seeing", "atomic<u32>", 4, 1).shared("go_on", wgsl::u32, 1);
  return k;
}

Cost cost_of(const SplatGrid& grid, double flops, double share) {
  return {flops * kPixels * static_cast<double>(grid.listed) * share,
          40.0 * static_cast<double>(grid.listed) + 16.0 * static_cast<double>(grid.width * grid.height)};
}

void fill_with_zeros(Lowering& lowering, const Node& node, const StoragePtr& out) {
  MapSpec spec;
  spec.name = "zeros";
  spec.label = label_of(node);
  spec.out = out;
  spec.result = "0.0";
  emit_map(lowering, spec);
}

}  // namespace

void lower_splat_blend(Lowering& lowering, const Node& node) {
  const SplatGrid grid = splat_grid(node, lowering.graph().type(node.inputs[1]).shape);
  const BlendShape shape = blend_shape(lowering.limits(), kPixels, label_of(node), forward_bytes);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const std::vector<Window> all = windows(*out, 0, out->units, lowering.limits());
  for (const Window& w : all) {
    Kernel k = blend_kernel(lowering, node, "splat_blend", shape, grid);
    k.write("picture", *out, w).param("picture_begin", w.first).param("picture_count", w.count);
    k.constant("blocks", kPixels / shape.wg).checks_stored().text("store", k.stored(*out, "values[c]"));
    k.dispatch(static_cast<uint64_t>(grid.tiles) * (kPixels / shape.wg),
               cost_of(grid, 20, 1.0 / static_cast<double>(all.size())));
  }
}

void lower_splat_blend_back(Lowering& lowering, const Node& node) {
  const SplatGrid grid = splat_grid(node, lowering.graph().type(node.inputs[1]).shape);
  const BlendShape shape = blend_shape(lowering.limits(), 8, label_of(node), backward_bytes);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  fill_with_zeros(lowering, node, out);
  const std::vector<Window> all = windows(*out, 0, out->units, lowering.limits());
  for (const Window& w : all)
    for (uint32_t pixel = 0; pixel < kPixels; pixel += shape.wg) {
      Kernel k = blend_kernel(lowering, node, "splat_blend_back", shape, grid);
      k.read("pixels", *lowering.storage(node.inputs[2])).param("first_pixel", uint64_t{pixel});
      k.write("result", *out, w).param("result_begin", w.first).param("result_count", w.count);
      k.shared("stage", wgsl::f32, shape.stage()).shared("gradient", wgsl::f32, 3ull * shape.wg);
      k.shared("sums", wgsl::f32, uint64_t{shape.batch} * kSplatWords);
      k.checks_stored().text("store", k.stored(*out, "value"));
      k.dispatch(static_cast<uint64_t>(grid.tiles),
                 cost_of(grid, 60, shape.wg / static_cast<double>(kPixels) / static_cast<double>(all.size())));
    }
}

}  // namespace gyrus
