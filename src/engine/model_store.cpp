#include "engine/model_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/text.h"
#include "engine/download.h"
#include "engine/known_models.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepository = "https://github.com/neuroneural/brainchop-models/raw/main/meshnet";

bool is_offline() {
  const std::string value = environment_variable("GYRUS_OFFLINE");
  return !value.empty() && value != "0";
}

void tell(const std::function<void(const std::string&)>& listener, const std::string& line) {
  if (listener) listener(line);
}

bool is_url(const std::string& text) { return text.starts_with("http://") || text.starts_with("https://"); }

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

std::vector<ModelEntry> read_table(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  std::vector<ModelEntry> models;
  try {
    const auto root = nlohmann::ordered_json::parse(reinterpret_cast<const char*>(bytes.data()),
                                                    reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    for (const auto& [name, entry] : root.items()) {
      ModelEntry model{plain_name(name, file),
                       entry.value("title", ""),
                       entry.value("licence", ""),
                       entry.at("classes").get<int64_t>(),
                       {}};
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

bool is_right(const fs::path& path, const ModelFile& file) {
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
std::string source_of(const ModelEntry& model, const std::string& from) {
  if (is_url(from)) return without_slash(from);
  if (!from.empty()) {
    std::error_code failed;
    if (fs::is_directory(from, failed)) {
      const bool holds_models = !fs::exists(fs::path(from) / model.files[0].name, failed);
      return holds_models && fs::is_directory(fs::path(from) / model.name, failed)
                 ? (fs::path(from) / model.name).string()
                 : from;
    }
    if (!fs::exists(from, failed)) fail(ErrorCode::Io, from, "neither a folder, a file nor an http address");
    return fs::absolute(from).parent_path().string();
  }
  const std::string mirror = without_slash(environment_variable("GYRUS_MODELS_URL"));
  return cat(mirror.empty() ? kRepository : mirror, "/", model.name);
}

[[noreturn]] void refuse(const ModelFile& file, const std::string& source, const fs::path& part) {
  const std::string found = sha256_of(part);
  fs::remove(part);
  fail(ErrorCode::InvalidModel, cat(source, "/", file.name), "has the SHA-256 ", found, " instead of ", file.sha256,
       ": it is not the file that gyrus was tested with, and was not kept");
}

void copy_file(const ModelFile& file, const std::string& source, const fs::path& part) {
  std::error_code failed;
  fs::copy_file(fs::path(source) / file.name, part, fs::copy_options::overwrite_existing, failed);
  if (failed) fail(ErrorCode::Io, (fs::path(source) / file.name).string(), "cannot be copied: ", failed.message());
  fs::permissions(part, fs::perms::owner_write, fs::perm_options::add, failed);
  if (!is_right(part, file)) refuse(file, source, part);
}

void download_file(const ModelFile& file, const std::string& source, const fs::path& part,
                   const std::function<void(uint64_t)>& progress, const FetchOptions& options) {
  const auto length = [&] { return fs::exists(part) ? fs::file_size(part) : 0; };
  if (length() > file.bytes) fs::remove(part);
  const bool resumed = length() > 0;
  const Download wanted{
      cat(source, "/", file.name), part.string(), file.bytes, progress, options.detail, options.cancel};
  tell(options.detail,
       cat("[", wanted.url, "] ", resumed ? cat("resuming after ", length(), " bytes") : "downloading"));
  if (length() < file.bytes) download(wanted);
  if (is_right(part, file)) return;
  if (!resumed) refuse(file, source, part);
  // The part may be of another file: once more from the start.
  fs::remove(part);
  download(wanted);
  if (!is_right(part, file)) refuse(file, source, part);
}

void bring_files(const ModelEntry& model, const std::string& source, const fs::path& parts,
                 const FetchOptions& options) {
  uint64_t done = 0;  // bytes
  for (const ModelFile& file : model.files) {
    const fs::path part = parts / file.name;
    const auto progress = [&](uint64_t bytes) {
      if (options.progress)
        options.progress(static_cast<double>(done + bytes) / static_cast<double>(std::max<uint64_t>(1, model.bytes())),
                         file.name);
    };
    if (is_url(source))
      download_file(file, source, part, progress, options);
    else
      copy_file(file, source, part);
    if (options.cancel && options.cancel->load())
      fail(ErrorCode::Cancelled, model.name, "stopped before all of it was here");
    done += file.bytes;
  }
}

// The folder at once where there is none; into one that exists, file by file, so that others in it stay.
void put_in_place(const ModelEntry& model, const fs::path& parts, const fs::path& folder) {
  std::error_code failed;
  if (!fs::exists(folder)) {
    fs::rename(parts, folder, failed);
  } else {
    for (const ModelFile& file : model.files)
      if (!failed) fs::rename(parts / file.name, folder / file.name, failed);
    if (!failed) fs::remove_all(parts);
  }
  if (failed) fail(ErrorCode::Io, folder.string(), "cannot be made: ", failed.message());
}

void check_may_download(const std::string& name) {
  if (is_offline())
    fail(ErrorCode::Io, {Hint::FetchFromFolder}, name,
         "is not in the cache, and with --offline (GYRUS_OFFLINE) nothing is downloaded");
}

fs::path folder_of(const std::string& name) {
  const std::string folder = models_folder();
  if (folder.empty()) fail(ErrorCode::Io, name, "there is no folder for models: HOME is not set, nor is GYRUS_MODELS");
  return fs::path(folder) / name;
}

const KnownModel* known_by_name(const std::string& name) {
  for (const KnownModel& known : known_models())
    if (known.name == name) return &known;
  return nullptr;
}

}  // namespace

uint64_t ModelEntry::bytes() const {
  uint64_t sum = 0;
  for (const ModelFile& file : files) sum += file.bytes;
  return sum;
}

std::string models_folder() {
  const std::string own = environment_variable("GYRUS_MODELS");
  return own.empty() ? user_cache_folder("models") : own;
}

std::vector<ModelEntry> list_models() {
  if (const std::string table = environment_variable("GYRUS_MODELS_TABLE"); !table.empty()) return read_table(table);
  std::vector<ModelEntry> models;
  for (const KnownModel& known : known_models())
    models.push_back({known.name, known.title, kKnownLicence, known.classes, known.files});
  return models;
}

ModelState state_of(const ModelEntry& model) {
  const fs::path folder = folder_of(model.name);
  std::error_code failed;
  if (!fs::exists(folder, failed)) return ModelState::Absent;
  const bool right = std::all_of(model.files.begin(), model.files.end(),
                                 [&](const ModelFile& file) { return is_right(folder / file.name, file); });
  return right ? ModelState::Stored : ModelState::Changed;
}

std::string fetch_model(const std::string& text, const FetchOptions& options) {
  const std::vector<ModelEntry> models = list_models();
  const std::string name = name_behind(text);
  const auto model = std::find_if(models.begin(), models.end(), [&](const ModelEntry& m) { return m.name == name; });
  if (model == models.end()) {
    std::string names;
    for (const ModelEntry& known : models) names += (names.empty() ? "" : ", ") + known.name;
    fail(ErrorCode::InvalidInput, name, "is no model that gyrus knows where to find; those are ", names);
  }
  const fs::path folder = folder_of(name);
  const std::string source = source_of(*model, options.from);
  const fs::path parts = folder_of(cat(".fetch-", name));
  const auto is_there = [&] {
    if (state_of(*model) != ModelState::Stored) return false;
    tell(options.notice, cat("[", name, "] is in ", folder.string(), " already"));
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
  tell(options.notice, cat("[", name, "] fetching ", bytes_text(model->bytes()), " from ", source));
  try {
    bring_files(*model, source, parts, options);
  } catch (const Error& error) {
    fs::remove(parts, failed);  // where nothing came; else what came is kept and the next time resumes
    if (error.code() != ErrorCode::Io || !is_url(source)) throw;
    std::string names;
    for (const ModelFile& file : model->files) names += (names.empty() ? "" : ", ") + file.name;
    throw Error(ErrorCode::Io,
                cat(error.what(), "; without a network bring ", names, " of ", source, " yourself, in a folder"),
                {Hint::FetchFromFolder});
  }
  put_in_place(*model, parts, folder);
  tell(options.notice, cat("[", name, "] is in ", folder.string()));
  return folder.string();
}

std::string resolve_model(const std::string& text) {
  if (fs::exists(text)) return text;
  const bool is_name = text.find('/') == std::string::npos;
  const std::string store = models_folder();
  for (const std::string& name : {text, name_behind(text)})
    if (is_name && !store.empty() && fs::exists(fs::path(store) / name)) return (fs::path(store) / name).string();
  const std::string last = fs::path(text).filename().string();
  if (!is_name && known_by_name(name_behind(last)))
    fail(ErrorCode::Io, {Hint::FetchModel}, text, "no model is there; the model ", last,
         " can be fetched, and is then given by its name alone");
  if (!is_name) fail(ErrorCode::Io, text, "no model is there");
  const std::vector<Hint> hints =
      known_by_name(name_behind(text)) ? std::vector{Hint::FetchModel} : std::vector{Hint::OtherModel};
  fail(ErrorCode::Io, hints, text, "no model is there, and none of that name in ",
       store.empty() ? "a store: there is no home folder" : store);
}

namespace {

// What lies beside a model, or in its folder.
SideFiles side_files(const fs::path& path) {
  SideFiles files;
  std::error_code ignored;
  fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_side_file(name)) files[name] = read_file(entry.path().string());
  }
  return files;
}

// Of the file, or of its folder where that says more.
std::string onnx_name(const std::string& path, const std::string& given) {
  std::error_code ignored;
  const fs::path file = fs::absolute(path, ignored).lexically_normal();
  const bool by_folder = file.stem() == "model" || fs::is_directory(given, ignored);
  return by_folder ? file.parent_path().filename().string() : file.stem().string();
}

}  // namespace

Manifest manifest_of(const Model& model) {
  return manifest_of(model, model.path.empty() ? SideFiles{} : side_files(model.path));
}

DescribedModel open_model(const std::string& text) {
  const std::string path = resolve_model(text);
  if (auto file = onnx::open_model(path)) {
    const std::string name = onnx_name(file->path, path);
    const SideFiles files = side_files(file->path);
    return describe_onnx(std::move(*file), name, files);
  }
  DescribedModel out;
  out.model = load_model(path);
  out.manifest = manifest_of(out.model);
  return out;
}

}  // namespace gyrus
