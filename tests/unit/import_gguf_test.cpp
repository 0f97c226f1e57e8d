#include "import/gguf.h"

#include "import/text_model_file.h"
#include "support/gguf_writer.h"
#include "support/test_data.h"
#include "support/test_folder.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

Gguf parsed(const ByteVector& file) { return read_gguf(bytes_of(file), "m.gguf"); }

GgufWriter small() {
  GgufWriter file;
  file.text("general.architecture", "llama").u32("llama.block_count", 5).f32("llama.eps", 1e-5F);
  file.boolean("flag", true).texts("words", {"a", "", "ccc"}).i32s("types", {1, -3}).f32s("scores", {0.5F, -2});
  file.raw("far", 11, ByteWriter().u64(static_cast<uint64_t>(-7)).out());
  file.tensor("a", {4, 2}, 0, float_bytes({1, 2, 3, 4, 5, 6, 7, 8}));
  file.tensor("b", {32}, 8, ByteVector(34));
  return file;
}

void refused(const std::string& part, const ByteVector& file, ErrorCode code = ErrorCode::InvalidModel) {
  expect_error(code, part, [&] { parsed(file); });
}

TEST(Gguf, ReadsMetadataAndTensors) {
  for (const uint32_t version : {2U, 3U}) {
    GgufWriter writer = small();
    writer.version = version;
    const ByteVector file = writer.out();
    const Gguf gguf = parsed(file);
    EXPECT_EQ(gguf.version(), version);
    EXPECT_EQ(gguf.architecture(), "llama");
    EXPECT_EQ(gguf.integer(gguf.key("block_count")), 5);
    EXPECT_EQ(gguf.number("llama.block_count"), 5);
    EXPECT_EQ(gguf.number("llama.eps"), static_cast<double>(1e-5F));
    EXPECT_EQ(gguf.integer("far"), -7);
    EXPECT_TRUE(gguf.boolean("flag"));
    EXPECT_EQ(gguf.texts("words"), (std::vector<std::string>{"a", "", "ccc"}));
    EXPECT_EQ(gguf.integers("types"), (std::vector<int64_t>{1, -3}));
    EXPECT_EQ(gguf.numbers("scores"), (std::vector<double>{0.5, -2}));
    EXPECT_EQ(gguf.integers("types", 2), gguf.integers("types"));
    EXPECT_EQ(gguf.integers("llama.block_count", 3), (std::vector<int64_t>{5, 5, 5}));
    ASSERT_EQ(gguf.tensors().size(), 2U);
    const GgufTensor& a = gguf.tensor("a", {2, 4});
    EXPECT_EQ(a.offset, gguf.data_offset());
    EXPECT_EQ(get(dequantized(a, bytes_of(file).subspan(a.offset, a.bytes)), 6), 7);
    EXPECT_EQ(gguf.tensor("b").type, BlockType::Q8_0);
    EXPECT_EQ(gguf.tensor("b").bytes, 34U);
    EXPECT_EQ(gguf.find("c"), nullptr);
  }
}

TEST(Gguf, AccessorsNameFileAndKey) {
  const Gguf gguf = parsed(small().out());
  const auto bad = [](const std::string& part, const std::function<void()>& action) {
    expect_error(ErrorCode::InvalidModel, part, action);
  };
  bad("[m.gguf] has no metadata 'llama.head_count'", [&] { gguf.integer("llama.head_count"); });
  bad("[m.gguf] metadata 'flag' is not an integer", [&] { gguf.integer("flag", 1); });
  bad("metadata 'words' is not a text", [&] { gguf.text("words"); });
  bad("metadata 'types' is a list of 2 integers, not of 3", [&] { gguf.integers("types", 3); });
  bad("has no tensor 'c'", [&] { gguf.tensor("c"); });
  bad("tensor 'a' is [2,4], not [4,2]", [&] { gguf.tensor("a", {4, 2}); });
  EXPECT_EQ(gguf.integer("absent", 3), 3);
  EXPECT_EQ(gguf.text("absent", "x"), "x");
}

TEST(Gguf, RefusesWrongHeads) {
  GgufWriter magic = small();
  magic.magic = "GGML";
  refused("does not start with 'GGUF'", magic.out());
  GgufWriter first = small();
  first.version = 1;
  refused("version 1; gyrus reads the versions 2 and 3", first.out(), ErrorCode::Unsupported);
  GgufWriter turned = small();
  turned.version = 0x03000000;
  refused("big-endian", turned.out(), ErrorCode::Unsupported);
  GgufWriter counts = small();
  counts.more_keys = uint64_t{1} << 60;
  refused("metadata keys", counts.out());
  GgufWriter many = small();
  many.more_tensors = uint64_t{1} << 60;
  refused("tensors", many.out());
  refused("'flag' twice", small().boolean("flag", false).out());
  refused("unknown type 13", small().raw("x", 13, {}).out());
  refused("is no boolean", small().raw("x", 7, ByteWriter().u8(2).out()).out());
  refused("beyond 63 bits", small().raw("x", 10, ByteWriter().u64(~uint64_t{0}).out()).out());
  refused("is no metadata key", small().boolean("a\nb", true).out());
  refused("a list of lists", small().raw("x", 9, ByteWriter().u32(9).u64(1).u32(4).u64(0).out()).out(),
          ErrorCode::Unsupported);
  refused("is a list of 1152921504606846976 elements",
          small().raw("x", 9, ByteWriter().u32(4).u64(uint64_t{1} << 60).out()).out());
  refused("is a list of 16777216 elements",
          small().raw("x", 9, ByteWriter().u32(0).u64(uint64_t{1} << 24).out()).out());
  refused("a text of the metadata of", small().raw("x", 8, ByteWriter().u64(~uint64_t{0}).out()).out());
  refused("33 is no power of two", small().u32("general.alignment", 33).out());
  refused("0 is no power of two", small().u32("general.alignment", 0).out());
}

TEST(Gguf, RefusesWrongTensors) {
  const ByteVector row(34);
  refused("has the tensor 'a' twice", small().tensor("a", {1}, 0, ByteVector(4)).out());
  refused("has 5 axes", small().tensor("c", {1, 1, 1, 1, 1}, 0, ByteVector(4)).out());
  refused("an axis of 0 elements", small().tensor("c", {0}, 0, {}).out());
  refused("an axis of 4294967296 elements", small().tensor("c", {1ULL << 32, 1ULL << 32}, 0, {}).out());
  refused("rows of 33 are no whole blocks of 32 (Q8_0)", small().tensor("c", {33}, 8, row).out());
  refused("'c' has the unknown type 4", small().tensor("c", {32}, 4, row).out(), ErrorCode::Unsupported);
  refused("starts at byte 3, no multiple of 32", small().tensor("c", {1}, 0, ByteVector(4), 3).out());
  refused("tensors 'a' and 'c' overlap", small().tensor("c", {1}, 0, ByteVector(4), 0).out());
  refused("takes 4 bytes from byte 1048576 of the data", small().tensor("c", {1}, 0, ByteVector(4), 1 << 20).out());
  refused("takes 4 bytes from byte 9223372036854775776",
          small().tensor("c", {1}, 0, ByteVector(4), 0x7fffffffffffffe0).out());
}

TEST(Gguf, KeepsTheAlignmentOfTheFile) {
  GgufWriter writer;
  writer.alignment = 256;
  writer.u32("general.alignment", 256).tensor("a", {1}, 0, float_bytes({3})).tensor("b", {1}, 0, float_bytes({4}));
  const Gguf gguf = parsed(writer.out());
  EXPECT_EQ(gguf.data_offset() % 256, 0U);
  EXPECT_EQ(gguf.tensor("b").offset, gguf.data_offset() + 256);
}

TEST(Gguf, CutAndDamagedFilesAreErrors) {
  const ByteVector file = small().out();
  expect_every_truncation_refused(file, [](const ByteVector& part) { parsed(part); });
  read_every_damage(file, [](const ByteVector& damaged) { parsed(damaged); });
}

TEST(Gguf, GrowsWithItsPrefix) {
  const ByteVector file = small().out();
  for (size_t given = 0; given < file.size(); ++given) {
    const GgufHead head = read_gguf_head(bytes_of(file).first(given), file.size(), "m.gguf");
    if (head.gguf) {
      EXPECT_LE(head.gguf->data_offset(), given + 32);
      EXPECT_EQ(head.gguf->tensors().size(), 2U);
    } else {
      EXPECT_GT(head.wanted, given);
      EXPECT_LE(head.wanted, file.size());
    }
  }
  // The browser's loop over a file that is larger than its head.
  ByteVector large = small().tensor("big", {1 << 20}, 0, ByteVector(4 << 20)).out();
  uint64_t have = 0;
  int rounds = 0;
  for (;; ++rounds) {
    const GgufHead head = read_gguf_head(bytes_of(large).first(have), large.size(), "m.gguf");
    if (head.gguf) break;
    ASSERT_GT(head.wanted, have);
    have = head.wanted;
  }
  EXPECT_LE(rounds, 2);
  EXPECT_LT(have, uint64_t{1} << 18);
}

using GgufOnDisk = InFolder;

TEST_F(GgufOnDisk, IsMapped) {
  const std::string file_path = path("m.gguf");
  const auto write = [&](const ByteVector& bytes) {
    std::ofstream(file_path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  write(small().out());
  const TextModelFile file(file_path);
  EXPECT_EQ(get(file.dequantized(file.head().tensor("a")), 7), 8);
  write(small().u32("split.no", 1).u32("split.count", 3).out());
  expect_error(ErrorCode::Unsupported, "is part 2 of 3", [&] { TextModelFile part(file_path); });
  write({});
  expect_error(ErrorCode::InvalidModel, "truncated", [&] { TextModelFile part(file_path); });
  expect_error(ErrorCode::Io, "cannot be opened", [&] { TextModelFile part(file_path + "x"); });
  expect_error(ErrorCode::Io, "no plain file", [&] { TextModelFile part("/dev/null"); });
}

TEST(Gguf, ReadsFilesOfOthers) {
  const std::filesystem::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  const TextModelFile stories((data / "llm/stories260K/stories260K-q4_0.gguf").string());
  EXPECT_EQ(stories.head().architecture(), "llama");
  EXPECT_EQ(stories.head().integer("llama.block_count"), 5);
  EXPECT_EQ(stories.head().tensor("token_embd.weight").shape, (Shape{512, 64}));
  EXPECT_EQ(stories.head().tensors().size(), 47U);
  const TextModelFile words((data / "llm/vocab/ggml-vocab-gpt-2.gguf").string());
  EXPECT_EQ(words.head().texts("tokenizer.ggml.tokens").size(), 50257U);
  EXPECT_TRUE(words.head().tensors().empty());
}

}  // namespace
}  // namespace gyrus::test
