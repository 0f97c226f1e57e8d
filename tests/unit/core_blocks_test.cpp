#include "core/blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/tensor.h"
#include "support/test_data.h"

namespace gyrus {
namespace {

using Block = std::vector<uint8_t>;

std::vector<float> decoded(BlockType type, const Block& bytes) {
  const BlockFormat& format = block_format(type);
  std::vector<float> out(bytes.size() / format.bytes * format.elements);
  dequantize(type, std::as_bytes(std::span(bytes)), out);
  return out;
}

// Appended: a half.
void put_half(Block& block, float value) {
  const uint16_t bits = float_to_half(value);
  block.push_back(static_cast<uint8_t>(bits));
  block.push_back(static_cast<uint8_t>(bits >> 8));
}

TEST(Blocks, TheTableIsConsistent) {
  std::set<std::string> names;
  for (const BlockFormat& format : block_formats()) {
    EXPECT_EQ(find_block_format(static_cast<uint32_t>(format.type)), &format);
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(block_bytes(format.type, format.elements * 3), format.bytes * 3);
  }
  EXPECT_EQ(find_block_format(4), nullptr);  // a format that was given up
  EXPECT_EQ(find_block_format(1000), nullptr);
  EXPECT_THROW(block_bytes(BlockType::Q4_0, 33), Error);
}

TEST(Blocks, SmallBlocksByHand) {
  Block q4;
  put_half(q4, 0.5F);
  for (int i = 0; i < 16; ++i) q4.push_back(static_cast<uint8_t>(i | (15 - i) << 4));
  const std::vector<float> four = decoded(BlockType::Q4_0, q4);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(four[i], 0.5F * static_cast<float>(i - 8));
    EXPECT_EQ(four[i + 16], 0.5F * static_cast<float>(7 - i));
  }
  Block q8;
  put_half(q8, 2);
  for (int i = 0; i < 32; ++i) q8.push_back(static_cast<uint8_t>(i * 8));
  const std::vector<float> eight = decoded(BlockType::Q8_0, q8);
  EXPECT_EQ(eight[3], 48);
  EXPECT_EQ(eight[31], -16);
  Block q5;
  put_half(q5, 1);
  q5.insert(q5.end(), {0x01, 0x00, 0x01, 0x00});  // the fifth bits of elements 0 and 16
  q5.insert(q5.end(), 16, 0x21);
  const std::vector<float> five = decoded(BlockType::Q5_0, q5);
  EXPECT_EQ(five[0], 1);
  EXPECT_EQ(five[1], -15);
  EXPECT_EQ(five[16], 2);
  EXPECT_EQ(five[17], -14);
  EXPECT_EQ(decoded(BlockType::BF16, {0xc0, 0x3f}), std::vector<float>{1.5F});
  EXPECT_EQ(decoded(BlockType::F16, {0x00, 0x3e}), std::vector<float>{1.5F});
  Block fp4 = {129};  // 2^(129 − 128), over 2
  fp4.insert(fp4.end(), 16, 0xf1);
  EXPECT_EQ(decoded(BlockType::MXFP4, fp4)[0], 2);
  EXPECT_EQ(decoded(BlockType::MXFP4, fp4)[16], -24);
}

TEST(Blocks, KBlocksByHand) {
  Block q4;
  put_half(q4, 0.25F);
  put_half(q4, 0.5F);
  // Groups 0 … 3: scales 1 … 4, minima 5 … 8; groups 4 … 7: scales 17, 2, 3, 4 (the high bits lie in the first bytes).
  q4.insert(q4.end(), {1 | 1 << 6, 2, 3, 4, 5, 6, 7, 8 | 2 << 6, 1 | 2 << 4, 2 | 3 << 4, 3 | 4 << 4, 4 | 5 << 4});
  q4.insert(q4.end(), 128, 0x73);
  const std::vector<float> values = decoded(BlockType::Q4_K, q4);
  EXPECT_EQ(values[0], 0.25F * 1 * 3 - 0.5F * 5);
  EXPECT_EQ(values[32], 0.25F * 2 * 7 - 0.5F * 6);
  EXPECT_EQ(values[4 * 32], 0.25F * 17 * 3 - 0.5F * 2);
  EXPECT_EQ(values[7 * 32], 0.25F * 4 * 7 - 0.5F * 37);
  Block q6(208);
  q6[0] = 0xf5;    // elements 0 and 64
  q6[128] = 0x31;  // their upper bits: 1 and 3
  q6[192] = 0x03;  // the scale of elements 0 … 15
  q6[196] = 0xff;  // that of 64 … 79
  put_half(q6, 0.5F);
  const std::vector<float> six = decoded(BlockType::Q6_K, q6);
  EXPECT_EQ(six[0], 0.5F * 3 * (0x15 - 32));
  EXPECT_EQ(six[64], 0.5F * -1 * (0x3f - 32));
}

TEST(Blocks, RefusesWhatItCannotDo) {
  std::vector<float> out(256);
  const Block zeros(66);
  const auto bytes = std::as_bytes(std::span(zeros));
  try {
    dequantize(BlockType::IQ2_XXS, bytes, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what()).find("[IQ2_XXS]"), std::string::npos);
  }
  EXPECT_THROW(dequantize(BlockType::Q4_0, bytes.first(17), std::span(out).first(32)), Error);
}

// Blocks of an independent implementation and the floats that they mean, equal to the last bit.
TEST(Blocks, EqualToTheLastBit) {
  const std::filesystem::path folder = test::test_data() / "llm" / "quant-vectors";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  int compared = 0;
  for (const BlockFormat& format : block_formats()) {
    const std::string name = format.name;
    if (!format.decode || !std::filesystem::exists(folder / (name + ".blocks"))) continue;
    const Block blocks = test::read_bytes(folder / (name + ".blocks"));
    const Block want = test::read_bytes(folder / (name + ".f32"));
    const std::vector<float> got = decoded(format.type, blocks);
    ASSERT_EQ(got.size() * 4, want.size()) << name;
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 17);
}

// 3 groups of 16, 16 and 8 columns: scales 2, 1 and 0.5, zeros 1, 8 and 15.
TEST(Blocks, RowsOfIntegers) {
  const float scales[] = {2, 1, 0.5F};
  Block row(12);
  std::memcpy(row.data(), scales, sizeof scales);
  row.insert(row.end(), {1, 8, 15, 0});
  for (int i = 0; i < 32; ++i) row.push_back(static_cast<uint8_t>(i % 8 | (15 - i % 8) << 4));
  const IntegerRow four{BlockType::U4, 40, 16, true};
  EXPECT_EQ(four.bytes(), 12u + 4 + 32);  // the values of two units
  std::vector<float> out(40);
  four.decode(reinterpret_cast<const std::byte*>(row.data()), out.data());
  EXPECT_EQ(out[0], 2 * (0 - 1.0F));
  EXPECT_EQ(out[1], 2 * (15 - 1.0F));
  EXPECT_EQ(out[2], 2 * (1 - 1.0F));
  EXPECT_EQ(out[17], 15 - 8.0F);
  EXPECT_EQ(out[39], 0.5F * (12 - 15.0F));

  Block bytes(4);
  std::memcpy(bytes.data(), scales, 4);
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<uint8_t>(100 + i * 4));
  const IntegerRow eight{BlockType::U8, 5, 5, false};
  EXPECT_EQ(eight.bytes(), 4u + 32);
  out.assign(6, 7);
  eight.decode(reinterpret_cast<const std::byte*>(bytes.data()), out.data());
  EXPECT_EQ(out, (std::vector<float>{2 * (100 - 128), 2 * (104 - 128), 2 * (108 - 128), 2 * (112 - 128),
                                     2 * (116 - 128), 7}));

  Block pairs(4);
  std::memcpy(pairs.data(), scales, 4);
  pairs.insert(pairs.end(), {0xe4, 0x1b, 0, 0, 0, 0, 0, 0});  // 0 1 2 3 3 2 1 0
  out.assign(7, 0);
  IntegerRow{BlockType::U2, 7, 7, false}.decode(reinterpret_cast<const std::byte*>(pairs.data()), out.data());
  EXPECT_EQ(out, (std::vector<float>{-4, -2, 0, 2, 2, 0, -2}));
  EXPECT_EQ(find_block_format(1004), nullptr);  // of no GGUF file
}

}  // namespace
}  // namespace gyrus
