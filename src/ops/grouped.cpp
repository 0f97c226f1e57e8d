#include "ops/grouped.h"

#include <algorithm>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer_group(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"groups"});
  const int64_t groups = node.attrs.integer("groups");
  if ((inputs[0].dtype != DType::I32 && inputs[0].dtype != DType::U32) || inputs[0].shape.size() != 1)
    fail(ErrorCode::InvalidGraph, node.op, "experts are ", to_string(inputs[0].dtype), to_string(inputs[0].shape),
         ", expected i32 of one axis");
  if (groups < 1 || inputs[0].shape[0] < 1)
    fail(ErrorCode::InvalidGraph, node.op, inputs[0].shape[0], " rows for ", groups, " experts: expected 1 or more");
  return {{DType::I32, {groups + 1 + inputs[0].shape[0]}, Layout::Plain}};
}

void reference_group(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const int64_t groups = node.attrs.integer("groups");
  std::vector<double>& out = outputs[0].data;
  auto at = static_cast<size_t>(groups) + 1;
  const size_t first = at;
  for (const double e : inputs[0]->data)
    if (e < 0 || e >= static_cast<double>(groups))
      fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "expert ", e, " of ", groups);
  for (int64_t g = 0; g < groups; ++g) {
    out[static_cast<size_t>(g)] = static_cast<double>(at - first);
    for (size_t m = 0; m < inputs[0]->data.size(); ++m)
      if (inputs[0]->data[m] == static_cast<double>(g)) out[at++] = static_cast<double>(m);
  }
  out[static_cast<size_t>(groups)] = static_cast<double>(at - first);
}

// Ranks are the order by expert; where each begins is how many are of those before.
std::vector<ValueId> decompose_group(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value expert = cast(Value(graph, node.inputs[0]), DType::I32);
  const int64_t groups = node.attrs.integer("groups"), rows = expert.shape()[0];
  const Value below = less(reshape(expert, {1, rows}), reshape(counted(graph, groups + 1), {groups + 1, 1}));
  const Value begins = cast(reduce_sum(cast(below, DType::F32), {{1}}), DType::I32);
  const Value ranks = apply("ranks", {expert}, {{"axis", int64_t{0}}, {"largest", int64_t{0}}});
  const Value order = apply("place", {counted(graph, rows), ranks}, {{"axis", int64_t{0}}, {"k", rows}});
  return {concat({begins, order}, 0).id()};
}

void check_groups(const Node& node, const std::vector<TensorType>& inputs, int64_t experts) {
  const TensorType& groups = inputs[2];
  if (groups.dtype != DType::I32 || groups.shape != Shape{experts + 1 + inputs[0].shape[0]})
    fail(ErrorCode::InvalidGraph, node.op, "groups are ", to_string(groups.dtype), to_string(groups.shape),
         ", expected i32", to_string(Shape{experts + 1 + inputs[0].shape[0]}), " as group_rows gives them");
}

void expect_matrix(const Node& node, const char* what, const TensorType& type, size_t rank) {
  if (type.dtype != DType::F32 || type.shape.size() != rank || element_count(type.shape) == 0)
    fail(ErrorCode::InvalidGraph, node.op, what, " is ", to_string(type.dtype), to_string(type.shape),
         ", expected f32 of ", rank, " axes with elements");
}

std::vector<TensorType> infer_matmul(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"transpose"});
  expect_matrix(node, "x", inputs[0], 2);
  expect_matrix(node, "weight", inputs[1], 3);
  const bool transpose = flag(node, "transpose");
  const Shape& weight = inputs[1].shape;
  if (weight[transpose ? 2 : 1] != inputs[0].shape[1])
    fail(ErrorCode::InvalidGraph, node.op, "x is ", to_string(inputs[0].shape), " and weight ", to_string(weight),
         transpose ? ", expected [E,N,K]" : ", expected [E,K,N]", " with K = ", inputs[0].shape[1]);
  check_groups(node, inputs, weight[0]);
  return {{DType::F32, {inputs[0].shape[0], weight[transpose ? 1 : 2]}, Layout::Plain}};
}

// Calls each(expert, row) for the rows by expert.
template <class Each>
void each_row(const RefTensor& groups, int64_t experts, Each each) {
  for (int64_t e = 0; e < experts; ++e)
    for (auto i = static_cast<int64_t>(groups.data[static_cast<size_t>(e)]);
         i < static_cast<int64_t>(groups.data[static_cast<size_t>(e) + 1]); ++i)
      each(e, static_cast<int64_t>(groups.data[static_cast<size_t>(experts + 1 + i)]));
}

void reference_matmul(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &x = *inputs[0], &weight = *inputs[1];
  const bool transpose = flag(node, "transpose");
  const int64_t depth = x.shape[1], width = outputs[0].shape[1];
  each_row(*inputs[2], weight.shape[0], [&](int64_t e, int64_t m) {
    const double* w = weight.data.data() + e * depth * width;
    for (int64_t n = 0; n < width; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += x.data[static_cast<size_t>(m * depth + k)] * w[transpose ? n * depth + k : k * width + n];
      outputs[0].data[static_cast<size_t>(m * width + n)] = sum;
    }
  });
}

// x by expert, with zeros in the rows of others.
Value of_expert(Value sorted, Value groups, int64_t e) {
  const int64_t rows = sorted.shape()[0];
  const Value place = counted(groups.graph(), rows);
  const Value own =
      logical_and(greater_equal(place, slice(groups, {e}, {e + 1})), less(place, slice(groups, {e + 1}, {e + 2})));
  return where(reshape(own, {rows, 1}), sorted, scalar(sorted, 0));
}

Value order_of(Value groups, int64_t experts) { return slice(groups, {experts + 1}, {groups.shape()[0]}); }

// All rows through every matrix, those of other experts as zeros.
std::vector<ValueId> decompose_matmul(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x(graph, node.inputs[0]), weight(graph, node.inputs[1]), groups(graph, node.inputs[2]);
  const Shape shape = weight.shape();
  const bool transpose = flag(node, "transpose");
  const Value order = order_of(groups, shape[0]), sorted = gather(x, order);
  Value sum;
  for (int64_t e = 0; e < shape[0]; ++e) {
    const Value matrix = reshape(slice_of(weight, 0, e, e + 1), {shape[1], shape[2]});
    const Value y = matmul(of_expert(sorted, groups, e), matrix, {.transpose_b = transpose});
    sum = sum ? sum + y : y;
  }
  return {apply("scatter_rows", {zeros(x, sum.shape()), order, sum}, {{"reduction", "none"}}).id()};
}

std::vector<Value> gradient_matmul(const Backward& back) {
  const Value x = back.inputs[0], weight = back.inputs[1], groups = back.inputs[2], g = back.gradients[0];
  const bool transpose = flag(back.node, "transpose");
  std::vector<Value> found(3);
  if (back.wanted[0]) found[0] = apply("grouped_matmul", {g, weight, groups}, {{"transpose", int64_t{!transpose}}});
  if (back.wanted[1])
    found[1] = transpose ? apply("grouped_weights", {g, x, groups}) : apply("grouped_weights", {x, g, groups});
  return found;
}

std::vector<TensorType> infer_weights(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {});
  expect_matrix(node, "x", inputs[0], 2);
  expect_matrix(node, "y", inputs[1], 2);
  if (inputs[0].shape[0] != inputs[1].shape[0])
    fail(ErrorCode::InvalidGraph, node.op, "x has ", inputs[0].shape[0], " rows and y ", inputs[1].shape[0]);
  const int64_t experts = element_count(inputs[2].shape) - 1 - inputs[0].shape[0];
  if (experts < 1)
    fail(ErrorCode::InvalidGraph, node.op, "groups are ", to_string(inputs[2].shape), " for ", inputs[0].shape[0],
         " rows: expected those that group_rows gives");
  check_groups(node, inputs, experts);
  return {{DType::F32, {experts, inputs[0].shape[1], inputs[1].shape[1]}, Layout::Plain}};
}

void reference_weights(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const int64_t depth = inputs[0]->shape[1], width = inputs[1]->shape[1];
  each_row(*inputs[2], outputs[0].shape[0], [&](int64_t e, int64_t m) {
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < width; ++n)
        outputs[0].data[static_cast<size_t>((e * depth + k) * width + n)] +=
            inputs[0]->data[static_cast<size_t>(m * depth + k)] * inputs[1]->data[static_cast<size_t>(m * width + n)];
  });
}

std::vector<ValueId> decompose_weights(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x(graph, node.inputs[0]), y(graph, node.inputs[1]), groups(graph, node.inputs[2]);
  const int64_t experts = groups.shape()[0] - 1 - x.shape()[0], depth = x.shape()[1], width = y.shape()[1];
  const Value order = order_of(groups, experts), sorted = gather(x, order), others = gather(y, order);
  std::vector<Value> all;
  for (int64_t e = 0; e < experts; ++e)
    all.push_back(reshape(matmul(of_expert(sorted, groups, e), others, {.transpose_a = true}), {1, depth, width}));
  return {(all.size() == 1 ? all[0] : concat(all, 0)).id()};
}

std::vector<Value> gradient_weights(const Backward& back) {
  const Value g = back.gradients[0], groups = back.inputs[2];
  return {apply("grouped_matmul", {back.inputs[1], g, groups}, {{"transpose", int64_t{1}}}),
          apply("grouped_matmul", {back.inputs[0], g, groups}, {{"transpose", int64_t{0}}}),
          {}};
}

double grouped_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  return 2.0 * static_cast<double>(element_count(inputs[0].shape)) * static_cast<double>(outputs[0].shape.back());
}

}  // namespace

const OpDef kGroupRows = {
    .name = "group_rows",
    .infer = infer_group,
    .reference = reference_group,
    .decompose = decompose_group,
    .has_kernel = true,
    .flops = element_flops,
};

const OpDef kGroupedMatmul = {
    .name = "grouped_matmul",
    .infer = infer_matmul,
    .reference = reference_matmul,
    .gradient = gradient_matmul,
    .decompose = decompose_matmul,
    .has_kernel = true,
    .flops = grouped_flops,
};

const OpDef kGroupedWeights = {
    .name = "grouped_weights",
    .infer = infer_weights,
    .reference = reference_weights,
    .gradient = gradient_weights,
    .decompose = decompose_weights,
    .has_kernel = true,
    .flops = grouped_flops,
};

}  // namespace gyrus
