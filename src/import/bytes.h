#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace gyrus {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(const std::vector<std::byte>& data) { return {data.data(), data.size()}; }
inline Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Whether a name from a file may go into graphs and messages: not empty, on one line.
inline bool is_good_name(std::string_view name) {
  for (const char c : name) {
    if (is_control(c)) return false;
  }
  return !name.empty();
}

// A name from a file, fit for an error message: in quotes, on one line, at most 80 characters.
inline std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  for (const char c : name.substr(0, kLongest)) out += is_control(c) ? '?' : c;
  return out + (name.size() > kLongest ? "…'" : "'");
}

// Reads little-endian values one after another; every read past the end throws InvalidModel("[subject] …").
class ByteReader {
 public:
  ByteReader(Bytes bytes, std::string subject) : bytes_(bytes), subject_(std::move(subject)) {}

  uint64_t position() const { return position_; }  // bytes from the start
  uint64_t left() const { return bytes_.size() - position_; }
  const std::string& subject() const { return subject_; }

  void seek(uint64_t position) {
    if (position > bytes_.size()) truncated(position - bytes_.size());
    position_ = position;
  }
  Bytes take(uint64_t count) {
    if (count > left()) truncated(count);
    const Bytes out = bytes_.subspan(static_cast<size_t>(position_), static_cast<size_t>(count));
    position_ += count;
    return out;
  }
  void skip(uint64_t count) { take(count); }
  std::string_view text(uint64_t count) { return text_of(take(count)); }

  uint8_t u8() { return static_cast<uint8_t>(unsigned_of(1)); }
  uint16_t u16() { return static_cast<uint16_t>(unsigned_of(2)); }
  uint32_t u32() { return static_cast<uint32_t>(unsigned_of(4)); }
  uint64_t u64() { return unsigned_of(8); }

 private:
  uint64_t unsigned_of(uint64_t count) {
    uint64_t value = 0;
    const Bytes from = take(count);
    for (size_t i = 0; i < from.size(); ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
    return value;
  }
  [[noreturn]] void truncated(uint64_t wanted) const {
    fail(ErrorCode::InvalidModel, subject_, "truncated or corrupted: ", wanted, " bytes expected at offset ", position_,
         ", ", left(), " there");
  }

  Bytes bytes_;
  uint64_t position_ = 0;
  std::string subject_;
};

}  // namespace gyrus
