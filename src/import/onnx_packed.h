#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "import/onnx_build.h"
#include "ops/blocks.h"

// Constant integers with scales and zeros as matrices that stay packed (core/blocks.h, IntegerRow), where that is
// exact.

namespace gyrus::onnx {

struct PackedMatrix {
  BlockMatrix matrix;
  Val words;
};

// Integers without a sign, row by row, and of each group of a row the scale and the zero.
struct Integers {
  BlockType type = BlockType::U8;
  int64_t rows = 0, columns = 0, group = 0;
  std::function<uint32_t(int64_t row, int64_t column)> value;
  std::function<float(int64_t row, int64_t group)> scale;
  std::function<double(int64_t row, int64_t group)> zero;  // none: half of what values may be
};
// Nothing where a zero is no integer of a byte, groups do not suit, or f32 would take no more bytes.
std::optional<PackedMatrix> packed(Graph& graph, const Integers& integers);

// x [..., columns], f32 or f16, by the rows of the matrix; `bias` f32 [rows] or none. Sums are f32.
Val packed_product(Val x, const PackedMatrix& weights, Val bias = {});
// Rows at places of any shape; negative ones count from the end. f32.
Val packed_rows(Val at, const PackedMatrix& weights);

// What a DequantizeLinear of a constant matrix read.
struct Dequantized {
  Val values, scales, zeros;  // zeros may be absent
  size_t axis = 0;            // of scales that are no single number
  int64_t block = 0;          // elements of the axis that share one; 0: each has its own
  bool turned = false;        // its rows are columns of `values`
  std::shared_ptr<std::array<std::optional<PackedMatrix>, 2>> made = {};

  // Packed once by rows along an axis of it.
  std::optional<PackedMatrix> matrix(size_t rows_axis) const;
};

}  // namespace gyrus::onnx
