#include "ops/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gyrus/neighbours.h"
#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

size_t axis_of(const Node& node, const Shape& shape) {
  return checked_axis(node, node.attrs.integer("axis"), shape.size());
}

// Calls visit(first, stride) for every line along the axis.
template <class Visit>
void each_line(const Shape& shape, size_t axis, Visit visit) {
  const int64_t inner = strides_of(shape)[axis], extent = shape[axis];
  const int64_t lines = extent == 0 ? 0 : element_count(shape) / extent;
  for (int64_t line = 0; line < lines; ++line) visit(line / inner * inner * extent + line % inner, inner);
}

}  // namespace

bool comes_before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

namespace {

// The positions of a line in their order.
std::vector<int64_t> order_of(const RefTensor& x, int64_t first, int64_t stride, int64_t extent, bool largest) {
  std::vector<int64_t> order(static_cast<size_t>(extent));
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t k) { return x.data[static_cast<size_t>(first + k * stride)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return largest ? comes_before(value(b), value(a)) : comes_before(value(a), value(b));
  });
  return order;
}

bool largest_of(const Node& node) { return node.attrs.integer("largest", 1) != 0; }

int64_t k_of(const Node& node, const Shape& shape, size_t axis) {
  const int64_t k = node.attrs.integer("k");
  if (k < 0 || k > shape[axis])
    fail(ErrorCode::InvalidGraph, node.op, "k is ", k, ", but axis ", axis, " has ", shape[axis], " elements");
  return k;
}

std::vector<TensorType> infer_top_k(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis", "k", "largest"});
  const size_t axis = axis_of(node, inputs[0].shape);
  Shape shape = inputs[0].shape;
  shape[axis] = k_of(node, shape, axis);
  return {{inputs[0].dtype, shape, Layout::Plain}, {DType::I32, shape, Layout::Plain}};
}

void reference_top_k(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const size_t axis = axis_of(node, x.shape);
  const int64_t k = k_of(node, x.shape, axis), extent = x.shape[axis];
  each_line(x.shape, axis, [&](int64_t first, int64_t stride) {
    const std::vector<int64_t> order = order_of(x, first, stride, extent, largest_of(node));
    const int64_t to = first / (stride * extent) * stride * k + first % stride;
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(to + i * stride);
      outputs[0].data[at] = x.data[static_cast<size_t>(first + order[static_cast<size_t>(i)] * stride)];
      outputs[1].data[at] = static_cast<double>(order[static_cast<size_t>(i)]);
    }
  });
}

// Up to here every element of a line is compared with every other; longer lines are sorted.
constexpr int64_t kRankedLine = 1024;

std::vector<ValueId> decompose_top_k(Graph& graph, const Node& node) {
  const TensorType type = graph.type(node.inputs[0]);
  const size_t axis = axis_of(node, type.shape);
  Shape result = type.shape;
  result[axis] = k_of(node, type.shape, axis);
  if (element_count(result) == 0)
    return {graph.add_constant("", Tensor(type.dtype, result)), graph.add_constant("", Tensor(DType::I32, result))};
  const auto cast = [&](ValueId id, DType to) {
    return graph.type(id).dtype == to ? id : graph.add("cast", {id}, {{"to", std::string(to_string(to))}}, node.label);
  };
  const bool wide = type.dtype == DType::F32 || type.dtype == DType::I32 || type.dtype == DType::U32;
  const ValueId x = cast(node.inputs[0], wide ? type.dtype : is_float(type.dtype) ? DType::F32 : DType::I32);
  if (type.shape[axis] > kRankedLine) {
    const Labelled labelled(graph, node);
    const Sorted sorted = sort({graph, x}, static_cast<int64_t>(axis), largest_of(node));
    return {cast(slice_of(sorted.values, axis, 0, result[axis]).id(), type.dtype),
            slice_of(sorted.positions, axis, 0, result[axis]).id()};
  }
  const Attrs along{{"axis", static_cast<int64_t>(axis)}, {"k", result[axis]}};
  const ValueId ranks = graph.add(
      "ranks", {x}, {{"axis", static_cast<int64_t>(axis)}, {"largest", int64_t{largest_of(node)}}}, node.label);
  Shape line(type.shape.size(), 1);
  line[axis] = type.shape[axis];
  Tensor positions(DType::I32, line);
  for (int64_t i = 0; i < positions.size(); ++i) positions.as<int32_t>()[i] = static_cast<int32_t>(i);
  const ValueId all =
      graph.add("expand", {graph.add_constant("", std::move(positions))}, {{"shape", type.shape}}, node.label);
  const ValueId values = graph.add("place", {x, ranks}, along, node.label);
  return {cast(values, type.dtype), graph.add("place", {all, ranks}, along, node.label)};
}

std::vector<TensorType> infer_ranks(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis", "largest"});
  axis_of(node, inputs[0].shape);
  if (byte_size(inputs[0].dtype) != 4)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(inputs[0].dtype), ", expected f32, i32 or u32");
  return {{DType::I32, inputs[0].shape, Layout::Plain}};
}

void reference_ranks(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const size_t axis = axis_of(node, x.shape);
  each_line(x.shape, axis, [&](int64_t first, int64_t stride) {
    const std::vector<int64_t> order = order_of(x, first, stride, x.shape[axis], largest_of(node));
    for (size_t i = 0; i < order.size(); ++i)
      outputs[0].data[static_cast<size_t>(first + order[i] * stride)] = static_cast<double>(i);
  });
}

std::vector<TensorType> infer_place(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"axis", "k"});
  const size_t axis = axis_of(node, inputs[0].shape);
  if (inputs[1].shape != inputs[0].shape || inputs[1].dtype != DType::I32 || byte_size(inputs[0].dtype) != 4)
    fail(ErrorCode::InvalidGraph, node.op, "places are ", to_string(inputs[1].dtype), to_string(inputs[1].shape),
         " for ", to_string(inputs[0].dtype), to_string(inputs[0].shape), ": expected i32 of the same shape");
  Shape shape = inputs[0].shape;
  shape[axis] = k_of(node, shape, axis);
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

void reference_place(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const size_t axis = axis_of(node, x.shape);
  const int64_t k = k_of(node, x.shape, axis), extent = x.shape[axis];
  each_line(x.shape, axis, [&](int64_t first, int64_t stride) {
    const int64_t to = first / (stride * extent) * stride * k + first % stride;
    for (int64_t i = 0; i < extent; ++i) {
      const auto from = static_cast<size_t>(first + i * stride);
      const auto place = static_cast<int64_t>(inputs[1]->data[from]);
      if (place < k) outputs[0].data[static_cast<size_t>(to + place * stride)] = x.data[from];
    }
  });
}

std::vector<Value> gradient_place(const Backward& back) {
  const Value ranks = back.inputs[1], g = back.gradients[0];
  const int64_t k = back.node.attrs.integer("k");
  if (k == 0) return {zeros(g, ranks.shape()), {}};
  const Value taken =
      gather_elements(g, min(ranks, scalar(ranks, static_cast<double>(k - 1))), back.node.attrs.integer("axis"));
  return {where(less(ranks, scalar(ranks, static_cast<double>(k))), taken, scalar(g, 0)), {}};
}

}  // namespace

const OpDef kTopK = {
    .name = "top_k",
    .infer = infer_top_k,
    .reference = reference_top_k,
    .decompose = decompose_top_k,
    .flops = element_flops,
};

const OpDef kRanks = {
    .name = "ranks",
    .infer = infer_ranks,
    .reference = reference_ranks,
    .flops = element_flops,
};

const OpDef kPlace = {
    .name = "place",
    .infer = infer_place,
    .reference = reference_place,
    .gradient = gradient_place,
    .flops = no_flops,
};

}  // namespace gyrus
