// Ops that move elements, or are about shapes.

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor.h"
#include "gyrus/nn.h"
#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

Vals reshape_node(Ctx& c) {
  const Val x = c.in(0);
  Ints shape = c.opset() < 5 ? c.list("shape") : c.known_ints(1);
  const bool keep_zeros = c.integer("allowzero", 0) != 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !keep_zeros) {
      if (i >= x.rank()) invalid(cat("copies extent ", i, " of ", gyrus::to_string(x.shape())));
      shape[i] = x.shape()[i];
    }
    if (shape[i] < -1) invalid(cat("reshapes to ", gyrus::to_string(shape)));
  }
  if (std::count(shape.begin(), shape.end(), -1) > 1) invalid(cat("reshapes to ", gyrus::to_string(shape)));
  return {reshape(x, shape)};
}

Vals flatten(Ctx& c) {
  const Val x = c.in(0);
  const int64_t axis = c.integer("axis", 1), rank = static_cast<int64_t>(x.rank());
  const int64_t cut = axis < 0 ? axis + rank : axis;
  if (cut < 0 || cut > rank) invalid(cat("axis ", axis, " of a tensor of rank ", rank));
  const Shape shape = x.shape();
  const Shape front(shape.begin(), shape.begin() + cut), back(shape.begin() + cut, shape.end());
  return {reshape(x, {element_count(front), element_count(back)})};
}

Vals squeeze_node(Ctx& c) {
  const Val x = c.in(0);
  const std::optional<Ints> given = c.list_or_input("axes", 1);
  Shape shape;
  const Ints axes = given ? axes_of(*given, x.rank()) : Ints{};
  for (size_t a = 0; a < x.rank(); ++a) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(a)) != axes.end();
    if (named && x.shape()[a] != 1) invalid(cat("squeezes axis ", a, " of ", gyrus::to_string(x.shape())));
    if (!(given ? named : x.shape()[a] == 1)) shape.push_back(x.shape()[a]);
  }
  return {reshape(x, shape)};
}

Vals unsqueeze_node(Ctx& c) {
  const Val x = c.in(0);
  const std::optional<Ints> given = c.list_or_input("axes", 1);
  if (!given) invalid("axes are missing");
  const Ints axes = axes_of(*given, x.rank() + given->size());
  if (axes.size() != given->size()) invalid("an axis is named twice");
  Shape shape = x.shape();
  for (const int64_t axis : axes) shape.insert(shape.begin() + axis, 1);
  return {reshape(x, shape)};
}

Vals transpose_node(Ctx& c) {
  const Val x = c.in(0);
  Ints perm = c.list("perm");
  if (!c.has_attr("perm")) {
    perm = range(static_cast<int64_t>(x.rank()));
    std::reverse(perm.begin(), perm.end());
  }
  const Val y = transpose(x, perm);
  if (const Dequantized* const from = c.dequantized(0); from && perm == Ints{1, 0}) {
    Dequantized turned = *from;
    turned.turned = !turned.turned;
    c.remember(y, turned);
  }
  return {y};
}

Vals concat_node(Ctx& c) {
  const size_t axis = axis_of(c.opset() < 4 ? c.integer("axis", 1) : c.integer("axis"), c.in(0).rank());
  Vals parts;
  for (const Val& part : c.all()) parts.push_back(part);
  return {concat(parts, axis)};
}

Vals split(Ctx& c) {
  const Val x = c.in(0);
  const size_t axis = axis_of(c.integer("axis", 0), x.rank());
  const int64_t extent = x.shape()[axis];
  std::optional<Ints> sizes = c.list_or_input("split", 1);
  if (!sizes || sizes->empty()) {
    const int64_t count = c.integer("num_outputs", static_cast<int64_t>(c.outputs()));
    if (count < 1 || count > std::max<int64_t>(extent, static_cast<int64_t>(c.outputs())))
      invalid(cat("splits ", extent, " elements into ", count));
    const int64_t each = ceil_div(extent, count);
    sizes = Ints(static_cast<size_t>(count), each);
    sizes->back() = extent - each * (count - 1);
  }
  Vals parts;
  int64_t start = 0;
  for (const int64_t size : *sizes) {
    if (size < 0 || size > extent - start) invalid(cat("splits ", extent, " elements into ", gyrus::to_string(*sizes)));
    parts.push_back(slice(x, axis, start, start + size));
    start += size;
  }
  return parts;
}

Vals slice_node(Ctx& c) {
  Val x = c.in(0);
  const bool old = c.opset() < 10;
  const Ints starts = old ? c.list("starts") : c.known_ints(1), ends = old ? c.list("ends") : c.known_ints(2);
  Ints axes = old ? c.list("axes") : c.has(3) ? c.known_ints(3) : Ints{};
  if (axes.empty()) axes = range(static_cast<int64_t>(starts.size()));
  const Ints steps = !old && c.has(4) ? c.known_ints(4) : Ints(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    invalid("starts, ends, axes and steps have different lengths");
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = axis_of(axes[i], x.rank());
    const int64_t extent = x.shape()[axis], step = steps[i];
    if (step == 0) invalid("a step is 0");
    // Backwards a slice begins at an element, and ends before the first one at the most.
    const int64_t high = step > 0 ? extent : extent - 1;
    const auto clamped = [&](int64_t at, int64_t low) {
      return std::max(low, std::min(at < 0 ? at + extent : at, high));
    };
    const int64_t start = clamped(starts[i], 0), end = clamped(ends[i], step > 0 ? 0 : -1);
    const int64_t span = step > 0 ? end - start : start - end;
    const int64_t stride = step == std::numeric_limits<int64_t>::min() ? extent + 1 : std::abs(step);
    const int64_t count = span <= 0 || extent == 0 ? 0 : ceil_div(span, std::min(stride, extent + 1));
    if (step > 0) {
      x = count == 0 ? slice(x, axis, 0, 0) : slice(x, axis, start, end, std::min(stride, extent + 1));
    } else {
      Ints at;
      listed(count);
      for (int64_t k = 0; k < count; ++k) at.push_back(start - k * stride);
      x = count == 0 ? slice(x, axis, 0, 0) : take(x, at, axis);
    }
  }
  return {x};
}

Vals expand_node(Ctx& c) {
  const Val x = c.in(0);
  return {expand(x, broadcast(x.shape(), c.known_ints(1)))};
}

Vals tile(Ctx& c) {
  const Val x = c.in(0);
  Ints repeats;
  if (c.opset() < 6) {
    repeats = Ints(x.rank(), 1);
    repeats[axis_of(c.known_ints(2).at(0), x.rank())] = c.known_ints(1).at(0);
  } else {
    repeats = c.known_ints(1);
  }
  if (repeats.size() != x.rank()) invalid("repeats has another length than the rank");
  for (const int64_t count : repeats)
    if (sized(count) < 0) invalid("repeats a negative number of times");
  return {built({x}, [&](const Values& v) { return gyrus::tile(v[0], repeats); })};
}

// With a value that is computed, or not finite.
Val pad_with(Val x, const Ints& pads, Val value) {
  const Val inside = pad(expand(mask(*x.graph, {}, {1}), x.shape()), pads);
  return where(inside, pad(x, pads), reshape(value, {}));
}

Vals pad_node(Ctx& c) {
  Val x = c.in(0);
  const std::string mode = c.text("mode", "constant");
  const Ints given = c.opset() < 11 ? c.list(c.opset() < 2 ? "paddings" : "pads") : c.known_ints(1);
  Ints axes = c.opset() >= 18 && c.has(3) ? c.known_ints(3) : range(static_cast<int64_t>(x.rank()));
  if (given.size() != 2 * axes.size()) invalid("pads has another length than twice the axes");
  Ints pads(2 * x.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axis_of(axes[i], x.rank());
    pads[axis] = given[i];
    pads[axis + x.rank()] = given[i + axes.size()];
  }
  if (mode == "constant") {
    if (c.opset() >= 11 && c.has(2) && !c.in(2).is_constant()) return {pad_with(x, pads, c.in(2))};
    const double value = c.opset() < 11 ? c.number("value", 0) : c.has(2) ? c.known_number(2) : 0;
    return {std::isfinite(value) ? pad(x, pads, value) : pad_with(x, pads, scalar(x, value))};
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") unsupported(cat("mode ", in_quotes(mode)));
  constexpr int64_t kLongest = int64_t{1} << 22;
  for (size_t a = 0; a < x.rank(); ++a) {
    const int64_t added = sized(pads[a]) + sized(pads[a + x.rank()]), extent = x.shape()[a];
    if (extent == 0 && added != 0) invalid("pads an axis without elements");
    if (extent + added < 0) invalid("cuts more than there is");
    if (extent + added > kLongest) unsupported("an axis of more than 4 million elements after padding");
  }
  // What is cut goes first: elements are repeated from what is left.
  Ints cut(pads.size());
  for (size_t i = 0; i < pads.size(); ++i) {
    cut[i] = std::min<int64_t>(pads[i], 0);
    pads[i] -= cut[i];
  }
  x = pad(x, cut);
  const PadMode how = mode == "edge" ? PadMode::Edge : mode == "wrap" ? PadMode::Wrap : PadMode::Reflect;
  return {built({x}, [&](const auto& v) { return gyrus::pad(v[0], pads, how); })};
}

Vals shape_node(Ctx& c) {
  const Shape shape = c.in(0).shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamped(c.integer("start", 0)), end = clamped(c.integer("end", rank));
  return {ints(c.graph(), end > start ? Ints(shape.begin() + start, shape.begin() + end) : Ints{})};
}

Vals size_node(Ctx& c) { return {reshape(ints(c.graph(), {c.in(0).size()}), {})}; }

Vals constant_node(Ctx& c) {
  if (c.has_attr("value")) {
    Elem elem = Elem::F32;
    Tensor tensor = c.tensor("value", elem);
    return {constant(c.graph(), std::move(tensor), elem)};
  }
  if (c.has_attr("value_float")) return {floats(c.graph(), {}, {c.number("value_float", 0)})};
  if (c.has_attr("value_int")) return {reshape(ints(c.graph(), {c.integer("value_int")}), {})};
  if (c.has_attr("value_ints")) return {ints(c.graph(), c.list("value_ints"))};
  if (c.has_attr("value_floats")) {
    const std::vector<double> values = c.numbers("value_floats");
    return {floats(c.graph(), {static_cast<int64_t>(values.size())}, values)};
  }
  unsupported("a constant that is no tensor of numbers");
}

Vals constant_of_shape(Ctx& c) {
  const Shape shape = c.known_ints(0);
  for (const int64_t extent : shape)
    if (extent < 0) invalid("an extent is negative");
  if (!c.has_attr("value")) return {expand(floats(c.graph(), {}, {0}), shape)};
  Elem elem = Elem::F32;
  Tensor tensor = c.tensor("value", elem);
  return {expand(reshape(constant(c.graph(), std::move(tensor), elem), {}), shape)};
}

Vals range_node(Ctx& c) {
  const double start = c.known_number(0), limit = c.known_number(1), delta = c.known_number(2);
  if (delta == 0) invalid("delta is 0");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count < 3e7)) unsupported("makes too many numbers");
  Tensor tensor(c.in(0).dtype(), {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, start + static_cast<double>(i) * delta);
  return {constant(c.graph(), std::move(tensor), c.in(0).elem)};
}

Vals eye_like(Ctx& c) {
  const Shape shape = c.in(0).shape();
  if (shape.size() != 2) invalid("takes a matrix");
  listed(element_count(shape));
  const Elem elem = c.has_attr("dtype") ? static_cast<Elem>(c.integer("dtype")) : c.in(0).elem;
  Tensor tensor(stored_as(elem, "EyeLike"), shape);
  const int64_t k = sized(c.integer("k", 0));
  for (int64_t i = 0; i < shape[0]; ++i)
    if (i + k >= 0 && i + k < shape[1]) set(tensor, i * shape[1] + i + k, 1);
  return {constant(c.graph(), std::move(tensor), elem)};
}

Vals trilu(Ctx& c) {
  const Val x = c.in(0);
  if (x.rank() < 2) invalid("takes a matrix or more");
  const int64_t k = c.has(1) ? whole(c.known_number(1)) : 0, rows = x.extent(-2), columns = x.extent(-1);
  const bool upper = c.integer("upper", 1) != 0;
  sized(k);
  std::vector<uint8_t> keep(static_cast<size_t>(listed(rows * columns)));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) keep[static_cast<size_t>(i * columns + j)] = upper ? j - i >= k : j - i <= k;
  return {where(mask(c.graph(), {rows, columns}, keep), x, scalar(x, 0))};
}

Vals depth_to_space(Ctx& c) {
  const Val x = c.in(0);
  const int64_t b = std::min<int64_t>(c.integer("blocksize"), 1 << 15);
  const Shape s = x.shape();
  if (s.size() != 4 || b < 1 || s[1] % (b * b) != 0) invalid(cat("blocks of ", b, " in ", gyrus::to_string(s)));
  const int64_t depth = s[1] / (b * b);
  const bool crd = c.text("mode", "DCR") == "CRD";
  const Val split = crd ? transpose(reshape(x, {s[0], depth, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3})
                        : transpose(reshape(x, {s[0], b, b, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  return {reshape(split, {s[0], depth, s[2] * b, s[3] * b})};
}

Vals space_to_depth(Ctx& c) {
  const Val x = c.in(0);
  const int64_t b = std::min<int64_t>(c.integer("blocksize"), 1 << 15);
  const Shape s = x.shape();
  if (s.size() != 4 || b < 1 || s[2] % b != 0 || s[3] % b != 0)
    invalid(cat("blocks of ", b, " in ", gyrus::to_string(s)));
  const Val split = transpose(reshape(x, {s[0], s[1], s[2] / b, b, s[3] / b, b}), {0, 3, 5, 1, 2, 4});
  return {reshape(split, {s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

Vals center_crop_pad(Ctx& c) {
  Val x = c.in(0);
  const Ints shape = c.known_ints(1);
  Ints axes = c.has_attr("axes") ? c.list("axes") : range(static_cast<int64_t>(x.rank()));
  if (axes.size() != shape.size()) invalid("shape and axes have different lengths");
  Ints pads(2 * x.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axis_of(axes[i], x.rank());
    const int64_t more = sized(shape[i]) - x.shape()[axis];
    // What is odd goes after where elements are added, and where they are taken away too.
    const int64_t before = more >= 0 ? more / 2 : -((-more) / 2);
    pads[axis] = before;
    pads[axis + x.rank()] = more - before;
  }
  return {pad(x, pads)};
}

Vals dropout(Ctx& c) {
  const Val x = c.in(0);
  if (c.opset() >= 12 && c.has(2) && c.known_number(2) != 0 && (!c.has(1) || c.known_number(1) != 0))
    unsupported("training mode, whose result is random");
  if (!c.wants(1)) return {x};
  const Elem elem = c.opset() < 10 ? x.elem : Elem::Bool;
  Tensor one(stored_as(elem, "Dropout"), Shape{});
  set(one, 0, 1);
  return {x, expand(constant(c.graph(), std::move(one), elem), x.shape())};
}

}  // namespace

void add_shape_ops(OpTable& t) {
  t["Identity"] = [](Ctx& c) { return Vals{c.in(0)}; };
  t["Dropout"] = dropout;
  t["Reshape"] = reshape_node;
  t["Flatten"] = flatten;
  t["Squeeze"] = squeeze_node;
  t["Unsqueeze"] = unsqueeze_node;
  t["Transpose"] = transpose_node;
  t["Concat"] = concat_node;
  t["Split"] = split;
  t["Slice"] = slice_node;
  t["Expand"] = expand_node;
  t["Tile"] = tile;
  t["Pad"] = pad_node;
  t["Shape"] = shape_node;
  t["Size"] = size_node;
  t["Constant"] = constant_node;
  t["ConstantOfShape"] = constant_of_shape;
  t["Range"] = range_node;
  t["EyeLike"] = eye_like;
  t["Trilu"] = trilu;
  t["DepthToSpace"] = depth_to_space;
  t["SpaceToDepth"] = space_to_depth;
  t["CenterCropPad"] = center_crop_pad;
}

}  // namespace gyrus::onnx
