#include "checks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "core/error.h"
#include "volume/freesurfer.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const std::string& path) {
  struct stat facts {};
  if (path == "-" || ::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return FileId{facts.st_dev, facts.st_ino};
}

std::string ending_of(const std::string& path) { return fs::path(path).extension().string(); }

void check_endings(const OutputPaths& paths, const LabelTable& classes) {
  for (const std::string& path : paths.volumes(classes)) volume_format(path);
  if (!paths.aseg.empty()) freesurfer_labels(classes, "--freesurfer");
  if (!paths.report.empty() && ending_of(paths.report) != ".json" && ending_of(paths.report) != ".csv" &&
      ending_of(paths.report) != ".tsv")
    fail(ErrorCode::InvalidInput, paths.report, "a report is .json, .csv or .tsv; name it so");
  if (!paths.picture.empty() && ending_of(paths.picture) != ".png")
    fail(ErrorCode::InvalidInput, paths.picture, "a picture is .png; name it so");
}

// The two halves of a pair, or the scan itself.
std::vector<std::string> halves_of(const std::string& scan) {
  const fs::path path(scan);
  const std::string ending = ending_of(scan);
  if (ending == ".hdr" || ending == ".img")
    return {fs::path(path).replace_extension(".hdr").string(), fs::path(path).replace_extension(".img").string()};
  return {scan};
}

std::string plain(const std::string& path) {
  return path == "-" ? path : fs::absolute(path).lexically_normal().string();
}

}  // namespace

void check_distinct(const std::vector<Job>& jobs, const char* advice) {
  std::map<std::string, std::string> taken;
  for (const Job& job : jobs) {
    const auto [other, is_new] = taken.emplace(job.outputs.labels, job.scan);
    if (!is_new) fail(ErrorCode::InvalidInput, job.scan, "would write the same files as ", other->second, "; ", advice);
  }
}

void check_names(const std::vector<Job>& jobs, const LabelTable& classes, const std::vector<std::string>& others,
                 const std::vector<std::string>& read) {
  std::map<FileId, std::string> inputs;
  const auto add_input = [&](const std::string& path) {
    for (const std::string& half : halves_of(path))
      if (const auto id = id_of(half)) inputs[*id] = half;
  };
  for (const Job& job : jobs) add_input(job.scan);
  for (const std::string& path : read) add_input(path);
  std::set<std::string> outputs;
  const auto check = [&](const std::string& path) {
    if (!outputs.insert(plain(path)).second)
      fail(ErrorCode::InvalidInput, path == "-" ? "standard output" : path, "two results would go there; name another");
    const auto id = id_of(path);
    if (id && inputs.count(*id))
      fail(ErrorCode::InvalidInput, path, "is the input ", inputs[*id],
           " itself, which is never overwritten; name another");
  };
  for (const Job& job : jobs) {
    check_endings(job.outputs, classes);
    for (const std::string& path : job.outputs.files(classes)) check(path);
  }
  for (const std::string& path : others) check(path);
}

void make_folders(const std::vector<Job>& jobs, const LabelTable& classes) {
  std::set<fs::path> folders;
  for (const Job& job : jobs)
    for (const std::string& path : job.outputs.files(classes)) folders.insert(fs::path(path).parent_path());
  for (const fs::path& folder : folders) {
    std::error_code failed;
    if (!folder.empty()) fs::create_directories(folder, failed);
    if (failed) fail(ErrorCode::Io, folder.string(), "cannot be made: ", failed.message());
  }
}

void check_writable(const std::string& path) {
  if (path == "-" && ::isatty(STDOUT_FILENO) == 1)
    fail(ErrorCode::InvalidInput, "standard output", "is a terminal, and this is no text; send it to a file or a pipe");
  if (path == "-") return;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status)) fail(ErrorCode::Io, path, "is a folder, not a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) return;  // a pipe or device
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (!fs::is_directory(folder, failed))
    fail(ErrorCode::Io, path, "cannot be created: the folder ", folder, " is not there");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorCode::Io, path, "cannot be created in ", folder, ": ", std::strerror(errno));
}

void check_other_file(const std::string& input, const std::string& output) {
  const auto id = id_of(output);
  for (const std::string& half : halves_of(input))
    if (id && id == id_of(half))
      fail(ErrorCode::InvalidInput, output, "is the scan itself, which is never overwritten; name another file");
}

}  // namespace gyrus::cli
