#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace gyrus {

// A file as memory: read where it is touched, shared with other processes, never copied as a whole. Not part of the
// WASM build.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws Io
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gyrus
