// A folder that runs a network in a browser: plan, weights, executor, example page.
#include "commands.h"
#include "compile_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "engine/program_plan.h"
#include "export_folder.h"
#include "import/onnx_path.h"
#include "network_inputs.h"
#include "plan/check.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ExportArguments {
  CompileArguments compile;
  std::string out, output = "labels";
  NetworkArguments network;  // of ONNX models
  bool force = false, quiet = false;

  ExportArguments() { compile.device.limits = "default"; }  // runs on every device
};

// What stands in the README of a network for volumes.
std::map<std::string, std::string> about(const CompileRequest& request, const Plan& plan, const CompileTarget& target) {
  const Manifest& manifest = request.manifest;
  const auto image =
      std::find_if(plan.inputs.begin(), plan.inputs.end(), [](const PlanPort& port) { return port.name == "image"; });
  const PlanPort& output = plan.outputs.at(0);
  return {
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
}

Json index_of(const CompileRequest& request, const Plan& plan, const CompileTarget& target) {
  static constexpr const char* kKinds[] = {"none", "minmax", "quantile"};
  const NormalizeOptions& n = request.normalize;
  return {{"model", request.model.name},
          {"title", request.manifest.title},
          {"licence", request.manifest.licence},
          {"limits", target.name},
          {"precision", plan.precision},
          {"peakBytes", plan.peak_bytes()},
          {"normalize", {{"kind", kKinds[static_cast<size_t>(n.kind)]}, {"low", n.low}, {"high", n.high}}},
          {"inputs", ports_json(plan.inputs)},
          {"outputs", ports_json(plan.outputs)}};
}

void say_exported(const ExportArguments& arguments, const std::string& what, const Plan& plan, uint64_t bytes) {
  if (arguments.quiet) return;
  say(cat("[", arguments.out, "] ", what, ", ", plan.precision, ", ", bytes_text(bytes), "; needs ",
          bytes_text(plan.peak_bytes()), " of GPU memory. Serve it with python3 -m http.server -d ", arguments.out));
}

void export_model(const ExportArguments& arguments, ExportFolder& folder) {
  if (!arguments.network.shapes.empty() || !arguments.network.bound.empty())
    fail(ErrorCode::InvalidInput, "export", "--shape and --bind are for ONNX models; say --size");
  CompileRequest request = read_request(arguments.compile);
  if (request.model.spatial_rank != 3 || request.model.input_channels != 1)
    fail(ErrorCode::Unsupported, request.model.name, "takes ", request.model.input_channels, " channels of ",
         request.model.spatial_rank, " axes; export is for volumes of one channel");
  if (arguments.output == "logits") request.network.output = NetworkOutput::Logits;
  const CompileTarget target = browser_target(arguments.compile.device);
  const Compiled compiled = compile(request.model, request.size, request.network, target,
                                    parse_precision(arguments.compile.device.precision));
  check(compiled.plan, target.limits);
  folder.write_plan(compiled.plan);
  folder.write_page("", about(request, compiled.plan, target));
  folder.write("labels.json", sidecar_json(request.manifest.labels));
  const uint64_t bytes = folder.put_in_place(index_of(request, compiled.plan, target));
  if (!arguments.quiet && !compiled.decision.notice.empty()) say(compiled.decision.notice);
  say_exported(arguments, cat(request.model.name, " for ", extents_text(request.size), " voxels"), compiled.plan,
               bytes);
}

// The file's name, its folder's where the file is called as all are.
std::string name_of(const onnx::ModelFile& file) {
  const fs::path path = fs::absolute(file.path);
  return path.stem() == "model" ? path.parent_path().filename().string() : path.stem().string();
}

// The line of the README's example that makes an input.
std::string input_lines(const Plan& plan) {
  static const std::map<DType, const char*> kArrays = {
      {DType::F32, "Float32Array"}, {DType::F16, "Uint16Array"}, {DType::I32, "Int32Array"},
      {DType::U32, "Uint32Array"},  {DType::U8, "Uint8Array"},
  };
  std::string lines;
  for (const PlanPort& port : plan.inputs)
    lines += cat("  ", Json(port.name).dump(), ": tensor(\"", to_string(port.dtype), "\", ", to_string(port.shape),
                 ", new ", kArrays.at(port.dtype), "(", element_count(port.shape), ")),\n");
  return lines;
}

void export_network(const ExportArguments& arguments, const onnx::ModelFile& file, ExportFolder& folder) {
  NetworkArguments network = arguments.network;
  network.model = arguments.compile.model;
  network.command = "export";
  network.quiet = true;
  const Graph graph = load_network(network).graph;
  const CompileTarget target = browser_target(arguments.compile.device);
  const bool halves = parse_precision(arguments.compile.device.precision) == PrecisionChoice::F16;
  const ProgramPlan made = plan_program(graph, target, halves ? Precision::F16 : Precision::F32, target.tuning);
  if (!made.plan || !made.empty_inputs.empty() || !made.empty_results.empty())
    fail(ErrorCode::Unsupported, file.path, "has an input or output without elements, which no folder can run");
  const Plan& plan = *made.plan;
  check(plan, target.limits);
  const std::string name = name_of(file);
  folder.write_plan(plan);
  folder.write_page("network", {{"model", name},
                                {"version", GYRUS_VERSION},
                                {"target", target.name},
                                {"precision", plan.precision},
                                {"memory", bytes_text(plan.peak_bytes())},
                                {"ports", port_rows(plan.inputs, "in") + port_rows(plan.outputs, "out")},
                                {"inputs", input_lines(plan)},
                                {"output", Json(plan.outputs.at(0).name).dump()}});
  const uint64_t bytes = folder.put_in_place({{"model", name},
                                              {"limits", target.name},
                                              {"precision", plan.precision},
                                              {"peakBytes", plan.peak_bytes()},
                                              {"inputs", ports_json(plan.inputs)},
                                              {"outputs", ports_json(plan.outputs)}});
  say_exported(arguments, name, plan, bytes);
}

void run(const ExportArguments& arguments, const CLI::App& command) {
  ExportFolder folder(arguments.out, arguments.force);
  const auto file = onnx::open_model(resolve_model(arguments.compile.model));
  if (!file) return export_model(arguments, folder);
  for (const char* option : {"--size", "--input", "--normalize", "--output"})
    if (command.count(option) > 0)
      fail(ErrorCode::InvalidInput, option,
           "is for networks that label volumes; an ONNX model takes --shape and --bind");
  export_network(arguments, *file, folder);
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
  add_shape_options(*command, arguments->network);
  command->add_option("-o,--out", arguments->out, "The folder, which must be new or empty")
      ->type_name("DIR")
      ->required();
  command->add_flag("--force", arguments->force, "Replace an earlier export");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->footer(
      "Examples:\n"
      "  gyrus export mindgrab -o site\n"
      "  gyrus export models/model18cls --size 192x224x192 --precision f16 --limits phone.json -o site\n"
      "  gyrus export detector.onnx --shape image=1,3,240,320 -o site");
  command->callback([arguments, command] { run(*arguments, *command); });
}

}  // namespace gyrus::cli
