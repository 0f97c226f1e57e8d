#include "core/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/tensor.h"

// A block is a few bytes of scales and the small integers that they scale; the K formats have 256 elements in groups
// with scales of their own. In most formats the low nibbles of a row of bytes are its first half and the high ones its
// second. Everything is little endian. Every product is rounded to f32 as written here: other orders differ in the last
// bit.

namespace gyrus {
namespace {

constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

uint32_t u8(const std::byte* from) { return static_cast<uint32_t>(*from); }
int i8(const std::byte* from) { return static_cast<int8_t>(*from); }
uint32_t u16(const std::byte* from) { return u8(from) | u8(from + 1) << 8; }
uint32_t u32(const std::byte* from) { return u16(from) | u16(from + 2) << 16; }
float half(const std::byte* from) { return half_to_float(static_cast<uint16_t>(u16(from))); }
uint32_t low(const std::byte* from) { return u8(from) & 15; }
uint32_t high(const std::byte* from) { return u8(from) >> 4; }

float float_of(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
void decode_number(const std::byte* block, float* out) {
  T value;
  std::memcpy(&value, block, sizeof value);
  *out = static_cast<float>(value);
}
void decode_f16(const std::byte* block, float* out) { *out = half(block); }
void decode_bf16(const std::byte* block, float* out) { *out = float_of(u16(block) << 16); }

// q − 8, times a scale.
void decode_q4_0(const std::byte* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(static_cast<int>(low(block + 2 + i)) - 8);
    out[i + 16] = scale * static_cast<float>(static_cast<int>(high(block + 2 + i)) - 8);
  }
}

// q times a scale, plus a minimum.
void decode_q4_1(const std::byte* block, float* out) {
  const float scale = half(block), least = half(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(low(block + 4 + i)) + least;
    out[i + 16] = scale * static_cast<float>(high(block + 4 + i)) + least;
  }
}

// The fifth bits are a word of 32.
uint32_t five_bits(const std::byte* nibbles, uint32_t fifth, int i) {
  const uint32_t four = i < 16 ? low(nibbles + i) : high(nibbles + i - 16);
  return four | (fifth >> i & 1) << 4;
}

void decode_q5_0(const std::byte* block, float* out) {
  const float scale = half(block);
  const uint32_t fifth = u32(block + 2);
  for (int i = 0; i < 32; ++i)
    out[i] = scale * static_cast<float>(static_cast<int>(five_bits(block + 6, fifth, i)) - 16);
}

void decode_q5_1(const std::byte* block, float* out) {
  const float scale = half(block), least = half(block + 2);
  const uint32_t fifth = u32(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(five_bits(block + 8, fifth, i)) + least;
}

void decode_q8_0(const std::byte* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(i8(block + 2 + i));
}

// 16 groups of 16; a byte of each holds its scale and its minimum, 4 bits each. Two bits an element: 32 bytes hold 128.
void decode_q2_k(const std::byte* block, float* out) {
  const std::byte* const bits = block + 16;
  const float scale = half(block + 80), least = half(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int half_of = i / 128, plane = i % 128 / 32;
    const uint32_t q = u8(bits + half_of * 32 + i % 32) >> (2 * plane) & 3;
    const float group_scale = scale * static_cast<float>(low(block + i / 16));
    const float group_least = least * static_cast<float>(high(block + i / 16));
    out[i] = group_scale * static_cast<float>(q) - group_least;
  }
}

// 16 groups of 16 with scales of 6 bits; two low bits as in Q2_K, the third, which means −4 where it is not set, in 32
// bytes, a bit for each row of 32 elements.
void decode_q3_k(const std::byte* block, float* out) {
  const std::byte* const bits = block + 32;
  const std::byte* const scales = block + 96;
  const float scale = half(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const uint32_t lower = group < 8 ? low(scales + group) : high(scales + group - 8);
    const uint32_t upper = u8(scales + 8 + group % 4) >> (2 * (group / 4)) & 3;
    const float group_scale = scale * static_cast<float>(static_cast<int>(lower | upper << 4) - 32);
    const int q = static_cast<int>(u8(bits + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32)) & 3);
    const bool third = (u8(block + i % 32) >> (i / 32) & 1) != 0;
    out[i] = group_scale * static_cast<float>(third ? q : q - 4);
  }
}

struct ScaleAndLeast {
  float scale, least;
};

// Of group 0 … 7 of Q4_K and Q5_K: 6 bits each in 12 bytes.
ScaleAndLeast six_bits(const std::byte* packed, int group) {
  if (group < 4) return {static_cast<float>(u8(packed + group) & 63), static_cast<float>(u8(packed + group + 4) & 63)};
  const uint32_t scale = low(packed + group + 4) | u8(packed + group - 4) >> 6 << 4;
  const uint32_t least = high(packed + group + 4) | u8(packed + group) >> 6 << 4;
  return {static_cast<float>(scale), static_cast<float>(least)};
}

// 8 groups of 32, two in 32 bytes: low nibbles, then high ones. Q5_K has a fifth bit in 32 bytes, a bit for each group.
template <bool kFifth>
void decode_q45_k(const std::byte* block, float* out) {
  const float scale = half(block), least = half(block + 2);
  const std::byte* const fifths = block + 16;
  const std::byte* const nibbles = kFifth ? fifths + 32 : fifths;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndLeast packed = six_bits(block + 4, group);
    const float group_scale = scale * packed.scale, group_least = least * packed.least;
    for (int i = 0; i < 32; ++i) {
      const std::byte* const pair = nibbles + group / 2 * 32 + i;
      uint32_t q = group % 2 == 0 ? low(pair) : high(pair);
      if (kFifth) q |= (u8(fifths + i) >> group & 1) << 4;
      out[group * 32 + i] = group_scale * static_cast<float>(q) - group_least;
    }
  }
}

// 16 groups of 16 with scales of a signed byte; four low bits and two high ones, minus 32.
void decode_q6_k(const std::byte* block, float* out) {
  const std::byte* const uppers = block + 128;
  const std::byte* const scales = block + 192;
  const float scale = half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half_of = i / 128, row = i % 128 / 32, column = i % 32;
    const std::byte* const pair = block + half_of * 64 + row % 2 * 32 + column;
    const uint32_t upper = u8(uppers + half_of * 32 + column) >> (2 * row) & 3;
    const int q = static_cast<int>((row < 2 ? low(pair) : high(pair)) | upper << 4) - 32;
    const float group_scale = scale * static_cast<float>(i8(scales + i / 16));
    out[i] = group_scale * static_cast<float>(q);
  }
}

void decode_iq4_nl(const std::byte* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(kIq4Values[low(block + 2 + i)]);
    out[i + 16] = scale * static_cast<float>(kIq4Values[high(block + 2 + i)]);
  }
}

// 8 groups of 32; scales of 6 bits: four in a nibble, two in a word.
void decode_iq4_xs(const std::byte* block, float* out) {
  const float scale = half(block);
  const uint32_t uppers = u16(block + 2);
  for (int group = 0; group < 8; ++group) {
    const std::byte* const pair = block + 4 + group / 2;
    const uint32_t bits = (group % 2 == 0 ? low(pair) : high(pair)) | (uppers >> (2 * group) & 3) << 4;
    const float group_scale = scale * static_cast<float>(static_cast<int>(bits) - 32);
    const std::byte* const nibbles = block + 8 + group * 16;
    for (int i = 0; i < 16; ++i) {
      out[group * 32 + i] = group_scale * static_cast<float>(kIq4Values[low(nibbles + i)]);
      out[group * 32 + i + 16] = group_scale * static_cast<float>(kIq4Values[high(nibbles + i)]);
    }
  }
}

// 32 floats of 4 bits with an exponent of 8; the values are doubled, so the scale is 2^(e − 128).
void decode_mxfp4(const std::byte* block, float* out) {
  const float scale = std::ldexp(1.0F, static_cast<int>(u8(block)) - 128);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(kFp4Values[low(block + 1 + i)]);
    out[i + 16] = scale * static_cast<float>(kFp4Values[high(block + 1 + i)]);
  }
}

// A scale of four bits of exponent and three of mantissa, without a sign; 0x7f, no number there, counts as zero.
float unsigned_e4m3(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15);
  const auto mantissa = static_cast<float>(bits & 7);
  if (bits == 0x7f) return 0;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1.0F + mantissa / 8.0F, exponent - 7);
}

// 4 groups of 16 with a scale each; the values are doubled.
void decode_nvfp4(const std::byte* block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float scale = unsigned_e4m3(u8(block + group)) * 0.5F;
    const std::byte* const nibbles = block + 4 + group * 8;
    for (int i = 0; i < 8; ++i) {
      out[group * 16 + i] = scale * static_cast<float>(kFp4Values[low(nibbles + i)]);
      out[group * 16 + i + 8] = scale * static_cast<float>(kFp4Values[high(nibbles + i)]);
    }
  }
}

// Five digits of base three in a byte b: 3^d·b mod 256, times 3, over 256, is digit d.
float ternary(const std::byte* from, int digit) {
  constexpr uint32_t kPowers[5] = {1, 3, 9, 27, 81};
  const uint32_t rest = u8(from) * kPowers[digit] & 255;
  return static_cast<float>(static_cast<int>(rest * 3 >> 8) - 1);
}

// −1, 0, 1: 32 bytes with five rows of 32, 16 bytes with five rows of 16, 4 bytes with four rows of 4.
void decode_tq1_0(const std::byte* block, float* out) {
  const float scale = half(block + 52);
  for (int i = 0; i < 160; ++i) out[i] = scale * ternary(block + i % 32, i / 32);
  for (int i = 0; i < 80; ++i) out[160 + i] = scale * ternary(block + 32 + i % 16, i / 16);
  for (int i = 0; i < 16; ++i) out[240 + i] = scale * ternary(block + 48 + i % 4, i / 4);
}

void decode_tq2_0(const std::byte* block, float* out) {
  const float scale = half(block + 64);
  for (int i = 0; i < 256; ++i) {
    const uint32_t q = u8(block + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32)) & 3;
    out[i] = scale * static_cast<float>(static_cast<int>(q) - 1);
  }
}

constexpr BlockFormat kFormats[] = {
    {BlockType::F32, "F32", 1, 4, decode_number<float>},
    {BlockType::F16, "F16", 1, 2, decode_f16},
    {BlockType::BF16, "BF16", 1, 2, decode_bf16},
    {BlockType::F64, "F64", 1, 8, decode_number<double>},
    {BlockType::I8, "I8", 1, 1, decode_number<int8_t>},
    {BlockType::I16, "I16", 1, 2, decode_number<int16_t>},
    {BlockType::I32, "I32", 1, 4, decode_number<int32_t>},
    {BlockType::I64, "I64", 1, 8, decode_number<int64_t>},
    {BlockType::Q4_0, "Q4_0", 32, 18, decode_q4_0},
    {BlockType::Q4_1, "Q4_1", 32, 20, decode_q4_1},
    {BlockType::Q5_0, "Q5_0", 32, 22, decode_q5_0},
    {BlockType::Q5_1, "Q5_1", 32, 24, decode_q5_1},
    {BlockType::Q8_0, "Q8_0", 32, 34, decode_q8_0},
    {BlockType::Q2_K, "Q2_K", 256, 84, decode_q2_k},
    {BlockType::Q3_K, "Q3_K", 256, 110, decode_q3_k},
    {BlockType::Q4_K, "Q4_K", 256, 144, decode_q45_k<false>},
    {BlockType::Q5_K, "Q5_K", 256, 176, decode_q45_k<true>},
    {BlockType::Q6_K, "Q6_K", 256, 210, decode_q6_k},
    {BlockType::IQ4_NL, "IQ4_NL", 32, 18, decode_iq4_nl},
    {BlockType::IQ4_XS, "IQ4_XS", 256, 136, decode_iq4_xs},
    {BlockType::MXFP4, "MXFP4", 32, 17, decode_mxfp4},
    {BlockType::NVFP4, "NVFP4", 64, 36, decode_nvfp4},
    {BlockType::TQ1_0, "TQ1_0", 256, 54, decode_tq1_0},
    {BlockType::TQ2_0, "TQ2_0", 256, 66, decode_tq2_0},
    {BlockType::IQ2_XXS, "IQ2_XXS", 256, 66, nullptr},
    {BlockType::IQ2_XS, "IQ2_XS", 256, 74, nullptr},
    {BlockType::IQ2_S, "IQ2_S", 256, 82, nullptr},
    {BlockType::IQ3_XXS, "IQ3_XXS", 256, 98, nullptr},
    {BlockType::IQ3_S, "IQ3_S", 256, 110, nullptr},
    {BlockType::IQ1_S, "IQ1_S", 256, 50, nullptr},
    {BlockType::IQ1_M, "IQ1_M", 256, 56, nullptr},
};

constexpr BlockFormat kIntegers[] = {
    {BlockType::U2, "U2", 32, 8, nullptr},
    {BlockType::U4, "U4", 32, 16, nullptr},
    {BlockType::U8, "U8", 32, 32, nullptr},
};

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat* find_block_format(uint32_t number) {
  for (const BlockFormat& format : kFormats) {
    if (static_cast<uint32_t>(format.type) == number) return &format;
  }
  return nullptr;
}

const BlockFormat& block_format(BlockType type) {
  const BlockFormat* found = find_block_format(static_cast<uint32_t>(type));
  for (const BlockFormat& format : kIntegers)
    if (format.type == type) found = &format;
  if (!found) fail(ErrorCode::InvalidInput, "blocks", "there is no format of number ", static_cast<uint32_t>(type));
  return *found;
}

const char* to_string(BlockType type) { return block_format(type).name; }

uint64_t block_bytes(BlockType type, uint64_t elements) {
  const BlockFormat& format = block_format(type);
  if (elements % format.elements != 0)
    fail(ErrorCode::InvalidInput, format.name, elements, " elements are no whole blocks of ", format.elements);
  return elements / format.elements * format.bytes;
}

void dequantize(BlockType type, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockFormat& format = block_format(type);
  if (!format.decode)
    fail(ErrorCode::Unsupported, format.name, "weights in this format are not supported; take a file in Q4_K, Q8_0, …");
  if (block_bytes(type, out.size()) != blocks.size())
    fail(ErrorCode::InvalidInput, format.name, blocks.size(), " bytes do not hold ", out.size(), " elements");
  const std::byte* from = blocks.data();
  for (size_t i = 0; i < out.size(); i += format.elements, from += format.bytes) format.decode(from, out.data() + i);
}

uint32_t integer_bits(BlockType type) {
  for (const BlockFormat& format : kIntegers)
    if (format.type == type) return format.bytes * 8 / format.elements;
  return 0;
}

uint64_t IntegerRow::bytes() const {
  const BlockFormat& format = block_format(type);
  const uint64_t units = (static_cast<uint64_t>(columns) + format.elements - 1) / format.elements;
  return values_at() + units * format.bytes;
}

namespace {

// `count` integers, the first of which begins a byte.
template <int kBits>
void decode_integers(const std::byte* from, int64_t count, float scale, int zero, float* out) {
  constexpr int kInByte = 8 / kBits;
  const auto value = [&](uint32_t byte, int i) {
    return scale * static_cast<float>(static_cast<int>(byte >> (i * kBits) & ((1u << kBits) - 1)) - zero);
  };
  for (int64_t i = 0; i < count / kInByte; ++i)
    for (int j = 0; j < kInByte; ++j) out[i * kInByte + j] = value(u8(from + i), j);
  for (int64_t i = count / kInByte * kInByte; i < count; ++i)
    out[i] = value(u8(from + i / kInByte), static_cast<int>(i % kInByte));
}

}  // namespace

void IntegerRow::decode(const std::byte* row, float* out) const {
  const uint32_t bits = integer_bits(type);
  const auto decode_some = bits == 2 ? decode_integers<2> : bits == 4 ? decode_integers<4> : decode_integers<8>;
  for (int64_t g = 0, begin = 0; begin < columns; ++g, begin += group) {
    const int zero = zeros ? static_cast<int>(u8(row + zeros_at() + g)) : 1 << (bits - 1);
    decode_some(row + values_at() + begin * bits / 8, std::min(group, columns - begin), float_of(u32(row + g * 4)),
                zero, out + begin);
  }
}

std::span<const int8_t, 16> iq4_values() { return kIq4Values; }
std::span<const int8_t, 16> fp4_values() { return kFp4Values; }

}  // namespace gyrus
