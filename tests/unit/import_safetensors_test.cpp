#include "import/safetensors.h"

#include <limits>

#include "import/json.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

StateDict read_tensors(const ByteVector& file) { return read_safetensors(bytes_of(file), "m.safetensors"); }

TEST(Safetensors, ReadsWhatItWrites) {
  std::map<std::string, Tensor> tensors;
  tensors["f"] = Tensor::from_floats({2, 3}, {1, -2, 3, 4, 5, 6.5f});
  tensors["bytes"] = Tensor(DType::U8, {5});
  tensors["scalar"] = Tensor::from_floats({}, {7});
  tensors["count"] = Tensor(DType::I32, {2});
  tensors["count"].as<int32_t>()[1] = -9;
  const ByteVector file = write_safetensors(tensors, {{"format", "pt"}});
  EXPECT_TRUE(is_safetensors(bytes_of(file)));
  const StateDict state = read_tensors(file);
  ASSERT_EQ(state.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_NE(state.find(name), nullptr);
    EXPECT_EQ(state.find(name)->tensor->dtype, tensor.dtype);
    EXPECT_EQ(state.find(name)->tensor->shape, tensor.shape);
    EXPECT_EQ(state.find(name)->tensor->data, tensor.data);
  }
  EXPECT_EQ(write_safetensors(tensors, {{"format", "pt"}}), file);
}

TEST(Safetensors, ConvertsTheElementTypes) {
  const auto one = [](const std::string& dtype, const ByteVector& data) {
    const std::string header =
        "{\"x\":{\"dtype\":\"" + dtype + "\",\"shape\":[],\"data_offsets\":[0," + std::to_string(data.size()) + "]}}";
    return get(*read_tensors(make_safetensors(header, data)).find("x")->tensor, 0);
  };
  EXPECT_EQ(one("F16", ByteWriter().u16(0x3e00).out()), 1.5);
  EXPECT_EQ(one("BF16", ByteWriter().u16(0x3fc0).out()), 1.5);
  EXPECT_EQ(one("F64", ByteWriter().u64(0x3ff8000000000000).out()), 1.5);
  EXPECT_EQ(one("I64", ByteWriter().u64(static_cast<uint64_t>(-2)).out()), -2);
  EXPECT_EQ(one("I8", ByteWriter().u8(0xfe).out()), -2);
  EXPECT_EQ(one("U16", ByteWriter().u16(0xfffe).out()), 65534);
  EXPECT_EQ(one("BOOL", ByteWriter().u8(1).out()), 1);
  EXPECT_EQ(one("F64", ByteWriter().u64(0x7fe0000000000000).out()), std::numeric_limits<double>::infinity());
  expect_error(ErrorCode::Unsupported, "beyond 32 bits",
               [&] { one("U64", ByteWriter().u64(uint64_t{1} << 33).out()); });
  expect_error(ErrorCode::Unsupported, "unknown dtype 'F8_E4M3'", [&] { one("F8_E4M3", ByteVector(1)); });
}

TEST(Safetensors, IsStrictAboutItsHeader) {
  const auto refused = [](const std::string& part, const std::string& header, size_t bytes) {
    SCOPED_TRACE(header);
    expect_error(ErrorCode::InvalidModel, part, [&] { read_tensors(make_safetensors(header, ByteVector(bytes))); });
  };
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return "{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  refused("not valid JSON", "{", 0);
  refused("not valid JSON", "{\"a\":\xff}", 0);
  refused("no JSON object", "[1]", 0);
  refused("'a' twice", "{\"a\":" + entry("[1]", "[0,4]") + ",\"a\":" + entry("[1]", "[0,4]") + "}", 4);
  refused("nested deeper", std::string(100, '['), 0);
  refused("has 8 bytes, but F32 [3] needs 12", "{\"a\":" + entry("[3]", "[0,8]") + "}", 8);
  refused("a gap or an overlap", "{\"a\":" + entry("[1]", "[4,8]") + "}", 8);
  refused("a gap or an overlap", "{\"a\":" + entry("[2]", "[0,8]") + ",\"b\":" + entry("[1]", "[4,8]") + "}", 8);
  refused("a gap or an overlap", "{\"a\":" + entry("[1]", "[0,4]") + ",\"b\":" + entry("[1]", "[8,12]") + "}", 12);
  refused("take 4 bytes, the file holds 6", "{\"a\":" + entry("[1]", "[0,4]") + "}", 6);
  refused("take 4 bytes, the file holds 2", "{\"a\":" + entry("[1]", "[0,4]") + "}", 2);
  refused("[begin, end]", "{\"a\":" + entry("[1]", "[4,0]") + "}", 4);
  refused("[begin, end]", "{\"a\":" + entry("[1]", "[-4,0]") + "}", 4);
  refused("[begin, end]", "{\"a\":" + entry("[1]", "[0]") + "}", 4);
  refused("no extent", "{\"a\":" + entry("[-1]", "[0,4]") + "}", 4);
  refused("no extent", "{\"a\":" + entry("[1.0]", "[0,4]") + "}", 4);
  refused("beyond 2^48", "{\"a\":" + entry("[4294967296,4294967296,4294967296]", "[0,0]") + "}", 0);
  refused("beyond 2^48", "{\"a\":" + entry("[0,9223372036854775807,9223372036854775807]", "[0,0]") + "}", 0);
  refused("no extent", "{\"a\":" + entry("[18446744073709551615]", "[0,4]") + "}", 4);
  refused("list of at most 8", "{\"a\":" + entry("[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4);
  refused("other keys", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4);
  refused("no map of strings", "{\"__metadata__\":{\"a\":1}}", 0);
  expect_error(ErrorCode::InvalidModel, "truncated", [] { read_tensors(ByteWriter().u64(1000).text("{}").out()); });
  expect_error(ErrorCode::InvalidModel, "header of",
               [] { read_tensors(ByteWriter().u64(UINT64_MAX).text("{}").out()); });
}

TEST(Safetensors, RefusesTruncationAndSurvivesDamage) {
  const ByteVector file = make_safetensors({ramp("a.weight", {2, 2}), ramp("b", {1})});
  ASSERT_NO_THROW(read_tensors(file));
  expect_every_truncation_refused(file, read_tensors);
  read_every_damage(file, read_tensors);
}

TEST(CheckFinite, NamesTheTensor) {
  NamedFloats bad = ramp("layer.weight", {4});
  bad.values[2] = std::numeric_limits<float>::quiet_NaN();
  expect_error(ErrorCode::InvalidModel, "weight 'layer.weight' holds NaN at element 2", [&] {
    check_finite(read_tensors(make_safetensors({ramp("a", {2}), bad})), "m");
  });
  bad.values[2] = -std::numeric_limits<float>::infinity();
  expect_error(ErrorCode::InvalidModel, "holds infinity",
               [&] { check_finite(read_tensors(make_safetensors({bad})), "m"); });
}

}  // namespace
}  // namespace gyrus::test
