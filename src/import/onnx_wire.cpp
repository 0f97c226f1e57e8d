#include "import/onnx_wire.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/tensor.h"

namespace gyrus::onnx {
namespace {

constexpr int kDeepest = 40;  // graphs inside attributes inside nodes inside graphs

enum class Wire : uint8_t { Varint = 0, Fixed64 = 1, Chunk = 2, Fixed32 = 5 };

// One message: fields in any order. Unknown ones are skipped.
class Message {
 public:
  Message(Bytes bytes, const std::string& subject) : bytes_(bytes), subject_(subject) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t key = varint();
    field_ = key >> 3;
    const uint64_t wire = key & 7;
    if (field_ == 0 || (wire != 0 && wire != 1 && wire != 2 && wire != 5)) broken("a field's key is not valid");
    wire_ = static_cast<Wire>(wire);
    switch (wire_) {
      case Wire::Varint: number_ = varint(); break;
      case Wire::Fixed64: number_ = fixed(8); break;
      case Wire::Fixed32: number_ = fixed(4); break;
      case Wire::Chunk: chunk_ = take(varint()); break;
    }
    return true;
  }

  uint64_t field() const { return field_; }
  Wire wire() const { return wire_; }
  int64_t integer() const {
    expect(wire_ == Wire::Varint);
    return static_cast<int64_t>(number_);
  }
  Bytes chunk() const {
    expect(wire_ == Wire::Chunk);
    return chunk_;
  }
  std::string text() const { return std::string(text_of(chunk())); }
  float single() const {
    expect(wire_ == Wire::Fixed32);
    return bits_as<float>(static_cast<uint32_t>(number_));
  }

  // A repeated number, packed or one at a time.
  template <class T>
  void integers(std::vector<T>& into) const {
    if (wire_ == Wire::Varint) {
      into.push_back(static_cast<T>(number_));
      return;
    }
    Message packed(chunk(), subject_);
    while (packed.at_ < packed.bytes_.size()) into.push_back(static_cast<T>(packed.varint()));
  }
  template <class T>
  void floats(std::vector<T>& into) const {
    constexpr size_t kSize = sizeof(T);
    const auto value = [](uint64_t bits) {
      if constexpr (kSize == 4)
        return bits_as<float>(static_cast<uint32_t>(bits));
      else
        return bits_as<double>(bits);
    };
    if (wire_ == (kSize == 4 ? Wire::Fixed32 : Wire::Fixed64)) {
      into.push_back(value(number_));
      return;
    }
    Message packed(chunk(), subject_);
    if (packed.bytes_.size() % kSize != 0) broken("a list of floats ends within one");
    while (packed.at_ < packed.bytes_.size()) into.push_back(value(packed.fixed(kSize)));
  }

  [[noreturn]] void broken(const char* what) const {
    fail(ErrorCode::InvalidModel, subject_, "truncated, corrupted or no ONNX file: ", what, " (at byte ", at_,
         " of a message of ", bytes_.size(), ")");
  }

 private:
  void expect(bool good) const {
    if (!good) broken("a field has another type than in ONNX");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) broken("it ends within a number");
      const uint64_t byte = static_cast<uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken("a number has more than ten bytes");
  }
  uint64_t fixed(size_t count) {
    uint64_t value = 0;
    const Bytes from = take(count);
    for (size_t i = 0; i < count; ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
    return value;
  }
  Bytes take(uint64_t count) {
    if (count > bytes_.size() - at_) broken("a field is longer than what holds it");
    const Bytes out = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return out;
  }

  Bytes bytes_;
  const std::string& subject_;
  size_t at_ = 0;
  uint64_t field_ = 0, number_ = 0;
  Wire wire_ = Wire::Varint;
  Bytes chunk_;
};

GraphProto read_graph(Bytes bytes, const std::string& subject, int depth);

std::pair<std::string, std::string> read_entry(Bytes bytes, const std::string& subject) {
  std::pair<std::string, std::string> entry;
  for (Message m(bytes, subject); m.next();) {
    if (m.field() == 1) entry.first = m.text();
    if (m.field() == 2) entry.second = m.text();
  }
  return entry;
}

AttributeProto read_attribute(Bytes bytes, const std::string& subject, int depth) {
  AttributeProto a;
  for (Message m(bytes, subject); m.next();) {
    switch (m.field()) {
      case 1: a.name = m.text(); break;
      case 2: a.f = m.single(); break;
      case 3: a.i = m.integer(); break;
      case 4: a.s = m.text(); break;
      case 5: a.t = std::make_shared<TensorProto>(read_tensor(m.chunk(), subject)); break;
      case 6: a.g = std::make_shared<GraphProto>(read_graph(m.chunk(), subject, depth + 1)); break;
      case 7: m.floats(a.floats); break;
      case 8: m.integers(a.ints); break;
      case 9: a.strings.push_back(m.text()); break;
      case 20: a.type = static_cast<int32_t>(m.integer()); break;
      case 21: a.ref = m.text(); break;
      default: break;
    }
  }
  return a;
}

NodeProto read_node(Bytes bytes, const std::string& subject, int depth) {
  NodeProto node;
  for (Message m(bytes, subject); m.next();) {
    switch (m.field()) {
      case 1: node.inputs.push_back(m.text()); break;
      case 2: node.outputs.push_back(m.text()); break;
      case 3: node.name = m.text(); break;
      case 4: node.type = m.text(); break;
      case 5: node.attributes.push_back(read_attribute(m.chunk(), subject, depth)); break;
      case 7: node.domain = m.text(); break;
      case 8: node.overload = m.text(); break;
      default: break;
    }
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

std::vector<Dim> read_dims(Bytes bytes, const std::string& subject) {
  std::vector<Dim> dims;
  for (Message shape(bytes, subject); shape.next();) {
    if (shape.field() != 1) continue;
    Dim dim;
    for (Message m(shape.chunk(), subject); m.next();) {
      if (m.field() == 1) dim.extent = m.integer();
      if (m.field() == 2) dim.name = m.text();
    }
    dims.push_back(std::move(dim));
  }
  return dims;
}

void read_type(Bytes bytes, const std::string& subject, ValueProto& value) {
  for (Message type(bytes, subject); type.next();) {
    switch (type.field()) {
      case 1: value.kind = "tensor"; break;
      case 4: value.kind = "sequence"; break;
      case 5: value.kind = "map"; break;
      case 8: value.kind = "sparse tensor"; break;
      case 9: value.kind = "optional"; break;
      default: break;
    }
    if (type.field() != 1) continue;
    value.is_tensor = true;
    for (Message m(type.chunk(), subject); m.next();) {
      if (m.field() == 1) value.type = static_cast<Elem>(m.integer());
      if (m.field() != 2) continue;
      value.has_shape = true;
      value.dims = read_dims(m.chunk(), subject);
    }
  }
}

ValueProto read_value(Bytes bytes, const std::string& subject) {
  ValueProto value;
  for (Message m(bytes, subject); m.next();) {
    if (m.field() == 1) value.name = m.text();
    if (m.field() == 2) read_type(m.chunk(), subject, value);
  }
  return value;
}

GraphProto read_graph(Bytes bytes, const std::string& subject, int depth) {
  if (depth > kDeepest) fail(ErrorCode::InvalidModel, subject, "graphs lie in graphs, more than ", kDeepest, " deep");
  GraphProto graph;
  for (Message m(bytes, subject); m.next();) {
    switch (m.field()) {
      case 1: graph.nodes.push_back(read_node(m.chunk(), subject, depth)); break;
      case 2: graph.name = m.text(); break;
      case 5: graph.initializers.push_back(read_tensor(m.chunk(), subject)); break;
      case 11: graph.inputs.push_back(read_value(m.chunk(), subject)); break;
      case 12: graph.outputs.push_back(read_value(m.chunk(), subject)); break;
      case 15: ++graph.sparse_initializers; break;
      default: break;
    }
  }
  return graph;
}

void read_opset(Bytes bytes, const std::string& subject, Opsets& opsets) {
  std::string domain;
  int64_t version = 0;
  for (Message m(bytes, subject); m.next();) {
    if (m.field() == 1) domain = m.text();
    if (m.field() == 2) version = m.integer();
  }
  opsets[domain == "ai.onnx" ? "" : domain] = version;
}

FunctionProto read_function(Bytes bytes, const std::string& subject) {
  FunctionProto function;
  for (Message m(bytes, subject); m.next();) {
    switch (m.field()) {
      case 1: function.name = m.text(); break;
      case 4: function.inputs.push_back(m.text()); break;
      case 5: function.outputs.push_back(m.text()); break;
      case 6: function.attributes.push_back(m.text()); break;
      case 7: function.nodes.push_back(read_node(m.chunk(), subject, 1)); break;
      case 9: read_opset(m.chunk(), subject, function.opsets); break;
      case 10: function.domain = m.text(); break;
      case 11: function.defaults.push_back(read_attribute(m.chunk(), subject, 1)); break;
      case 13: function.overload = m.text(); break;
      default: break;
    }
  }
  if (function.domain == "ai.onnx") function.domain.clear();
  return function;
}

struct ElemName {
  Elem elem;
  const char* name;
  size_t bits;  // 0: not read
};
constexpr ElemName kNames[] = {
    {Elem::F32, "float", 32},  {Elem::U8, "uint8", 8},      {Elem::I8, "int8", 8},         {Elem::U16, "uint16", 16},
    {Elem::I16, "int16", 16},  {Elem::I32, "int32", 32},    {Elem::I64, "int64", 64},      {Elem::String, "string", 0},
    {Elem::Bool, "bool", 8},   {Elem::F16, "float16", 16},  {Elem::F64, "double", 64},     {Elem::U32, "uint32", 32},
    {Elem::U64, "uint64", 64}, {Elem::C64, "complex64", 0}, {Elem::C128, "complex128", 0}, {Elem::BF16, "bfloat16", 16},
    {Elem::U4, "uint4", 4},    {Elem::I4, "int4", 4},
};

// Of `count` elements; those of 4 bits lie two to a byte, the first in the lower half.
uint64_t file_bytes(Elem elem, uint64_t count) {
  for (const ElemName& n : kNames)
    if (n.elem == elem) return (count * n.bits + 7) / 8;
  return 0;
}

int nibble(Bytes raw, size_t i, bool is_signed) {
  const int value = (std::to_integer<int>(raw[i / 2]) >> (i % 2 * 4)) & 15;
  return is_signed && value > 7 ? value - 16 : value;
}

float from_bf16(uint16_t bits) { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }

template <class T>
T at(Bytes raw, size_t i) {
  T value;
  std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));  // little endian, as every host that gyrus is built for
  return value;
}

uint32_t checked_u32(uint64_t value, const std::string& subject) {
  if (value > std::numeric_limits<uint32_t>::max())
    fail(ErrorCode::Unsupported, subject, "holds ", value, ", which does not fit 32 bits");
  return static_cast<uint32_t>(value);
}

Tensor from_raw(Elem elem, Shape shape, Bytes raw, const std::string& subject) {
  Tensor tensor(stored_as(elem, subject), std::move(shape));
  const size_t count = static_cast<size_t>(tensor.size());
  if (raw.size() != file_bytes(elem, count))
    fail(ErrorCode::InvalidModel, subject, "holds ", raw.size(), " bytes, but ", to_string(elem),
         gyrus::to_string(tensor.shape), " has ", file_bytes(elem, count));
  switch (elem) {
    case Elem::U4:
      for (size_t i = 0; i < count; ++i) tensor.as<uint8_t>()[i] = static_cast<uint8_t>(nibble(raw, i, false));
      break;
    case Elem::I4:
      for (size_t i = 0; i < count; ++i) tensor.as<int32_t>()[i] = nibble(raw, i, true);
      break;
    case Elem::I8:
      for (size_t i = 0; i < count; ++i) tensor.as<int32_t>()[i] = int32_t{at<int8_t>(raw, i)};
      break;
    case Elem::I16:
      for (size_t i = 0; i < count; ++i) tensor.as<int32_t>()[i] = at<int16_t>(raw, i);
      break;
    case Elem::U16:
      for (size_t i = 0; i < count; ++i) tensor.as<uint32_t>()[i] = at<uint16_t>(raw, i);
      break;
    case Elem::U64:
      for (size_t i = 0; i < count; ++i) tensor.as<uint32_t>()[i] = checked_u32(at<uint64_t>(raw, i), subject);
      break;
    case Elem::F64:
      for (size_t i = 0; i < count; ++i) tensor.as<float>()[i] = static_cast<float>(at<double>(raw, i));
      break;
    case Elem::BF16:
      for (size_t i = 0; i < count; ++i) tensor.as<float>()[i] = from_bf16(at<uint16_t>(raw, i));
      break;
    case Elem::Bool:
      for (size_t i = 0; i < count; ++i) tensor.as<uint8_t>()[i] = at<uint8_t>(raw, i) != 0;
      break;
    default:
      if (count > 0) std::memcpy(tensor.data.data(), raw.data(), raw.size());
  }
  return tensor;
}

// The elements of a typed field, as a list of the bytes that raw data would have.
template <class To, class From>
std::vector<std::byte> packed(const std::vector<From>& values) {
  std::vector<std::byte> out(values.size() * sizeof(To));
  for (size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(out.data() + i * sizeof(To), &value, sizeof(To));
  }
  return out;
}

std::vector<std::byte> typed_bytes(const TensorProto& proto) {
  switch (proto.type) {
    case Elem::F32: return packed<float>(proto.floats);
    case Elem::F64: return packed<double>(proto.doubles);
    case Elem::I64: return packed<int64_t>(proto.longs);
    case Elem::U64: return packed<uint64_t>(proto.unsigneds);
    case Elem::U32: return packed<uint32_t>(proto.unsigneds);
    case Elem::I32: return packed<int32_t>(proto.ints);
    case Elem::I16: return packed<int16_t>(proto.ints);
    case Elem::U16:
    case Elem::F16:
    case Elem::BF16: return packed<uint16_t>(proto.ints);
    case Elem::I8: return packed<int8_t>(proto.ints);
    default: return packed<uint8_t>(proto.ints);
  }
}

uint64_t number_of(const TensorProto& proto, const char* key, uint64_t fallback, const std::string& subject) {
  const auto found = proto.location.find(key);
  if (found == proto.location.end()) return fallback;
  uint64_t value = 0;
  for (const char c : found->second) {
    if (c < '0' || c > '9' || value > (uint64_t{1} << 58))
      fail(ErrorCode::InvalidModel, subject, "external data: ", key, " is ", in_quotes(found->second),
           ", expected a number");
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

// A relative path whose parts all go down.
void check_location(const std::string& path, const std::string& subject) {
  bool good = is_good_name(path) && path.front() != '/' && path.find('\\') == std::string::npos &&
              path.find(':') == std::string::npos;
  for (size_t begin = 0; good && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    good = !part.empty() && part != "..";
    begin = end + 1;
  }
  if (!good)
    fail(ErrorCode::InvalidModel, subject, "external data at ", in_quotes(path),
         ": expected a relative path that stays in the model's folder");
}

}  // namespace

std::string to_string(Elem elem) {
  for (const ElemName& n : kNames)
    if (n.elem == elem) return n.name;
  return cat("element type ", static_cast<int32_t>(elem));
}

DType stored_as(Elem elem, const std::string& subject) {
  switch (elem) {
    case Elem::F32:
    case Elem::F64:
    case Elem::BF16: return DType::F32;
    case Elem::F16: return DType::F16;
    case Elem::I4:
    case Elem::I8:
    case Elem::I16:
    case Elem::I32: return DType::I32;
    case Elem::U16:
    case Elem::U32:
    case Elem::U64: return DType::U32;
    case Elem::U4:
    case Elem::U8: return DType::U8;
    case Elem::I64: return DType::I64;
    case Elem::Bool: return DType::Bool;
    default: fail(ErrorCode::Unsupported, subject, "is of ", to_string(elem), ", which gyrus does not compute with");
  }
}

Elem elem_of(DType dtype) {
  switch (dtype) {
    case DType::F32: return Elem::F32;
    case DType::F16: return Elem::F16;
    case DType::I32: return Elem::I32;
    case DType::U32: return Elem::U32;
    case DType::U8: return Elem::U8;
    case DType::I64: return Elem::I64;
    case DType::Bool: return Elem::Bool;
  }
  return Elem::Undefined;
}

Tensor to_tensor(const TensorProto& proto, const std::string& subject, const ExternalData& external) {
  const std::string where = proto.name.empty() ? subject : cat(subject, ": ", in_quotes(proto.name));
  for (const int64_t extent : proto.dims)
    if (extent < 0) fail(ErrorCode::InvalidModel, where, "has a negative extent, ", gyrus::to_string(proto.dims));
  stored_as(proto.type, where);
  int64_t count = 1;
  for (const int64_t extent : proto.dims) {
    count = checked_mul(count, extent, "tensor");
    if (count > (int64_t{1} << 40))
      fail(ErrorCode::InvalidModel, where, "has extents beyond reason, ", gyrus::to_string(proto.dims));
  }
  if (proto.external) {
    const auto location = proto.location.find("location");
    if (location == proto.location.end()) fail(ErrorCode::InvalidModel, where, "external data without a location");
    check_location(location->second, where);
    if (!external) fail(ErrorCode::Io, where, "its data lies in ", in_quotes(location->second), ", which is not given");
    const uint64_t bytes = file_bytes(proto.type, static_cast<uint64_t>(count));
    const uint64_t length = number_of(proto, "length", bytes, where);
    if (length != bytes)
      fail(ErrorCode::InvalidModel, where, "external data of ", length, " bytes, but ", to_string(proto.type),
           gyrus::to_string(proto.dims), " has ", bytes);
    const std::vector<std::byte> data = external(location->second, number_of(proto, "offset", 0, where), length);
    return from_raw(proto.type, proto.dims, bytes_of(data), where);
  }
  // The size is checked against the bytes before anything that large is made.
  const uint64_t wanted = file_bytes(proto.type, static_cast<uint64_t>(count));
  if (proto.has_raw) {
    if (proto.raw.size() != wanted)
      fail(ErrorCode::InvalidModel, where, "holds ", proto.raw.size(), " bytes, but ", to_string(proto.type),
           gyrus::to_string(proto.dims), " has ", wanted);
    return from_raw(proto.type, proto.dims, proto.raw, where);
  }
  const std::vector<std::byte> data = typed_bytes(proto);
  if (data.size() != wanted)
    fail(ErrorCode::InvalidModel, where, "holds ", 8 * data.size() / file_bytes(proto.type, 8),
         " elements, but its shape is ", gyrus::to_string(proto.dims));
  return from_raw(proto.type, proto.dims, bytes_of(data), where);
}

TensorProto read_tensor(Bytes bytes, const std::string& subject) {
  TensorProto t;
  for (Message m(bytes, subject); m.next();) {
    switch (m.field()) {
      case 1: m.integers(t.dims); break;
      case 2: t.type = static_cast<Elem>(m.integer()); break;
      case 4: m.floats(t.floats); break;
      case 5: m.integers(t.ints); break;
      case 6: ++t.strings; break;
      case 7: m.integers(t.longs); break;
      case 8: t.name = m.text(); break;
      case 9:
        t.has_raw = true;
        t.raw = m.chunk();
        break;
      case 10: m.floats(t.doubles); break;
      case 11: m.integers(t.unsigneds); break;
      case 13: t.location.insert(read_entry(m.chunk(), subject)); break;
      case 14: t.external = m.integer() == 1; break;
      default: break;
    }
  }
  return t;
}

ModelProto read_model(Bytes file, const std::string& subject) {
  ModelProto model;
  for (Message m(file, subject); m.next();) {
    switch (m.field()) {
      case 1: model.ir_version = m.integer(); break;
      case 2: model.producer = m.text(); break;
      case 7:
        model.has_graph = true;
        model.graph = read_graph(m.chunk(), subject, 0);
        break;
      case 8: read_opset(m.chunk(), subject, model.opsets); break;
      case 25: model.functions.push_back(read_function(m.chunk(), subject)); break;
      default: break;
    }
  }
  if (!model.has_graph) fail(ErrorCode::InvalidModel, subject, "an ONNX file without a graph");
  if (model.opsets.empty())
    fail(ErrorCode::InvalidModel, subject, "says no opset, so that what its ops mean is not known; export it anew");
  return model;
}

bool is_onnx(Bytes file) {
  // Writers put the version first: a file that breaks off later is an ONNX file still, and said to be broken.
  if (file.size() > 2 && file[0] == std::byte{0x08} && file[1] > std::byte{0} && file[1] < std::byte{0x40} &&
      (static_cast<uint8_t>(file[2]) & 7) == 2)
    return true;
  bool graph = false;
  try {
    const std::string subject;
    for (Message m(file, subject); m.next();) {
      const bool number = m.field() == 1 || m.field() == 5;
      const bool chunk = (m.field() >= 2 && m.field() <= 8 && m.field() != 5) || m.field() == 14 || m.field() == 20 ||
                         m.field() == 25 || m.field() == 26;
      if (!(number && m.wire() == Wire::Varint) && !(chunk && m.wire() == Wire::Chunk)) return false;
      graph = graph || m.field() == 7;
    }
  } catch (const Error&) {
    return false;
  }
  return graph;
}

}  // namespace gyrus::onnx
