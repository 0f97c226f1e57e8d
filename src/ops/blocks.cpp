#include "ops/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "ops/common.h"
#include "ops/fused.h"

namespace gyrus {
namespace {

constexpr std::array kWithKernel = {
    BlockType::F32,    BlockType::F16,    BlockType::BF16, BlockType::Q4_0,  BlockType::Q4_1,
    BlockType::Q5_0,   BlockType::Q5_1,   BlockType::Q8_0, BlockType::Q2_K,  BlockType::Q3_K,
    BlockType::Q4_K,   BlockType::Q5_K,   BlockType::Q6_K, BlockType::MXFP4, BlockType::NVFP4,
    BlockType::IQ4_NL, BlockType::IQ4_XS, BlockType::U2,   BlockType::U4,    BlockType::U8,
};
constexpr int64_t kLeastGroup = 16;  // integers that kernels unpack with one scale

BlockType type_of(const Node& node, int64_t number) {
  for (const BlockType type : {BlockType::U2, BlockType::U4, BlockType::U8})
    if (number == static_cast<int64_t>(type)) return type;
  const BlockFormat* format = number >= 0 ? find_block_format(static_cast<uint32_t>(number)) : nullptr;
  if (!format) fail(ErrorCode::InvalidGraph, node.op, "there is no block format of number ", number);
  if (std::find(kWithKernel.begin(), kWithKernel.end(), format->type) == kWithKernel.end())
    fail(ErrorCode::Unsupported, node.op, "weights in ", format->name,
         " have no kernel; use a file in Q4_0, Q4_K, Q6_K, Q8_0, F16 or another usual format");
  return format->type;
}

BlockMatrix matrix_of(const Node& node, BlockMatrix matrix, const TensorType& given) {
  const int64_t rows = matrix.rows, columns = matrix.columns, group = matrix.group;
  const BlockFormat& block = block_format(matrix.type);
  const bool grouped = group > 0 && group <= columns && (group == columns || group % kLeastGroup == 0);
  if (matrix.integers() ? !grouped : group != 0 || matrix.zeros)
    fail(ErrorCode::InvalidGraph, node.op, "groups of ", group, " of ", columns, " columns in ", block.name,
         "; expected a multiple of ", kLeastGroup, ", or all of them, of integers, and 0 of other formats");
  if (rows <= 0 || columns <= 0 || (!matrix.integers() && columns % block.elements != 0))
    fail(ErrorCode::InvalidGraph, node.op, "a matrix of ", rows, " rows of ", columns, " elements is not made of ",
         block.name, " blocks of ", block.elements);
  if (given.dtype != DType::U32 || given.shape != matrix.shape())
    fail(ErrorCode::InvalidGraph, node.op, "the matrix is ", to_string(given.dtype), to_string(given.shape),
         ", expected u32", to_string(matrix.shape()), " for ", rows, " rows of ", columns, " elements in ", block.name);
  return matrix;
}

// Row `row` of the matrix as numbers.
std::vector<float> unpacked_row(const BlockMatrix& matrix, const RefTensor& words, int64_t row) {
  const uint64_t bytes = matrix.row_bytes(), begin = static_cast<uint64_t>(row) * bytes;
  std::vector<std::byte> raw(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    const auto word = static_cast<uint32_t>(words.data[(begin + i) / 4]);
    raw[i] = static_cast<std::byte>(word >> ((begin + i) % 4 * 8));
  }
  std::vector<float> values(static_cast<size_t>(matrix.columns));
  matrix.decode(raw.data(), values.data());
  return values;
}

std::vector<TensorType> infer_matmul(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 2, 6, {"formats", "rows", "expert_count", "groups", "zeros", "halves"});
  const BlockMatmul matmul = block_matmul_of(node, inputs);
  return infer_behind(node, {DType::F32, matmul.result, Layout::Plain}, inputs);
}

void reference_matmul(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  std::vector<TensorType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool words = i >= 1 && i <= BlockMatmul::kMostMatrices;
    types.push_back({words                        ? DType::U32
                     : i == BlockMatmul::kExperts ? DType::I32
                                                  : DType::F32,
                     inputs[i] ? inputs[i]->shape : Shape{}, Layout::Plain});
  }
  const BlockMatmul matmul = block_matmul_of(node, types);
  const RefTensor& x = *inputs[0];
  const RefTensor* experts = has_input(inputs, BlockMatmul::kExperts) ? inputs[BlockMatmul::kExperts] : nullptr;
  const RefTensor* bias = has_input(inputs, BlockMatmul::kBias) ? inputs[BlockMatmul::kBias] : nullptr;
  RefTensor raw{matmul.result, {}};
  raw.data.resize(static_cast<size_t>(element_count(raw.shape)));
  const int64_t rows = element_count(matmul.result) / std::max<int64_t>(1, matmul.n);
  const int64_t shared_by = rows / std::max<int64_t>(1, element_count(x.shape) / matmul.k);
  int64_t column = 0;
  for (size_t m = 0; m < matmul.matrices.size(); ++m) {
    const BlockMatrix& matrix = matmul.matrices[m];
    const int64_t own = matrix.rows / matmul.expert_count;
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const std::vector<float> w = unpacked_row(matrix, *inputs[1 + m], row);
      const int64_t n = column + row % own;
      for (int64_t r = 0; r < rows; ++r) {
        if (experts && static_cast<int64_t>(experts->data[static_cast<size_t>(r)]) != row / own) continue;
        double sum = bias ? bias->data[static_cast<size_t>(n)] : 0;
        const double* from = x.data.data() + r / shared_by * matmul.k;
        for (int64_t k = 0; k < matmul.k; ++k) sum += from[k] * w[static_cast<size_t>(k)];
        raw.data[static_cast<size_t>(r * matmul.n + n)] = sum;
      }
    }
    column += own;
  }
  outputs = reference_behind(node, std::move(raw), inputs);
}

double flops_matmul(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const BlockMatmul matmul = block_matmul_of(node, inputs);
  return 2.0 * static_cast<double>(element_count(matmul.result)) * static_cast<double>(matmul.k);
}

std::vector<TensorType> infer_rows(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"format", "rows", "columns", "column", "scale", "clamp", "group", "zeros"});
  const BlockMatrix matrix = block_rows_of(node, inputs[0]);
  const Shape& indices = inputs[1].shape;
  const int64_t column = node.attrs.integer("column", 0);
  if (inputs[1].dtype != DType::I32 || indices.empty() || indices.size() > 2 || column < 0 ||
      column >= (indices.size() == 2 ? indices[1] : 1))
    fail(ErrorCode::InvalidGraph, node.op, "indices are ", to_string(inputs[1].dtype), to_string(indices),
         " of which column ", column, " is asked for, expected i32 [count] or [count, columns]");
  return {{DType::F32, {indices[0], matrix.columns}, Layout::Plain}};
}

void reference_rows(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const BlockMatrix matrix = block_rows_of(node, {DType::U32, inputs[0]->shape, Layout::Plain});
  const RefTensor& indices = *inputs[1];
  const int64_t stride = indices.shape.size() == 2 ? indices.shape[1] : 1;
  const double scale = node.attrs.number("scale", 1);
  for (int64_t i = 0; i < indices.shape[0]; ++i) {
    auto row = static_cast<int64_t>(indices.data[static_cast<size_t>(i * stride + node.attrs.integer("column", 0))]);
    if (flag(node, "clamp")) row = std::max<int64_t>(row, 0);
    if (row < 0 || row >= matrix.rows)
      fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "index ", row, " is outside an axis of ",
           matrix.rows);
    const std::vector<float> values = unpacked_row(matrix, *inputs[0], row);
    for (size_t k = 0; k < values.size(); ++k)
      outputs[0].data[static_cast<size_t>(i * matrix.columns) + k] = scale * values[k];
  }
}

std::vector<TensorType> infer_gated(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"act"});
  const Shape& x = inputs[0].shape;
  const std::string& act = node.attrs.text("act");
  if (act != "silu" && act != "gelu" && act != "gelu_tanh")
    fail(ErrorCode::Unsupported, node.op, "act is \"", act, "\", expected silu, gelu or gelu_tanh");
  if (inputs[0].dtype != DType::F32 || x.empty() || x.back() % 2 != 0)
    fail(ErrorCode::InvalidGraph, node.op, "x is ", to_string(inputs[0].dtype), to_string(x),
         ", expected f32 with two halves along the last axis");
  Shape shape = x;
  shape.back() /= 2;
  return {{DType::F32, shape, Layout::Plain}};
}

double activated(const std::string& act, double x) {
  if (act == "silu") return x / (1 + std::exp(-x));
  if (act == "gelu") return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

void reference_gated(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const std::vector<double>& x = inputs[0]->data;
  const auto n = static_cast<size_t>(outputs[0].shape.back());
  for (size_t i = 0; i < outputs[0].data.size(); ++i) {
    const size_t at = i / n * 2 * n + i % n;
    outputs[0].data[i] = activated(node.attrs.text("act"), x[at]) * x[at + n];
  }
}

std::vector<TensorType> infer_normed(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 6, {"formats", "rows", "eps", "act", "halves"});
  const BlockNormed normed = block_normed_of(node);
  std::vector<TensorType> own = inputs;
  own.erase(own.begin() + BlockNormed::kGamma);
  Shape shape = block_matmul_of(normed.product, own).result;
  const TensorType& gamma = inputs[BlockNormed::kGamma];
  if (gamma.dtype != DType::F32 || gamma.shape != Shape{inputs[0].shape.back()})
    fail(ErrorCode::InvalidGraph, node.op, "gamma is ", to_string(gamma.dtype), to_string(gamma.shape),
         ", expected f32 [", inputs[0].shape.back(), "]");
  if (normed.act.empty()) return {{DType::F32, shape, Layout::Plain}};
  if (node.attrs.integers("rows").size() != 1)
    fail(ErrorCode::InvalidGraph, node.op, "a gate is asked for of several matrices, expected one");
  Node gate;
  gate.op = "gated";
  gate.inputs = {node.inputs[0]};
  gate.attrs = {{"act", normed.act}};
  return infer_gated(gate, {{DType::F32, shape, Layout::Plain}});
}

std::vector<ValueId> decompose_normed(Graph& graph, const Node& node) {
  BlockNormed normed = block_normed_of(node);
  normed.product.inputs[0] = graph.add("rms_norm", {node.inputs[0], node.inputs[BlockNormed::kGamma]},
                                       {{"axis", int64_t{-1}}, {"eps", normed.eps}}, node.label);
  normed.product.outputs.clear();
  const ValueId made = graph.add_node(std::move(normed.product)).front();
  return {normed.act.empty() ? made : graph.add("gated", {made}, {{"act", normed.act}}, node.label)};
}

// By its parts, in doubles.
void reference_normed(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const BlockNormed normed = block_normed_of(node);
  RefTensor x = *inputs[0];
  const std::vector<double>& gamma = inputs[BlockNormed::kGamma]->data;
  for (size_t at = 0; at < x.data.size(); at += gamma.size()) {
    double squares = 0;
    for (size_t i = 0; i < gamma.size(); ++i) squares += x.data[at + i] * x.data[at + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(gamma.size()) + normed.eps);
    for (size_t i = 0; i < gamma.size(); ++i) x.data[at + i] *= scale * gamma[i];
  }
  std::vector<const RefTensor*> own = inputs;
  own.erase(own.begin() + BlockNormed::kGamma);
  own[0] = &x;
  std::vector<RefTensor> made(1);
  reference_matmul(normed.product, own, made);
  if (normed.act.empty()) {
    outputs = std::move(made);
    return;
  }
  Node gate;
  gate.attrs = {{"act", normed.act}};
  reference_gated(gate, {&made[0]}, outputs);
}

double flops_normed(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  std::vector<TensorType> own = inputs;
  own.erase(own.begin() + BlockNormed::kGamma);
  return flops_matmul(block_normed_of(node).product, own, outputs);
}

}  // namespace

BlockNormed block_normed_of(const Node& node) {
  BlockNormed normed;
  normed.product = node;
  normed.product.op = "block_matmul";
  normed.product.inputs.erase(normed.product.inputs.begin() + BlockNormed::kGamma);
  normed.product.attrs = {{"formats", node.attrs.integers("formats")}, {"rows", node.attrs.integers("rows")}};
  if (flag(node, "halves")) normed.product.attrs.set("halves", int64_t{1});
  normed.eps = node.attrs.number("eps", normed.eps);
  normed.act = node.attrs.text("act", "");
  return normed;
}

void BlockMatrix::decode(const std::byte* row, float* out) const {
  if (integers())
    integer_row().decode(row, out);
  else
    dequantize(type, {row, static_cast<size_t>(row_bytes())}, {out, static_cast<size_t>(columns)});
}

uint64_t BlockMatrix::row_bytes() const {
  if (integers()) return integer_row().bytes();
  return block_bytes(type, static_cast<uint64_t>(columns));
}

int64_t BlockMatrix::rows_in_group() const {
  const uint64_t bytes = row_bytes();
  return bytes % 4 == 0 ? 1 : bytes % 2 == 0 ? 2 : 4;
}

Shape BlockMatrix::shape() const {
  const int64_t together = rows_in_group();
  return {1, 1, (rows + together - 1) / together, static_cast<int64_t>(row_bytes()) * together / 4};
}

BlockMatmul block_matmul_of(const Node& node, const std::vector<TensorType>& inputs) {
  const std::vector<int64_t>& formats = node.attrs.integers("formats");
  const std::vector<int64_t>& rows = node.attrs.integers("rows");
  const std::vector<int64_t> groups = node.attrs.integers("groups", {}), zeros = node.attrs.integers("zeros", {});
  const Shape& x = inputs[0].shape;
  BlockMatmul matmul;
  matmul.expert_count = node.attrs.integer("expert_count", 1);
  const bool routed = has_input(node, inputs, BlockMatmul::kExperts);
  if (formats.empty() || formats.size() != rows.size() || formats.size() > (routed ? 1 : BlockMatmul::kMostMatrices))
    fail(ErrorCode::InvalidGraph, node.op, formats.size(), " formats and ", rows.size(),
         " numbers of rows, expected as many, and one to three (one with experts)");
  if ((!groups.empty() && groups.size() != formats.size()) || (!zeros.empty() && zeros.size() != formats.size()))
    fail(ErrorCode::InvalidGraph, node.op, "groups or zeros are not as many as matrices");
  if (inputs[0].dtype != DType::F32 || x.empty())
    fail(ErrorCode::InvalidGraph, node.op, "x is ", to_string(inputs[0].dtype), to_string(x), ", expected f32 rows");
  matmul.k = x.back();
  for (size_t m = 0; m < BlockMatmul::kMostMatrices; ++m) {
    if (has_input(node, inputs, 1 + m) != (m < formats.size()))
      fail(ErrorCode::InvalidGraph, node.op, "matrix ", m, " is ", m < formats.size() ? "absent" : "one too many");
    if (m >= formats.size()) continue;
    matmul.matrices.push_back(matrix_of(node,
                                        {type_of(node, formats[m]), rows[m] * matmul.expert_count, matmul.k,
                                         groups.empty() ? 0 : groups.at(m), !zeros.empty() && zeros.at(m) != 0},
                                        inputs[1 + m]));
    matmul.n += rows[m];
  }
  matmul.result = x;
  matmul.result.back() = matmul.n;
  if (routed) {
    const TensorType& experts = inputs[BlockMatmul::kExperts];
    const bool fits = experts.dtype == DType::I32 && experts.shape.size() == 2 && x.size() >= 2 &&
                      Shape(x.begin(), x.end() - 1) == (x.size() == 2 ? Shape{experts.shape[0]} : experts.shape);
    if (!fits)
      fail(ErrorCode::InvalidGraph, node.op, "experts are ", to_string(experts.dtype), to_string(experts.shape),
           " for x ", to_string(x), ", expected i32 [rows, used] for [rows, k] or [rows, used, k]");
    matmul.result = {experts.shape[0], experts.shape[1], matmul.n};
  } else if (matmul.expert_count != 1) {
    fail(ErrorCode::InvalidGraph, node.op, "there are ", matmul.expert_count, " experts and no operand to choose");
  }
  if (has_input(node, inputs, BlockMatmul::kBias)) {
    const TensorType& bias = inputs[BlockMatmul::kBias];
    if (bias.dtype != DType::F32 || bias.shape != Shape{matmul.n})
      fail(ErrorCode::InvalidGraph, node.op, "bias is ", to_string(bias.dtype), to_string(bias.shape),
           ", expected f32 [", matmul.n, "]");
  }
  return matmul;
}

BlockMatrix block_rows_of(const Node& node, const TensorType& matrix) {
  return matrix_of(node,
                   {type_of(node, node.attrs.integer("format")), node.attrs.integer("rows"),
                    node.attrs.integer("columns"), node.attrs.integer("group", 0), flag(node, "zeros")},
                   matrix);
}

const OpDef kBlockMatmul = {
    .name = "block_matmul",
    .infer = infer_matmul,
    .reference = reference_matmul,
    .takes_body = [](const Node&) { return true; },
    .own_inputs = 6,
    .reads_further = true,
    .multiplies = true,
    .flops = flops_matmul,
};

const OpDef kBlockNormed = {
    .name = "block_normed",
    .infer = infer_normed,
    .reference = reference_normed,
    .decompose = decompose_normed,
    .has_kernel = true,
    .multiplies = true,
    .flops = flops_normed,
};

const OpDef kBlockRows = {
    .name = "block_rows",
    .infer = infer_rows,
    .reference = reference_rows,
    .flops = no_flops,
};

const OpDef kGated = {
    .name = "gated",
    .infer = infer_gated,
    .reference = reference_gated,
    .flops = element_flops,
};

}  // namespace gyrus
