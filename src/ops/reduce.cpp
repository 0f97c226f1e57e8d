#include "ops/reduce.h"

#include <algorithm>
#include <limits>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axes", "keepdims"});
  if (inputs[0].dtype == DType::U8 || inputs[0].dtype == DType::Bool)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(inputs[0].dtype),
         ", which has no arithmetic; cast it to f32, i32 or u32 first");
  return {{inputs[0].dtype, reduce_attrs(node, inputs[0].shape).shape, Layout::Plain}};
}

// Only sums and products have a value for no elements.
void expect_elements(const Node& node, const Shape& input, const ReduceAttrs& attrs) {
  for (size_t a = 0; a < input.size(); ++a)
    if (attrs.reduced[a] && input[a] == 0 && element_count(attrs.shape) > 0)
      fail(ErrorCode::InvalidGraph, node.op, "axis ", a, " of ", to_string(input), " has no elements to reduce");
}

std::vector<TensorType> infer_most(const Node& node, const std::vector<TensorType>& inputs) {
  std::vector<TensorType> types = infer(node, inputs);
  expect_elements(node, inputs[0].shape, reduce_attrs(node, inputs[0].shape));
  return types;
}

std::vector<TensorType> infer_mean(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axes", "keepdims"});
  expect_float(node, inputs[0], "input");
  return infer_most(node, inputs);
}

std::vector<TensorType> infer_argmax(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis", "keepdims", "dtype", "last"});
  flag(node, "last");
  const ReduceAttrs attrs = reduce_attrs(node, inputs[0].shape);
  const DType dtype = dtype_from_string(node.attrs.text("dtype", "u32"));
  expect_elements(node, inputs[0].shape, attrs);
  if (is_float(dtype) || dtype == DType::Bool)
    fail(ErrorCode::InvalidGraph, node.op, "dtype is ", to_string(dtype), ", expected u32, u8 or i32");
  const int64_t extent = inputs[0].shape[checked_axis(node, node.attrs.integer("axis"), inputs[0].shape.size())];
  if (dtype == DType::U8 && extent > 256)
    fail(ErrorCode::InvalidGraph, node.op, extent, " positions do not fit u8; use dtype u32");
  return {{dtype, attrs.shape, Layout::Plain}};
}

// Strides in elements with which a walk over the input moves through the result: 0 along reduced axes.
std::vector<int64_t> result_strides(const ReduceAttrs& attrs, const Shape& input) {
  Shape kept = input;
  for (size_t a = 0; a < kept.size(); ++a)
    if (attrs.reduced[a]) kept[a] = 1;
  return broadcast_strides(kept, input);
}

template <class Combine>
void fold(const Node& node, const RefTensor& x, double start, RefTensor& out, Combine combine) {
  const ReduceAttrs attrs = reduce_attrs(node, x.shape);
  std::fill(out.data.begin(), out.data.end(), start);
  const double* in = x.data.data();
  walk(x.shape, {result_strides(attrs, x.shape)}, {0}, [&](const std::vector<int64_t>& at) {
    double& result = out.data[static_cast<size_t>(at[0])];
    result = combine(result, *in++);
  });
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void reference_sum(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  fold(node, *inputs[0], 0, outputs[0], [](double a, double b) { return a + b; });
}

void reference_prod(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  fold(node, *inputs[0], 1, outputs[0], [](double a, double b) { return a * b; });
}

void reference_mean(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  reference_sum(node, inputs, outputs);
  const double count = static_cast<double>(inputs[0]->data.size()) / static_cast<double>(outputs[0].data.size());
  for (double& value : outputs[0].data) value /= count;
}

void reference_max(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  fold(node, *inputs[0], -kInfinity, outputs[0], [](double a, double b) { return std::max(a, b); });
}

void reference_min(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  fold(node, *inputs[0], kInfinity, outputs[0], [](double a, double b) { return std::min(a, b); });
}

// With sign -1 the smallest.
void find_largest(const Node& node, const RefTensor& x, double sign, std::vector<RefTensor>& outputs) {
  if (x.data.empty()) return;
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), x.shape.size());
  const int64_t extent = x.shape[axis];
  const int64_t inner = strides_of(x.shape)[axis];
  const bool last = flag(node, "last");
  const int64_t outer = element_count(x.shape) / (extent * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const double* column = x.data.data() + o * extent * inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < extent; ++k) {
        const double found = sign * column[k * inner], most = sign * column[best * inner];
        if (found > most || (last && found == most)) best = k;
      }
      outputs[0].data[static_cast<size_t>(o * inner + i)] = static_cast<double>(best);
    }
}

void reference_argmax(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  find_largest(node, *inputs[0], 1, outputs);
}

void reference_argmin(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  find_largest(node, *inputs[0], -1, outputs);
}

// The largest of what is turned around: -x, or for integers every bit of it.
std::vector<ValueId> decompose_argmin(Graph& graph, const Node& node) {
  ValueId x = node.inputs[0];
  DType dtype = graph.type(x).dtype;
  if (!is_float(dtype) && dtype != DType::I32 && dtype != DType::U32) {
    x = graph.add("cast", {x}, {{"to", "i32"}}, node.label);
    dtype = DType::I32;
  }
  if (is_float(dtype)) return {graph.add("argmax", {graph.add("neg", {x}, {}, node.label)}, node.attrs, node.label)};
  Tensor ones(dtype, {});
  std::fill(ones.data.begin(), ones.data.end(), std::byte{0xff});
  const ValueId turned = graph.add("bit_xor", {x, graph.add_constant("", std::move(ones))}, {}, node.label);
  return {graph.add("argmax", {turned}, node.attrs, node.label)};
}

std::optional<Pick> picks_largest(const Node& node, const Shape& input) {
  if (flag(node, "last")) return std::nullopt;
  return Pick{checked_axis(node, node.attrs.integer("axis"), input.size()), flag(node, "keepdims"),
              dtype_from_string(node.attrs.text("dtype", "u32"))};
}

double flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return static_cast<double>(element_count(inputs[0].shape));
}

// Gradients

// The value of a reduction, or its gradient, with every reduced axis as one of extent 1.
Value with_axes(const Backward& back, Value value) {
  Shape shape = back.inputs[0].shape();
  const ReduceAttrs attrs = reduce_attrs(back.node, shape);
  for (size_t a = 0; a < shape.size(); ++a)
    if (attrs.reduced[a]) shape[a] = 1;
  return value.shape() == shape ? value : reshape(value, shape);
}

std::vector<int64_t> reduced_axes(const Backward& back) {
  const ReduceAttrs attrs = reduce_attrs(back.node, back.inputs[0].shape());
  std::vector<int64_t> axes;
  for (size_t a = 0; a < attrs.reduced.size(); ++a)
    if (attrs.reduced[a]) axes.push_back(static_cast<int64_t>(a));
  return axes;
}

std::vector<Value> gradient_sum(const Backward& back) {
  return {expand(with_axes(back, back.gradients[0]), back.inputs[0].shape())};
}

std::vector<Value> gradient_mean(const Backward& back) {
  const Shape shape = back.inputs[0].shape();
  const Value g = with_axes(back, back.gradients[0]);
  const double count = static_cast<double>(element_count(shape)) / static_cast<double>(element_count(g.shape()));
  return {expand(affine(g, 1 / count, 0), shape)};
}

// Equal ones share it evenly.
std::vector<Value> gradient_most(const Backward& back) {
  const Value x = back.inputs[0];
  const Value chosen = cast(equal(x, with_axes(back, back.outputs[0])), x.dtype());
  const Value count = reduce_sum(chosen, {reduced_axes(back), true});
  return {chosen * (with_axes(back, back.gradients[0]) / count)};
}

// The product of all the others, which is right where an element is 0: of those before times those behind it.
std::vector<Value> gradient_prod(const Backward& back) {
  const Shape shape = back.inputs[0].shape();
  const ReduceAttrs attrs = reduce_attrs(back.node, shape);
  std::vector<int64_t> perm, inverse(shape.size());
  for (const bool reduced : {false, true})
    for (size_t a = 0; a < shape.size(); ++a)
      if (attrs.reduced[a] == reduced) perm.push_back(static_cast<int64_t>(a));
  Shape turned;
  for (size_t a = 0; a < shape.size(); ++a) {
    inverse[static_cast<size_t>(perm[a])] = static_cast<int64_t>(a);
    turned.push_back(shape[static_cast<size_t>(perm[a])]);
  }
  const int64_t kept = element_count(back.outputs[0].shape());
  const Value lines =
      reshape(transpose(back.inputs[0], perm), {kept, element_count(shape) / std::max<int64_t>(1, kept)});
  const Value others = cumprod(lines, 1, true, false) * cumprod(lines, 1, true, true);
  return {transpose(reshape(others, turned), inverse) * with_axes(back, back.gradients[0])};
}

}  // namespace

ReduceAttrs reduce_attrs(const Node& node, const Shape& input) {
  ReduceAttrs attrs;
  const bool one_axis = node.op == kArgmax.name || node.op == kArgmin.name;
  attrs.reduced.assign(input.size(), !node.attrs.has("axes") && !one_axis);
  std::vector<int64_t> axes;
  if (one_axis) axes = {node.attrs.integer("axis")};
  if (node.attrs.has("axes")) axes = node.attrs.integers("axes");
  for (int64_t given : axes) {
    const size_t axis = checked_axis(node, given, input.size());
    if (attrs.reduced[axis])
      fail(ErrorCode::InvalidGraph, node.op, "axes ", to_string(axes), " name axis ", axis, " twice");
    attrs.reduced[axis] = true;
  }
  if (std::find(attrs.reduced.begin(), attrs.reduced.end(), true) == attrs.reduced.end())
    fail(ErrorCode::InvalidGraph, node.op, "no axis of ", to_string(input),
         " is reduced; give at least one, or leave the op out");
  attrs.keepdims = flag(node, "keepdims");
  for (size_t a = 0; a < input.size(); ++a) {
    if (!attrs.reduced[a]) attrs.shape.push_back(input[a]);
    if (attrs.reduced[a] && attrs.keepdims) attrs.shape.push_back(1);
  }
  return attrs;
}

const OpDef kReduceSum = {
    .name = "reduce_sum",
    .infer = infer,
    .reference = reference_sum,
    .gradient = gradient_sum,
    .flops = flops,
};

const OpDef kReduceProd = {
    .name = "reduce_prod",
    .infer = infer,
    .reference = reference_prod,
    .gradient = gradient_prod,
    .flops = flops,
};

const OpDef kArgmin = {
    .name = "argmin",
    .infer = infer_argmax,
    .reference = reference_argmin,
    .dtype_attr = "dtype",
    .decompose = decompose_argmin,
    .flops = flops,
};

const OpDef kReduceMean = {
    .name = "reduce_mean",
    .infer = infer_mean,
    .reference = reference_mean,
    .gradient = gradient_mean,
    .flops = flops,
};

const OpDef kReduceMax = {
    .name = "reduce_max",
    .infer = infer_most,
    .reference = reference_max,
    .gradient = gradient_most,
    .flops = flops,
};

const OpDef kReduceMin = {
    .name = "reduce_min",
    .infer = infer_most,
    .reference = reference_min,
    .gradient = gradient_most,
    .flops = flops,
};

const OpDef kArgmax = {
    .name = "argmax",
    .infer = infer_argmax,
    .reference = reference_argmax,
    .dtype_attr = "dtype",
    .picks_largest = picks_largest,
    .flops = flops,
};

}  // namespace gyrus
