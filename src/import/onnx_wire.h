#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gyrus/tensor.h"
#include "import/bytes.h"

// ONNX files as plain structs: a reader of the protobuf wire format for the messages of onnx.proto, with bounds checked
// everywhere. What is read refers to the bytes of the file, which must outlive it.

namespace gyrus::onnx {

// TensorProto.DataType.
enum class Elem : int32_t {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
  U4 = 21,
  I4 = 22,
};
// "float", "int8" …, as ONNX names them.
std::string to_string(Elem elem);
// The element type in which gyrus holds it: f64 and bf16 as f32; i4, i8 and i16 as i32, u4 as u8, u16 and u64 as u32.
// Throws Unsupported("[subject] …") for strings, complex numbers and floats of fewer than 16 bits.
DType stored_as(Elem elem, const std::string& subject);
Elem elem_of(DType dtype);

struct TensorProto {
  std::string name;
  std::vector<int64_t> dims;
  Elem type = Elem::Undefined;
  bool has_raw = false;
  Bytes raw;
  std::vector<float> floats;
  std::vector<int32_t> ints;  // also halves, bytes and truth values
  std::vector<int64_t> longs;
  std::vector<double> doubles;
  std::vector<uint64_t> unsigneds;
  size_t strings = 0;
  bool external = false;
  std::map<std::string, std::string> location;  // of external data: "location", "offset", "length"
};

// The bytes of a file beside the model, named by a relative path that stays inside its folder.
using ExternalData =
    std::function<std::vector<std::byte>(const std::string& location, uint64_t offset, uint64_t length)>;

// The tensor in the element type that stored_as() says. Throws InvalidModel or Unsupported with "[subject] …".
Tensor to_tensor(const TensorProto& proto, const std::string& subject, const ExternalData& external = {});

// An extent that is not known is -1, and may have a name.
struct Dim {
  int64_t extent = -1;
  std::string name;
};

struct ValueProto {
  std::string name;
  bool is_tensor = false;
  std::string kind;  // "tensor", "sequence", "optional", "map", "sparse tensor" or empty
  Elem type = Elem::Undefined;
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct GraphProto;

struct AttributeProto {
  std::string name;
  std::string ref;  // the attribute of the function around it whose value it has
  int32_t type = 0;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::shared_ptr<const TensorProto> t;
  std::shared_ptr<const GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeProto {
  std::string name, type, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeProto> attributes;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  size_t sparse_initializers = 0;
  std::vector<ValueProto> inputs, outputs;
};

using Opsets = std::map<std::string, int64_t>;  // by domain; "ai.onnx" is ""

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<AttributeProto> defaults;
  std::vector<NodeProto> nodes;
  Opsets opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string producer;
  Opsets opsets;
  GraphProto graph;
  bool has_graph = false;
  std::vector<FunctionProto> functions;
};

// Whether the bytes may be an ONNX model: a protobuf message whose fields are those of one.
bool is_onnx(Bytes file);
// Throws InvalidModel("[subject] …") on anything that is not one.
ModelProto read_model(Bytes file, const std::string& subject);
// A TensorProto on its own, as test data is stored.
TensorProto read_tensor(Bytes file, const std::string& subject);

}  // namespace gyrus::onnx
