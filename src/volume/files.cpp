// The file layer above the readers and writers, which work on memory.
#include <filesystem>

#include "core/error.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/nifti.h"
#include "volume/report.h"

namespace gyrus {

namespace {

namespace fs = std::filesystem;

constexpr int kLabelIntent = 1002;

// The other half of a .hdr/.img pair: the same name with the other suffix, plain or gzipped.
std::string partner(const std::string& stem, const char* suffix, const std::string& path) {
  for (const char* gz : {"", ".gz"}) {
    const std::string candidate = cat(stem, suffix, gz);
    if (fs::exists(candidate)) return candidate;
  }
  fail(ErrorCode::Io, path, "belongs to a pair, but ", stem, suffix, " is not there");
}

}  // namespace

Volume read_volume(const std::string& path, const ReadOptions& options) {
  std::string stem = path;
  if (stem.ends_with(".gz")) stem.resize(stem.size() - 3);
  const bool is_header = stem.ends_with(".hdr"), is_image = stem.ends_with(".img");
  if (!is_header && !is_image) return read_volume(read_file(path), path == "-" ? "standard input" : path, options);
  stem.resize(stem.size() - 4);
  const std::string header = is_header ? path : partner(stem, ".hdr", path);
  const std::string image = is_image ? path : partner(stem, ".img", path);
  return read_volume_pair(read_file(header), read_file(image), path, options);
}

void write_volume(const std::string& path, const Volume& volume, const WriteOptions& options) {
  std::vector<std::byte> bytes = encode_nifti(volume, options.labels ? kLabelIntent : 0);
  if (path == "-" || path.ends_with(".gz")) bytes = gzip(bytes, options.gzip_level);
  write_file(path, bytes);
}

void write_report(const std::string& path, const Report& report) {
  if (path.ends_with(".json")) return write_file(path, report_json(report));
  if (path.ends_with(".csv")) return write_file(path, report_table(report, ','));
  if (path.ends_with(".tsv")) return write_file(path, report_table(report, '\t'));
  fail(ErrorCode::InvalidInput, path, "a report is .json, .csv or .tsv");
}

}  // namespace gyrus
