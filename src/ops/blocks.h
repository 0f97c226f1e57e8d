#pragma once
#include <array>

#include "core/blocks.h"
#include "graph/op.h"

// Products with weights, and rows of weights, that stay in the blocks of a GGUF file or in integers with scales
// (core/blocks.h).

namespace gyrus {

// A matrix [n, k] in blocks as a value: its bytes, row by row, as u32 [1, 1, groups, words]. Rows lie in groups of as
// many as make whole words, so that memory is cut between them; the bytes behind the last row mean nothing.
struct BlockMatrix {
  BlockType type = BlockType::F32;
  int64_t rows = 0, columns = 0;
  int64_t group = 0;   // of integers: columns that share a scale
  bool zeros = false;  // of integers: whether there is a zero for each scale

  bool integers() const { return integer_bits(type) != 0; }
  IntegerRow integer_row() const { return {type, columns, group, zeros}; }
  // `columns` floats of the bytes of a row.
  void decode(const std::byte* row, float* out) const;

  uint64_t row_bytes() const;
  int64_t rows_in_group() const;
  Shape shape() const;  // of the value
};

// y[…, n] = bias[n] + sum over k of x[…, k] w[n, k]: x f32, up to three matrices w whose results follow one another,
// bias [n of all] or none. With `experts` (i32 [rows, used]) the one matrix holds `rows` rows for each expert, x is
// [rows, k] or [rows, used, k], and y [rows, used, n] is made by the expert that it names. `formats`: the number of the
// block format (BlockType) of each matrix; `rows`: its n; of integers also `groups` and `zeros` (BlockMatrix). May
// carry a body.
struct BlockMatmul {
  static constexpr size_t kMostMatrices = 3, kBias = 4, kExperts = 5;  // places of operands; x is 0, matrices are 1 …
  std::vector<BlockMatrix> matrices;
  int64_t n = 0;  // of all matrices
  int64_t k = 0;
  int64_t expert_count = 1;
  Shape result;
};
BlockMatmul block_matmul_of(const Node& node, const std::vector<TensorType>& inputs);
extern const OpDef kBlockMatmul;

// The same of x / rms(x) * gamma: x f32 [rows, k], gamma f32 [k], up to three matrices, bias or none; `eps`. With `act`
// (as of gated) the one matrix holds the rows of a gate and then as many others: y = act(gate) * other. A composite: of
// few rows one kernel, else a norm, a product and its gate.
struct BlockNormed {
  static constexpr size_t kGamma = 1;  // place of the operand; x is 0, the product's own come behind
  Node product;                        // the block_matmul of x itself
  double eps = 1e-6;
  std::string act;
};
BlockNormed block_normed_of(const Node& node);
extern const OpDef kBlockNormed;

// y[i] = scale * row indices[i] of w [rows, k]: f32 [count, k]. indices i32 [count], or [count, n] of which `column`
// counts. `format`, `group`, `zeros`: as above; `rows`, `columns` (k), `scale` = 1. An index outside is an error, but
// with clamp = 1 a negative one is 0.
extern const OpDef kBlockRows;
BlockMatrix block_rows_of(const Node& node, const TensorType& matrix);

// y = act(x[…, :n]) * x[…, n:] of x [rows, 2 n]; `act` is "silu", "gelu" or "gelu_tanh".
extern const OpDef kGated;

}  // namespace gyrus
