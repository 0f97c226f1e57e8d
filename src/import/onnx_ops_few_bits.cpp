// Ops of com.microsoft whose weights have a few bits each.

#include "core/tensor.h"
#include "graph/op.h"
#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

// What MatMulNBits multiplies by: a few bits for each weight, in blocks with a scale and a zero point.
struct FewBits {
  int64_t k, n, bits, block, blocks;
  const uint8_t* values;
  const Tensor *scales, *zeros;

  int64_t field(const uint8_t* bytes, int64_t i) const {
    const int64_t in_byte = 8 / bits;
    return bytes[i / in_byte] >> (i % in_byte * bits) & ((1 << bits) - 1);
  }
  int64_t value(int64_t row, int64_t i) const {
    return field(values + (row * blocks + i / block) * ceil_div(block * bits, 8), i % block);
  }
  double zero(int64_t row, int64_t b) const {
    if (!zeros) return 1 << (bits - 1);
    if (gyrus::is_float(zeros->dtype)) return get(*zeros, row * blocks + b);
    return static_cast<double>(field(zeros->as<uint8_t>() + row * ceil_div(blocks * bits, 8), b));
  }
  double scale(int64_t row, int64_t b) const { return get(*scales, row * blocks + b); }
};

FewBits few_bits(Ctx& c) {
  const int64_t k = c.integer("K"), n = c.integer("N"), bits = c.integer("bits", 4), block = c.integer("block_size");
  if (bits != 2 && bits != 4 && bits != 8) unsupported(cat(bits, " bits"));
  if (k < 1 || n < 1 || block < 1) invalid("K, N or block_size is not positive");
  for (const int64_t number : {k, n, block}) sized(number);
  if (c.has(4)) unsupported("g_idx");
  const int64_t blocks = ceil_div(k, block);
  checked_mul(n, k, "MatMulNBits");
  const Tensor &packed = c.known(1), &scales = c.known(2);
  if (packed.dtype != DType::U8 || packed.size() != n * blocks * ceil_div(block * bits, 8) ||
      scales.size() != n * blocks)
    invalid("weights or scales do not suit K, N and block_size");
  const Tensor* zeros = c.has(3) ? &c.known(3) : nullptr;
  const bool floats = zeros && gyrus::is_float(zeros->dtype);
  if (zeros && !floats && zeros->dtype != DType::U8) unsupported("zero points that are neither bytes nor floats");
  if (zeros && zeros->size() != (floats ? n * blocks : n * ceil_div(blocks * bits, 8)))
    invalid("zero points do not suit K, N and block_size");
  return {k, n, bits, block, blocks, packed.as<uint8_t>(), &scales, zeros};
}

std::optional<PackedMatrix> packed_bits(Ctx& c, const FewBits& w) {
  if (!kPacked || !c.may_pack()) return {};
  Integers from;
  from.type = w.bits == 2 ? BlockType::U2 : w.bits == 4 ? BlockType::U4 : BlockType::U8;
  from.rows = w.n;
  from.columns = w.k;
  from.group = w.block;
  from.value = [&](int64_t row, int64_t i) { return static_cast<uint32_t>(w.value(row, i)); };
  from.scale = [&](int64_t row, int64_t b) { return static_cast<float>(w.scale(row, b)); };
  from.zero = [&](int64_t row, int64_t b) { return w.zero(row, b); };
  return packed(c.graph(), from);
}

// The weights stay packed where that is exact, and become floats where not.
Vals matmul_nbits(Ctx& c) {
  const FewBits w = few_bits(c);
  const Val x = c.in(0), bias = c.opt(5);
  if (const auto packed = packed_bits(c, w)) {
    if (bias && bias.elem == Elem::F32 && bias.shape() == Shape{w.n}) return {packed_product(x, *packed, bias)};
    const Val y = packed_product(x, *packed);
    return {bias ? y + bias : y};
  }
  Tensor weight(DType::F32, {w.n, w.k});
  for (int64_t row = 0; row < w.n; ++row)
    for (int64_t i = 0; i < w.k; ++i)
      weight.as<float>()[row * w.k + i] = static_cast<float>(
          (static_cast<double>(w.value(row, i)) - w.zero(row, i / w.block)) * w.scale(row, i / w.block));
  const Val y = matmul(x, cast(constant(c.graph(), std::move(weight)), x.elem), false, true);
  return {bias ? y + bias : y};
}

// Rows of such weights; `data` are integers of 4 bits, or bytes that hold one or two.
[[maybe_unused]] Vals gather_block_quantized(Ctx& c) {
  const Val data = c.in(0), at = c.in(1), scales = c.in(2);
  const int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 128);
  if (!c.may_pack() || !data.is_constant() || data.rank() != 2 || scales.rank() != 2)
    unsupported("data that are no constant matrix");
  const bool bytes = data.elem == Elem::U8;
  if ((bits != 4 && bits != 8) || (!bytes && (bits != 4 || (data.elem != Elem::U4 && data.elem != Elem::I4))))
    unsupported(cat(bits, " bits of ", to_string(data.elem)));
  if (axis_of(c.integer("gather_axis", 0), 2) != 0 || axis_of(c.integer("quantize_axis", 1), 2) != 1)
    unsupported("other axes than rows that are gathered and columns that share scales");
  if (block < 1) invalid("block_size is not positive");
  const int64_t in_byte = bytes ? 8 / bits : 1, rows = data.extent(0), columns = data.extent(1) * in_byte;
  const int64_t blocks = ceil_div(columns, sized(block)), zero_row = ceil_div(blocks, in_byte);
  const Tensor &q = data.constant(), &s = c.known(2), *const z = c.has(3) ? &c.known(3) : nullptr;
  if (s.size() != rows * blocks || (z && (z->size() != rows * zero_row || z->dtype != q.dtype)))
    invalid("scales or zero points do not suit the data and block_size");
  const int64_t offset = data.elem == Elem::I4 ? 8 : 0, none = bytes ? int64_t{1} << (bits - 1) : offset;
  const auto field = [&](const Tensor& t, int64_t row, int64_t width, int64_t i) {
    const auto whole = static_cast<int64_t>(get(t, row * width + i / in_byte));
    return ((whole + offset) >> (i % in_byte * bits)) & ((1 << bits) - 1);
  };
  Integers from;
  from.type = bits == 4 ? BlockType::U4 : BlockType::U8;
  from.rows = rows;
  from.columns = columns;
  from.group = block;
  from.value = [&](int64_t row, int64_t i) { return static_cast<uint32_t>(field(q, row, data.extent(1), i)); };
  from.scale = [&](int64_t row, int64_t b) { return static_cast<float>(get(s, row * blocks + b)); };
  from.zero = [&](int64_t row, int64_t b) { return static_cast<double>(z ? field(*z, row, zero_row, b) : none); };
  const auto table = packed(c.graph(), from);
  if (!table) unsupported(cat("rows of ", columns, " columns in blocks of ", block));
  return {cast(packed_rows(at, *table), scales.elem)};
}

}  // namespace

void add_few_bits_ops(OpTable& t) {
  t["MatMulNBits"] = matmul_nbits;
  if constexpr (kPacked) t["GatherBlockQuantized"] = gather_block_quantized;
}

}  // namespace gyrus::onnx
