// The file layer above the readers and writers, which work on memory.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "core/error.h"
#include "core/hash.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/mgh.h"
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

// The files of a volume: itself, or header and image.
std::vector<std::string> files_of(const std::string& path) {
  std::string stem = path;
  if (stem.ends_with(".gz")) stem.resize(stem.size() - 3);
  const bool is_header = stem.ends_with(".hdr"), is_image = stem.ends_with(".img");
  if (!is_header && !is_image) return {path};
  stem.resize(stem.size() - 4);
  return {is_header ? path : partner(stem, ".hdr", path), is_image ? path : partner(stem, ".img", path)};
}

SourceFile facts_of(const std::vector<std::vector<std::byte>>& parts) {
  SourceFile out;
  Sha256 sum;
  for (const auto& part : parts) {
    out.bytes += part.size();
    sum.add(part);
  }
  out.sha256 = sum.hex();
  return out;
}

std::vector<std::vector<std::byte>> read_files(const std::string& path, const std::atomic<bool>* cancel) {
  std::vector<std::vector<std::byte>> parts;
  for (const std::string& file : files_of(path)) parts.push_back(read_file(file, cancel));
  return parts;
}

bool is_stream(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  return path == "-" || (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status));
}

}  // namespace

Volume read_volume(const std::string& path, const ReadOptions& options) try {
  const std::vector<std::vector<std::byte>> parts = read_files(path, options.cancel);
  if (options.source) *options.source = facts_of(parts);
  ReadOptions limited = options;
  if (const std::string mib = environment_variable("GYRUS_MAX_SCAN_MIB"); !mib.empty())
    limited.max_bytes = std::min<uint64_t>(options.max_bytes, std::strtoull(mib.c_str(), nullptr, 10) << 20);
  if (parts.size() == 2) return read_volume_pair(parts[0], parts[1], path, limited);
  return read_volume(parts[0], path == "-" ? "standard input" : path, limited);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::OverLimits, path, "needs more memory than this machine has left");
}

SourceFile source_file(const std::string& path) { return facts_of(read_files(path, nullptr)); }

std::string volume_comment(const std::string& path) {
  constexpr size_t kStart = 1 << 18;  // bytes of the file, enough for those
  constexpr size_t kRoom = 1 << 16;   // of header and extensions
  std::vector<std::byte> start(kStart);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(start.data()), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(in.gcount()));
  if (is_gzip(start)) start = gunzip_head(start, kRoom, path);
  return is_nifti_header(start) ? nifti_comment(parse_nifti_header(start, path), start) : std::string();
}

VolumeFormat volume_format(const std::string& path) {
  if (is_stream(path)) return VolumeFormat::NiftiGz;
  std::string name = path;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.ends_with(".nii")) return VolumeFormat::Nifti;
  if (name.ends_with(".nii.gz")) return VolumeFormat::NiftiGz;
  if (name.ends_with(".mgh")) return VolumeFormat::Mgh;
  if (name.ends_with(".mgz") || name.ends_with(".mgh.gz")) return VolumeFormat::Mgz;
  fail(ErrorCode::InvalidInput, path, "volumes are written as .nii, .nii.gz, .mgh or .mgz; name it so");
}

void write_volume(const std::string& path, const Volume& volume, const WriteOptions& options) {
  const VolumeFormat format = volume_format(path);
  const bool is_mgh = format == VolumeFormat::Mgh || format == VolumeFormat::Mgz;
  std::vector<std::byte> bytes = is_mgh ? encode_mgh(volume) : encode_nifti(volume, options.labels ? kLabelIntent : 0);
  if (format == VolumeFormat::NiftiGz || format == VolumeFormat::Mgz) bytes = gzip(bytes, options.gzip_level);
  write_file(path, bytes);
}

void write_report(const std::string& path, const Report& report) {
  if (path.ends_with(".json")) return write_file(path, report_json(report));
  if (path.ends_with(".csv")) return write_file(path, report_table(report, ','));
  if (path.ends_with(".tsv")) return write_file(path, report_table(report, '\t'));
  fail(ErrorCode::InvalidInput, path, "a report is .json, .csv or .tsv");
}

}  // namespace gyrus
