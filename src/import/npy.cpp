#include "import/npy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor.h"
#include "import/zip.h"

namespace gyrus {
namespace {

using onnx::Elem;

struct Kind {
  const char* numpy;  // kind and bytes
  Elem elem;
};
constexpr Kind kKinds[] = {{"f4", Elem::F32}, {"f8", Elem::F64}, {"f2", Elem::F16}, {"i1", Elem::I8},
                           {"i2", Elem::I16}, {"i4", Elem::I32}, {"i8", Elem::I64}, {"u1", Elem::U8},
                           {"u2", Elem::U16}, {"u4", Elem::U32}, {"u8", Elem::U64}, {"b1", Elem::Bool}};

[[noreturn]] void broken(const std::string& subject, const std::string& what) {
  fail(ErrorCode::InvalidInput, subject, "no .npy file that gyrus reads: ", what);
}

// What follows 'key': in the header's dictionary.
std::string entry(const std::string& header, const std::string& key, const std::string& subject) {
  const size_t at = header.find("'" + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos) broken(subject, "its header lacks '" + key + "'");
  const size_t begin = header.find_first_not_of(' ', colon + 1);
  return begin == std::string::npos ? std::string() : header.substr(begin);
}

Shape shape_of(const std::string& text, const std::string& subject) {
  const size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string::npos) broken(subject, "its shape is no tuple");
  Shape shape;
  int64_t value = -1;
  for (size_t i = 1; i <= close; ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9') {
      value = (value < 0 ? 0 : value) * 10 + (c - '0');
      if (value > (int64_t{1} << 40)) broken(subject, "an extent is beyond reason");
    } else if (c == ',' || c == ')') {
      if (value >= 0) shape.push_back(value);
      value = -1;
    } else if (c != ' ') {
      broken(subject, "its shape is no tuple of numbers");
    }
  }
  return shape;
}

// Columns before rows, as Fortran has them, into rows before columns.
std::vector<std::byte> from_fortran(Bytes data, const Shape& shape, size_t size) {
  std::vector<std::byte> out(data.size());
  const int64_t count = element_count(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (size_t a = shape.size(); a-- > 0;) from = from * shape[a] + index[a];
    std::memcpy(out.data() + static_cast<size_t>(i) * size, data.data() + static_cast<size_t>(from) * size, size);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
  return out;
}

const Kind& kind_of(Elem elem) {
  for (const Kind& kind : kKinds)
    if (kind.elem == elem) return kind;
  return kKinds[0];
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

}  // namespace

bool is_npy(Bytes file) { return text_of(file).substr(0, 6) == "\x93NUMPY"; }
bool is_zip(Bytes file) { return text_of(file).substr(0, 2) == "PK"; }

Array read_npy(Bytes file, const std::string& subject) {
  if (!is_npy(file) || file.size() < 12) broken(subject, "it begins with other bytes");
  const bool first = file[6] == std::byte{1};
  size_t length = static_cast<size_t>(file[8]) | static_cast<size_t>(file[9]) << 8;
  if (!first) length |= static_cast<size_t>(file[10]) << 16 | static_cast<size_t>(file[11]) << 24;
  const size_t start = first ? 10 : 12;
  if (length > file.size() - start) broken(subject, "it ends within its header");
  const std::string header(text_of(file.subspan(start, length)));
  const std::string descr = entry(header, "descr", subject);
  if (descr.size() < 5 || descr[0] != '\'') broken(subject, "it holds structures");
  const char order = descr[1];
  const std::string type = descr.substr(2, 2);
  const Kind* kind = nullptr;
  for (const Kind& k : kKinds)
    if (type == k.numpy) kind = &k;
  if (!kind || descr[4] != '\'' || (order != '<' && order != '>' && order != '|' && order != '='))
    broken(subject, "its element type " + in_quotes(descr.substr(0, descr.find(','))) + " is not read");
  const Shape shape = shape_of(entry(header, "shape", subject), subject);
  const size_t size = static_cast<size_t>(type[1] - '0');
  std::vector<std::byte> copy;
  Bytes data = file.subspan(start + length);
  int64_t count = 1;
  for (const int64_t extent : shape) count = checked_mul(count, extent, "npy");
  if (static_cast<uint64_t>(count) > data.size() / size + (count == 0)) broken(subject, "it ends within its data");
  data = data.first(static_cast<size_t>(count) * size);
  if (entry(header, "fortran_order", subject).substr(0, 4) == "True" && shape.size() > 1) {
    copy = from_fortran(data, shape, size);
    data = bytes_of(copy);
  }
  std::vector<std::byte> swapped;
  if (order == '>' && size > 1) {
    swapped.assign(data.begin(), data.end());
    for (size_t i = 0; i < swapped.size(); i += size) std::reverse(swapped.begin() + i, swapped.begin() + i + size);
    data = bytes_of(swapped);
  }
  onnx::TensorProto proto;
  proto.dims = shape;
  proto.type = kind->elem;
  proto.has_raw = true;
  proto.raw = data;
  return {kind->elem, onnx::to_tensor(proto, subject)};
}

Array read_npz(Bytes file, const std::string& name, const std::string& subject) {
  const Zip zip(file, subject);
  const ZipEntry* found = zip.find(name + ".npy");
  if (!found && zip.entries().size() == 1) found = &zip.entries()[0];
  if (!found)
    fail(ErrorCode::InvalidInput, subject, "has ", zip.entries().size(), " arrays, none of them ", in_quotes(name));
  const std::vector<std::byte> bytes = zip.read(*found);
  return read_npy(bytes_of(bytes), subject);
}

std::vector<std::byte> write_npy(const Tensor& tensor, Elem elem) {
  // numpy has no name for these.
  const Kind& kind = kind_of(elem == Elem::BF16 ? Elem::F32
                             : elem == Elem::I4 ? Elem::I8
                             : elem == Elem::U4 ? Elem::U8
                                                : elem);
  std::string shape = "(";
  for (const int64_t extent : tensor.shape) shape += std::to_string(extent) + (tensor.shape.size() == 1 ? "," : ", ");
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  const bool single = kind.numpy[1] == '1';
  std::string header =
      cat("{'descr': '", single ? "|" : "<", kind.numpy, "', 'fortran_order': False, 'shape': ", shape, "), }");
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::vector<std::byte> out;
  for (const char c : std::string("\x93NUMPY\x01") + '\0') out.push_back(static_cast<std::byte>(c));
  put(out, static_cast<uint16_t>(header.size()));
  for (const char c : header) out.push_back(static_cast<std::byte>(c));
  if (onnx::elem_of(tensor.dtype) == kind.elem) {
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
    return out;
  }
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = get(tensor, i);
    switch (kind.elem) {
      case Elem::F64: put(out, value); break;
      case Elem::F16: put(out, float_to_half(static_cast<float>(value))); break;
      case Elem::I8: put(out, static_cast<int8_t>(value)); break;
      case Elem::I16: put(out, static_cast<int16_t>(value)); break;
      case Elem::I32: put(out, static_cast<int32_t>(value)); break;
      case Elem::I64: put(out, static_cast<int64_t>(value)); break;
      case Elem::U8: put(out, static_cast<uint8_t>(value)); break;
      case Elem::U16: put(out, static_cast<uint16_t>(value)); break;
      case Elem::U32: put(out, static_cast<uint32_t>(value)); break;
      case Elem::U64: put(out, static_cast<uint64_t>(value)); break;
      case Elem::Bool: put(out, static_cast<uint8_t>(value != 0)); break;
      default: put(out, static_cast<float>(value)); break;
    }
  }
  return out;
}

Tensor converted(const Array& array, Elem to, const std::string& subject) {
  if (array.elem == to) return array.tensor;
  const DType dtype = onnx::stored_as(to, subject);
  const bool from_float = is_float(array.tensor.dtype);
  if (from_float != is_float(dtype))
    fail(ErrorCode::InvalidInput, subject, "is ", onnx::to_string(array.elem), ", the model takes ",
         onnx::to_string(to));
  Tensor result(dtype, array.tensor.shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    const double value = get(array.tensor, i);
    set(result, i, value);
    if (!from_float && get(result, i) != value)
      fail(ErrorCode::InvalidInput, subject, "element ", i, " is ", value, ", which ", onnx::to_string(to),
           " does not hold");
  }
  return result;
}

}  // namespace gyrus
