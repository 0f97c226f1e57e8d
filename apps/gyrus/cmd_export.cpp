// A folder that runs a network in a browser: plan, weights, executor, example page. It is written beside its final name
// and renamed, so that it is there whole or not at all.
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.h"
#include "compile_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "plan/check.h"
#include "volume/io.h"
#include "web_files.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "gyrus-export-1";
constexpr const char* kIndex = "export.json";  // says what the folder is; also how it is known again

struct ExportArguments {
  CompileArguments compile;
  std::string out, output = "labels";
  bool force = false, quiet = false;

  ExportArguments() { compile.device.limits = "default"; }  // runs on every device
};

// The names that an earlier export wrote; nothing where the folder is none of its kind.
std::set<std::string> exported_files(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_regular_file(folder / kIndex, failed)) return {};
  const std::vector<std::byte> bytes = read_file((folder / kIndex).string());
  const char* const text = reinterpret_cast<const char*>(bytes.data());
  const Json root = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!root.is_object() || root.value("format", Json()) != kFormat || !root.contains("files")) return {};
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

// The folder under construction; gone unless it was put in place.
class Draft {
 public:
  explicit Draft(fs::path target) : target_(std::move(target)), path_(cat(target_.string(), ".", getpid(), ".part")) {
    std::error_code failed;
    fs::create_directories(target_.parent_path(), failed);
    if (!failed) fs::create_directory(path_, failed);
    if (failed) fail(ErrorCode::Io, target_.string(), "cannot be made: ", failed.message());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  template <class Bytes>
  void write(const std::string& name, const Bytes& bytes) {
    write_file((path_ / name).string(), bytes);
    names_.push_back(name);
  }
  void copy(const fs::path& from) { write(from.filename().string(), read_file(from.string())); }
  const std::vector<std::string>& names() const { return names_; }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::string& name : names_) sum += fs::file_size(path_ / name);
    return sum;
  }

  void put_in_place() {
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
  }

 private:
  fs::path target_, path_;
  std::vector<std::string> names_;
};

// Without links, dots and a slash at the end: what stands beside it is in the same file system.
fs::path resolved(const std::string& folder) {
  const fs::path path = fs::weakly_canonical(fs::absolute(folder));
  return path.has_filename() ? path : path.parent_path();
}

Json port_json(const PlanPort& port) {
  return {{"name", port.name}, {"dtype", to_string(port.dtype)}, {"shape", port.shape}};
}

std::string port_rows(const std::vector<PlanPort>& ports, const char* way) {
  std::string rows;
  for (const PlanPort& port : ports)
    rows += cat("| ", way, " | `", port.name, "` | ", to_string(port.dtype), " | ", to_string(port.shape), " |\n");
  return rows;
}

// The example's README.md with the names in double braces filled in.
std::string readme(const fs::path& file, const CompileRequest& request, const Plan& plan, const CompileTarget& target) {
  const Manifest& manifest = request.manifest;
  const auto image =
      std::find_if(plan.inputs.begin(), plan.inputs.end(), [](const PlanPort& port) { return port.name == "image"; });
  const PlanPort& output = plan.outputs.at(0);
  const std::map<std::string, std::string> values = {
      {"model", request.model.name},
      {"title", manifest.title.empty() ? "" : manifest.title + ".\n"},
      {"version", GYRUS_VERSION},
      {"target", target.name},
      {"size", extents_text(request.size)},
      {"precision", plan.precision},
      {"memory", bytes_text(plan.peak_bytes())},
      {"ports", port_rows(plan.inputs, "in") + port_rows(plan.outputs, "out")},
      {"clamp", request.network.clamp ? ", limited to [0, 1]" : ""},
      {"normalize", normalize_text(request.normalize)},
      {"image_type", to_string(image->dtype)},
      {"image_shape", to_string(image->shape)},
      {"output", output.name},
      {"output_type", to_string(output.dtype)},
      {"output_shape", to_string(output.shape)},
      {"licence", cat(manifest.licence.empty() ? "" : "\nLicence of the model: " + manifest.licence + ".\n",
                      manifest.citation.empty() ? "" : "Cite: " + manifest.citation + "\n")},
  };
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

std::string index_json(const CompileRequest& request, const Plan& plan, const CompileTarget& target,
                       std::vector<std::string> names) {
  names.push_back(kIndex);
  Json inputs = Json::array(), outputs = Json::array();
  for (const PlanPort& port : plan.inputs) inputs.push_back(port_json(port));
  for (const PlanPort& port : plan.outputs) outputs.push_back(port_json(port));
  static constexpr const char* kKinds[] = {"none", "minmax", "quantile"};
  const NormalizeOptions& n = request.normalize;
  const Json root = {{"format", kFormat},
                     {"gyrus", GYRUS_VERSION},
                     {"model", request.model.name},
                     {"title", request.manifest.title},
                     {"licence", request.manifest.licence},
                     {"limits", target.name},
                     {"precision", plan.precision},
                     {"peakBytes", plan.peak_bytes()},
                     {"normalize", {{"kind", kKinds[static_cast<size_t>(n.kind)]}, {"low", n.low}, {"high", n.high}}},
                     {"inputs", inputs},
                     {"outputs", outputs},
                     {"files", names}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// What plan plans for. Of an adapter's limits, alignments are no finer than the defaults: browsers offer none finer,
// whatever the GPU can do.
CompileTarget browser_target(const DeviceArguments& arguments) {
  CompileTarget target = plan_target(arguments);
  if (arguments.limits != "adapter") return target;
  const Limits defaults;
  Limits& limits = target.limits;
  limits.min_storage_buffer_offset_alignment =
      std::max(limits.min_storage_buffer_offset_alignment, defaults.min_storage_buffer_offset_alignment);
  limits.min_uniform_buffer_offset_alignment =
      std::max(limits.min_uniform_buffer_offset_alignment, defaults.min_uniform_buffer_offset_alignment);
  return target;
}

void run(const ExportArguments& arguments) {
  const fs::path target_folder = resolved(arguments.out);
  check_replaceable(target_folder, arguments.force);
  const fs::path module = web_part("gyrus.js"), types = web_part("gyrus.d.ts"), example = web_part("example");
  CompileRequest request = read_request(arguments.compile);
  if (request.model.spatial_rank != 3 || request.model.input_channels != 1)
    fail(ErrorCode::Unsupported, request.model.name, "takes ", request.model.input_channels, " channels of ",
         request.model.spatial_rank, " axes; export is for volumes of one channel");
  if (arguments.output == "logits") request.network.output = NetworkOutput::Logits;
  const CompileTarget target = browser_target(arguments.compile.device);
  const Compiled compiled = compile(request.model, request.size, request.network, target,
                                    parse_precision(arguments.compile.device.precision));
  check(compiled.plan, target.limits);

  Draft draft(target_folder);
  draft.write("plan.json", to_json(compiled.plan));
  draft.write("plan.bin", compiled.plan.weights);
  draft.write("labels.json", sidecar_json(request.manifest.labels));
  draft.write("README.md", readme(example / "README.md", request, compiled.plan, target));
  draft.copy(module);
  draft.copy(types);
  draft.copy(example / "index.html");
  draft.copy(example / "example.js");
  draft.write(kIndex, index_json(request, compiled.plan, target, draft.names()));
  check_interrupted();
  const uint64_t bytes = draft.bytes();
  draft.put_in_place();
  if (arguments.quiet) return;
  if (!compiled.decision.notice.empty()) say(compiled.decision.notice);
  say(cat("[", arguments.out, "] ", request.model.name, " for ", extents_text(request.size), " voxels, ",
          compiled.plan.precision, ", ", bytes_text(bytes), "; needs ", bytes_text(compiled.plan.peak_bytes()),
          " of GPU memory. Serve it with python3 -m http.server -d ", arguments.out));
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("export", "Write a folder that runs a model in any browser: plan, weights, executor, page");
  auto arguments = std::make_shared<ExportArguments>();
  add_compile_options(*command, arguments->compile);
  command->add_option("--output", arguments->output, "What the network gives: the class of every voxel, or all scores")
      ->check(CLI::IsMember({"labels", "logits"}))
      ->type_name("labels|logits")
      ->capture_default_str();
  command->add_option("-o,--out", arguments->out, "The folder, which must be new or empty")
      ->type_name("DIR")
      ->required();
  command->add_flag("--force", arguments->force, "Replace an earlier export");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->footer(
      "Examples:\n"
      "  gyrus export mindgrab -o site\n"
      "  gyrus export models/model18cls --size 192x224x192 --precision f16 --limits phone.json -o site");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
