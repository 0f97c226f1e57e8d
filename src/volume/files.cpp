// The file layer above the readers and writers, which work on memory.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "core/error.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/nifti.h"
#include "volume/report.h"

namespace gyrus {

namespace {

namespace fs = std::filesystem;

constexpr int kLabelIntent = 1002;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

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

// Removes the temporary file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::string path_;
};

void write_all(std::FILE* file, std::span<const std::byte> bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fflush(file) != 0)
    fail(ErrorCode::Io, name, "cannot be written: ", reason());
}

// The other half of a .hdr/.img pair: the same name with the other suffix, plain or gzipped.
std::string partner(const std::string& stem, const char* suffix, const std::string& path) {
  for (const char* gz : {"", ".gz"}) {
    const std::string candidate = cat(stem, suffix, gz);
    if (fs::exists(candidate)) return candidate;
  }
  fail(ErrorCode::Io, path, "belongs to a pair, but ", stem, suffix, " is not there");
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path) {
  if (path == "-") return read_all(stdin, "standard input", 1 << 20);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail(ErrorCode::Io, path, "is a folder, not a file");
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(ErrorCode::Io, path, "cannot be opened: ", reason());
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return read_all(file.get(), path, error ? size_t{1} << 20 : static_cast<size_t>(size));
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  if (path == "-") return write_all(stdout, bytes, "standard output");
  // A pipe or device is written in place: renaming over it would replace it.
  std::error_code error;
  const auto status = fs::status(path, error);
  const bool in_place = fs::exists(status) && !fs::is_regular_file(status);
  Temporary temporary(in_place ? std::string() : cat(path, ".", ::getpid(), ".part"));
  const std::string& target = in_place ? path : temporary.path();
  File file(std::fopen(target.c_str(), "wb"));
  if (!file) fail(ErrorCode::Io, path, "cannot be created: ", reason());
  write_all(file.get(), bytes, path);
  if (std::fclose(file.release()) != 0) fail(ErrorCode::Io, path, "cannot be written: ", reason());
  if (in_place) return;
  if (std::rename(target.c_str(), path.c_str()) != 0) fail(ErrorCode::Io, path, "cannot be created: ", reason());
  temporary.release();
}

void write_file(const std::string& path, const std::string& text) {
  write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

Volume read_volume(const std::string& path, const ReadOptions& options) {
  std::string stem = path;
  if (ends_with(stem, ".gz")) stem.resize(stem.size() - 3);
  const bool is_header = ends_with(stem, ".hdr"), is_image = ends_with(stem, ".img");
  if (!is_header && !is_image) return read_volume(read_file(path), path == "-" ? "standard input" : path, options);
  stem.resize(stem.size() - 4);
  const std::string header = is_header ? path : partner(stem, ".hdr", path);
  const std::string image = is_image ? path : partner(stem, ".img", path);
  return read_volume_pair(read_file(header), read_file(image), path, options);
}

void write_volume(const std::string& path, const Volume& volume, const WriteOptions& options) {
  std::vector<std::byte> bytes = encode_nifti(volume, options.labels ? kLabelIntent : 0);
  if (path == "-" || ends_with(path, ".gz")) bytes = gzip(bytes, options.gzip_level);
  write_file(path, bytes);
}

void write_report(const std::string& path, const Report& report) {
  if (ends_with(path, ".json")) return write_file(path, report_json(report));
  if (ends_with(path, ".csv")) return write_file(path, report_table(report, ','));
  if (ends_with(path, ".tsv")) return write_file(path, report_table(report, '\t'));
  fail(ErrorCode::InvalidInput, path, "a report is .json, .csv or .tsv");
}

}  // namespace gyrus
