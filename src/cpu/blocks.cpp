// Products with matrices in blocks, and rows of them: rows are unpacked a few at a time, so that the matrix stays
// packed in memory.
#include <algorithm>
#include <memory>

#include "core/error.h"
#include "cpu/epilogue.h"
#include "cpu/matmul.h"
#include "ops/blocks.h"
#include "ops/common.h"

namespace gyrus::cpu {
namespace {

constexpr int64_t kTogether = 32;  // rows of a matrix that are unpacked at a time
constexpr int64_t kFew = 4;        // rows of x that do not pay for tiles

// Sums of every 16th product first, as lanes would.
float dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  for (; i < count; ++i) sums[i % kLanes] += a[i] * b[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

// Some rows of one matrix.
struct Part {
  size_t matrix = 0;
  int64_t first = 0, count = 0;
  int64_t column = 0;  // of the result
};

struct Product {
  BlockMatmul matmul;
  int64_t rows = 0;  // of x
  bool biased = false;
  std::vector<Part> parts;
  Epilogue epilogue;

  void run(const Part& part, const Places& at, float* out, ThreadPool& pool) const {
    thread_local std::vector<float> unpacked, made;
    const BlockMatrix& matrix = matmul.matrices[part.matrix];
    const int64_t k = matmul.k;
    unpacked.resize(static_cast<size_t>(part.count * k));
    for (int64_t i = 0; i < part.count; ++i)
      matrix.decode(at.inputs[1 + part.matrix] + static_cast<uint64_t>(part.first + i) * matrix.row_bytes(),
                    unpacked.data() + i * k);
    const float *x = floats(at.inputs[0]),
                *bias = biased ? floats(at.inputs[BlockMatmul::kBias]) + part.column : nullptr;
    if (rows <= kFew) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < part.count; ++i)
          out[r * matmul.n + part.column + i] = dot(x + r * k, unpacked.data() + i * k, k) + (bias ? bias[i] : 0);
      return;
    }
    made.resize(static_cast<size_t>(rows * part.count));
    MatmulShape shape;
    shape.m = rows, shape.n = part.count, shape.k = k, shape.transpose_b = true, shape.shares = 1;
    run_matmul(prepare_matmul(shape), x, unpacked.data(), bias, made.data(), pool);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(made.data() + r * part.count, part.count, out + r * matmul.n + part.column);
  }
};

}  // namespace

Prepared prepare_block_product(const Graph& graph, const Node& node, const KernelOptions&) {
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) types.push_back(id == kNoValue ? TensorType{} : graph.type(id));
  BlockMatmul matmul = block_matmul_of(node, types);
  const int64_t rows = element_count(matmul.result) / matmul.n;
  if (rows == 0 || has_input(node, types, BlockMatmul::kExperts)) return prepare_generic(graph, node, {});
  std::vector<Part> parts;
  int64_t column = 0;
  for (size_t m = 0; m < matmul.matrices.size(); ++m)
    for (int64_t first = 0; first < matmul.matrices[m].rows; first += kTogether) {
      const int64_t count = std::min(kTogether, matmul.matrices[m].rows - first);
      parts.push_back({m, first, count, column});
      column += count;
    }
  const Shape raw = matmul.result;
  const bool biased = has_input(node, types, BlockMatmul::kBias);
  const auto state = std::make_shared<const Product>(
      Product{std::move(matmul), rows, biased, std::move(parts), Epilogue(graph, node, raw)});
  Prepared made;
  made.kernel = "block_matmul";
  if (!state->epilogue.in_place()) made.scratch = static_cast<uint64_t>(element_count(raw)) * 4;
  made.run = [state](const Places& at, ThreadPool& pool) {
    const Epilogue& epilogue = state->epilogue;
    float* out = epilogue.in_place() ? floats(at.outputs[0]) : floats(at.scratch);
    pool.parallel_for(static_cast<int64_t>(state->parts.size()),
                      [&](int64_t i) { state->run(state->parts[static_cast<size_t>(i)], at, out, pool); });
    if (!epilogue.empty()) epilogue.run_all(at, out, pool);
  };
  return made;
}

Prepared prepare_block_rows(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    BlockMatrix matrix;
    int64_t count, stride, column;
    float scale;
    bool clamp;
    std::string subject;
  };
  const Shape& indices = graph.type(node.inputs[1]).shape;
  const State state{block_rows_of(node, graph.type(node.inputs[0])),
                    indices[0],
                    indices.size() == 2 ? indices[1] : 1,
                    node.attrs.integer("column", 0),
                    static_cast<float>(node.attrs.number("scale", 1)),
                    flag(node, "clamp"),
                    subject_of(node)};
  Prepared made;
  made.kernel = "block_rows";
  made.run = [state](const Places& at, ThreadPool& pool) {
    const auto* words = reinterpret_cast<const int32_t*>(at.inputs[1]);
    pool.parallel_for(state.count, [&](int64_t i) {
      int64_t index = words[i * state.stride + state.column];
      if (state.clamp) index = std::max<int64_t>(index, 0);
      if (index < 0 || index >= state.matrix.rows)
        fail(ErrorCode::InvalidInput, state.subject, "index ", index, " is out of range: the extent is ",
             state.matrix.rows);
      float* out = floats(at.outputs[0]) + i * state.matrix.columns;
      state.matrix.decode(at.inputs[0] + static_cast<uint64_t>(index) * state.matrix.row_bytes(), out);
      for (int64_t k = 0; k < state.matrix.columns; ++k) out[k] *= state.scale;
    });
  };
  return made;
}

}  // namespace gyrus::cpu
