#include "training/onnx_write.h"

#include <bit>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/tensor.h"
#include "import/onnx_path.h"

namespace gyrus {
namespace {

// Field numbers of onnx.proto3.
constexpr int kModelGraph = 7, kGraphInitializer = 5, kTensorName = 8;
constexpr int64_t kFloat = 1, kOpset = 20, kIr = 9;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
std::string text(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string single(int field, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  std::string out = varint(static_cast<uint64_t>(field) << 3 | 5);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

std::string attribute(const std::string& name, const OnnxAttribute& value) {
  enum { Float = 1, Int = 2, String = 3, Ints = 7 };
  std::string out = text(1, name);
  if (const auto* f = std::get_if<double>(&value)) return out + single(2, static_cast<float>(*f)) + number(20, Float);
  if (const auto* i = std::get_if<int64_t>(&value)) return out + number(3, *i) + number(20, Int);
  if (const auto* s = std::get_if<std::string>(&value)) return out + text(4, *s) + number(20, String);
  for (const int64_t i : std::get<std::vector<int64_t>>(value)) out += number(8, i);
  return out + number(20, Ints);
}

std::string tensor_message(const std::string& name, const Tensor& tensor) {
  std::string out;
  for (const int64_t extent : tensor.shape) out += number(1, extent);
  out += number(2, kFloat) + text(kTensorName, name);
  return out + text(9, std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()));
}

// A value whose last three extents are open.
std::string volume(const std::string& name, int64_t channels) {
  std::string shape = text(1, number(1, 1)) + text(1, number(1, channels));
  for (const char* axis : {"x", "y", "z"}) shape += text(1, text(2, axis));
  return text(1, name) + text(2, text(1, number(1, kFloat) + text(2, shape)));
}

// Reads the fields of a message one after another.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  int field = 0, wire = 0;
  std::string_view whole, body;  // with and without tag; of strings without their length

  bool next() {
    if (at_ >= bytes_.size()) return false;
    const size_t begin = at_;
    const uint64_t tag = varint();
    field = static_cast<int>(tag >> 3);
    wire = static_cast<int>(tag & 7);
    size_t size = 0;
    if (wire == 0) {
      const size_t value = at_;
      varint();
      body = bytes_.substr(value, at_ - value);
    } else {
      size = wire == 2 ? static_cast<size_t>(varint()) : wire == 1 ? 8 : 4;
      if (size > bytes_.size() - at_) fail(ErrorCode::InvalidModel, "onnx", "a field is cut off");
      body = bytes_.substr(at_, size);
      at_ += size;
    }
    whole = bytes_.substr(begin, at_ - begin);
    return true;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail(ErrorCode::InvalidModel, "onnx", "a number is cut off");
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

std::string tensor_name(std::string_view message) {
  for (Fields fields(message); fields.next();)
    if (fields.field == kTensorName) return std::string(fields.body);
  return {};
}

std::string graph_with(std::string_view graph, const std::map<std::string, Tensor>& weights) {
  std::string out;
  for (Fields fields(graph); fields.next();) {
    const auto found = fields.field == kGraphInitializer ? weights.find(tensor_name(fields.body)) : weights.end();
    if (found == weights.end())
      out += fields.whole;
    else
      out += text(kGraphInitializer, tensor_message(found->first, found->second));
  }
  return out;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

OnnxWriter::OnnxWriter(std::string input, std::string output, int64_t classes)
    : input_(std::move(input)), output_(std::move(output)), classes_(classes) {}

std::string OnnxWriter::weight(const std::string& name, const Tensor& tensor) {
  initializers_ += text(kGraphInitializer, tensor_message(name, tensor));
  return name;
}

std::string OnnxWriter::filled(const std::string& name, const Shape& shape, float value) {
  Tensor tensor(DType::F32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, static_cast<double>(value));
  return weight(name, tensor);
}

void OnnxWriter::node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                      const std::vector<std::pair<std::string, OnnxAttribute>>& attributes) {
  std::string out;
  for (const std::string& input : inputs) out += text(1, input);
  out += text(2, output) + text(3, output + "_node") + text(4, op);
  for (const auto& [name, value] : attributes) out += text(5, attribute(name, value));
  nodes_ += text(1, out);
}

void OnnxWriter::activation(const std::string& name, const std::string& x, const std::string& y) {
  if (name == "gelu") return node("Gelu", {x}, y);
  if (name == "elu") return node("Elu", {x}, y, {{"alpha", 1.0}});
  if (name == "leaky_relu") return node("LeakyRelu", {x}, y, {{"alpha", 0.01}});
  if (name == "silu") {
    node("Sigmoid", {x}, y + ".sigmoid");
    return node("Mul", {x, y + ".sigmoid"}, y);
  }
  node("Relu", {x}, y);
}

std::vector<std::byte> OnnxWriter::bytes() const {
  const std::string graph =
      nodes_ + text(2, "network") + initializers_ + text(11, volume(input_, 1)) + text(12, volume(output_, classes_));
  return to_bytes(number(1, kIr) + text(2, "gyrus") + text(kModelGraph, graph) + text(8, number(2, kOpset)));
}

std::vector<std::byte> with_initializers(const std::vector<std::byte>& file,
                                         const std::map<std::string, Tensor>& weights) {
  std::string out;
  for (Fields fields({reinterpret_cast<const char*>(file.data()), file.size()}); fields.next();) {
    if (fields.field == kModelGraph)
      out += text(kModelGraph, graph_with(fields.body, weights));
    else
      out += fields.whole;
  }
  return to_bytes(out);
}

std::map<std::string, Tensor> onnx_weights(const std::string& path, const std::map<std::string, Tensor>& names) {
  const auto file = onnx::open_model(path);
  if (!file) fail(ErrorCode::InvalidModel, path, "is no ONNX file");
  std::map<std::string, Tensor> weights;
  for (const onnx::TensorProto& proto : file->model.graph.initializers)
    if (names.count(proto.name)) weights[proto.name] = onnx::to_tensor(proto, path, file->external);
  return weights;
}

}  // namespace gyrus
