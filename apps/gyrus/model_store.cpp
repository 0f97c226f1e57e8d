#include "model_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common.h"
#include "core/error.h"
#include "download.h"
#include "engine/text.h"
#include "manifest.h"
#include "progress.h"
#include "segment_arguments.h"
#include "sha256.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepository = "https://github.com/neuroneural/brainchop-models/raw/main/meshnet";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_url(const std::string& text) { return text.rfind("http://", 0) == 0 || text.rfind("https://", 0) == 0; }

std::string without_slash(std::string text) {
  while (!text.empty() && text.back() == '/') text.pop_back();
  return text;
}

// A name that stays inside the folder it is put in.
std::string plain_name(const std::string& text, const std::string& file) {
  if (text.empty() || text[0] == '.' || text.find('/') != std::string::npos)
    fail(ErrorCode::InvalidInput, file, "\"", text, "\" is no plain name");
  return text;
}

std::vector<StoredModel> read_table(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  std::vector<StoredModel> models;
  try {
    const auto root = nlohmann::ordered_json::parse(reinterpret_cast<const char*>(bytes.data()),
                                                    reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    for (const auto& [name, entry] : root.items()) {
      StoredModel model{plain_name(name, file), entry.at("classes").get<int64_t>(), {}};
      model.title = entry.value("title", "");
      model.licence = entry.value("licence", "");
      for (const auto& f : entry.at("files"))
        model.files.push_back({plain_name(f.at("name").get<std::string>(), file), f.at("bytes").get<uint64_t>(),
                               f.at("sha256").get<std::string>()});
      models.push_back(model);
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::InvalidInput, file, "is no table of models (docs/models.md): ", error.what());
  }
  return models;
}

std::string sha256_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  Sha256 sum;
  std::vector<char> buffer(1 << 16);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    sum.add(std::as_bytes(std::span(buffer).first(static_cast<size_t>(in.gcount()))));
  return sum.hex();
}

bool is_right(const fs::path& path, const StoredFile& file) {
  std::error_code failed;
  return fs::is_regular_file(path, failed) && fs::file_size(path, failed) == file.bytes &&
         sha256_of(path) == file.sha256;
}

// Only one process at a time brings a model; the others wait and find it done.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (file_ < 0 || flock(file_, LOCK_EX) != 0) fail(ErrorCode::Io, folder.string(), "cannot be locked");
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }

 private:
  int file_;
};

// The address or folder in which the files of a model lie.
std::string source_of(const StoredModel& model, const std::string& from) {
  if (is_url(from)) return without_slash(from);
  if (!from.empty()) {
    std::error_code failed;
    if (fs::is_directory(from, failed)) {
      const bool holds_models = !fs::exists(fs::path(from) / model.files[0].name, failed);
      return holds_models && fs::is_directory(fs::path(from) / model.name, failed)
                 ? (fs::path(from) / model.name).string()
                 : from;
    }
    if (!fs::exists(from, failed)) fail(ErrorCode::Io, from, "--from: neither a folder, a file nor an http address");
    return fs::absolute(from).parent_path().string();
  }
  const std::string mirror = without_slash(variable("GYRUS_MODELS_URL"));
  return cat(mirror.empty() ? kRepository : mirror, "/", model.name);
}

[[noreturn]] void refuse(const StoredFile& file, const std::string& source, const fs::path& part) {
  const std::string found = sha256_of(part);
  fs::remove(part);
  fail(ErrorCode::InvalidModel, cat(source, "/", file.name), "has the SHA-256 ", found, " instead of ", file.sha256,
       ": it is not the file that gyrus was tested with, and was not kept");
}

void copy_file(const StoredFile& file, const std::string& source, const fs::path& part) {
  std::error_code failed;
  fs::copy_file(fs::path(source) / file.name, part, fs::copy_options::overwrite_existing, failed);
  if (failed) fail(ErrorCode::Io, (fs::path(source) / file.name).string(), "cannot be copied: ", failed.message());
  fs::permissions(part, fs::perms::owner_write, fs::perm_options::add, failed);
  if (!is_right(part, file)) refuse(file, source, part);
}

void download_file(const StoredFile& file, const std::string& source, const fs::path& part,
                   const std::function<void(uint64_t)>& progress) {
  const auto length = [&] { return fs::exists(part) ? fs::file_size(part) : 0; };
  if (length() > file.bytes) fs::remove(part);
  const bool resumed = length() > 0;
  const Download wanted{cat(source, "/", file.name), part.string(), file.bytes, progress};
  whisper(cat("[", wanted.url, "] ", resumed ? cat("resuming after ", length(), " bytes") : "downloading"));
  if (length() < file.bytes) download(wanted);
  if (is_right(part, file)) return;
  if (!resumed) refuse(file, source, part);
  // The part may be of another file: once more from the start.
  fs::remove(part);
  download(wanted);
  if (!is_right(part, file)) refuse(file, source, part);
}

void bring_files(const StoredModel& model, const std::string& source, const fs::path& parts, bool quiet) {
  ProgressBar bar(!quiet);
  uint64_t done = 0;  // bytes
  for (const StoredFile& file : model.files) {
    const fs::path part = parts / file.name;
    if (is_url(source)) {
      download_file(file, source, part, [&](uint64_t bytes) {
        bar.show(static_cast<double>(done + bytes) / static_cast<double>(std::max<uint64_t>(1, model.bytes())),
                 file.name);
      });
    } else {
      copy_file(file, source, part);
    }
    check_interrupted();
    done += file.bytes;
  }
}

// The folder at once where there is none; into one that exists, file by file, so that others in it stay.
void put_in_place(const StoredModel& model, const fs::path& parts, const fs::path& folder) {
  std::error_code failed;
  if (!fs::exists(folder)) {
    fs::rename(parts, folder, failed);
  } else {
    for (const StoredFile& file : model.files)
      if (!failed) fs::rename(parts / file.name, folder / file.name, failed);
    if (!failed) fs::remove_all(parts);
  }
  if (failed) fail(ErrorCode::Io, folder.string(), "cannot be made: ", failed.message());
}

void check_may_download(const std::string& name) {
  if (!offline()) return;
  fail(ErrorCode::Io, name,
       "is not here, and --offline or GYRUS_OFFLINE forbids to download it; bring its files yourself and say gyrus "
       "models fetch ",
       name, " --from FOLDER");
}

}  // namespace

uint64_t StoredModel::bytes() const {
  uint64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::vector<StoredModel> known_models() {
  if (const std::string table = variable("GYRUS_MODELS_TABLE"); !table.empty()) return read_table(table);
  std::vector<StoredModel> models = built_in_models();
  for (StoredModel& model : models) {
    const KnownModel known = known_model(model.name);
    model.title = known.title;
    model.licence = known.licence;
  }
  return models;
}

const char* to_string(ModelState state) {
  switch (state) {
    case ModelState::Absent: return "absent";
    case ModelState::Cached: return "cached";
    case ModelState::Changed: return "changed";
  }
  return "";
}

ModelState state_of(const StoredModel& model) {
  const fs::path folder = fs::path(models_folder()) / model.name;
  std::error_code failed;
  if (!fs::exists(folder, failed)) return ModelState::Absent;
  const bool right = std::all_of(model.files.begin(), model.files.end(),
                                 [&](const StoredFile& file) { return is_right(folder / file.name, file); });
  return right ? ModelState::Cached : ModelState::Changed;
}

std::string fetch_model(const std::string& name, const FetchOptions& options) {
  const std::vector<StoredModel> models = known_models();
  const auto model = std::find_if(models.begin(), models.end(), [&](const StoredModel& m) { return m.name == name; });
  if (model == models.end())
    fail(ErrorCode::InvalidInput, name, "is no model that gyrus knows where to find; gyrus models lists them");
  const fs::path folder = fs::path(models_folder()) / name;
  const std::string source = source_of(*model, options.from);
  const fs::path parts = fs::path(models_folder()) / cat(".fetch-", name);
  const auto is_there = [&] {
    if (state_of(*model) != ModelState::Cached) return false;
    if (!options.quiet) say(cat("[", name, "] is in ", folder.string(), " already"));
    return true;
  };
  if (is_there()) return folder.string();
  if (is_url(source)) check_may_download(name);
  std::error_code failed;
  fs::create_directories(parts, failed);
  if (failed) fail(ErrorCode::Io, parts.string(), "cannot be made: ", failed.message());
  const FolderLock lock(parts);
  if (is_there()) {  // another process was faster
    fs::remove(parts, failed);
    return folder.string();
  }
  if (!options.quiet) say(cat("[", name, "] fetching ", bytes_text(model->bytes()), " from ", source));
  try {
    bring_files(*model, source, parts, options.quiet);
  } catch (const Error& error) {
    fs::remove(parts, failed);  // where nothing came; else what came is kept and the next time resumes
    if (error.code() != ErrorCode::Io || !is_url(source)) throw;
    std::string names;
    for (const StoredFile& file : model->files) names += (names.empty() ? "" : ", ") + file.name;
    throw Error(ErrorCode::Io, cat(error.what(), ". Without a network: bring ", names, " of ", source,
                                   " in a folder and say gyrus models fetch ", name, " --from FOLDER"));
  }
  put_in_place(*model, parts, folder);
  if (!options.quiet) say(cat("[", name, "] is in ", folder.string()));
  return folder.string();
}

std::string ready_model(const std::string& text, bool quiet) {
  std::error_code failed;
  const bool absent = !fs::exists(text, failed) && !fs::exists(fs::path(models_folder()) / text, failed);
  if (text != kDefaultModel || !absent) return resolve_model(text);
  return fetch_model(text, {"", quiet});
}

bool offline() {
  const std::string value = variable("GYRUS_OFFLINE");
  return !value.empty() && value != "0";
}

}  // namespace gyrus::cli
