// Ops that read or write at computed places.

#include <algorithm>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

Vals gather(Ctx& c) {
  const Val x = c.in(0), at = c.in(1);
  const size_t axis = axis_of(c.integer("axis", 0), x.rank());
  if (at.is_constant()) {  // places that are known are checked now
    for (const int64_t i : integers(at.constant()))
      if (i < -x.shape()[axis] || i >= x.shape()[axis])
        invalid(cat("index ", i, " is outside an axis of ", x.shape()[axis]));
  }
  if (axis == 0)
    if (const auto rows = c.packed(0, 0)) return {packed_rows(at, *rows)};
  return {as(op("gather", {x, at}, {{"axis", static_cast<int64_t>(axis)}}), x.elem)};
}

Vals gather_elements(Ctx& c) {
  const Val x = c.in(0);
  return {
      as(op("gather_elements", {x, c.in(1)}, {{"axis", static_cast<int64_t>(axis_of(c.integer("axis", 0), x.rank()))}}),
         x.elem)};
}

Vals gather_nd(Ctx& c) {
  return {as(op("gather_nd", {c.in(0), c.in(1)}, {{"batch_dims", c.integer("batch_dims", 0)}}), c.in(0).elem)};
}

Vals scatter_elements(Ctx& c) {
  const Val x = c.in(0);
  return {as(op("scatter_elements", {x, c.in(1), c.in(2)},
                {{"axis", static_cast<int64_t>(axis_of(c.integer("axis", 0), x.rank()))},
                 {"reduction", c.text("reduction", "none")}}),
             x.elem)};
}

Vals scatter_nd(Ctx& c) {
  return {
      as(op("scatter_nd", {c.in(0), c.in(1), c.in(2)}, {{"reduction", c.text("reduction", "none")}}), c.in(0).elem)};
}

// Rows of `present` written into those of `past` from a place of each batch on.
Vals tensor_scatter(Ctx& c) {
  const Val past = c.in(0), update = c.in(1);
  const size_t axis = axis_of(c.integer("axis", -2), past.rank());
  const bool circular = c.text("mode", "linear") == "circular";
  const int64_t batch = past.shape()[0], extent = past.shape()[axis], rows = update.shape()[axis];
  const Val start =
      c.has(2) ? cast(c.in(2), Elem::I32) : indices(c.graph(), {batch}, Ints(static_cast<size_t>(batch), 0));
  Shape along(past.rank(), 1), each(past.rank(), 1);
  along[axis] = rows;
  each[0] = batch;
  Val at = reshape(start, each) + indices(c.graph(), along, range(rows));
  if (circular) at = op("mod", {at, scalar(at, static_cast<double>(extent))});
  return {as(op("scatter_elements", {past, expand(at, update.shape()), update}, {{"axis", static_cast<int64_t>(axis)}}),
             past.elem)};
}

Vals one_hot(Ctx& c) {
  Val at = c.in(0);
  const Val values = c.in(2);
  const int64_t depth = whole(c.known_number(1)), axis_given = c.integer("axis", -1);
  if (depth < 1) invalid("depth is not positive");
  const size_t axis = axis_of(axis_given, at.rank() + 1);
  if (is_float(at)) at = cast(at, Elem::I32);
  if (at.dtype() == DType::U8) at = cast(at, Elem::I32);
  if (at.dtype() == DType::I64) at = cast(at, Elem::I32);
  if (at.dtype() == DType::I32)
    at = op("where", {op("less", {at, scalar(at, 0)}), at + static_cast<double>(depth), at});
  Shape along(at.rank() + 1, 1);
  along[axis] = depth;
  Val places = cast(indices(c.graph(), along, range(depth)), at.elem);
  const Val hit = op("equal", {unsqueeze(at, axis), places});
  const Val off = reshape(slice(values, 0, 0, 1), {}), on = reshape(slice(values, 0, 1, 2), {});
  return {where(hit, on, off)};
}

Vals reverse_sequence(Ctx& c) {
  const Val x = c.in(0);
  const size_t time = axis_of(c.integer("time_axis", 0), x.rank()),
               batch = axis_of(c.integer("batch_axis", 1), x.rank());
  Shape along(x.rank(), 1), each(x.rank(), 1);
  along[time] = x.shape()[time];
  each[batch] = x.shape()[batch];
  const Val step = indices(c.graph(), along, range(x.shape()[time]));
  const Val length = reshape(cast(c.in(1), Elem::I32), each);
  const Val at = op("where", {op("less", {step, length}), length - 1.0 - step, step});
  return {as(op("gather_elements", {x, expand(at, x.shape())}, {{"axis", static_cast<int64_t>(time)}}), x.elem)};
}

Vals compress(Ctx& c) {
  Val x = c.in(0);
  const Ints condition = c.known_ints(1);
  const bool flat = !c.has_attr("axis");
  if (flat) x = reshape(x, {x.size()});
  const size_t axis = flat ? 0 : axis_of(c.integer("axis"), x.rank());
  Ints at;
  for (size_t i = 0; i < condition.size() && static_cast<int64_t>(i) < x.shape()[axis]; ++i)
    if (condition[i] != 0) at.push_back(static_cast<int64_t>(i));
  return {at.empty() ? slice(x, axis, 0, 0) : take(x, at, axis)};
}

Vals non_zero(Ctx& c) {
  const Val x = c.in(0);
  if (!x.is_constant()) unsupported("how many elements are not zero is known only when the network runs");
  const Tensor& tensor = x.constant();
  const Shape shape = x.shape();
  std::vector<Ints> at(std::max<size_t>(shape.size(), 1));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (get(tensor, i) == 0) continue;
    int64_t rest = i;
    for (size_t a = shape.size(); a-- > 0; rest /= shape[a]) at[a].push_back(rest % shape[a]);
    if (shape.empty()) at[0].push_back(0);
  }
  const int64_t count = static_cast<int64_t>(at[0].size());
  Ints all;
  for (const Ints& row : at) all.insert(all.end(), row.begin(), row.end());
  return {reshape(ints(c.graph(), all), {static_cast<int64_t>(at.size()), count})};
}

Vals top_k(Ctx& c) {
  const Val x = c.in(0);
  const size_t axis = axis_of(c.integer("axis", -1), x.rank());
  const int64_t k = c.opset() < 10 ? c.integer("k") : whole(c.known_number(1));
  const Elem elem = x.elem;
  const Val given = x.dtype() == DType::U8 ? cast(x, Elem::I32) : x;
  const Vals both =
      ops("top_k", {given}, {{"axis", static_cast<int64_t>(axis)}, {"k", k}, {"largest", c.integer("largest", 1)}});
  return {cast(both[0], elem), cast(as(both[1], elem_of(both[1].dtype())), Elem::I64)};
}

template <bool kLargest>
Vals arg_most(Ctx& c) {
  const Val x = c.in(0);
  const Val given = x.dtype() == DType::U8 ? cast(x, Elem::I32) : x;
  Attrs attrs{{"axis", static_cast<int64_t>(axis_of(c.integer("axis", 0), x.rank()))},
              {"keepdims", c.integer("keepdims", 1)},
              {"dtype", "i32"}};
  if (c.integer("select_last_index", 0) != 0) attrs.set("last", int64_t{1});
  return {cast(as(op(kLargest ? "argmax" : "argmin", {given}, attrs), Elem::I32), Elem::I64)};
}

Vals hardmax(Ctx& c) {
  Val x = c.in(0);
  const Shape shape = x.shape();
  size_t axis = axis_of(c.integer("axis", c.opset() < 13 ? 1 : -1), x.rank());
  if (c.opset() < 13) {
    const Shape front(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
    const int64_t rows = element_count(front);
    x = reshape(x, {rows, rows == 0 ? 0 : x.size() / rows});
    axis = 1;
  }
  const Val best = as(
      op("argmax", {x}, {{"axis", static_cast<int64_t>(axis)}, {"keepdims", int64_t{1}}, {"dtype", "i32"}}), Elem::I32);
  Shape along(x.rank(), 1);
  along[axis] = x.shape()[axis];
  const Val hit = op("equal", {best, indices(c.graph(), along, range(x.shape()[axis]))});
  return {reshape(cast(hit, x.elem), shape)};
}

}  // namespace

void add_index_ops(OpTable& t) {
  t["Gather"] = gather;
  t["GatherElements"] = gather_elements;
  t["GatherND"] = gather_nd;
  t["ScatterElements"] = scatter_elements;
  t["Scatter"] = scatter_elements;
  t["ScatterND"] = scatter_nd;
  t["TensorScatter"] = tensor_scatter;
  t["OneHot"] = one_hot;
  t["ReverseSequence"] = reverse_sequence;
  t["Compress"] = compress;
  t["NonZero"] = non_zero;
  t["TopK"] = top_k;
  t["ArgMax"] = arg_most<true>;
  t["ArgMin"] = arg_most<false>;
  t["Hardmax"] = hardmax;
}

}  // namespace gyrus::onnx
