#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "import/npy.h"
#include "import/onnx_import.h"
#include "reference/reference.h"
#include "support/onnx_writer.h"

namespace gyrus {
namespace {

using namespace test::onnx_file;
using testing::HasSubstr;

onnx::Imported import_bytes(const std::string& file, onnx::ImportOptions options = {}) {
  return onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), options.subject), options);
}

std::vector<double> run(const onnx::Imported& imported, const std::map<std::string, Tensor>& inputs) {
  return reference::run(imported.graph, inputs).at(imported.outputs.at(0).name).data;
}

std::string refusal(const std::string& file, const onnx::ImportOptions& options = {}) {
  try {
    import_bytes(file, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

const std::string kAdd = input("x", Float, {2, 3}) + initializer(tensor<float>("w", Float, {3}, {1, 2, 3})) +
                         node("Add", {"x", "w"}, {"y"}) + output("y");

TEST(OnnxImport, AddsAWeight) {
  const Tensor x = Tensor::from_floats({2, 3}, {0, 0, 0, 10, 10, 10});
  EXPECT_EQ(run(import_bytes(model(kAdd)), {{"x", x}}), (std::vector<double>{1, 2, 3, 11, 12, 13}));
}

TEST(OnnxImport, EveryTruncatedFileIsOneLine) {
  const std::string file = model(kAdd);
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string message = refusal(file.substr(0, length));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    if (message == "nothing was refused") continue;  // what was cut off is not needed
    EXPECT_EQ(message[0], '[') << message;
  }
  EXPECT_THAT(refusal(file.substr(0, 40)), HasSubstr("truncated"));
}

TEST(OnnxImport, NamesEverythingThatIsNotSupportedAtOnce) {
  const std::string graph = input("x", Float, {4}) + node("NoSuchOp", {"x"}, {"a"}, {}, {}, "first") +
                            node("Unique", {"a"}, {"b"}) + node("Relu", {"b"}, {"c"}) + node("NoSuchOp", {"c"}, {"y"}) +
                            output("y");
  const std::string message = refusal(model(graph));
  EXPECT_THAT(message, HasSubstr("NoSuchOp 'first' and 1 more"));
  EXPECT_THAT(message, HasSubstr("Unique"));
  EXPECT_EQ(message.find("Relu"), std::string::npos) << "what follows from another is not named: " << message;
}

TEST(OnnxImport, WantsAnOpset) { EXPECT_THAT(refusal(model(kAdd, "")), HasSubstr("says no opset")); }

TEST(OnnxImport, UnknownExtentsMustBeSaid) {
  const std::string file = model(input("x", Float, {-1, 3}) + node("Relu", {"x"}, {"y"}) + output("y"));
  EXPECT_THAT(refusal(file), HasSubstr("float[n,3]"));
  onnx::ImportOptions options;
  options.shapes["x"] = {5, 3};
  EXPECT_EQ(import_bytes(file, options).outputs.at(0).shape, (Shape{5, 3}));
  options.shapes["z"] = {1};
  EXPECT_THAT(refusal(file, options), HasSubstr("has no input 'z'; it has: x"));
}

TEST(OnnxImport, ShapeArithmeticIsFolded) {
  const std::string graph =
      input("x", Float, {2, 3, 4}) + node("Shape", {"x"}, {"s"}) +
      initializer(tensor<int64_t>("zero", Int64, {1}, {0})) + initializer(tensor<int64_t>("rest", Int64, {1}, {-1})) +
      node("Gather", {"s", "zero"}, {"n"}) + node("Concat", {"n", "rest"}, {"to"}, attribute("axis", 0)) +
      node("Reshape", {"x", "to"}, {"y"}) + output("y");
  const onnx::Imported imported = import_bytes(model(graph));
  EXPECT_EQ(imported.outputs.at(0).shape, (Shape{2, 12}));
  EXPECT_EQ(imported.graph.nodes().size(), 1u);
}

TEST(OnnxImport, IfIsFollowedAndSeesWhatIsAroundIt) {
  const auto branch = [](const char* op) { return node(op, {"x"}, {"r"}) + output("r"); };
  const std::string graph =
      input("x", Float, {2}) + input("which", 9, {}) +
      node("If", {"which"}, {"y"},
           graph_attribute("then_branch", branch("Neg")) + graph_attribute("else_branch", branch("Abs"))) +
      output("y");
  onnx::ImportOptions options;
  EXPECT_THAT(refusal(model(graph), options),
              HasSubstr("'which' decides shapes or positions and must be known before; bind it"));
  const Tensor x = Tensor::from_floats({2}, {-1, 2});
  Tensor which(DType::Bool, {});
  options.bound["which"] = which;
  EXPECT_EQ(run(import_bytes(model(graph), options), {{"x", x}}), (std::vector<double>{1, 2}));
  set(options.bound["which"], 0, 1);
  EXPECT_EQ(run(import_bytes(model(graph), options), {{"x", x}}), (std::vector<double>{1, -2}));
}

TEST(OnnxImport, FunctionsTakeTheirAttributesAndLackOptionalOperands) {
  // f(a, b; alpha) = Clip(LeakyRelu(a; alpha), b)
  const std::string function = text(1, "f") + text(10, "own") + text(4, "a") + text(4, "b") + text(5, "r") +
                               text(6, "alpha") +
                               text(7, node("LeakyRelu", {"a"}, {"l"}, from_function("alpha", "alpha")).substr(2)) +
                               text(7, node("Clip", {"l", "b"}, {"r"}).substr(2)) + text(9, number(2, 21));
  const std::string graph =
      input("x", Float, {2}) + node("f", {"x"}, {"y"}, attribute("alpha", 0.5f), "own") + output("y");
  const std::string file = model(graph, opset(21) + opset(1, "own") + text(25, function));
  EXPECT_EQ(run(import_bytes(file), {{"x", Tensor::from_floats({2}, {-1, 2})}}), (std::vector<double>{-0.5, 2}));
}

TEST(OnnxImport, FunctionsThatCallThemselvesEnd) {
  const std::string function = text(1, "f") + text(10, "own") + text(4, "a") + text(5, "r") +
                               text(7, node("f", {"a"}, {"r"}, {}, "own").substr(2)) + text(9, number(2, 21));
  const std::string graph = input("x", Float, {2}) + node("f", {"x"}, {"y"}, {}, "own") + output("y");
  EXPECT_THAT(refusal(model(graph, opset(21) + opset(1, "own") + text(25, function))), HasSubstr("too deep"));
}

std::string external(const std::string& location, const std::string& length = "8") {
  const auto entry = [](const std::string& key, const std::string& value) {
    return text(13, text(1, key) + text(2, value));
  };
  const std::string weight = number(1, 2) + number(2, Float) + text(8, "w") + entry("location", location) +
                             entry("offset", "4") + entry("length", length) + number(14, 1);
  return model(input("x", Float, {2}) + initializer(weight) + node("Add", {"x", "w"}, {"y"}) + output("y"));
}

TEST(OnnxImport, ExternalDataStaysInTheFolder) {
  onnx::ImportOptions options;
  options.external = [](const std::string& location, uint64_t offset, uint64_t length) {
    EXPECT_EQ(location, "data/w.bin");
    EXPECT_EQ(offset, 4u);
    const float values[] = {5, 6};
    const auto* bytes = reinterpret_cast<const std::byte*>(values);
    return std::vector<std::byte>(bytes, bytes + length);
  };
  const Tensor x = Tensor::from_floats({2}, {1, 1});
  EXPECT_EQ(run(import_bytes(external("data/w.bin"), options), {{"x", x}}), (std::vector<double>{6, 7}));
  for (const char* path : {"../w.bin", "/etc/passwd", "a/../../w", "a//b", "..", "C:\\w", "c:w", ""})
    EXPECT_THAT(refusal(external(path), options), HasSubstr("stays in the model's folder")) << path;
  EXPECT_THAT(refusal(external("data/w.bin", "800000000000"), options),
              HasSubstr("external data of 800000000000 bytes"));
}

TEST(OnnxImport, NarrowElementsKeepTheirTypeAndWrap) {
  const std::string graph = input("x", 3, {2}) + node("Add", {"x", "x"}, {"y"}) + output("y");
  const onnx::Imported imported = import_bytes(model(graph));
  EXPECT_EQ(imported.outputs.at(0).elem, onnx::Elem::I8);
  Tensor x(DType::I32, {2});
  x.as<int32_t>()[0] = 100;
  x.as<int32_t>()[1] = -3;
  EXPECT_EQ(run(imported, {{"x", x}}), (std::vector<double>{-56, -6}));
}

TEST(OnnxImport, HugeExtentsAreRefused) {
  EXPECT_THAT(refusal(model(input("x", Float, {int64_t{1} << 40, int64_t{1} << 40}) + node("Relu", {"x"}, {"y"}) +
                            output("y"))),
              HasSubstr("["));
  const std::string weight = number(1, int64_t{1} << 50) + number(2, Float) + text(8, "w") + text(9, "1234");
  EXPECT_THAT(
      refusal(model(input("x", Float, {1}) + initializer(weight) + node("Add", {"x", "w"}, {"y"}) + output("y"))),
      HasSubstr("beyond reason"));
}

// Weights of four bits: w = (q - 8) · scale, two to a byte, the lower half first.
// Frequencies far beyond half of the rate: filters end with the bins, and at once.
TEST(OnnxImport, MelFiltersEndWithTheBins) {
  const std::string graph =
      initializer(tensor<int64_t>("mels", Int64, {}, {2})) + initializer(tensor<int64_t>("length", Int64, {}, {8})) +
      initializer(tensor<int64_t>("rate", Int64, {}, {1})) + initializer(tensor<float>("low", Float, {}, {0})) +
      initializer(tensor<float>("high", Float, {}, {1e15F})) +
      node("MelWeightMatrix", {"mels", "length", "rate", "low", "high"}, {"y"}) + output("y");
  const std::vector<double> filters = run(import_bytes(model(graph)), {});
  ASSERT_EQ(filters.size(), 10u);
  for (const double value : filters) EXPECT_TRUE(value >= 0 && value < 1e-3) << value;
}

TEST(OnnxImport, MatMulNBits) {
  std::vector<uint8_t> packed(16, 0x88);
  packed[0] = 0x98;  // w[1] = 1 · 0.5
  const std::string graph =
      input("x", Float, {1, 32}) + initializer(tensor<uint8_t>("b", Uint8, {1, 1, 16}, packed)) +
      initializer(tensor<float>("s", Float, {1}, {0.5f})) +
      node("MatMulNBits", {"x", "b", "s"}, {"y"},
           attribute("K", 32) + attribute("N", 1) + attribute("bits", 4) + attribute("block_size", 32),
           "com.microsoft") +
      output("y");
  std::vector<float> x(32, 1);
  x[1] = 3;
  EXPECT_EQ(
      run(import_bytes(model(graph, opset(21) + opset(1, "com.microsoft"))), {{"x", Tensor::from_floats({1, 32}, x)}}),
      std::vector<double>{1.5});
}

// One head of queries and keys, the second query sees both keys.
TEST(OnnxImport, GroupQueryAttentionIsCausal) {
  const std::string graph = input("q", Float, {1, 2, 2}) + input("k", Float, {1, 2, 1}) + input("v", Float, {1, 2, 1}) +
                            node("GroupQueryAttention", {"q", "k", "v"}, {"y", "pk", "pv"},
                                 attribute("num_heads", 2) + attribute("kv_num_heads", 1), "com.microsoft") +
                            output("y");
  const std::vector<double> y = run(import_bytes(model(graph, opset(21) + opset(1, "com.microsoft"))),
                                    {{"q", Tensor::from_floats({1, 2, 2}, {1, 1, 0, 1})},
                                     {"k", Tensor::from_floats({1, 2, 1}, {0, 1})},
                                     {"v", Tensor::from_floats({1, 2, 1}, {2, 4})}});
  const double e = std::exp(1.0);
  EXPECT_NEAR(y[0], 2, 1e-6);
  EXPECT_NEAR(y[1], 2, 1e-6);
  EXPECT_NEAR(y[2], 3, 1e-6);
  EXPECT_NEAR(y[3], (2 + 4 * e) / (1 + e), 1e-6);
}

TEST(OnnxImport, GroupQueryAttentionRefusesAPastThatIsNotFull) {
  const auto file = [](int32_t last) {
    return model(input("q", Float, {1, 1, 1}) + input("past", Float, {1, 1, 3, 1}) +
                     initializer(tensor<int32_t>("lengths", 6, {1}, {last})) +
                     node("GroupQueryAttention", {"q", "q", "q", "past", "past", "lengths"}, {"y", "pk", "pv"},
                          attribute("num_heads", 1) + attribute("kv_num_heads", 1), "com.microsoft") +
                     output("y"),
                 opset(21) + opset(1, "com.microsoft"));
  };
  EXPECT_EQ(import_bytes(file(3)).outputs.at(0).shape, (Shape{1, 1, 1}));
  EXPECT_THAT(refusal(file(1)), HasSubstr("several lengths"));
}

TEST(Npy, GoesRoundTrip) {
  for (const onnx::Elem elem :
       {onnx::Elem::F32, onnx::Elem::F64, onnx::Elem::F16, onnx::Elem::I8, onnx::Elem::I16, onnx::Elem::I32,
        onnx::Elem::I64, onnx::Elem::U8, onnx::Elem::U16, onnx::Elem::U32, onnx::Elem::U64, onnx::Elem::Bool})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 2}}) {
      Tensor tensor(onnx::stored_as(elem, "test"), shape);
      for (int64_t i = 0; i < tensor.size(); ++i)
        set(tensor, i, static_cast<double>(elem == onnx::Elem::Bool ? i % 2 : i));
      const std::vector<std::byte> file = write_npy(tensor, elem);
      const Array back = read_npy(bytes_of(file), "test.npy");
      EXPECT_EQ(back.elem, elem);
      EXPECT_EQ(back.tensor.shape, shape);
      EXPECT_EQ(back.tensor.data, tensor.data) << onnx::to_string(elem);
    }
}

TEST(Npy, ReadsFortranOrderAndBigEndian) {
  std::string header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
  const std::string file = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header +
                           std::string("\0\1\0\4\0\2\0\5\0\3\0\6", 12);
  const Array array = read_npy(bytes_of(std::string_view(file)), "test.npy");
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(get(array.tensor, i), i + 1);
  EXPECT_THROW(read_npy(bytes_of(std::string_view(file).substr(0, file.size() - 1)), "test.npy"), Error);
  EXPECT_THROW(read_npy(bytes_of(std::string_view("\x93NUMPY")), "test.npy"), Error);
}

}  // namespace
}  // namespace gyrus
