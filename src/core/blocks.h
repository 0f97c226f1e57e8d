#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// The element and block formats of weights in GGUF files: what a block holds and the floats that it means.

namespace gyrus {

// The number is the one that GGUF files use.
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
};

struct BlockFormat {
  BlockType type;
  const char* name;   // "Q4_K"
  uint32_t elements;  // of one block
  uint32_t bytes;     // of one block
  // The floats of one block, `elements` of them; null where gyrus knows only the size of the format.
  void (*decode)(const std::byte* block, float* out);
};

// All formats, those that gyrus cannot decode too.
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

// The sixteen values of IQ4_NL and IQ4_XS; those of MXFP4 and NVFP4, doubled.
std::span<const int8_t, 16> iq4_values();
std::span<const int8_t, 16> fp4_values();

}  // namespace gyrus
