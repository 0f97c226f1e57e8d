#include "import/state_dict.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace gyrus {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float bfloat_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float load_float(FileType type, const std::byte* from) {
  switch (type) {
    case FileType::F64: return to_float(load<double>(from));
    case FileType::F32: return load<float>(from);
    case FileType::F16: return half_to_float(load<uint16_t>(from));
    default: return bfloat_to_float(load<uint16_t>(from));
  }
}

int64_t load_signed(FileType type, const std::byte* from) {
  switch (type) {
    case FileType::I64: return load<int64_t>(from);
    case FileType::I32: return load<int32_t>(from);
    case FileType::I16: return load<int16_t>(from);
    default: return load<int8_t>(from);
  }
}

uint64_t load_unsigned(FileType type, const std::byte* from) {
  switch (type) {
    case FileType::U64: return load<uint64_t>(from);
    case FileType::U32: return load<uint32_t>(from);
    case FileType::U16: return load<uint16_t>(from);
    default: return load<uint8_t>(from);
  }
}

DType dtype_of(FileType type) {
  switch (type) {
    case FileType::F64:
    case FileType::F32:
    case FileType::F16:
    case FileType::BF16: return DType::F32;
    case FileType::I64:
    case FileType::I32:
    case FileType::I16:
    case FileType::I8: return DType::I32;
    case FileType::U64:
    case FileType::U32:
    case FileType::U16: return DType::U32;
    default: return DType::U8;
  }
}

// Writes the element at `from` as element i; false where it does not fit.
bool convert_element(FileType type, const std::byte* from, Tensor& tensor, size_t i) {
  switch (tensor.dtype) {
    case DType::F32: tensor.as<float>()[i] = load_float(type, from); return true;
    case DType::I32: {
      const int64_t value = load_signed(type, from);
      tensor.as<int32_t>()[i] = static_cast<int32_t>(value);
      return value >= INT32_MIN && value <= INT32_MAX;
    }
    case DType::U32: {
      const uint64_t value = load_unsigned(type, from);
      tensor.as<uint32_t>()[i] = static_cast<uint32_t>(value);
      return value <= UINT32_MAX;
    }
    default: tensor.as<uint8_t>()[i] = load<uint8_t>(from); return true;
  }
}

[[noreturn]] void does_not_fit(FileType type, const std::string& subject, const std::string& name) {
  fail(ErrorCode::Unsupported, subject, "tensor ", in_quotes(name), " is ", to_string(type),
       " with values beyond 32 bits");
}

}  // namespace

void StateDict::add(const std::string& name, Tensor tensor, const std::string& subject) {
  if (!is_good_name(name)) fail(ErrorCode::InvalidModel, subject, "a tensor is named ", in_quotes(name));
  if (!by_name_.emplace(name, entries_.size()).second) {
    fail(ErrorCode::InvalidModel, subject, "tensor ", in_quotes(name), " is there twice");
  }
  entries_.push_back({name, std::make_shared<const Tensor>(std::move(tensor))});
}

const NamedTensor* StateDict::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void StateDict::strip(const std::string& prefix) {
  for (const NamedTensor& entry : entries_) {
    if (entry.name.size() <= prefix.size() || entry.name.compare(0, prefix.size(), prefix) != 0) return;
  }
  by_name_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].name.erase(0, prefix.size());
    by_name_.emplace(entries_[i].name, i);
  }
}

void check_finite(const StateDict& weights, const std::string& subject) {
  for (const NamedTensor& entry : weights.entries()) {
    if (entry.tensor->dtype != DType::F32) continue;
    const float* values = entry.tensor->as<float>();
    for (int64_t i = 0; i < entry.tensor->size(); ++i) {
      if (std::isfinite(values[i])) continue;
      fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(entry.name), " holds ",
           std::isnan(values[i]) ? "NaN" : "infinity", " at element ", i,
           ": the file is damaged or its training diverged");
    }
  }
}

size_t byte_size(FileType type) {
  switch (type) {
    case FileType::F64:
    case FileType::I64:
    case FileType::U64: return 8;
    case FileType::F32:
    case FileType::I32:
    case FileType::U32: return 4;
    case FileType::F16:
    case FileType::BF16:
    case FileType::I16:
    case FileType::U16: return 2;
    default: return 1;
  }
}

const char* to_string(FileType type) {
  static constexpr const char* kNames[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                           "I8",  "U64", "U32", "U16",  "U8",  "BOOL"};
  return kNames[static_cast<size_t>(type)];
}

float to_float(double value) {
  if (std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()) || std::isnan(value)) {
    return static_cast<float>(value);
  }
  return value < 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
}

Tensor convert(Bytes data, FileType type, Shape shape, const std::string& subject, const std::string& name) {
  Tensor tensor(dtype_of(type), std::move(shape));
  const size_t size = byte_size(type);
  const size_t count = static_cast<size_t>(tensor.size());
  for (size_t i = 0; i < count; ++i) {
    if (!convert_element(type, data.data() + i * size, tensor, i)) does_not_fit(type, subject, name);
  }
  return tensor;
}

Tensor convert_strided(Bytes data, FileType type, Shape shape, uint64_t offset, const std::vector<int64_t>& strides,
                       const std::string& subject, const std::string& name) {
  Tensor tensor(dtype_of(type), std::move(shape));
  const size_t size = byte_size(type);
  const size_t count = static_cast<size_t>(tensor.size());
  std::vector<int64_t> index(tensor.shape.size(), 0);
  uint64_t at = offset;  // elements
  for (size_t i = 0; i < count; ++i) {
    if (!convert_element(type, data.data() + static_cast<size_t>(at) * size, tensor, i)) {
      does_not_fit(type, subject, name);
    }
    for (size_t axis = index.size(); axis-- > 0;) {
      at += static_cast<uint64_t>(strides[axis]);
      if (++index[axis] < tensor.shape[axis]) break;
      at -= static_cast<uint64_t>(strides[axis]) * static_cast<uint64_t>(tensor.shape[axis]);
      index[axis] = 0;
    }
  }
  return tensor;
}

}  // namespace gyrus
