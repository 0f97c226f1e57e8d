#include "ops/matmul.h"

#include <algorithm>

#include "graph/rewriter.h"
#include "ops/building.h"
#include "ops/common.h"
#include "ops/fused.h"

namespace gyrus {
namespace {

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Shape result_shape(const Matmul& matmul) {
  Shape shape = matmul.batch;
  shape.push_back(matmul.m);
  shape.push_back(matmul.n);
  return shape;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 2, 3, {"transpose_a", "transpose_b", "halves"});
  expect_float(node, inputs[0], "a");
  expect_float(node, inputs[1], "b");
  const Matmul matmul = matmul_of(node, inputs[0].shape, inputs[1].shape);
  if (has_input(node, inputs, 2)) {
    expect_float(node, inputs[2], "bias");
    if (inputs[2].shape != Shape{matmul.n})
      fail(ErrorCode::InvalidGraph, node.op, "bias is ", to_string(inputs[2].shape), ", expected [", matmul.n, "]");
  }
  const DType dtype = common_dtype(node, {inputs[0], inputs[1]});
  return infer_behind(node, {dtype, result_shape(matmul), Layout::Plain}, inputs);
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &a = *inputs[0], &b = *inputs[1];
  const Matmul matmul = matmul_of(node, a.shape, b.shape);
  const int64_t m = matmul.m, n = matmul.n, k = matmul.k;
  RefTensor raw{result_shape(matmul), {}};
  raw.data.resize(static_cast<size_t>(element_count(raw.shape)));
  double* out = raw.data.data();
  // Strides in matrices: which one of a and of b makes each matrix of the result.
  const std::vector<int64_t> a_strides = broadcast_strides(batch_of(a.shape), matmul.batch);
  const std::vector<int64_t> b_strides = broadcast_strides(batch_of(b.shape), matmul.batch);
  walk(matmul.batch, {a_strides, b_strides}, {0, 0}, [&](const std::vector<int64_t>& at) {
    const double *left = a.data.data() + at[0] * m * k, *right = b.data.data() + at[1] * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = has_input(inputs, 2) ? inputs[2]->data[static_cast<size_t>(j)] : 0;
        for (int64_t l = 0; l < k; ++l)
          sum += left[matmul.transpose_a ? l * m + i : i * k + l] * right[matmul.transpose_b ? j * k + l : l * n + j];
        *out++ = sum;
      }
  });
  outputs = reference_behind(node, std::move(raw), inputs);
}

// A product and the sum with a bias behind it.
ValueId from_parts(Rewriter& rewrite, const Node& last) {
  if (last.op != "add") return kNoValue;
  const Graph& graph = rewrite.old();
  for (size_t i = 0; i < 2; ++i) {
    const ValueId product = last.inputs[i], bias = last.inputs[1 - i];
    const Node* maker = rewrite.uses(product) == 1 ? rewrite.old_maker(product) : nullptr;
    if (!maker || maker->op != "matmul" || maker->inputs.size() != 2 || !maker->body.empty()) continue;
    const TensorType &type = graph.type(product), &given = graph.type(bias);
    const int64_t n = type.shape.back();
    if (graph.type(last.outputs[0]) != type || given.dtype != type.dtype || given.shape.empty() ||
        given.shape.back() != n || element_count(given.shape) != n)
      continue;
    Node joined = rewrite.mapped(*maker);
    ValueId row = rewrite(bias);
    if (given.shape.size() > 1) row = rewrite.graph().add("reshape", {row}, {{"shape", Shape{n}}}, last.label);
    joined.inputs.push_back(row);
    return rewrite.graph().add_node(std::move(joined)).front();
  }
  return kNoValue;
}

// Columns of the constants side by side, with zeros for those that are absent: [rows, n] each.
ValueId side_by_side(Graph& graph, const std::vector<ValueId>& parts, const std::vector<int64_t>& widths, int64_t rows,
                     bool flat) {
  int64_t all = 0;
  for (int64_t width : widths) all += width;
  Tensor joined(DType::F32, flat ? Shape{all} : Shape{rows, all});
  for (int64_t row = 0, at = 0; row < rows; ++row)
    for (size_t i = 0; i < parts.size(); at += widths[i++]) {
      if (parts[i] == kNoValue) continue;
      const float* from = graph.constant(parts[i]).as<float>() + row * widths[i];
      std::copy(from, from + widths[i], joined.as<float>() + at);
    }
  return graph.add_constant("", std::move(joined));
}

// Beyond this what is joined may be more than a binding holds.
constexpr int64_t kMostJoined = int64_t{1} << 24;  // elements

std::optional<Node> with_others(Graph& graph, const std::vector<Node>& nodes) {
  Node joined = nodes.front();
  std::vector<ValueId> weights, biases;
  std::vector<int64_t> widths;
  int64_t elements = 0;
  for (const Node& node : nodes) {
    const TensorType& b = graph.type(node.inputs[1]);
    const ValueId bias = node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
    const auto is_plain = [&](ValueId id) { return graph.is_constant(id) && graph.type(id).dtype == DType::F32; };
    if (!node.body.empty() || node.inputs.size() > 3 || b.shape.size() != 2 || !is_plain(node.inputs[1]) ||
        (bias != kNoValue && !is_plain(bias)) || flag(node, "transpose_b") ||
        flag(node, "transpose_a") != flag(joined, "transpose_a"))
      return std::nullopt;
    weights.push_back(node.inputs[1]);
    biases.push_back(bias);
    widths.push_back(b.shape[1]);
    elements += element_count(b.shape);
  }
  if (elements > kMostJoined) return std::nullopt;
  joined.inputs = {joined.inputs[0], side_by_side(graph, weights, widths, graph.type(weights[0]).shape[0], false)};
  if (std::any_of(biases.begin(), biases.end(), [](ValueId id) { return id != kNoValue; }))
    joined.inputs.push_back(side_by_side(graph, biases, widths, 1, true));
  return joined;
}

double flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  const double elements = static_cast<double>(element_count(outputs[0].shape));
  const double k = static_cast<double>(matmul_of(node, inputs[0].shape, inputs[1].shape).k);
  return elements * (2 * k + static_cast<double>(node.body.size()));
}

// All matrices of x as one, where they are stacked by rows.
Value as_one(Value x) { return reshape(x, {-1, x.shape().back()}); }

std::vector<Value> gradient(const Backward& back) {
  const Value a = back.inputs[0], b = back.inputs[1], g = back.gradients[0];
  const bool ta = flag(back.node, "transpose_a"), tb = flag(back.node, "transpose_b");
  std::vector<Value> gradients(back.inputs.size());
  if (back.wanted[0]) {
    const Value full = ta ? matmul(b, g, {.transpose_a = tb, .transpose_b = true})
                          : matmul(g, b, {.transpose_a = false, .transpose_b = !tb});
    gradients[0] = sum_to(full, a.shape());
  }
  if (back.wanted[1]) {
    // One matrix that all share: their rows are summed in one product.
    const bool shared = b.shape().size() == 2 && a.shape().size() > 2 && !ta;
    const Value left = shared ? as_one(a) : a, right = shared ? as_one(g) : g;
    const Value full = tb ? matmul(right, left, {.transpose_a = true, .transpose_b = ta})
                          : matmul(left, right, {.transpose_a = !ta, .transpose_b = false});
    gradients[1] = sum_to(full, b.shape());
  }
  if (gradients.size() > 2 && back.wanted[2]) gradients[2] = sum_to(g, back.inputs[2].shape());
  return gradients;
}

}  // namespace

Matmul matmul_of(const Node& node, const Shape& a, const Shape& b) {
  if (a.size() < 2 || b.size() < 2)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(a), " and ", to_string(b),
         ", expected two axes or more each");
  Matmul matmul;
  matmul.transpose_a = flag(node, "transpose_a");
  matmul.transpose_b = flag(node, "transpose_b");
  const int64_t a_rows = a[a.size() - 2], a_columns = a.back(), b_rows = b[b.size() - 2], b_columns = b.back();
  matmul.m = matmul.transpose_a ? a_columns : a_rows;
  matmul.k = matmul.transpose_a ? a_rows : a_columns;
  matmul.n = matmul.transpose_b ? b_rows : b_columns;
  const int64_t b_inner = matmul.transpose_b ? b_columns : b_rows;
  if (matmul.k != b_inner)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(a), " and ", to_string(b), ": sums go over ",
         matmul.k, " elements of a and ", b_inner, " of b, expected as many");
  matmul.batch = broadcast(node, batch_of(a), batch_of(b));
  return matmul;
}

const OpDef kMatmul = {
    .name = "matmul",
    .infer = infer,
    .reference = reference,
    .takes_body = [](const Node&) { return true; },
    .own_inputs = 3,
    .reads_further = true,
    .transposes = {"transpose_a", "transpose_b"},
    .with_others = with_others,
    .gradient = gradient,
    .from_parts = from_parts,
    .multiplies = true,
    .flops = flops,
};

}  // namespace gyrus
