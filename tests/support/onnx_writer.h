#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

// Writes ONNX files for tests: messages are strings of bytes, put together field by field.

namespace gyrus::test::onnx_file {

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string number(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
inline std::string text(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string single(int field, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  std::string out = varint(static_cast<uint64_t>(field) << 3 | 5);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

enum Type { Float = 1, Uint8 = 2, Int64 = 7, Float16 = 10 };

// Attributes.
inline std::string attribute(const std::string& name, int64_t value) {
  return text(5, text(1, name) + number(3, value) + number(20, 2));
}
inline std::string attribute(const std::string& name, int value) {
  return attribute(name, static_cast<int64_t>(value));
}
inline std::string attribute(const std::string& name, float value) {
  return text(5, text(1, name) + single(2, value) + number(20, 1));
}
inline std::string attribute(const std::string& name, const std::string& value) {
  return text(5, text(1, name) + text(4, value) + number(20, 3));
}
inline std::string attribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string all;
  for (const int64_t value : values) all += number(8, value);
  return text(5, text(1, name) + all + number(20, 7));
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return text(5, text(1, name) + text(6, graph) + number(20, 5));
}
inline std::string from_function(const std::string& name, const std::string& of) {
  return text(5, text(1, name) + text(21, of) + number(20, 1));
}

// A tensor with raw data.
template <class T>
std::string tensor(const std::string& name, int type, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  std::string out;
  for (const int64_t extent : dims) out += number(1, extent);
  out += number(2, type) + text(8, name);
  std::string raw(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return out + text(9, raw);
}

inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = {},
                        const std::string& domain = {}, const std::string& name = {}) {
  std::string out;
  for (const std::string& input : inputs) out += text(1, input);
  for (const std::string& output : outputs) out += text(2, output);
  if (!name.empty()) out += text(3, name);
  out += text(4, op) + attributes;
  if (!domain.empty()) out += text(7, domain);
  return text(1, out);
}

// An extent below 0 is not known.
inline std::string value(int field, const std::string& name, int type, const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t extent : dims) shape += text(1, extent < 0 ? text(2, "n") : number(1, extent));
  return text(field, text(1, name) + text(2, text(1, number(1, type) + text(2, shape))));
}
inline std::string input(const std::string& name, int type, const std::vector<int64_t>& dims) {
  return value(11, name, type, dims);
}
inline std::string output(const std::string& name) { return text(12, text(1, name)); }
inline std::string initializer(const std::string& tensor_bytes) { return text(5, tensor_bytes); }

inline std::string opset(int64_t version, const std::string& domain = {}) {
  return text(8, text(1, domain) + number(2, version));
}
// Of parts made by node(), input(), output() and initializer().
inline std::string model(const std::string& graph, const std::string& more = opset(21)) {
  return number(1, 10) + text(7, graph) + more;
}

}  // namespace gyrus::test::onnx_file
