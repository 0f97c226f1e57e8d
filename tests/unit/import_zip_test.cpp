#include "import/zip.h"

#include "import/inflate.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

ByteVector bytes(const std::vector<int>& values) {
  ByteVector out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

std::string inflated(const ByteVector& data, uint64_t size) {
  const ByteVector out = inflate(bytes_of(data), size, "stream");
  return std::string(text_of(bytes_of(out)));
}

// Streams made by zlib.
const char* const kText = "abcabcabcabcabc the quick brown fox";
const ByteVector kFixed = bytes({0x4b, 0x4c, 0x4a, 0x4e, 0x44, 0x42, 0x0a, 0x25, 0x19, 0xa9, 0x0a, 0x85, 0xa5, 0x99,
                                 0xc9, 0xd9, 0x0a, 0x49, 0x45, 0xf9, 0xe5, 0x79, 0x0a, 0x69, 0xf9, 0x15, 0x00});
const ByteVector kZeros = [] {  // 40,000 zeros with codes of their own, one of them the only distance
  ByteVector out = bytes({0xed, 0xc1, 0x31, 0x01, 0x00, 0x00, 0x00, 0xc2, 0xa0, 0xf5, 0x4f, 0xed, 0x65, 0x0b, 0xa0});
  out.resize(53);
  out.push_back(std::byte{0x80});
  out.push_back(std::byte{0x1b});
  return out;
}();
const ByteVector kDynamic = bytes(
    {0x1d, 0x8f, 0x41, 0x0e, 0x44, 0x31, 0x08, 0x42, 0xcf, 0x0a, 0x5a, 0x35, 0x1a, 0xe3, 0xfd, 0x77, 0xc3, 0x9f, 0x5d,
     0xad, 0xf2, 0x00, 0x5b, 0x54, 0x15, 0x8a, 0x36, 0xd7, 0x0d, 0xc7, 0x61, 0x0d, 0xe7, 0x6e, 0x1e, 0xf9, 0x3a, 0xd2,
     0x50, 0x20, 0x5e, 0x93, 0xe7, 0xcb, 0x4a, 0xc4, 0x6b, 0xa4, 0xed, 0x45, 0xdc, 0x9d, 0x2d, 0xde, 0x4c, 0xae, 0x25,
     0x6d, 0x3b, 0x66, 0xcf, 0x00, 0xd4, 0xe1, 0x11, 0x8c, 0xc6, 0x64, 0xbd, 0xd0, 0xcf, 0xd8, 0x25, 0x61, 0xf8, 0x86,
     0x6d, 0x3c, 0x34, 0x4c, 0xf3, 0xb9, 0xc5, 0x58, 0x3e, 0xf2, 0xb5, 0x37, 0x6a, 0xb0, 0x87, 0xf0, 0x0f, 0x30, 0x12,
     0x71, 0xa6, 0x30, 0xbb, 0xb7, 0xf6, 0x68, 0x29, 0x8e, 0xb8, 0x5e, 0xff, 0xc7, 0x85, 0xc2, 0x2a, 0x19, 0xe0, 0xb2,
     0x7a, 0xb7, 0x1b, 0x45, 0xc9, 0x62, 0xb3, 0x94, 0x41, 0xe8, 0x36, 0xaa, 0x81, 0xba, 0x79, 0x7c, 0x67, 0x0f, 0x34,
     0xa7, 0xcb, 0x86, 0x5f, 0x23, 0x53, 0x04, 0xea, 0x58, 0x30, 0x99, 0x48, 0xdd, 0xae, 0x6c, 0xb9, 0x4c, 0xf4, 0xd3,
     0xb6, 0xe8, 0x4c, 0x55, 0x14, 0x6b, 0x74, 0xee, 0xd2, 0xfc, 0x00});

// What kDynamic holds.
std::string dynamic_text() {
  std::string out;
  uint32_t state = 1;
  for (int i = 0; i < 300; ++i) {
    state = (state * 1103515245u + 12345u) & 0x7fffffffu;
    const uint32_t v = (state >> 16) & 15;
    out += static_cast<char>('a' + v * v / 16);
  }
  return out;
}

TEST(Inflate, ReadsEveryKindOfBlock) {
  EXPECT_EQ(inflated(kFixed, 35), kText);
  EXPECT_EQ(inflated(kZeros, 40000), std::string(40000, '\0'));
  EXPECT_EQ(inflated(kDynamic, 300), dynamic_text());
  EXPECT_EQ(inflated(bytes({0x01, 0x03, 0x00, 0xfc, 0xff, 'a', 'b', 'c'}), 3), "abc");
  EXPECT_EQ(inflated(bytes({0x03, 0x00}), 0), "");
}

TEST(Inflate, RefusesSizesThatLie) {
  for (const uint64_t size : {0, 34, 36}) {
    expect_error(ErrorCode::InvalidModel, "[stream] corrupted compressed data", [&] { inflated(kFixed, size); });
  }
  expect_error(ErrorCode::InvalidModel, "more bytes than its data can hold",
               [] { inflated(kFixed, uint64_t{1} << 50); });
  ByteVector longer = kFixed;
  longer.push_back(std::byte{0});
  expect_error(ErrorCode::InvalidModel, "size is not the declared one", [&] { inflated(longer, 35); });
}

TEST(Inflate, RefusesDamage) {
  expect_every_truncation_refused(kDynamic, [](const ByteVector& data) { inflated(data, 300); });
  expect_every_truncation_refused(kFixed, [](const ByteVector& data) { inflated(data, 35); });
  read_every_damage(kDynamic, [](const ByteVector& data) { inflated(data, 300); });
  read_every_damage(kZeros, [](const ByteVector& data) { inflated(data, 40000); });
  expect_error(ErrorCode::InvalidModel, "unknown block type", [] { inflated(bytes({0x07}), 0); });
  expect_error(ErrorCode::InvalidModel, "stored block's length", [] { inflated(bytes({1, 3, 0, 0, 0, 1, 2, 3}), 3); });
}

TEST(Zip, Crc32IsTheUsualOne) { EXPECT_EQ(crc32(bytes_of(std::string_view("123456789"))), 0xcbf43926u); }

ZipItem deflated(const std::string& name) { return {name, kFixed, 8, 35, 0xe5f54b48}; }

TEST(Zip, ReadsStoredAndDeflatedEntriesWithAndWithoutZip64) {
  for (const bool zip64 : {false, true}) {
    SCOPED_TRACE(zip64);
    const ByteVector file = make_zip({{"a/plain", to_bytes("hello")}, deflated("a/small"), {"empty", {}}}, zip64);
    const Zip zip(bytes_of(file), "z");
    ASSERT_EQ(zip.entries().size(), 3u);
    EXPECT_EQ(zip.read(*zip.find("a/plain")), to_bytes("hello"));
    EXPECT_EQ(zip.read(*zip.find("a/small")), to_bytes(std::string_view(kText)));
    EXPECT_TRUE(zip.read(*zip.find("empty")).empty());
    EXPECT_EQ(zip.find("other"), nullptr);
  }
}

void read_all(const ByteVector& file) {
  const Zip zip(bytes_of(file), "z");
  for (const ZipEntry& entry : zip.entries()) zip.read(entry);
}

TEST(Zip, RefusesTruncationAndSurvivesDamage) {
  for (const bool zip64 : {false, true}) {
    const ByteVector file = make_zip({{"a", to_bytes("hello")}, deflated("b")}, zip64);
    expect_every_truncation_refused(file, read_all);
    read_every_damage(file, read_all);
  }
}

TEST(Zip, RefusesWhatNoHonestZipHas) {
  const auto expect_refused = [](ErrorCode code, const std::string& part, std::vector<ZipItem> items,
                                 bool zip64 = false) {
    expect_error(code, part, [&] { read_all(make_zip(std::move(items), zip64)); });
  };
  const ZipItem plain{"a", to_bytes("hello")};
  expect_refused(ErrorCode::InvalidModel, "'a' is there twice", {plain, plain});
  expect_refused(ErrorCode::Unsupported, "'a' is encrypted", {{"a", to_bytes("hello"), 0, 0, 0, 1}});
  expect_refused(ErrorCode::Unsupported, "compression method 12", {{"a", to_bytes("hello"), 12, 5}});
  expect_refused(ErrorCode::InvalidModel, "stored, but with two sizes", {{"a", to_bytes("hello"), 0, 7}});
  expect_refused(ErrorCode::InvalidModel, "CRC-32 differs", {{"a", to_bytes("hello"), 0, 5, 77}});
  expect_refused(ErrorCode::InvalidModel, "another name", {plain, {"b", to_bytes("x"), 0, 0, 0, 0, 0}});
  expect_refused(ErrorCode::InvalidModel, "truncated", {{"a", to_bytes("hello"), 0, 0, 0, 0, 999}});
  expect_refused(ErrorCode::InvalidModel, "zip bomb", {{"a", kZeros, 8, uint64_t{50} << 20}});
  expect_refused(ErrorCode::InvalidModel, "zip bomb", {{"a", kZeros, 8, uint64_t{1} << 60}}, true);
  expect_refused(ErrorCode::InvalidModel, "sizes overflow",
                 {{"a", kZeros, 8, UINT64_MAX - 9}, {"b", kZeros, 8, UINT64_MAX - 9}}, true);
}

TEST(Zip, RefusesOverlappingEntries) {
  // The directory names one local header twice: the second under a name that the same header carries.
  const ByteVector file = make_zip({{"a", to_bytes("hello")}, {"b", to_bytes("x")}});
  ByteVector damaged = file;
  const std::string_view text = text_of(bytes_of(file));
  const size_t second = text.rfind("PK\x01\x02");
  damaged[second + 42] = std::byte{0};    // offset of b's header: a's
  damaged[second + 46] = std::byte{'a'};  // its name
  expect_error(ErrorCode::InvalidModel, "'a' is there twice", [&] { read_all(damaged); });

  // A stored entry whose data hold the header of another.
  const ByteVector inner = make_zip({{"b", to_bytes("x")}});
  const ByteVector header(inner.begin(), inner.begin() + 32);
  const ByteVector nested = make_zip({{"a", header}, {"b", to_bytes("x"), 0, 0, 0, 0, 31}});
  expect_error(ErrorCode::InvalidModel, "overlap", [&] { read_all(nested); });
}

}  // namespace
}  // namespace gyrus::test
