#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// The element and block formats of weights in GGUF files: what a block holds and the floats that it means. And one of
// our own for what other files hold: rows of small integers with scales.

namespace gyrus {

// The number is the one that GGUF files use, where they have the format.
enum class BlockType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
  NVFP4 = 40,
  // Integers of 2, 4 and 8 bits in rows (IntegerRow).
  U2 = 1002,
  U4 = 1004,
  U8 = 1008,
};

struct BlockFormat {
  BlockType type;
  const char* name;   // "Q4_K"
  uint32_t elements;  // of one block
  uint32_t bytes;     // of one block
  // The floats of one block, `elements` of them; null where gyrus knows only the size of the format, or a block alone
  // does not say them.
  void (*decode)(const std::byte* block, float* out);
};

// All formats of GGUF files, those that gyrus cannot decode too.
std::span<const BlockFormat> block_formats();
// The format with the number of GGUF files, or null.
const BlockFormat* find_block_format(uint32_t number);
const BlockFormat& block_format(BlockType type);
const char* to_string(BlockType type);

// Bytes of `elements` elements, which must be whole blocks.
uint64_t block_bytes(BlockType type, uint64_t elements);

// The floats of whole blocks, exactly: products and sums in f32, in the order in which the formats define them. Throws
// Unsupported where the format cannot be decoded, InvalidInput where the sizes do not agree.
void dequantize(BlockType type, std::span<const std::byte> blocks, std::span<float> out);

// The bits of an element of U2, U4 and U8; 0 of other formats.
uint32_t integer_bits(BlockType type);

// A row of `columns` integers q without a sign, of which each `group` share a scale, and a zero where there are zeros:
// scale (q - zero), the zero being half of what q may be where there are none. In bytes: the scales in f32; the zeros,
// a byte each; the integers in whole units of 32, the first in the lowest bits. Each of the three ends with a whole
// word.
struct IntegerRow {
  BlockType type = BlockType::U4;
  int64_t columns = 0, group = 0;
  bool zeros = false;

  int64_t groups() const { return (columns + group - 1) / group; }
  uint64_t zeros_at() const { return static_cast<uint64_t>(groups()) * 4; }
  uint64_t values_at() const { return zeros_at() + (zeros ? static_cast<uint64_t>(groups() + 3) / 4 * 4 : 0); }
  uint64_t bytes() const;
  // `columns` floats; the product is rounded once.
  void decode(const std::byte* row, float* out) const;
};

// The sixteen values of IQ4_NL and IQ4_XS; those of MXFP4 and NVFP4, doubled.
std::span<const int8_t, 16> iq4_values();
std::span<const int8_t, 16> fp4_values();

}  // namespace gyrus
