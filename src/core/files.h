#pragma once
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

// Files of the machine. Not part of the WASM build.

namespace gyrus {

// The bytes of a file; "-" is standard input. Where that is a pipe, `cancel` set from another thread or a signal
// handler ends the waiting for it with Cancelled. Throws Io.
std::vector<std::byte> read_file(const std::string& path, const std::atomic<bool>* cancel = nullptr);
// A new file beside `path` with these bytes, PATH.PID.part (PATH.PID-1.part where that is taken, and so on), which goes
// with the object unless it is moved. Throws Io, in which it is called `path`.
class TemporaryFile {
 public:
  // durable: the bytes are on the disk before it is moved.
  TemporaryFile(const std::string& path, std::span<const std::byte> bytes, bool durable = false);
  TemporaryFile(const std::string& path, const std::string& text);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();
  const std::string& path() const { return path_; }
  void move_to(const std::string& path);

 private:
  std::string path_;
};

// Under a temporary name first, so that the file appears when it is complete; "-" is standard output. Throws Io.
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_file(const std::string& path, const std::string& text);
// The same; the bytes are on the disk when it appears, whatever happens to the machine.
void write_file_durably(const std::string& path, std::span<const std::byte> bytes);

// $XDG_CACHE_HOME/gyrus/NAME, or ~/.cache/gyrus/NAME; empty where there is no home.
std::string user_cache_folder(const std::string& name);

// The value of an environment variable; empty where it is not set.
std::string environment_variable(const char* name);

}  // namespace gyrus
