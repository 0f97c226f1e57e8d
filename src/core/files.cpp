#include "core/files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/error.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string reason() { return std::strerror(errno); }

std::vector<std::byte> read_all(std::FILE* file, const std::string& name, size_t expected) {
  std::vector<std::byte> out(expected + 1);
  size_t used = 0;
  for (;;) {
    const size_t got = std::fread(out.data() + used, 1, out.size() - used, file);
    used += got;
    if (used < out.size()) break;
    out.resize(out.size() + std::max<size_t>(out.size() / 2, 1 << 16));
  }
  if (std::ferror(file) != 0) fail(ErrorCode::Io, name, "cannot be read: ", reason());
  out.resize(used);
  return out;
}

// A pipe, terminal or device, read as it comes; looks at `cancel` while there is nothing.
std::vector<std::byte> read_stream(int file, const std::string& name, const std::atomic<bool>& cancel) {
  constexpr int kPatience = 100;  // ms
  std::vector<std::byte> out(1 << 20);
  size_t used = 0;
  for (;;) {
    if (cancel.load()) fail(ErrorCode::Cancelled, name, "interrupted while reading; nothing was left half-written");
    pollfd waiting{file, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kPatience);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ::read(file, out.data() + used, out.size() - used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail(ErrorCode::Io, name, "cannot be read: ", reason());
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used == out.size()) out.resize(out.size() + out.size() / 2);
  }
  out.resize(used);
  return out;
}

// A pipe without a writer is opened at once, and waited for when it is read.
std::vector<std::byte> read_pipe(const std::string& path, const std::atomic<bool>& cancel) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) fail(ErrorCode::Io, path, "cannot be opened: ", reason());
  const std::unique_ptr<const int, void (*)(const int*)> closed(&file, [](const int* f) { ::close(*f); });
  return read_stream(file, path, cancel);
}

void write_all(std::FILE* file, std::span<const std::byte> bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fflush(file) != 0)
    fail(ErrorCode::Io, name, "cannot be written: ", reason());
}

void write_and_close(File file, std::span<const std::byte> bytes, const std::string& name, bool durable) {
  write_all(file.get(), bytes, name);
  if (durable && ::fsync(::fileno(file.get())) != 0) fail(ErrorCode::Io, name, "cannot be written: ", reason());
  if (std::fclose(file.release()) != 0) fail(ErrorCode::Io, name, "cannot be written: ", reason());
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path, const std::atomic<bool>* cancel) {
  if (path == "-" && cancel) return read_stream(STDIN_FILENO, "standard input", *cancel);
  if (path == "-") return read_all(stdin, "standard input", 1 << 20);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail(ErrorCode::Io, path, "is a folder, not a file");
  if (cancel && fs::is_fifo(path, ignored)) return read_pipe(path, *cancel);
  if (fs::is_symlink(fs::symlink_status(path, ignored)) && !fs::exists(path, ignored))
    fail(ErrorCode::Io, path, "is a link to ", fs::read_symlink(path, ignored).string(),
         ", which is not there; where git-annex or DataLad keeps the file, get it first");
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(ErrorCode::Io, path, "cannot be opened: ", reason());
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return read_all(file.get(), path, error ? size_t{1} << 20 : static_cast<size_t>(size));
}

TemporaryFile::TemporaryFile(const std::string& path, std::span<const std::byte> bytes, bool durable) {
  std::FILE* opened = nullptr;
  // One of this number may be there: of another machine's process, or of a container's.
  constexpr int kMost = 1000;
  for (int i = 0; opened == nullptr && i < kMost; ++i) {
    path_ = cat(path, ".", ::getpid(), i == 0 ? std::string() : cat("-", i), ".part");
    opened = std::fopen(path_.c_str(), "wbx");
    if (opened == nullptr && errno != EEXIST) break;
  }
  File file(opened);
  if (!file) fail(ErrorCode::Io, path, "cannot be created: ", reason());
  try {
    write_and_close(std::move(file), bytes, path, durable);
  } catch (const Error&) {
    std::remove(path_.c_str());
    throw;
  }
}

TemporaryFile::TemporaryFile(const std::string& path, const std::string& text)
    : TemporaryFile(path, std::as_bytes(std::span(text.data(), text.size()))) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) std::remove(path_.c_str());
}

void TemporaryFile::move_to(const std::string& path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) fail(ErrorCode::Io, path, "cannot be created: ", reason());
  path_.clear();
}

namespace {

void write_whole(const std::string& path, std::span<const std::byte> bytes, bool durable) {
  if (path == "-") return write_all(stdout, bytes, "standard output");
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) return TemporaryFile(path, bytes, durable).move_to(path);
  // A pipe or device is written in place: renaming over it would replace it.
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail(ErrorCode::Io, path, "cannot be created: ", reason());
  write_and_close(std::move(file), bytes, path, durable);
}

}  // namespace

void write_file(const std::string& path, std::span<const std::byte> bytes) { write_whole(path, bytes, false); }
void write_file_durably(const std::string& path, std::span<const std::byte> bytes) { write_whole(path, bytes, true); }

void write_file(const std::string& path, const std::string& text) {
  write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string user_cache_folder(const std::string& name) {
  // As the XDG specification wants it, a relative path counts as none.
  if (const fs::path base = environment_variable("XDG_CACHE_HOME"); base.is_absolute())
    return (base / "gyrus" / name).string();
  if (const fs::path home = environment_variable("HOME"); home.is_absolute())
    return (home / ".cache" / "gyrus" / name).string();
  return {};
}

}  // namespace gyrus
