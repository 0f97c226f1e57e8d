// Reading images between their elements: every neighbour is a gather of rows [C] from [N·places, C], times a weight.

#include <algorithm>
#include <cmath>

#include "import/onnx_window.h"

namespace gyrus::onnx {
namespace {

Val truncated(Val x) { return cast(x, Elem::I32); }
Val clamped(Val x, double least, double most) { return op("min", {op("max", {x, scalar(x, least)}), scalar(x, most)}); }

// x [N,C,spatial…] as rows [N·places, C].
Val as_rows(Val x) {
  Ints perm = {0};
  for (size_t a = 2; a < x.rank(); ++a) perm.push_back(static_cast<int64_t>(a));
  perm.push_back(1);
  return reshape(transpose(x, perm), {-1, x.extent(1)});
}

struct Grid {
  Ints spatial;
  bool align = false;
  std::string padding = "zeros";

  double least(size_t a) const {
    (void)a;
    return align ? 0 : -0.5;
  }
  double most(size_t a) const { return static_cast<double>(spatial[a]) - (align ? 1 : 0.5); }
  // From [-1, 1] to elements.
  Val places(Val g, size_t a) const {
    const double n = static_cast<double>(spatial[a]);
    return align ? (g + 1.0) * ((n - 1) / 2) : ((g + 1.0) * n - 1.0) / 2.0;
  }
  Val reflected(Val x, size_t a) const {
    const double low = least(a), span = most(a) - low;
    if (span <= 0) return x * 0.0;
    const Val t = op("fmod", {op("abs", {x - low}), scalar(x, 2 * span)});
    return op("min", {t, 2 * span - t}) + low;
  }
  // Coordinates that lie outside, before anything is read.
  Val inside(Val x, size_t a) const {
    if (padding == "border") return clamped(x, 0, static_cast<double>(spatial[a] - 1));
    return padding == "reflection" ? reflected(x, a) : x;
  }
};

// The value at whole places, one f32 coordinate for each axis, all of one shape [N,P]: rows [N,P,C].
Val pixel(Val rows, const Grid& grid, const Vals& at, int64_t batch) {
  Val index, valid;
  for (size_t a = 0; a < at.size(); ++a) {
    const double last = static_cast<double>(grid.spatial[a] - 1);
    Val x = at[a];
    if (grid.padding == "zeros") {
      const Val in =
          op("logical_and", {op("greater_equal", {x, scalar(x, 0)}), op("less_equal", {x, scalar(x, last)})});
      valid = valid ? op("logical_and", {valid, in}) : in;
    }
    if (grid.padding == "reflection") x = op("round", {grid.reflected(x, a)});
    const Val whole = truncated(clamped(x, 0, last));
    index = index ? index * static_cast<double>(grid.spatial[a]) + whole : whole;
  }
  const int64_t places = element_count(grid.spatial);
  Ints starts;
  for (int64_t n = 0; n < batch; ++n) starts.push_back(n * places);
  index = index + indices(*rows.graph, {batch, 1}, starts);
  const Val value = op("gather", {rows, index}, {{"axis", int64_t{0}}});
  if (!valid) return value;
  return value * unsqueeze(cast(valid, Elem::F32), 2);
}

// Weights of the neighbours of a fraction t, the first of which lies `first` before.
Vals weights_of(const std::string& mode, Val t) {
  if (mode == "linear") return {1.0 - t, t};
  const double a = -0.75;
  const auto near = [&](Val x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
  const auto far = [&](Val x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

Vals grid_sample(Ctx& c) {
  const Val x = cast(c.in(0), Elem::F32), g = cast(c.in(1), Elem::F32);
  std::string mode = c.text("mode", c.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "cubic" && mode != "nearest") unsupported(cat("mode ", in_quotes(mode)));
  Grid grid{spatial_of(x.shape()), c.integer("align_corners", 0) != 0, c.text("padding_mode", "zeros")};
  const size_t rank = grid.spatial.size();
  if (grid.padding != "zeros" && grid.padding != "border" && grid.padding != "reflection")
    unsupported(cat("padding_mode ", in_quotes(grid.padding)));
  if (g.extent(-1) != static_cast<int64_t>(rank)) invalid("the grid has another number of coordinates than the image");
  const int64_t batch = x.extent(0), points = g.size() / std::max<int64_t>(1, batch * static_cast<int64_t>(rank));
  const Val flat = reshape(g, {batch, points, static_cast<int64_t>(rank)}), rows = as_rows(x);
  Vals at;  // for each axis, the slowest first; the grid has the fastest first
  for (size_t a = 0; a < rank; ++a) {
    const int64_t k = static_cast<int64_t>(rank - 1 - a);
    Val place = grid.places(squeeze(slice(flat, 2, k, k + 1), 2), a);
    if (mode == "nearest") place = op("round", {place});
    // The neighbours of a cubic are brought to the border each for itself.
    const bool as_is = mode == "cubic" && grid.padding == "border";
    at.push_back(as_is ? place : grid.inside(place, a));
  }
  Val y;
  if (mode == "nearest") {
    y = pixel(rows, grid, at, batch);
  } else {
    std::vector<Vals> weights;
    Vals floors;
    for (const Val& place : at) {
      floors.push_back(op("floor", {place}));
      weights.push_back(weights_of(mode, place - floors.back()));
    }
    const size_t taps = weights[0].size();
    const double first = mode == "linear" ? 0 : -1;
    size_t all = 1;
    for (size_t a = 0; a < rank; ++a) all *= taps;
    for (size_t k = 0; k < all; ++k) {
      Vals places(rank);
      Val weight;
      size_t rest = k;
      for (size_t a = rank; a-- > 0; rest /= taps) {
        const size_t tap = rest % taps;
        places[a] = floors[a] + (static_cast<double>(tap) + first);
        weight = weight ? weight * weights[a][tap] : weights[a][tap];
      }
      const Val part = pixel(rows, grid, places, batch) * unsqueeze(weight, 2);
      y = y ? y + part : part;
    }
  }
  Shape shape = {batch, x.extent(1)};
  const Shape out = g.shape();
  shape.insert(shape.end(), out.begin() + 1, out.end() - 1);
  return {cast(reshape(swap_axes(y, 1, 2), shape), c.in(0).elem)};
}

Vals affine_grid(Ctx& c) {
  const Val theta = c.in(0);
  const Ints size = c.known_ints(1), spatial = spatial_of(size);
  const bool align = c.integer("align_corners", 0) != 0;
  const size_t rank = spatial.size();
  const int64_t points = element_count(spatial);
  // The fastest axis first, then a 1.
  if (size.size() < 3) invalid("size has fewer than three extents");
  std::vector<double> base(static_cast<size_t>(listed(points)) * (rank + 1), 1);
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (size_t a = rank; a-- > 0; rest /= spatial[a]) {
      const double n = static_cast<double>(spatial[a]), i = static_cast<double>(rest % spatial[a]);
      base[static_cast<size_t>(p) * (rank + 1) + (rank - 1 - a)] =
          align ? (n == 1 ? 0 : 2 * i / (n - 1) - 1) : (2 * i + 1) / n - 1;
    }
  }
  const Val y = matmul(floats(c.graph(), {1, points, static_cast<int64_t>(rank) + 1}, base), theta, false, true);
  Shape shape = {size[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(static_cast<int64_t>(rank));
  return {reshape(y, shape)};
}

// The two neighbours of a coordinate inside 0 … n-1 and what they count; those over an edge have no weight.
struct Neighbours {
  Val low, high, low_weight, high_weight;
};
Neighbours neighbours(Val x, int64_t extent) {
  const double last = static_cast<double>(extent - 1);
  const Val valid = cast(op("logical_and", {op("greater_equal", {x, scalar(x, -1)}),
                                            op("less_equal", {x, scalar(x, static_cast<double>(extent))})}),
                         Elem::F32);
  const Val at = clamped(x, 0, last), low = op("floor", {at});
  const Val share = at - low;
  return {low, op("min", {low + 1.0, scalar(low, last)}), (1.0 - share) * valid, share * valid};
}

Vals roi_align(Ctx& c) {
  const Val x = c.in(0), rois = c.in(1);
  const int64_t height = x.extent(2), width = x.extent(3), channels = x.extent(1), count = rois.extent(0);
  const int64_t rows = c.integer("output_height", 1), columns = c.integer("output_width", 1),
                ratio = c.integer("sampling_ratio", 0);
  if (rows < 1 || columns < 1 || ratio > 1024 || rows > 65536 || columns > 65536)
    invalid("the output is beyond reason");
  if (ratio < 1) unsupported("sampling_ratio 0: the number of samples depends on the regions");
  const double scale = c.number("spatial_scale", 1);
  const std::string transform =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
  const bool half = transform == "half_pixel", most = c.text("mode", "avg") == "max";
  const auto edge = [&](int64_t k) { return slice(rois, 1, k, k + 1) * scale - (half ? 0.5 : 0.0); };  // [R,1]
  const auto samples = [&](Val begin, Val end, int64_t bins) {
    Val extent = end - begin;
    if (!half) extent = op("max", {extent, scalar(extent, 1)});
    std::vector<double> at;
    for (int64_t k = 0; k < bins * ratio; ++k)
      at.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(ratio * bins));
    return begin + extent * floats(c.graph(), {1, bins * ratio}, at);  // [R, bins·ratio]
  };
  const Neighbours v = neighbours(samples(edge(1), edge(3), rows), height),
                   h = neighbours(samples(edge(0), edge(2), columns), width);
  const int64_t m = rows * ratio, n = columns * ratio;
  const Val table = as_rows(x);
  const Val image = reshape(cast(c.in(2), Elem::I32), {count, 1, 1}) * static_cast<double>(height * width);
  const auto read = [&](Val vy, Val wy, Val vx, Val wx) {
    const Val at = image + reshape(truncated(vy), {count, m, 1}) * static_cast<double>(width) +
                   reshape(truncated(vx), {count, 1, n});
    const Val weight = reshape(wy, {count, m, 1}) * reshape(wx, {count, 1, n});
    return op("gather", {table, at}, {{"axis", int64_t{0}}}) * unsqueeze(weight, 3);  // [R,m,n,C]
  };
  const Vals parts = {read(v.low, v.low_weight, h.low, h.low_weight), read(v.low, v.low_weight, h.high, h.high_weight),
                      read(v.high, v.high_weight, h.low, h.low_weight),
                      read(v.high, v.high_weight, h.high, h.high_weight)};
  Val y = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) y = most ? op("max", {y, parts[i]}) : y + parts[i];
  y = reshape(y, {count, rows, ratio, columns, ratio * channels});
  y = reduce(most ? "reduce_max" : "reduce_mean", y, {2}, false);
  y = reduce(most ? "reduce_max" : "reduce_mean", reshape(y, {count, rows, columns, ratio, channels}), {3}, false);
  return {transpose(y, {0, 3, 1, 2})};
}

// A convolution whose taps lie where offsets say: columns of sampled values, then a product with the weights.
Vals deform_conv(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1), offset = c.in(2);
  if (x.rank() != 4) unsupported("other than 2-D");
  const Ints kernel = spatial_of(weight.shape());
  const Window w = window_of(c, kernel, spatial_of(x.shape()), false);
  const int64_t groups = c.integer("group", 1), parts = c.integer("offset_group", 1);
  const int64_t batch = x.extent(0), channels = x.extent(1), taps = kernel[0] * kernel[1], points = w.out[0] * w.out[1];
  listed(taps * points);
  if (groups < 1 || parts < 1 || channels % parts != 0 || channels % groups != 0)
    invalid("groups do not divide the channels");
  const Grid grid{spatial_of(x.shape()), true, "zeros"};
  // Every group of offsets is an image of its own: [N·parts, C/parts, H, W].
  const Val rows = as_rows(reshape(x, {batch * parts, channels / parts, x.extent(2), x.extent(3)}));
  const Val shifts = reshape(offset, {batch * parts, taps, 2, points});
  Vals at;
  for (size_t a = 0; a < 2; ++a) {
    std::vector<double> base;
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t p = 0; p < points; ++p) {
        const int64_t k = a == 0 ? tap / kernel[1] : tap % kernel[1], o = a == 0 ? p / w.out[1] : p % w.out[1];
        base.push_back(static_cast<double>(o * w.stride[a] - w.lo[a] + k * w.dilation[a]));
      }
    const int64_t axis = static_cast<int64_t>(a);
    const Val shift = reshape(slice(shifts, 2, axis, axis + 1), {batch * parts, taps * points});
    at.push_back(shift + floats(c.graph(), {taps * points}, base));
  }
  Val columns;
  const Val fy = op("floor", {at[0]}), fx = op("floor", {at[1]}), ty = at[0] - fy, tx = at[1] - fx;
  for (int k = 0; k < 4; ++k) {
    const double dy = k >= 2 ? 1 : 0, dx = k % 2;
    const Val share = (k / 2 ? ty : 1.0 - ty) * (k % 2 ? tx : 1.0 - tx);
    const Val part = pixel(rows, grid, {fy + dy, fx + dx}, batch * parts) * unsqueeze(share, 2);
    columns = columns ? columns + part : part;
  }
  if (c.has(4)) columns = columns * reshape(c.in(4), {batch * parts, taps * points, 1});
  // [N, groups, C/groups·taps, points]
  columns = transpose(reshape(columns, {batch, parts, taps, points, channels / parts}), {0, 1, 4, 2, 3});
  columns = reshape(columns, {batch, groups, channels / groups * taps, points});
  const int64_t out = weight.extent(0);
  Val y = matmul(reshape(weight, {1, groups, out / groups, channels / groups * taps}), columns);
  y = reshape(y, {batch, out, w.out[0], w.out[1]});
  if (c.has(3)) y = y + reshape(c.in(3), {out, 1, 1});
  return {y};
}

}  // namespace

void add_sampling_ops(OpTable& t) {
  t["GridSample"] = grid_sample;
  t["AffineGrid"] = affine_grid;
  t["RoiAlign"] = roi_align;
  t["DeformConv"] = deform_conv;
}

}  // namespace gyrus::onnx
