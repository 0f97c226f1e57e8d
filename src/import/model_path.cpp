#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/files.h"
#include "import/bytes.h"
#include "import/model.h"

// The one part of the importers that touches the file system; the WASM build leaves this file out.

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kLargestModel = uintmax_t{4} << 30;  // bytes, all files together

// Files that can belong to a model. Suffixes only keep what is certainly something else from being read; what a file
// really holds is seen by its content. tfjs shards have had no suffix in some versions.
bool may_belong(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.empty() || name[0] == '.') return false;
  if (name.find(".json") != std::string::npos || !path.has_extension()) return true;
  for (const char* suffix : {".pth", ".pt", ".ckpt", ".bin", ".safetensors"}) {
    if (path.extension() == suffix) return true;
  }
  return false;
}

std::vector<std::byte> read_within(const fs::path& path, uintmax_t& budget) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) fail(ErrorCode::Io, path.string(), "cannot be read: ", error.message());
  if (size > budget) fail(ErrorCode::Unsupported, path.string(), "models over 4 GiB are not read");
  budget -= size;
  return read_file(path.string());
}

}  // namespace

Model load_model(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(ErrorCode::Io, path, "no such file or folder");
  const bool is_folder = fs::is_directory(status);
  if (!is_folder && !fs::is_regular_file(status)) fail(ErrorCode::Io, path, "neither a file nor a folder");
  fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  if (folder.empty()) folder = ".";

  ModelFiles files;
  files.path = folder.string();
  uintmax_t budget = kLargestModel;
  if (!is_folder) {
    files.main = fs::path(path).filename().string();
    files.files[files.main] = read_within(path, budget);
  }
  fs::directory_iterator it(folder, error);
  if (error) fail(ErrorCode::Io, folder.string(), "cannot be listed: ", error.message());
  for (; it != fs::directory_iterator(); it.increment(error)) {
    if (error) fail(ErrorCode::Io, folder.string(), "cannot be listed: ", error.message());
    const std::string name = it->path().filename().string();
    if (name == files.main || !may_belong(it->path()) || !it->is_regular_file(error)) continue;
    files.files[name] = read_within(it->path(), budget);
  }
  // A folder may be given as "dir/" or ".".
  fs::path named = fs::absolute(folder, error).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  const std::string stem = files.main.substr(0, files.main.find('.'));
  files.name = is_folder || stem == "model" ? named.filename().string() : stem;
  return load_model(files);
}

}  // namespace gyrus
