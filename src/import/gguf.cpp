#include "import/gguf.h"

#include <algorithm>
#include <cmath>
#include <limits>

// GGUF: "GGUF", version (u32), number of tensors and of metadata (u64 each), the metadata (key, type, value), the
// directory (name, extents fastest first, type, offset from the start of the data), padding up to the alignment, the
// data. A string is its length (u64) and its bytes; an array its element type (u32), its length (u64), its elements.

namespace gyrus {
namespace {

constexpr uint64_t kMostHeadBytes = uint64_t{1} << 28;
constexpr uint64_t kMostKeys = uint64_t{1} << 16;
constexpr uint64_t kMostTensors = uint64_t{1} << 18;
constexpr uint64_t kMostElements = uint64_t{1} << 24;  // of a list
constexpr uint64_t kLongestName = uint64_t{1} << 16;   // bytes of a key or of a tensor's name
constexpr uint64_t kMostAlignment = uint64_t{1} << 20;
constexpr uint32_t kMostAxes = 4;
constexpr uint64_t kMostTensorElements = uint64_t{1} << 48;
constexpr uint64_t kFirstRequest = uint64_t{1} << 16;  // bytes that are worth a request at least
constexpr const char* kAlignmentKey = "general.alignment";

enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, Text, List, U64, I64, F64 };
constexpr uint32_t kValueTypes = 13;

uint64_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool: return 1;
    case ValueType::U16:
    case ValueType::I16: return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32: return 4;
    case ValueType::List: return 12;
    case ValueType::Text:
    case ValueType::U64:
    case ValueType::I64:
    case ValueType::F64: return 8;
  }
  return 1;
}

bool is_real(ValueType type) { return type == ValueType::F32 || type == ValueType::F64; }

// Thrown inside this file where a prefix ends before what is read.
struct PrefixEnds {
  uint64_t wanted;
};

}  // namespace

class GgufReader {
 public:
  GgufReader(Bytes prefix, uint64_t file_bytes, const std::string& subject) : prefix_(prefix) {
    out_.subject_ = subject;
    out_.file_bytes_ = file_bytes;
  }

  Gguf read() {
    read_version();
    const uint64_t tensors = read_count("tensors", kMostTensors);
    const uint64_t keys = read_count("metadata keys", kMostKeys);
    for (uint64_t i = 0; i < keys; ++i) read_key();
    read_alignment();
    for (uint64_t i = 0; i < tensors; ++i) read_tensor();
    out_.data_offset_ = (position_ + out_.alignment_ - 1) / out_.alignment_ * out_.alignment_;
    for (GgufTensor& tensor : out_.tensors_) place(tensor);
    check_overlaps();
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void broken(const Args&... message) const {
    fail(ErrorCode::InvalidModel, out_.subject_, message...);
  }

  Bytes take(uint64_t count, const char* what) {
    if (count > out_.file_bytes_ - position_) {
      broken("truncated or corrupted: ", what, " of ", count, " bytes at byte ", position_, ", ",
             out_.file_bytes_ - position_, " there");
    }
    const uint64_t end = position_ + count;
    if (end > kMostHeadBytes) broken("the head of the file is larger than ", kMostHeadBytes >> 20, " MiB");
    if (end > prefix_.size()) throw PrefixEnds{end};
    const Bytes out = prefix_.subspan(static_cast<size_t>(position_), static_cast<size_t>(count));
    position_ = end;
    return out;
  }
  uint64_t unsigned_of(uint64_t count, const char* what) {
    uint64_t value = 0;
    const Bytes from = take(count, what);
    for (size_t i = 0; i < from.size(); ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
    return value;
  }
  uint32_t u32(const char* what) { return static_cast<uint32_t>(unsigned_of(4, what)); }
  std::string text(const char* what, uint64_t longest) {
    const uint64_t size = unsigned_of(8, what);
    if (size > longest) broken("corrupted: ", what, " of ", size, " bytes at byte ", position_ - 8);
    return std::string(text_of(take(size, what)));
  }

  void read_version() {
    if (text_of(take(4, "the magic number")) != "GGUF") broken("is no GGUF file: it does not start with 'GGUF'");
    out_.version_ = u32("the version");
    if (out_.version_ == 0x02000000 || out_.version_ == 0x03000000)
      fail(ErrorCode::Unsupported, out_.subject_, "is a big-endian GGUF file; convert it to little endian");
    if (out_.version_ != 2 && out_.version_ != 3) {
      fail(ErrorCode::Unsupported, out_.subject_, "is GGUF of version ", out_.version_,
           "; gyrus reads the versions 2 and 3");
    }
  }

  uint64_t read_count(const char* what, uint64_t most) {
    const uint64_t count = unsigned_of(8, what);
    if (count > most) broken("corrupted: ", count, " ", what);
    return count;
  }

  ValueType read_type(const std::string& key) {
    const uint32_t type = u32("the type of a value");
    if (type >= kValueTypes) broken("metadata ", in_quotes(key), " has the unknown type ", type);
    return static_cast<ValueType>(type);
  }

  void read_key() {
    const std::string key = text("a metadata key", kLongestName);
    if (!is_good_name(key)) broken("corrupted: ", in_quotes(key), " is no metadata key");
    const ValueType type = read_type(key);
    GgufValue value = type == ValueType::List ? read_list(key) : read_scalar(type, key);
    if (!out_.metadata_.emplace(key, std::move(value)).second) broken("has the metadata ", in_quotes(key), " twice");
  }

  GgufValue read_scalar(ValueType type, const std::string& key) {
    if (type == ValueType::Text) return text("a text of the metadata", kMostHeadBytes);
    if (type == ValueType::Bool) return read_bool(key);
    if (is_real(type)) return read_real(type);
    return read_integer(type, key);
  }
  bool read_bool(const std::string& key) {
    const uint64_t value = unsigned_of(1, "a boolean");
    if (value > 1) broken("metadata ", in_quotes(key), ": ", value, " is no boolean");
    return value == 1;
  }
  double read_real(ValueType type) {
    if (type == ValueType::F64) {
      double value = 0;
      std::memcpy(&value, take(8, "a number").data(), sizeof value);
      return value;
    }
    float value = 0;
    std::memcpy(&value, take(4, "a number").data(), sizeof value);
    return value;
  }
  int64_t read_integer(ValueType type, const std::string& key) {
    const uint64_t bytes = least_bytes(type);
    const uint64_t value = unsigned_of(bytes, "a number");
    switch (type) {
      case ValueType::I8: return static_cast<int8_t>(value);
      case ValueType::I16: return static_cast<int16_t>(value);
      case ValueType::I32: return static_cast<int32_t>(value);
      case ValueType::I64: return static_cast<int64_t>(value);
      default: break;
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      broken("metadata ", in_quotes(key), ": ", value, " is beyond 63 bits");
    return static_cast<int64_t>(value);
  }

  GgufValue read_list(const std::string& key) {
    const ValueType type = read_type(key);
    const uint64_t count = unsigned_of(8, "the length of a list");
    if (type == ValueType::List)
      fail(ErrorCode::Unsupported, out_.subject_, "metadata ", in_quotes(key), " is a list of lists");
    if (count > kMostElements || count > (out_.file_bytes_ - position_) / least_bytes(type))
      broken("corrupted: metadata ", in_quotes(key), " is a list of ", count, " elements");
    // All elements but texts have one size: where they are not there, nothing is read or allocated.
    if (const uint64_t end = position_ + count * least_bytes(type); end > prefix_.size()) {
      if (end > kMostHeadBytes) broken("the head of the file is larger than ", kMostHeadBytes >> 20, " MiB");
      throw PrefixEnds{end};
    }
    if (type == ValueType::Text)
      return elements<std::string>(count, [&] { return text("a text of a list", kMostHeadBytes); });
    if (type == ValueType::Bool) return elements<bool>(count, [&] { return read_bool(key); });
    if (is_real(type)) return elements<double>(count, [&] { return read_real(type); });
    return elements<int64_t>(count, [&] { return read_integer(type, key); });
  }
  template <class T, class Read>
  static std::vector<T> elements(uint64_t count, const Read& read) {
    std::vector<T> out;
    out.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) out.push_back(read());
    return out;
  }

  void read_alignment() {
    if (!out_.has(kAlignmentKey)) return;
    const int64_t alignment = out_.integer(kAlignmentKey);
    const auto value = static_cast<uint64_t>(alignment);
    if (alignment < 1 || value > kMostAlignment || (value & (value - 1)) != 0)
      broken("metadata '", kAlignmentKey, "': ", alignment, " is no power of two up to ", kMostAlignment);
    out_.alignment_ = value;
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = text("the name of a tensor", kLongestName);
    if (!is_good_name(tensor.name)) broken("corrupted: ", in_quotes(tensor.name), " is no name of a tensor");
    const uint32_t axes = u32("the number of axes");
    if (axes > kMostAxes)
      broken("tensor ", in_quotes(tensor.name), " has ", axes, " axes; there are at most ", kMostAxes);
    uint64_t count = 1;
    for (uint32_t i = 0; i < axes; ++i) {
      const uint64_t extent = unsigned_of(8, "the extent of an axis");
      if (extent == 0 || extent > kMostTensorElements / count)
        broken("tensor ", in_quotes(tensor.name), ": an axis of ", extent, " elements");
      count *= extent;
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
    }
    const uint32_t number = u32("the type of a tensor");
    const BlockFormat* const format = find_block_format(number);
    if (!format) {
      fail(ErrorCode::Unsupported, out_.subject_, "tensor ", in_quotes(tensor.name), " has the unknown type ", number,
           "; take a file in a common format, such as Q4_K or Q8_0");
    }
    tensor.type = format->type;
    const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % format->elements != 0) {
      broken("tensor ", in_quotes(tensor.name), ": rows of ", row, " are no whole blocks of ", format->elements, " (",
             format->name, ")");
    }
    tensor.bytes = block_bytes(tensor.type, count);
    tensor.offset = unsigned_of(8, "the offset of a tensor");
    if (!out_.by_name_.emplace(tensor.name, out_.tensors_.size()).second)
      broken("has the tensor ", in_quotes(tensor.name), " twice");
    out_.tensors_.push_back(std::move(tensor));
  }

  // From an offset in the data to one in the file.
  void place(GgufTensor& tensor) const {
    if (tensor.offset % out_.alignment_ != 0) {
      broken("tensor ", in_quotes(tensor.name), " starts at byte ", tensor.offset, ", no multiple of ",
             out_.alignment_);
    }
    const uint64_t there = out_.file_bytes_ - std::min(out_.file_bytes_, out_.data_offset_);
    if (tensor.offset > there || tensor.bytes > there - tensor.offset) {
      broken("truncated or corrupted: tensor ", in_quotes(tensor.name), " takes ", tensor.bytes, " bytes from byte ",
             tensor.offset, " of the data, which have ", there);
    }
    tensor.offset += out_.data_offset_;
  }

  void check_overlaps() const {
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : out_.tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
        broken("the tensors ", in_quotes(order[i - 1]->name), " and ", in_quotes(order[i]->name), " overlap");
    }
  }

  Bytes prefix_;
  uint64_t position_ = 0;  // bytes from the start of the file
  Gguf out_;
};

Gguf::Gguf(std::string subject, std::map<std::string, GgufValue> metadata, std::vector<GgufTensor> tensors)
    : subject_(std::move(subject)), metadata_(std::move(metadata)), tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const GgufValue& Gguf::at(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) fail(ErrorCode::InvalidModel, subject_, "has no metadata '", key, "'");
  return found->second;
}

template <class T>
const T& Gguf::get(const std::string& key, const char* expected) const {
  const T* const value = std::get_if<T>(&at(key));
  if (!value) fail(ErrorCode::InvalidModel, subject_, "metadata '", key, "' is not ", expected);
  return *value;
}

int64_t Gguf::integer(const std::string& key) const { return get<int64_t>(key, "an integer"); }
int64_t Gguf::integer(const std::string& key, int64_t fallback) const { return has(key) ? integer(key) : fallback; }
double Gguf::number(const std::string& key) const {
  if (const auto* whole = std::get_if<int64_t>(&at(key))) return static_cast<double>(*whole);
  return get<double>(key, "a number");
}
double Gguf::number(const std::string& key, double fallback) const { return has(key) ? number(key) : fallback; }
bool Gguf::boolean(const std::string& key) const { return get<bool>(key, "a boolean"); }
bool Gguf::boolean(const std::string& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }
const std::string& Gguf::text(const std::string& key) const { return get<std::string>(key, "a text"); }
std::string Gguf::text(const std::string& key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}
const std::vector<std::string>& Gguf::texts(const std::string& key) const {
  return get<std::vector<std::string>>(key, "a list of texts");
}
const std::vector<int64_t>& Gguf::integers(const std::string& key) const {
  return get<std::vector<int64_t>>(key, "a list of integers");
}
const std::vector<double>& Gguf::numbers(const std::string& key) const {
  return get<std::vector<double>>(key, "a list of numbers");
}
std::vector<int64_t> Gguf::integers(const std::string& key, size_t count) const {
  if (const auto* one = std::get_if<int64_t>(&at(key))) return std::vector<int64_t>(count, *one);
  const std::vector<int64_t>& list = integers(key);
  if (list.size() != count) {
    fail(ErrorCode::InvalidModel, subject_, "metadata '", key, "' is a list of ", list.size(), " integers, not of ",
         count);
  }
  return list;
}

const GgufTensor* Gguf::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& Gguf::tensor(const std::string& name) const {
  const GgufTensor* const found = find(name);
  if (!found) fail(ErrorCode::InvalidModel, subject_, "has no tensor ", in_quotes(name));
  return *found;
}

const GgufTensor& Gguf::tensor(const std::string& name, const Shape& is) const {
  const GgufTensor& found = tensor(name);
  if (found.shape != is) {
    fail(ErrorCode::InvalidModel, subject_, "tensor ", in_quotes(name), " is ", to_string(found.shape), ", not ",
         to_string(is));
  }
  return found;
}

bool is_gguf(Bytes file) { return file.size() >= 4 && text_of(file.first(4)) == "GGUF"; }

Gguf read_gguf(Bytes file, const std::string& subject) { return GgufReader(file, file.size(), subject).read(); }

GgufHead read_gguf_head(Bytes prefix, uint64_t file_bytes, const std::string& subject) {
  const uint64_t there = std::min<uint64_t>(prefix.size(), file_bytes);
  GgufHead out;
  try {
    out.gguf = GgufReader(prefix.first(static_cast<size_t>(there)), file_bytes, subject).read();
  } catch (const PrefixEnds& ends) {
    // Twice as much as there was, so that a long vocabulary is not asked for word by word.
    out.wanted = std::min(file_bytes, std::max({ends.wanted, kFirstRequest, 2 * there}));
  }
  return out;
}

std::pair<int64_t, int64_t> gguf_part(const Gguf& gguf) {
  return {gguf.integer("split.no", 0), gguf.integer("split.count", 1)};
}

Tensor dequantized(const GgufTensor& tensor, Bytes data) {
  if (data.size() != tensor.bytes)
    fail(ErrorCode::InvalidInput, tensor.name, data.size(), " bytes given, the tensor has ", tensor.bytes);
  Tensor out(DType::F32, tensor.shape);
  dequantize(tensor.type, data, {out.as<float>(), static_cast<size_t>(out.size())});
  return out;
}

}  // namespace gyrus
