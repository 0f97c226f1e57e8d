#include "ops/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gyrus/neighbours.h"
#include "ops/building.h"
#include "ops/common.h"
#include "ops/order.h"

namespace gyrus {
namespace {

void expect_words(const Node& node, DType dtype) {
  if (dtype != DType::F32 && dtype != DType::I32 && dtype != DType::U32)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(dtype), ", expected f32, i32 or u32");
}

int64_t bits_of_keys(const Node& node) { return node.attrs.integer("bits", 32); }

std::vector<TensorType> infer_sort(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"descending", "bits"});
  flag(node, "descending");
  expect_words(node, inputs[0].dtype);
  if (inputs[0].shape.empty()) fail(ErrorCode::InvalidGraph, node.op, "input is a scalar, which has no order");
  const int64_t bits = bits_of_keys(node);
  if (bits < 1 || bits > 32 || (bits < 32 && inputs[0].dtype != DType::U32))
    fail(ErrorCode::InvalidGraph, node.op, "bits is ", bits, " for ", to_string(inputs[0].dtype),
         ", expected 1 to 32, and 32 for other keys than u32");
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}, {DType::I32, inputs[0].shape, Layout::Plain}};
}

void reference_sort(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const int64_t extent = x.shape.back(), lines = extent == 0 ? 0 : element_count(x.shape) / extent;
  const bool descending = flag(node, "descending");
  const double modulus = std::ldexp(1.0, static_cast<int>(bits_of_keys(node)));
  const bool some_bits = bits_of_keys(node) < 32;
  std::vector<int64_t> order(static_cast<size_t>(extent));
  for (int64_t line = 0; line < lines; ++line) {
    const double* from = x.data.data() + line * extent;
    const auto key = [&](int64_t i) { return some_bits ? std::fmod(from[i], modulus) : from[i]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? comes_before(key(b), key(a)) : comes_before(key(a), key(b));
    });
    for (int64_t i = 0; i < extent; ++i) {
      const auto to = static_cast<size_t>(line * extent + i);
      outputs[0].data[to] = from[order[static_cast<size_t>(i)]] + 0.0;
      outputs[1].data[to] = static_cast<double>(order[static_cast<size_t>(i)]);
    }
  }
}

// Every element is compared with all others of its line, which suits any limits, and short lines.
std::vector<ValueId> decompose_sort(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x{graph, node.inputs[0]};
  if (element_count(x.shape()) == 0) return {x.id(), graph.constant(Tensor(DType::I32, x.shape())).id()};
  const int64_t last = static_cast<int64_t>(x.shape().size()) - 1, extent = x.shape().back(), bits = bits_of_keys(node);
  const Value keys = bits < 32 ? bit_and(x, scalar(x, std::ldexp(1.0, static_cast<int>(bits)) - 1)) : x;
  const Value ranks = apply("ranks", {keys}, {{"axis", last}, {"largest", int64_t{flag(node, "descending")}}});
  const Attrs along{{"axis", last}, {"k", extent}};
  const Value positions = expand(counted(graph, extent), x.shape());
  return {apply("place", {x, ranks}, along).id(), apply("place", {positions, ranks}, along).id()};
}

std::vector<Value> gradient_sort(const Backward& back) {
  const Value positions = back.outputs[1];
  if (!back.gradients[0]) return {{}};
  return {apply("place", {back.gradients[0], positions},
                {{"axis", static_cast<int64_t>(positions.shape().size()) - 1}, {"k", positions.shape().back()}})};
}

std::vector<TensorType> infer_search(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"right"});
  flag(node, "right");
  expect_words(node, inputs[0].dtype);
  if (inputs[0].shape.size() != 1 || inputs[1].dtype != inputs[0].dtype)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(inputs[0].shape),
         " and ", to_string(inputs[1].dtype), to_string(inputs[1].shape),
         ", expected a sorted list and queries of its element type");
  return {{DType::I32, inputs[1].shape, Layout::Plain}};
}

void reference_search(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const std::vector<double>& list = inputs[0]->data;
  const bool right = flag(node, "right");
  for (size_t i = 0; i < outputs[0].data.size(); ++i) {
    const double query = inputs[1]->data[i];
    const auto at =
        right ? std::upper_bound(list.begin(), list.end(), query) : std::lower_bound(list.begin(), list.end(), query);
    outputs[0].data[i] = static_cast<double>(at - list.begin());
  }
}

std::vector<TensorType> infer_segments(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {});
  if (inputs[0].dtype != DType::F32 || inputs[0].shape.size() != 2 || inputs[1].dtype != DType::I32 ||
      inputs[1].shape.size() != 1 || inputs[2].dtype != DType::I32 || inputs[2].shape.size() != 1)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(inputs[0].shape),
         ", ", to_string(inputs[1].dtype), to_string(inputs[1].shape), " and ", to_string(inputs[2].dtype),
         to_string(inputs[2].shape), ", expected f32 [m, C], i32 [n] and i32 [r]");
  return {{DType::F32, {inputs[1].shape[0], inputs[0].shape[1]}, Layout::Plain}};
}

void reference_segments(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &x = *inputs[0], &ends = *inputs[1], &rows = *inputs[2];
  const auto columns = static_cast<size_t>(x.shape[1]);
  size_t j = 0;
  for (size_t i = 0; i < ends.data.size(); ++i)
    for (; j < std::min(static_cast<size_t>(std::max(ends.data[i], 0.0)), rows.data.size()); ++j)
      for (size_t c = 0; c < columns; ++c)
        outputs[0].data[i * columns + c] += x.data[static_cast<size_t>(rows.data[j]) * columns + c];
}

// Row rows[j] is in the segment of how many ends are at most j; rows that are in none get zeros.
std::vector<Value> gradient_segments(const Backward& back) {
  const Value x = back.inputs[0], ends = back.inputs[1], rows = back.inputs[2], g = back.gradients[0];
  Graph& graph = g.graph();
  const int64_t n = ends.shape()[0], m = x.shape()[0], r = rows.shape()[0];
  if (n == 0 || m == 0 || r == 0) return {zeros(x, x.shape()), {}, {}};
  const Value at = search_sorted(ends, counted(graph, r), true);
  const Value inside = reshape(less(at, scalar(at, static_cast<double>(n))), {r, 1});
  const Value taken = gather(g, min(at, scalar(at, static_cast<double>(n - 1))));
  const Value each = where(inside, taken, scalar(taken, 0));
  return {apply("scatter_rows", {zeros(x, x.shape()), rows, each}, {{"reduction", "add"}}), {}, {}};
}

std::vector<TensorType> infer_at_most(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"most"});
  if (inputs[0].dtype != DType::I32)
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(inputs[0].dtype), ", expected i32");
  if (node.attrs.integer("most") < 0 || node.attrs.integer("most") > INT32_MAX)
    fail(ErrorCode::InvalidGraph, node.op, "most is ", node.attrs.integer("most"), ", expected 0 to 2147483647");
  return {inputs[0]};
}

void reference_at_most(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const auto most = static_cast<double>(node.attrs.integer("most"));
  for (const double value : inputs[0]->data)
    if (value > most)
      fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "needs ", static_cast<int64_t>(value),
           " places and has ", static_cast<int64_t>(most), ": give it more");
  outputs[0].data = inputs[0]->data;
}

Sorted sorted_lines(Value keys, Attrs attrs) {
  Node node;
  node.op = "sort";
  node.inputs = {keys.id()};
  node.attrs = std::move(attrs);
  node.label = keys.graph().label();
  const std::vector<ValueId> made = keys.graph().add_node(std::move(node));
  return {{keys.graph(), made[0]}, {keys.graph(), made[1]}};
}

// The order of axes that brings one to the end, and back.
std::vector<int64_t> to_the_end(int64_t& axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank)
    fail(ErrorCode::InvalidGraph, "sort", "axis is ", axis, " of ", to_string(shape), ", expected one of its axes");
  axis += axis < 0 ? rank : 0;
  std::vector<int64_t> perm(shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  return perm;
}

}  // namespace

Sorted sort(Value x, int64_t axis, bool descending) {
  if (!x) fail(ErrorCode::InvalidGraph, "sort", "has no operand");
  const DType given = x.dtype();
  const bool narrow = byte_size(given) < 4;
  if (narrow) x = cast(x, is_float(given) ? DType::F32 : DType::I32);
  const std::vector<int64_t> perm = to_the_end(axis, x.shape());
  const bool moved = axis + 1 != static_cast<int64_t>(perm.size());
  Sorted sorted = sorted_lines(moved ? transpose(x, perm) : x, {{"descending", int64_t{descending}}});
  if (moved) sorted = {transpose(sorted.values, perm), transpose(sorted.positions, perm)};
  if (narrow) sorted.values = cast(sorted.values, given);
  return sorted;
}

Sorted sort_bits(Value keys, int64_t bits) {
  if (!keys) fail(ErrorCode::InvalidGraph, "sort", "has no operand");
  return sorted_lines(keys, {{"bits", bits}});
}

Value sort_by(Value keys, Value values, int64_t axis, bool descending) {
  if (keys && values && keys.shape() != values.shape())
    fail(ErrorCode::InvalidGraph, "sort", "keys are ", to_string(keys.shape()), ", values ", to_string(values.shape()),
         ": expected the same shape");
  return gather_elements(values, sort(keys, axis, descending).positions, axis);
}

Value search_sorted(Value list, Value queries, bool right) {
  return apply("search_sorted", {list, queries}, {{"right", int64_t{right}}});
}

const OpDef kSort = {
    .name = "sort",
    .infer = infer_sort,
    .reference = reference_sort,
    .gradient = gradient_sort,
    .decompose = decompose_sort,
    .has_kernel = true,
    .flops = element_flops,
};

const OpDef kSearchSorted = {
    .name = "search_sorted",
    .infer = infer_search,
    .reference = reference_search,
    .flops = no_flops,
};

const OpDef kSegmentSum = {
    .name = "segment_sum",
    .infer = infer_segments,
    .reference = reference_segments,
    .gradient = gradient_segments,
    .flops = element_flops,
};

const OpDef kAtMost = {
    .name = "at_most",
    .infer = infer_at_most,
    .reference = reference_at_most,
    .flops = no_flops,
};

}  // namespace gyrus
