#include "export_folder.h"

#include <unistd.h>

#include <set>

#include "core/error.h"
#include "web_files.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kIndex = "export.json";  // says what the folder is; also how it is known again

// The names that an earlier export wrote; nothing where the folder is none of its kind.
std::set<std::string> exported_files(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_regular_file(folder / kIndex, failed)) return {};
  const std::vector<std::byte> bytes = read_file((folder / kIndex).string());
  const char* const text = reinterpret_cast<const char*>(bytes.data());
  const Json root = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!root.is_object() || root.value("format", Json()) != kExportFormat || !root.contains("files")) return {};
  std::set<std::string> names;
  for (const Json& name : root["files"])
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

// Throws unless nothing of the user's would be lost.
void check_replaceable(const fs::path& folder, bool force) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) fail(ErrorCode::Io, folder.string(), "is a file; name a folder");
  if (fs::is_empty(folder, failed) && !failed) return;
  const std::set<std::string> ours = exported_files(folder);
  if (ours.empty())
    fail(ErrorCode::Io, folder.string(), "is not empty and no export of gyrus; name another folder or empty it");
  if (!force) fail(ErrorCode::Io, folder.string(), "holds an earlier export; --force replaces it");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (!ours.count(entry.path().filename().string()))
      fail(ErrorCode::Io, folder.string(), "also holds ", entry.path().filename().string(),
           ", which --force would delete; move it away first");
}

// Without links, dots and a slash at the end: what stands beside it is in the same file system.
fs::path resolved(const std::string& folder) {
  const fs::path path = fs::weakly_canonical(fs::absolute(folder));
  return path.has_filename() ? path : path.parent_path();
}

// The text of a file with the names in double braces filled in.
std::string filled(const fs::path& file, const std::map<std::string, std::string>& values) {
  const std::vector<std::byte> bytes = read_file(file.string());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = text.find("{{"); at != std::string::npos; at = text.find("{{", at)) {
    const size_t end = text.find("}}", at);
    const std::string& value = values.at(text.substr(at + 2, end - at - 2));
    text.replace(at, end + 2 - at, value);
    at += value.size();
  }
  return text;
}

}  // namespace

ExportFolder::ExportFolder(const std::string& folder, bool force) : target_(resolved(folder)) {
  check_replaceable(target_, force);
  module_ = web_part("gyrus.js");
  types_ = web_part("gyrus.d.ts");
  example_ = web_part("example");
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

// Not before there is something to write: planning may fail.
void ExportFolder::begin() {
  if (!path_.empty()) return;
  path_ = cat(target_.string(), ".", getpid(), ".part");
  std::error_code failed;
  fs::create_directories(target_.parent_path(), failed);
  if (!failed) fs::create_directory(path_, failed);
  if (failed) fail(ErrorCode::Io, target_.string(), "cannot be made: ", failed.message());
}

void ExportFolder::write_plan(const Plan& plan) {
  write("plan.json", to_json(plan));
  write("plan.bin", plan.weights);
  copy(module_);
  copy(types_);
}

void ExportFolder::write_page(const std::string& kind, const std::map<std::string, std::string>& values) {
  const fs::path folder = kind.empty() ? example_ : example_ / kind;
  write("README.md", filled(folder / "README.md", values));
  copy(folder / "index.html");
  copy(folder / "example.js");
  copy(example_ / "page.js");  // what both kinds have in common
}

uint64_t ExportFolder::put_in_place(const Json& index) {
  Json root = {{"format", kExportFormat}, {"gyrus", GYRUS_VERSION}};
  root.update(index);
  root["files"] = names_;
  root["files"].push_back(kIndex);
  write(kIndex, root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  check_interrupted();
  uint64_t bytes = 0;
  for (const std::string& name : names_) bytes += fs::file_size(path_ / name);
  const fs::path old = cat(target_.string(), ".", getpid(), ".old");
  std::error_code failed;
  const bool replaces = fs::exists(target_, failed) && !fs::is_empty(target_, failed);
  if (replaces) fs::rename(target_, old, failed);
  if (!failed) fs::rename(path_, target_, failed);
  std::error_code ignored;
  if (failed) {
    if (replaces) fs::rename(old, target_, ignored);
    fail(ErrorCode::Io, target_.string(), "cannot be made: ", failed.message());
  }
  fs::remove_all(old, ignored);
  return bytes;
}

CompileTarget browser_target(const DeviceArguments& arguments) {
  CompileTarget target = plan_target(arguments);
  // What is exported runs elsewhere, where few have them.
  if (target.tuning.matrix == MatrixUse::Auto) target.tuning.matrix = MatrixUse::Off;
  if (arguments.limits != "adapter") return target;
  const Limits defaults;
  Limits& limits = target.limits;
  limits.min_storage_buffer_offset_alignment =
      std::max(limits.min_storage_buffer_offset_alignment, defaults.min_storage_buffer_offset_alignment);
  limits.min_uniform_buffer_offset_alignment =
      std::max(limits.min_uniform_buffer_offset_alignment, defaults.min_uniform_buffer_offset_alignment);
  return target;
}

Json ports_json(const std::vector<PlanPort>& ports) {
  Json list = Json::array();
  for (const PlanPort& port : ports)
    list.push_back({{"name", port.name}, {"dtype", to_string(port.dtype)}, {"shape", port.shape}});
  return list;
}

std::string port_rows(const std::vector<PlanPort>& ports, const char* way) {
  std::string rows;
  for (const PlanPort& port : ports)
    rows += cat("| ", way, " | `", port.name, "` | ", to_string(port.dtype), " | ", to_string(port.shape), " |\n");
  return rows;
}

}  // namespace gyrus::cli
