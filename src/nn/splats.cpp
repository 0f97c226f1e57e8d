// Splats from nodes: what is done for each Gaussian is arithmetic on columns, so that it is fused, differentiated and
// cut as any other; sorting, lists of tiles and blending are ops.
#include "gyrus/splats.h"

#include <cmath>

#include "core/error.h"
#include "gyrus/neighbours.h"
#include "gyrus/ops.h"
#include "ops/building.h"
#include "ops/splats.h"

namespace gyrus {
namespace {

constexpr double kLeastOpacity = 1.0 / 255;
constexpr double kBeside =
    0.65;  // how far beside the picture, in widths from its middle, projection is taken as linear
constexpr double kMargin = 0.01;  // pixels around a Gaussian, for rounding

void expect(Value x, const Shape& shape, const char* what) {
  if (!x) fail(ErrorCode::InvalidGraph, "render", what, " is missing");
  if (x.dtype() != DType::F32 || x.shape() != shape)
    fail(ErrorCode::InvalidGraph, "render", what, " is ", to_string(x.dtype()), to_string(x.shape()), ", expected f32 ",
         to_string(shape));
}

void check(const Splats& splats, const SplatCamera& camera, const SplatOptions& options) {
  if (!splats.means || !splats.colours) fail(ErrorCode::InvalidGraph, "render", "means or colours are missing");
  const Shape means = splats.means.shape(), colours = splats.colours.shape();
  const int64_t n = means.empty() ? 0 : means[0], k = colours.size() == 3 ? colours[1] : 0;
  if (n < 1) fail(ErrorCode::InvalidGraph, "render", "there are no Gaussians");
  expect(splats.means, {n, 3}, "means");
  expect(splats.scales, {n, 3}, "scales");
  expect(splats.rotations, {n, 4}, "rotations");
  expect(splats.opacities, {n}, "opacities");
  expect(camera.view, {3, 4}, "view");
  expect(camera.lens, {4}, "lens");
  if (k != 1 && k != 4 && k != 9 && k != 16)
    fail(ErrorCode::InvalidGraph, "render", "colours are ", to_string(colours),
         ", expected [N, K, 3] with a K of 1, 4, 9 or 16");
  expect(splats.colours, {n, k, 3}, "colours");
  if (options.width < 1 || options.height < 1 || options.width > 16384 || options.height > 16384)
    fail(ErrorCode::InvalidGraph, "render", "a picture of ", options.width, " x ", options.height,
         " pixels, expected 1 to 16384 along a side");
  if (options.capacity < 1 || options.capacity > 1 << 28)
    fail(ErrorCode::InvalidGraph, "render", "capacity is ", options.capacity, ", expected 1 to ", 1 << 28);
}

Value column(Value x, int64_t i) { return slice_of(x, 1, i, i + 1); }

// What a camera is made of, each [1, …].
struct Lens {
  Value turn;                                  // [3,3], rows are the camera's axes
  Value moved;                                 // [1,3]
  Value focal_x, focal_y, middle_x, middle_y;  // [1,1]
};

Lens lens_of(const SplatCamera& camera) {
  const Value lens = reshape(camera.lens, {1, 4});
  return {slice_of(camera.view, 1, 0, 3),
          reshape(slice_of(camera.view, 1, 3, 4), {1, 3}),
          column(lens, 0),
          column(lens, 1),
          column(lens, 2),
          column(lens, 3)};
}

// The rotations of quaternions, transposed: [N,3,3].
Value turned(Value rotations) {
  const int64_t n = rotations.shape()[0];
  const Value q = rotations * rsqrt(reduce_sum(square(rotations), {{1}, true}));
  const Value w = column(q, 0), x = column(q, 1), y = column(q, 2), z = column(q, 3);
  const Value xx = x * x, yy = y * y, zz = z * z, xy = x * y, xz = x * z, yz = y * z, wx = w * x, wy = w * y,
              wz = w * z;
  const auto diagonal = [](Value a, Value b) { return 1.0 - 2.0 * (a + b); };
  return reshape(concat({diagonal(yy, zz), 2.0 * (xy + wz), 2.0 * (xz - wy), 2.0 * (xy - wz), diagonal(xx, zz),
                         2.0 * (yz + wx), 2.0 * (xz + wy), 2.0 * (yz - wx), diagonal(xx, yy)},
                        1),
                 {n, 3, 3});
}

struct Covariance {
  Value xx, xy, yy, determinant;  // [N,1]
};

// The covariances on the picture: of J W R S, where J is the projection, linear about the mean.
Covariance covariance_of(const Splats& splats, const Lens& lens, Value place, Value depth,
                         const SplatOptions& options) {
  const int64_t n = splats.means.shape()[0];
  const Value axes =
      reshape(matmul(reshape(turned(splats.rotations), {3 * n, 3}), lens.turn, {.transpose_b = true}), {n, 3, 3}) *
      reshape(splats.scales, {n, 3, 1});
  const auto along = [&](int64_t axis) { return reshape(slice_of(axes, 2, axis, axis + 1), {n, 3}); };
  const auto beside = [&](int64_t axis, Value focal, int64_t extent) {
    const Value most = kBeside * static_cast<double>(extent) / focal;
    return max(min(column(place, axis) / depth, most), -most);
  };
  const Value forward = along(2);
  const Value x = (lens.focal_x / depth) * (along(0) - beside(0, lens.focal_x, options.width) * forward);
  const Value y = (lens.focal_y / depth) * (along(1) - beside(1, lens.focal_y, options.height) * forward);
  const auto dot = [](Value a, Value b) { return reduce_sum(a * b, {{1}, true}); };
  const Value xx = dot(x, x), yy = dot(y, y);
  // Of the two products that make a determinant little is left where a Gaussian is long; of squares none is lost.
  const auto across = [&](int64_t i, int64_t j) {
    return square(column(x, i) * column(y, j) - column(x, j) * column(y, i));
  };
  const Value area = across(0, 1) + across(1, 2) + across(2, 0);
  return {xx + options.blur, dot(x, y), yy + options.blur,
          area + options.blur * (xx + yy) + options.blur * options.blur};
}

// Real spherical harmonics of directions of length 1, [N,K,1].
Value harmonics(Value direction, int64_t count) {
  const Value x = column(direction, 0), y = column(direction, 1), z = column(direction, 2);
  std::vector<Value> basis = {expand(scalar(x, 0.28209479177387814), x.shape())};
  if (count > 1) basis.insert(basis.end(), {y * -0.4886025119029199, z * 0.4886025119029199, x * -0.4886025119029199});
  if (count > 4) {
    const Value xx = x * x, yy = y * y, zz = z * z;
    basis.insert(basis.end(),
                 {x * y * 1.0925484305920792, y * z * -1.0925484305920792, (2.0 * zz - xx - yy) * 0.31539156525252005,
                  x * z * -1.0925484305920792, (xx - yy) * 0.5462742152960396});
    if (count > 9)
      basis.insert(basis.end(), {y * (3.0 * xx - yy) * -0.5900435899266435, x * y * z * 2.890611442640554,
                                 y * (4.0 * zz - xx - yy) * -0.4570457994644658,
                                 z * (2.0 * zz - 3.0 * xx - 3.0 * yy) * 0.3731763325901154,
                                 x * (4.0 * zz - xx - yy) * -0.4570457994644658, z * (xx - yy) * 1.445305721320277,
                                 x * (xx - 3.0 * yy) * -0.5900435899266435});
  }
  return reshape(concat(basis, 1), {x.shape()[0], count, 1});
}

Value colours_of(const Splats& splats, const Lens& lens) {
  const Value camera = -matmul(lens.moved, lens.turn);  // where it stands in the world
  const Value way = splats.means - camera;
  const Value direction = way * rsqrt(max(reduce_sum(square(way), {{1}, true}), scalar(way, 1e-30)));
  const Value sum = reduce_sum(harmonics(direction, splats.colours.shape()[1]) * splats.colours, {{1}});
  return max(sum + 0.5, scalar(sum, 0));
}

// The tiles that a Gaussian may cover: the first one, how many across, and how many in all; i32 [N,1].
struct Tiles {
  Value first, across, count;
};

Tiles tiles_of(Value u, Value v, const Covariance& c, Value opacity, Value visible, const SplatGrid& grid) {
  const Value reach = 2.0 * log(max(opacity * 255.0, scalar(opacity, 1)));
  const auto range = [&](Value centre, Value variance, int64_t tiles) {
    const Value half = sqrt(reach * variance) + (kMargin - 0.5);
    const double side = 1.0 / kSplatTile, most = static_cast<double>(tiles);
    const Value low = clamp(floor((centre - half - 1.0) * side), 0, most);
    const Value high = clamp(floor((centre + half) * side) + 1.0, 0, most);
    return std::pair(low, max(high - low, scalar(low, 0)));
  };
  const auto [left, across] = range(u, c.xx, grid.across);
  const auto [top, down] = range(v, c.yy, grid.tiles / grid.across);
  const Value count = where(visible, across * down, scalar(across, 0));
  return {cast(top * static_cast<double>(grid.across) + left, DType::I32), cast(across, DType::I32),
          cast(count, DType::I32)};
}

// Rows of x where `places`, i32 [N,1], says.
Value placed(Value x, Value places) {
  const int64_t n = x.shape()[0];
  return apply("place", {x, expand(places, x.shape())}, {{"axis", int64_t{0}}, {"k", n}});
}

struct Lists {
  Value lists, ends, order;  // as splat_blend takes them
};

// Places for each splat in each of its tiles, in the order of the splats, then sorted by tile: sorting keeps the order
// within a tile.
Lists list_tiles(const Tiles& tiles, const SplatGrid& grid) {
  Graph& graph = tiles.count.graph();
  const int64_t n = tiles.count.shape()[0], places = grid.listed;
  const Value ends = cumsum(reshape(tiles.count, {n}), 0), begins = ends - reshape(tiles.count, {n});
  // A sum that would pass 32 bits is known by its size in floats.
  const Value rough = reduce_sum(cast(tiles.count, DType::F32));
  const Value needed = where(less(rough, scalar(rough, 1e9)), slice_of(ends, 0, n - 1, n),
                             cast(min(rough, scalar(rough, 2e9)), DType::I32));
  const Value total = apply("at_most", {needed}, {{"most", places}});
  const Value place = counted(graph, places);
  const Value splat = min(search_sorted(ends, place, true), scalar(place, static_cast<double>(n - 1)));
  const Value within = place - gather(begins, splat);
  const Value across = max(gather(reshape(tiles.across, {n}), splat), scalar(within, 1));
  const Value row = idiv(within, across);
  const Value tile =
      gather(reshape(tiles.first, {n}), splat) + row * static_cast<double>(grid.across) + (within - row * across);
  const Value key = where(less(place, total), tile, scalar(tile, static_cast<double>(grid.tiles)));
  int64_t bits = 1;
  while (int64_t{1} << bits <= grid.tiles) ++bits;
  const Sorted sorted = sort_bits(cast(key, DType::U32), bits);
  const Value starts = search_sorted(sorted.values, cast(counted(graph, grid.tiles + 1), DType::U32));
  return {concat({starts, gather(splat, sorted.positions)}, 0), ends, sorted.positions};
}

}  // namespace

SplatPicture render(const Splats& splats, const SplatCamera& camera, const SplatOptions& options) {
  check(splats, camera, options);
  Graph& graph = splats.means.graph();
  const int64_t n = splats.means.shape()[0];
  SplatGrid grid{options.width,    options.height,   ceil_div(options.width, kSplatTile), 0,
                 options.capacity, options.threshold};
  grid.tiles = grid.across * ceil_div(options.height, kSplatTile);
  const Lens lens = lens_of(camera);
  const Value place = matmul(splats.means, lens.turn, {.transpose_b = true}) + lens.moved;
  const Value opacity = reshape(splats.opacities, {n, 1});
  const Value far = greater(column(place, 2), scalar(place, options.nearest));
  const Value visible = logical_and(far, greater_equal(opacity, scalar(opacity, kLeastOpacity)));
  const Value depth = where(far, column(place, 2), scalar(place, 1));
  const Value u = lens.focal_x * column(place, 0) / depth + lens.middle_x;
  const Value v = lens.focal_y * column(place, 1) / depth + lens.middle_y;
  const Covariance c = covariance_of(splats, lens, place, depth, options);
  const Value records = concat(
      {u, v, c.yy / c.determinant, -c.xy / c.determinant, c.xx / c.determinant, opacity, colours_of(splats, lens)}, 1);
  const Tiles tiles = tiles_of(u, v, c, opacity, visible, grid);

  const Value order = sort(reshape(depth, {n})).positions;
  const Value inverse = reshape(apply("place", {counted(graph, n), order}, {{"axis", int64_t{0}}, {"k", n}}), {n, 1});
  const Tiles ordered{placed(tiles.first, inverse), placed(tiles.across, inverse), placed(tiles.count, inverse)};
  const Lists lists = list_tiles(ordered, grid);
  const Value picture = apply("splat_blend", {placed(records, inverse), lists.lists, lists.ends, lists.order},
                              {{"width", grid.width}, {"height", grid.height}, {"threshold", grid.threshold}});
  return {slice_of(picture, 2, 0, 3), reshape(slice_of(picture, 2, 3, 4), {grid.height, grid.width})};
}

}  // namespace gyrus
