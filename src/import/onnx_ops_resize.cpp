// Resize and Upsample: one axis after another, each output being a few elements of the axis times constants.

#include <algorithm>
#include <cmath>

#include "import/onnx_ops.h"
#include "nn/taps.h"

namespace gyrus::onnx {
namespace {

struct Mode {
  std::string kind = "nearest";  // nearest, linear, cubic
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
  double extrapolation = 0;
};

struct Axis {
  size_t axis = 0;
  double scale = 1;
  int64_t in = 0, out = 0;
  double start = 0, end = 1;  // of the region, for tf_crop_and_resize
};

double source_of(const Mode& mode, const Axis& a, int64_t x) {
  const double at = static_cast<double>(x), in = static_cast<double>(a.in), out = a.scale * in;
  const std::string& m = mode.coordinates;
  if (m == "half_pixel") return (at + 0.5) / a.scale - 0.5;
  if (m == "half_pixel_symmetric") return in / 2 * (1 - static_cast<double>(a.out) / out) + (at + 0.5) / a.scale - 0.5;
  if (m == "pytorch_half_pixel") return a.out == 1 ? -0.5 : (at + 0.5) / a.scale - 0.5;
  if (m == "align_corners") return out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (m == "asymmetric") return at / a.scale;
  if (m == "tf_half_pixel_for_nn") return (at + 0.5) / a.scale;
  if (m == "tf_crop_and_resize") {
    const double span = (a.end - a.start) * (in - 1);
    return a.start * (in - 1) + (a.out == 1 ? span / 2 : at * span / static_cast<double>(a.out - 1));
  }
  unsupported(cat("coordinate_transformation_mode ", in_quotes(m)));
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// What one output is made of: elements of the axis, by their place, and what each counts.
using Parts = std::vector<std::pair<int64_t, double>>;

Parts nearest_tap(const Mode& mode, double x) {
  const double down = std::floor(x), ratio = x - down;
  bool left = true;
  if (mode.nearest == "round_prefer_floor")
    left = ratio <= 0.5;
  else if (mode.nearest == "round_prefer_ceil")
    left = ratio < 0.5;
  else if (mode.nearest == "ceil")
    left = ratio == 0;
  else if (mode.nearest != "floor")
    unsupported(cat("nearest_mode ", in_quotes(mode.nearest)));
  return {{whole(down) + (left ? 0 : 1), 1}};
}

Parts parts_of(const Mode& mode, const Axis& a, double x) {
  if (mode.kind == "nearest") return nearest_tap(mode, x);
  const double down = std::floor(x), ratio = x - down, scale = mode.antialias ? std::min(a.scale, 1.0) : 1.0;
  const bool linear = mode.kind == "linear";
  const int64_t first = whole(std::floor((linear ? -1 : -2) / scale)) + 1;
  Parts parts;
  double sum = 0;
  for (int64_t i = first; i < 2 - first; ++i) {
    const double at = (static_cast<double>(i) - ratio) * scale;
    double weight = linear ? std::max(0.0, 1 - std::abs(at)) : cubic(at, mode.cubic_a);
    const int64_t place = whole(down) + i;
    if (mode.exclude_outside && (place < 0 || place >= a.in)) weight = 0;
    sum += weight;
    parts.push_back({place, weight});
  }
  if (mode.exclude_outside || mode.antialias)
    for (auto& [place, weight] : parts) weight /= sum;
  return parts;
}

Val resize_axis(Val x, const Mode& mode, const Axis& a) {
  Taps taps;
  std::vector<uint8_t> inside;
  bool outside = false, any = false;
  for (int64_t i = 0; i < a.out; ++i) {
    const double at = source_of(mode, a, i);
    inside.push_back(mode.coordinates != "tf_crop_and_resize" || (at >= 0 && at <= static_cast<double>(a.in - 1)));
    outside = outside || !inside.back();
    const Parts parts = parts_of(mode, a, at);  // as many for every output
    taps.positions.resize(parts.size());
    taps.weights.resize(parts.size());
    for (size_t t = 0; t < parts.size(); ++t) {
      taps.positions[t].push_back(std::clamp<int64_t>(parts[t].first, 0, a.in - 1));
      taps.weights[t].push_back(parts[t].second);
      any = any || parts[t].second != 0;
    }
  }
  Val y = any ? built({x}, [&](const auto& v) { return weighted(v[0], a.axis, taps); })
              : filled(x, with(x.shape(), a.axis, a.out), 0);
  Shape along(x.rank(), 1);
  along[a.axis] = a.out;
  if (outside) y = where(mask(*x.graph, along, inside), y, scalar(y, mode.extrapolation));
  return y;
}

Vals resized(Val x, const Mode& mode, const std::vector<Axis>& axes) {
  const Elem elem = x.elem;
  const bool round_trip = mode.kind != "nearest" && !is_float(x);
  if (mode.kind != "nearest" && mode.kind != "linear" && mode.kind != "cubic")
    unsupported(cat("mode ", in_quotes(mode.kind)));
  if (round_trip) x = cast(x, Elem::F32);
  for (const Axis& a : axes) {
    if (a.in < 1 || a.out < 1) invalid("resizes from or to nothing");
    listed(a.out);
    if (mode.antialias && a.scale < 1e-4) unsupported("antialiasing over so many elements");
    const bool same = a.in == a.out && a.scale == 1 && mode.coordinates != "tf_crop_and_resize";
    if (!same) x = resize_axis(x, mode, a);
  }
  return {round_trip ? cast(x, elem) : x};
}

std::vector<Axis> from_scales(Val x, const Ints& axes, const std::vector<double>& scales) {
  if (scales.size() != axes.size()) invalid("scales have another length than the axes");
  std::vector<Axis> result;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis a;
    a.axis = axis_of(axes[i], x.rank());
    a.scale = scales[i];
    if (!(a.scale > 0)) invalid("a scale is not positive");
    a.in = x.shape()[a.axis];
    a.out = whole(std::floor(static_cast<double>(a.in) * a.scale));
    result.push_back(a);
  }
  return result;
}

std::vector<Axis> from_sizes(Val x, const Ints& axes, const Ints& sizes, const std::string& policy) {
  if (sizes.size() != axes.size()) invalid("sizes have another length than the axes");
  std::vector<Axis> result;
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis a;
    a.axis = axis_of(axes[i], x.rank());
    a.in = x.shape()[a.axis];
    a.out = sizes[i];
    if (a.in < 1) invalid("resizes from nothing");
    a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    common = i == 0 ? a.scale : policy == "not_larger" ? std::min(common, a.scale) : std::max(common, a.scale);
    result.push_back(a);
  }
  if (policy != "stretch")
    for (Axis& a : result) {
      a.scale = common;
      a.out = whole(common * static_cast<double>(a.in) + 0.5);
    }
  return result;
}

Vals resize(Ctx& c) {
  const Val x = c.in(0);
  Mode mode;
  mode.kind = c.text("mode", "nearest");
  const Ints axes = c.has_attr("axes") ? c.list("axes") : range(static_cast<int64_t>(x.rank()));
  if (c.opset() < 11) {  // before there were choices
    mode.coordinates = "asymmetric";
    mode.nearest = "floor";
    return resized(x, mode, from_scales(x, axes, numbers(c.known(1))));
  }
  mode.coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  mode.nearest = c.text("nearest_mode", "round_prefer_floor");
  mode.cubic_a = c.number("cubic_coeff_a", -0.75);
  mode.exclude_outside = c.integer("exclude_outside", 0) != 0;
  mode.antialias = c.integer("antialias", 0) != 0;
  mode.extrapolation = c.number("extrapolation_value", 0);
  const bool by_size = c.has(3) && c.in(3).size() > 0;
  if (!by_size && !c.has(2)) invalid("has neither scales nor sizes");
  std::vector<Axis> all = by_size ? from_sizes(x, axes, c.known_ints(3), c.text("keep_aspect_ratio_policy", "stretch"))
                                  : from_scales(x, axes, numbers(c.known(2)));
  if (mode.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = numbers(c.known(1));
    if (roi.size() != 2 * axes.size()) invalid("roi has another length than twice the axes");
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].start = roi[i];
      all[i].end = roi[i + all.size()];
    }
  }
  return resized(x, mode, all);
}

Vals upsample(Ctx& c) {
  const Val x = c.in(0);
  Mode mode;
  mode.kind = c.text("mode", "nearest");
  if (mode.kind == "bilinear") mode.kind = "linear";
  mode.coordinates = "asymmetric";
  mode.nearest = "floor";
  const std::vector<double> scales = c.opset() < 9 ? c.numbers("scales") : numbers(c.known(1));
  return resized(x, mode, from_scales(x, range(static_cast<int64_t>(x.rank())), scales));
}

}  // namespace

void add_resize_ops(OpTable& t) {
  t["Resize"] = resize;
  t["Upsample"] = upsample;
}

}  // namespace gyrus::onnx
