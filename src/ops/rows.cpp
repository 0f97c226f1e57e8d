#include "ops/rows.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

// A quarter of the smallest binding that tests know.
constexpr int64_t kLongestRow = 65536;
constexpr double kDefaultEps = 1e-5;

size_t axis_of(const Node& node, const Shape& shape) {
  return checked_axis(node, node.attrs.integer("axis", -1), shape.size());
}

// The extents from an axis on.
Shape trailing(const Shape& shape, size_t axis) {
  return Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
}

double eps_of(const Node& node) { return node.attrs.number("eps", kDefaultEps); }

// One row in place, `stride` elements apart.
struct Row {
  const double* x;
  double* y;
  int64_t extent;
  int64_t stride = 1;
  double at(int64_t k) const { return x[k * stride]; }
  void set(int64_t k, double value) const { y[k * stride] = value; }
};

void softmax_row(const Row& row, bool logarithm) {
  double largest = row.at(0), sum = 0;
  for (int64_t k = 1; k < row.extent; ++k) largest = std::max(largest, row.at(k));
  for (int64_t k = 0; k < row.extent; ++k) sum += std::exp(row.at(k) - largest);
  for (int64_t k = 0; k < row.extent; ++k)
    row.set(k, logarithm ? row.at(k) - largest - std::log(sum) : std::exp(row.at(k) - largest) / sum);
}

// `gamma` and `beta` may be null.
void norm_row(const Row& row, bool centred, double eps, const RefTensor* gamma, const RefTensor* beta) {
  const auto count = static_cast<double>(row.extent);
  double mean = 0, square = 0;
  for (int64_t k = 0; k < row.extent; ++k) mean += row.at(k) / count;
  if (!centred) mean = 0;
  for (int64_t k = 0; k < row.extent; ++k) square += (row.at(k) - mean) * (row.at(k) - mean) / count;
  for (int64_t k = 0; k < row.extent; ++k)
    row.set(k, (row.at(k) - mean) / std::sqrt(square + eps) * (gamma ? gamma->data[static_cast<size_t>(k)] : 1) +
                   (beta ? beta->data[static_cast<size_t>(k)] : 0));
}

const RefTensor* optional_input(const std::vector<const RefTensor*>& inputs, size_t i) {
  return has_input(inputs, i) ? inputs[i] : nullptr;
}

// The type of the first operand, twice where there is a residual, which must have it.
std::vector<TensorType> with_sum(const Node& node, const std::vector<TensorType>& inputs, size_t residual) {
  const TensorType type{inputs[0].dtype, inputs[0].shape, Layout::Plain};
  if (!has_input(node, inputs, residual)) return {type};
  if (inputs[residual].dtype != type.dtype || inputs[residual].shape != type.shape)
    fail(ErrorCode::InvalidGraph, node.op, "the residual is ", to_string(inputs[residual].dtype),
         to_string(inputs[residual].shape), ", expected ", to_string(type.dtype), to_string(type.shape));
  return {type, type};
}

// x with the residual added, where there is one; then that is the second result.
RefTensor summed(const std::vector<const RefTensor*>& inputs, size_t residual, std::vector<RefTensor>& outputs) {
  RefTensor x = *inputs[0];
  if (!has_input(inputs, residual)) return x;
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] += inputs[residual]->data[i];
  outputs[1].data = x.data;
  return x;
}

// Node `rows` over x, and over a residual of singles where there is one, seen as rows of `extent` elements. Gives all
// its results in the type of x.
std::vector<ValueId> add_rows_of(Graph& graph, const Node& node, ValueId x, int64_t extent, const std::string& kind,
                                 const std::vector<ValueId>& affine, ValueId residual) {
  const TensorType type = graph.type(x);
  const auto single = [&](ValueId id) {
    return graph.type(id).dtype == DType::F32 ? id : graph.add("cast", {id}, {{"to", "f32"}}, node.label);
  };
  const auto reshape = [&](ValueId id, const Shape& shape) {
    return graph.type(id).shape == shape ? id : graph.add("reshape", {id}, {{"shape", shape}}, node.label);
  };
  const Shape rows = {element_count(type.shape) / extent, extent};
  Node made;
  made.op = kRows.name;
  made.label = node.label;
  made.inputs = {single(reshape(x, rows))};
  for (ValueId id : affine) made.inputs.push_back(id == kNoValue ? id : single(reshape(id, {extent})));
  if (residual != kNoValue) {
    made.inputs.resize(kRowsResidual, kNoValue);
    made.inputs.push_back(reshape(residual, rows));
  }
  while (made.inputs.back() == kNoValue) made.inputs.pop_back();
  made.attrs.set("kind", kind);
  if (node.attrs.has("eps")) made.attrs.set("eps", eps_of(node));
  std::vector<ValueId> results = graph.add_node(std::move(made));
  for (ValueId& id : results) {
    id = reshape(id, type.shape);
    if (type.dtype != DType::F32)
      id = graph.add("cast", {id}, {{"to", std::string(to_string(type.dtype))}}, node.label);
  }
  return results;
}

// softmax and log_softmax

std::vector<TensorType> infer_log_softmax(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis"});
  expect_float(node, inputs[0], "input");
  axis_of(node, inputs[0].shape);
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

std::vector<TensorType> infer_softmax(const Node& node, const std::vector<TensorType>& inputs) {
  node.attrs.integer("axis");  // must be given
  return infer_log_softmax(node, inputs);
}

void reference_lines(const Node& node, const RefTensor& x, std::vector<RefTensor>& outputs, bool logarithm) {
  if (x.data.empty()) return;
  const size_t axis = axis_of(node, x.shape);
  const int64_t extent = x.shape[axis], inner = strides_of(x.shape)[axis];
  const int64_t outer = element_count(x.shape) / (extent * inner);
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = line / inner * inner * extent + line % inner;
    softmax_row({x.data.data() + first, outputs[0].data.data() + first, extent, inner}, logarithm);
  }
}

void reference_softmax(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  reference_lines(node, *inputs[0], outputs, false);
}

void reference_log_softmax(const Node& node, const std::vector<const RefTensor*>& inputs,
                           std::vector<RefTensor>& outputs) {
  reference_lines(node, *inputs[0], outputs, true);
}

std::vector<ValueId> decompose_lines(Graph& graph, const Node& node, bool logarithm) {
  const ValueId x = node.inputs[0];
  const Shape shape = graph.type(x).shape;
  if (element_count(shape) == 0) return {x};
  const size_t axis = axis_of(node, shape);
  if (axis + 1 == shape.size()) {
    const ValueId rows = add_rows(graph, node, x, shape[axis], logarithm ? "log_softmax" : "softmax");
    if (rows != kNoValue) return {rows};
  }
  const auto add = [&](const char* op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return graph.add(op, inputs, std::move(attrs), node.label);
  };
  const Attrs along{{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}, {"keepdims", int64_t{1}}};
  const ValueId shifted = add("sub", {x, add("reduce_max", {x}, along)});
  const ValueId powers = add("exp", {shifted}), sum = add("reduce_sum", {powers}, along);
  return {logarithm ? add("sub", {shifted, add("log", {sum})}) : add("div", {powers, sum})};
}

std::vector<ValueId> decompose_softmax(Graph& graph, const Node& node) { return decompose_lines(graph, node, false); }
std::vector<ValueId> decompose_log_softmax(Graph& graph, const Node& node) {
  return decompose_lines(graph, node, true);
}

// Norms

// `residual` is the place of the operand that is added first, the last one that a norm may have.
std::vector<TensorType> infer_norm(const Node& node, const std::vector<TensorType>& inputs, size_t residual) {
  check_node(node, inputs, 1, residual + 1, {"axis", "eps"});
  expect_float(node, inputs[0], "input");
  const Shape rows = trailing(inputs[0].shape, axis_of(node, inputs[0].shape));
  for (size_t i = 1; i < residual; ++i) {
    if (!has_input(node, inputs, i)) continue;
    expect_float(node, inputs[i], i == 1 ? "gamma" : "beta");
    if (inputs[i].shape != rows)
      fail(ErrorCode::InvalidGraph, node.op, i == 1 ? "gamma is " : "beta is ", to_string(inputs[i].shape),
           ", expected ", to_string(rows));
  }
  return with_sum(node, inputs, residual);
}

std::vector<TensorType> infer_layer_norm(const Node& node, const std::vector<TensorType>& inputs) {
  return infer_norm(node, inputs, 3);
}

std::vector<TensorType> infer_rms_norm(const Node& node, const std::vector<TensorType>& inputs) {
  return infer_norm(node, inputs, 2);
}

void reference_norm(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs,
                    bool centred) {
  const RefTensor x = summed(inputs, centred ? 3 : 2, outputs);
  const int64_t extent = element_count(trailing(x.shape, axis_of(node, x.shape)));
  for (size_t first = 0; first < x.data.size(); first += static_cast<size_t>(extent))
    norm_row({x.data.data() + first, outputs[0].data.data() + first, extent}, centred, eps_of(node),
             optional_input(inputs, 1), centred ? optional_input(inputs, 2) : nullptr);
}

void reference_layer_norm(const Node& node, const std::vector<const RefTensor*>& inputs,
                          std::vector<RefTensor>& outputs) {
  reference_norm(node, inputs, outputs, true);
}

void reference_rms_norm(const Node& node, const std::vector<const RefTensor*>& inputs,
                        std::vector<RefTensor>& outputs) {
  reference_norm(node, inputs, outputs, false);
}

// The same of x by reductions over the last axes.
ValueId norm_by_parts(Graph& graph, const Node& node, ValueId x, bool centred) {
  const auto add = [&](const char* op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return graph.add(op, inputs, std::move(attrs), node.label);
  };
  const Shape shape = graph.type(x).shape;
  std::vector<int64_t> axes;
  for (size_t a = axis_of(node, shape); a < shape.size(); ++a) axes.push_back(static_cast<int64_t>(a));
  const Attrs over{{"axes", axes}, {"keepdims", int64_t{1}}};
  if (centred) x = add("sub", {x, add("reduce_mean", {x}, over)});
  const ValueId square = add("reduce_mean", {add("square", {x})}, over);
  ValueId y = add("mul", {x, add("rsqrt", {add("affine", {square}, {{"shift", eps_of(node)}})})});
  if (node.inputs.size() > 1 && node.inputs[1] != kNoValue) y = add("mul", {y, node.inputs[1]});
  if (centred && node.inputs.size() > 2 && node.inputs[2] != kNoValue) y = add("add", {y, node.inputs[2]});
  return y;
}

std::vector<ValueId> decompose_norm(Graph& graph, const Node& node, bool centred) {
  const ValueId x = node.inputs[0];
  const TensorType type = graph.type(x);
  const size_t at = centred ? 3 : 2;
  const ValueId residual = node.inputs.size() > at ? node.inputs[at] : kNoValue;
  const auto given = [&](ValueId y, ValueId sum) {
    return residual == kNoValue ? std::vector<ValueId>{y} : std::vector<ValueId>{y, sum};
  };
  if (element_count(type.shape) == 0) return given(x, x);
  const std::string kind = centred ? "layer_norm" : "rms_norm";
  const int64_t extent = element_count(trailing(type.shape, axis_of(node, type.shape)));
  std::vector<ValueId> affine = node.inputs;
  affine.resize(std::min(at, affine.size()));
  affine.erase(affine.begin());
  if (extent <= kLongestRow && type.dtype == DType::F32)
    return add_rows_of(graph, node, x, extent, kind, affine, residual);
  const ValueId sum = residual == kNoValue ? x : graph.add("add", {x, residual}, {}, node.label);
  const ValueId rows = add_rows(graph, node, sum, extent, kind, affine);
  return given(rows != kNoValue ? rows : norm_by_parts(graph, node, sum, centred), sum);
}

std::vector<ValueId> decompose_layer_norm(Graph& graph, const Node& node) { return decompose_norm(graph, node, true); }
std::vector<ValueId> decompose_rms_norm(Graph& graph, const Node& node) { return decompose_norm(graph, node, false); }

// rows

std::vector<TensorType> infer_rows(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 4, {"kind", "eps"});
  row_kind(node);
  const TensorType& x = inputs[0];
  if (x.dtype != DType::F32 || x.shape.size() != 2 || x.shape[1] < 1 || x.shape[1] > kLongestRow)
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(x.dtype), to_string(x.shape),
         ", expected f32 [rows, 1 to ", kLongestRow, "]");
  for (size_t i = 1; i < std::min(inputs.size(), kRowsResidual); ++i)
    if (has_input(node, inputs, i) && (inputs[i].dtype != DType::F32 || inputs[i].shape != Shape{x.shape[1]}))
      fail(ErrorCode::InvalidGraph, node.op, "input ", i, " is ", to_string(inputs[i].dtype),
           to_string(inputs[i].shape), ", expected f32 [", x.shape[1], "]");
  return with_sum(node, inputs, kRowsResidual);
}

void reference_rows(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor x = summed(inputs, kRowsResidual, outputs);
  const RowKind kind = row_kind(node);
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const int64_t first = r * x.shape[1];
    const Row row{x.data.data() + first, outputs[0].data.data() + first, x.shape[1]};
    if (kind == RowKind::Softmax || kind == RowKind::LogSoftmax)
      softmax_row(row, kind == RowKind::LogSoftmax);
    else
      norm_row(row, kind == RowKind::LayerNorm, eps_of(node), optional_input(inputs, 1), optional_input(inputs, 2));
  }
}

// With a residual: where there are too few bindings for it and the sum. Without: the op that this came from.
std::vector<ValueId> decompose_rows(Graph& graph, const Node& node) {
  if (node.inputs.size() <= kRowsResidual) {
    Attrs attrs{{"axis", int64_t{1}}};
    if (node.attrs.has("eps")) attrs.set("eps", eps_of(node));
    return {graph.add(node.attrs.text("kind"), node.inputs, std::move(attrs), node.label)};
  }
  const ValueId sum = graph.add("add", {node.inputs[0], node.inputs[kRowsResidual]}, {}, node.label);
  Node rows = node;
  rows.inputs.resize(kRowsResidual);
  rows.inputs[0] = sum;
  while (rows.inputs.back() == kNoValue) rows.inputs.pop_back();
  return {graph.add_node(std::move(rows)).front(), sum};
}

std::optional<Node> with_residual(const Node& node, ValueId x, ValueId residual) {
  if (node.inputs.size() > kRowsResidual) return std::nullopt;
  Node joined = node;
  joined.inputs.resize(kRowsResidual, kNoValue);
  joined.inputs[0] = x;
  joined.inputs.push_back(residual);
  return joined;
}

double flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 5.0 * static_cast<double>(element_count(inputs[0].shape));
}

// Gradients

std::vector<Value> gradient_softmax(const Backward& back) {
  const Value y = back.outputs[0], g = back.gradients[0];
  return {y * (g - reduce_sum(g * y, {{back.node.attrs.integer("axis")}, true}))};
}

std::vector<Value> gradient_log_softmax(const Backward& back) {
  const Value g = back.gradients[0];
  return {g - exp(back.outputs[0]) * reduce_sum(g, {{back.node.attrs.integer("axis", -1)}, true})};
}

// With h = (x - mean) / deviation, of a gradient k of h: (k - mean k - h mean(k h)) / deviation, without the means
// where x is not centred.
std::vector<Value> gradient_norm(const Backward& back, bool centred) {
  const size_t at = centred ? 3 : 2;  // of the residual
  const bool summed = back.inputs.size() > at;
  const Value x = summed ? back.inputs[0] + back.inputs[at] : back.inputs[0];
  const Value g = back.gradients[0] ? back.gradients[0] : affine(x, 0, 0);
  const size_t axis = axis_of(back.node, x.shape());
  const Reduce over{axes_from(axis, x.shape().size()), true};
  const Value centre = centred ? x - reduce_mean(x, over) : x;
  const Value scale = rsqrt(affine(reduce_mean(square(centre), over), 1, eps_of(back.node)));
  const Value h = centre * scale;
  std::vector<Value> gradients(back.inputs.size());
  if (back.wanted[0] || (summed && back.wanted[at])) {
    const bool weighted = back.inputs.size() > 1 && back.inputs[1];
    const Value k = weighted ? g * back.inputs[1] : g;
    const Value rest = k - h * reduce_mean(k * h, over);
    gradients[0] = (centred ? rest - reduce_mean(k, over) : rest) * scale;
    if (summed && back.gradients[1]) gradients[0] = gradients[0] + back.gradients[1];
    if (summed) gradients[at] = gradients[0];
  }
  if (back.inputs.size() > 1 && back.wanted[1]) gradients[1] = sum_to(g * h, back.inputs[1].shape());
  if (centred && back.inputs.size() > 2 && back.wanted[2]) gradients[2] = sum_to(g, back.inputs[2].shape());
  return gradients;
}

std::vector<Value> gradient_layer_norm(const Backward& back) { return gradient_norm(back, true); }
std::vector<Value> gradient_rms_norm(const Backward& back) { return gradient_norm(back, false); }

}  // namespace

RowKind row_kind(const Node& node) {
  const std::string& name = node.attrs.text("kind");
  const char* const names[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (name == names[i]) return static_cast<RowKind>(i);
  fail(ErrorCode::InvalidGraph, node.op, "kind is '", name, "', expected softmax, log_softmax, layer_norm or rms_norm");
}

ValueId add_rows(Graph& graph, const Node& node, ValueId x, int64_t extent, const std::string& kind,
                 const std::vector<ValueId>& affine) {
  return extent > kLongestRow ? kNoValue : add_rows_of(graph, node, x, extent, kind, affine, kNoValue).front();
}

const OpDef kSoftmax = {
    .name = "softmax",
    .infer = infer_softmax,
    .reference = reference_softmax,
    .keeps_order = [](const Node& node, const Shape& input) -> std::optional<size_t> { return axis_of(node, input); },
    .gradient = gradient_softmax,
    .decompose = decompose_softmax,
    .flops = flops,
};

const OpDef kLogSoftmax = {
    .name = "log_softmax",
    .infer = infer_log_softmax,
    .reference = reference_log_softmax,
    .keeps_order = [](const Node& node, const Shape& input) -> std::optional<size_t> { return axis_of(node, input); },
    .gradient = gradient_log_softmax,
    .decompose = decompose_log_softmax,
    .flops = flops,
};

const OpDef kLayerNorm = {
    .name = "layer_norm",
    .infer = infer_layer_norm,
    .reference = reference_layer_norm,
    .gradient = gradient_layer_norm,
    .decompose = decompose_layer_norm,
    .flops = flops,
};

const OpDef kRmsNorm = {
    .name = "rms_norm",
    .infer = infer_rms_norm,
    .reference = reference_rms_norm,
    .gradient = gradient_rms_norm,
    .decompose = decompose_rms_norm,
    .flops = flops,
};

const OpDef kRows = {
    .name = "rows",
    .infer = infer_rows,
    .reference = reference_rows,
    .with_residual = with_residual,
    .decompose = decompose_rows,
    .has_kernel = true,
    .flops = flops,
};

}  // namespace gyrus
