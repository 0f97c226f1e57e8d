#pragma once
#include <string>
#include <utility>
#include <vector>

#include "support/model_writer.h"

namespace gyrus::test {

// Writes small GGUF files, right ones and wrong ones. Numbers of types are those of the format.
class GgufWriter {
 public:
  uint32_t version = 3;
  std::string magic = "GGUF";
  uint64_t more_keys = 0, more_tensors = 0;  // announced, but not there
  uint64_t alignment = 32;                   // of the data; the key is written by the caller

  GgufWriter& raw(const std::string& key, uint32_t type, const ByteVector& value) {
    keys_.u64(key.size()).text(key).u32(type).bytes(value);
    ++key_count_;
    return *this;
  }
  GgufWriter& u32(const std::string& key, uint32_t value) { return raw(key, 4, ByteWriter().u32(value).out()); }
  GgufWriter& f32(const std::string& key, float value) { return raw(key, 6, float_bytes({value})); }
  GgufWriter& boolean(const std::string& key, bool value) { return raw(key, 7, ByteWriter().u8(value ? 1 : 0).out()); }
  GgufWriter& text(const std::string& key, const std::string& value) {
    return raw(key, 8, ByteWriter().u64(value.size()).text(value).out());
  }
  GgufWriter& texts(const std::string& key, const std::vector<std::string>& values) {
    ByteWriter list;
    list.u32(8).u64(values.size());
    for (const std::string& value : values) list.u64(value.size()).text(value);
    return raw(key, 9, list.out());
  }
  GgufWriter& i32s(const std::string& key, const std::vector<int32_t>& values) {
    ByteWriter list;
    list.u32(5).u64(values.size());
    for (const int32_t value : values) list.u32(static_cast<uint32_t>(value));
    return raw(key, 9, list.out());
  }
  GgufWriter& f32s(const std::string& key, const std::vector<float>& values) {
    return raw(key, 9, ByteWriter().u32(6).u64(values.size()).bytes(float_bytes(values)).out());
  }

  // `extents` fastest first, as in the file. An offset of −1 is the next one that is free.
  GgufWriter& tensor(const std::string& name, const std::vector<uint64_t>& extents, uint32_t type,
                     const ByteVector& data, int64_t offset = -1) {
    while (data_.size() % alignment != 0) data_.u8(0);
    tensors_.u64(name.size()).text(name).u32(extents.size());
    for (const uint64_t extent : extents) tensors_.u64(extent);
    tensors_.u32(type).u64(offset < 0 ? data_.size() : static_cast<uint64_t>(offset));
    data_.bytes(data);
    ++tensor_count_;
    return *this;
  }

  ByteVector out() const {
    ByteWriter file;
    file.text(magic).u32(version).u64(tensor_count_ + more_tensors).u64(key_count_ + more_keys);
    file.bytes(keys_.out()).bytes(tensors_.out());
    while (tensor_count_ != 0 && file.size() % alignment != 0) file.u8(0);
    return file.bytes(data_.out()).out();
  }

 private:
  uint64_t key_count_ = 0, tensor_count_ = 0;
  ByteWriter keys_, tensors_, data_;
};

}  // namespace gyrus::test
