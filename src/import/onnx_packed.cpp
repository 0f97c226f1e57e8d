#include "import/onnx_packed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor.h"
#include "graph/op.h"

// In a program without the ops for packed weights nothing is packed, and no code for it is there.

namespace gyrus::onnx {
namespace {

constexpr int64_t kSharing = 16;  // groups are multiples of it

// Element i of integers as they are held.
int64_t element(const Tensor& tensor, int64_t i) {
  return tensor.dtype == DType::U8 ? tensor.as<uint8_t>()[i] : tensor.as<int32_t>()[i];
}

bool is_zero(double value) { return value >= 0 && value <= 255 && value == std::floor(value); }

BlockType type_of(Elem elem) { return elem == Elem::I4 || elem == Elem::U4 ? BlockType::U4 : BlockType::U8; }

int64_t offset_of(Elem elem) { return elem == Elem::I4 ? 8 : elem == Elem::I8 ? 128 : 0; }

}  // namespace

std::optional<PackedMatrix> packed(Graph& graph, const Integers& from) {
  if constexpr (!kPacked) return {};
  const uint32_t bits = integer_bits(from.type), in_byte = 8 / bits;
  BlockMatrix matrix{from.type, from.rows, from.columns, std::min(from.group, from.columns)};
  if (from.rows < 1 || from.columns < 1 || (matrix.group < from.columns && matrix.group % kSharing != 0)) return {};
  const int64_t groups = matrix.integer_row().groups();
  for (int64_t row = 0; from.zero && row < from.rows; ++row)
    for (int64_t g = 0; g < groups; ++g) {
      const double zero = from.zero(row, g);
      if (!is_zero(zero)) return {};
      matrix.zeros = matrix.zeros || zero != 1 << (bits - 1);
    }
  const IntegerRow layout = matrix.integer_row();
  if (layout.bytes() >= static_cast<uint64_t>(from.columns) * sizeof(float)) return {};
  Tensor words(DType::U32, matrix.shape());
  for (int64_t row = 0; row < from.rows; ++row) {
    auto* const bytes = words.as<uint8_t>() + static_cast<uint64_t>(row) * layout.bytes();
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = from.scale(row, g);
      std::memcpy(bytes + g * 4, &scale, sizeof scale);
      if (matrix.zeros) bytes[layout.zeros_at() + g] = static_cast<uint8_t>(from.zero(row, g));
    }
    auto* const values = bytes + layout.values_at();
    for (int64_t i = 0; i < from.columns; ++i)
      values[i / in_byte] |= static_cast<uint8_t>(from.value(row, i) << (i % in_byte * bits));
  }
  return PackedMatrix{matrix, constant(graph, std::move(words))};
}

Val packed_product(Val x, const PackedMatrix& weights, Val bias) {
  if constexpr (!kPacked) return x;
  const BlockMatrix& m = weights.matrix;
  if (x.rank() == 0 || x.extent(-1) != m.columns)
    invalid(cat("multiplies ", gyrus::to_string(x.shape()), " by a matrix of ", m.columns, " rows"));
  const Val y = op("block_matmul", {cast(x, Elem::F32), weights.words, {}, {}, bias},
                   {{"formats", Ints{static_cast<int64_t>(m.type)}},
                    {"rows", Ints{m.rows}},
                    {"groups", Ints{m.group}},
                    {"zeros", Ints{m.zeros}}});
  return cast(as(y, Elem::F32), x.elem);
}

Val packed_rows(Val at, const PackedMatrix& weights) {
  if constexpr (!kPacked) return at;
  const BlockMatrix& m = weights.matrix;
  Shape shape = at.shape();
  Val places = reshape(cast(at, Elem::I32), {at.size()});
  places = op("where", {op("less", {places, scalar(places, 0)}), places + static_cast<double>(m.rows), places});
  const Val y = op("block_rows", {weights.words, places},
                   {{"format", static_cast<int64_t>(m.type)},
                    {"rows", m.rows},
                    {"columns", m.columns},
                    {"group", m.group},
                    {"zeros", int64_t{m.zeros}}});
  shape.push_back(m.columns);
  return reshape(as(y, Elem::F32), shape);
}

std::optional<PackedMatrix> Dequantized::matrix(size_t rows_axis) const {
  if constexpr (!kPacked) return {};
  const size_t across = turned ? 1 - rows_axis : rows_axis, along = 1 - across;  // axes of values
  std::optional<PackedMatrix>& known = made->at(across);
  if (known) return known;
  const bool one = scales.size() == 1;
  if (!one && axis == along && block == 0) return {};  // a scale for each column
  if (!one && axis == across && block != 0) return {};
  const Tensor &q = values.constant(), &s = scales.constant();
  const Shape shape = values.shape();
  const int64_t width = shape[1], blocks = scales.rank() == 2 ? scales.shape()[1] : 0;
  const auto place = [&, across](int64_t row, int64_t column) {
    return across == 0 ? row * width + column : column * width + row;
  };
  const auto shared = [&, across](int64_t row, int64_t g) {
    return one ? 0 : block == 0 ? row : across == 0 ? row * blocks + g : g * blocks + row;
  };
  Integers from;
  from.type = type_of(values.elem);
  from.rows = shape[across];
  from.columns = shape[along];
  from.group = one || block == 0 ? from.columns : block;
  const int64_t offset = offset_of(values.elem);
  from.value = [&](int64_t row, int64_t i) { return static_cast<uint32_t>(element(q, place(row, i)) + offset); };
  from.scale = [&](int64_t row, int64_t g) { return static_cast<float>(get(s, shared(row, g))); };
  from.zero = [&](int64_t row, int64_t g) {
    return static_cast<double>((zeros ? element(zeros.constant(), zeros.size() == 1 ? 0 : shared(row, g)) : 0) +
                               offset);
  };
  known = packed(*values.graph, from);
  return known;
}

}  // namespace gyrus::onnx
