#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "compile_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "engine/empty_ports.h"
#include "gyrus/gyrus.h"
#include "import/onnx_path.h"
#include "import/text_model_file.h"
#include "network_inputs.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan_page.h"
#include "runtime/executor.h"
#include "text_arguments.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct PlanArguments {
  TextArguments text;
  CompileArguments compile;
  NetworkArguments network;  // of ONNX models
  std::string dump, output, html;
  bool quiet = false, profile = false;
  bool train = false;  // the plan of a training step
  std::string loss = "cross_entropy", recompute = "norms";
};

constexpr std::pair<const char*, Recompute> kRecompute[] = {
    {"none", Recompute::None}, {"norms", Recompute::Norms}, {"cheap", Recompute::Cheap}};

// A network on its way to a plan.
struct Looked {
  std::string name;
  CompileTarget target;
  Precision precision;
  Graph before, after;
  Plan plan;
  PlanTrace trace;
  std::vector<std::pair<std::string, Graph>> passes;
};

void print_summary(const Plan& plan, const CompileTarget& target) {
  size_t dispatches = 0;
  for (const Step& step : plan.steps) dispatches += std::holds_alternative<Dispatch>(step);
  std::printf("planned for   %s\n", target.name.c_str());
  std::printf("precision     %s\n", plan.precision.c_str());
  std::printf("steps         %zu, of them %zu dispatches of %zu kernels\n", plan.steps.size(), dispatches,
              plan.kernels.size());
  std::printf("buffers       %zu, of them weights and parameters %s\n", plan.buffers.size(),
              bytes_text(plan.weights.size()).c_str());
  std::printf("peak memory   %s (%llu bytes)\n", bytes_text(plan.peak_bytes()).c_str(),
              static_cast<unsigned long long>(plan.peak_bytes()));
  std::printf("arithmetic    %sFLOP\n", count_text(plan.flops()).c_str());
  std::printf("traffic       %sB at least\n", count_text(plan.bytes()).c_str());
}

const char* kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::Storage: return "storage";
    case BufferKind::Weights: return "weights";
    case BufferKind::Params: return "params";
    case BufferKind::State: return "state";
    case BufferKind::Arguments: break;
  }
  return "arguments";
}

void print_buffers(const Plan& plan) {
  std::printf("\nbuffers\n%5s %14s  %-9s %s\n", "", "bytes", "kind", "label");
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    std::printf("%5zu %14llu  %-9s %s\n", i, static_cast<unsigned long long>(plan.buffers[i].size),
                kind_name(plan.buffers[i].kind), plan.buffers[i].label.c_str());
}

void print_step(const Plan& plan, size_t index, const Step& step) {
  if (const auto* d = std::get_if<Dispatch>(&step))
    std::printf("%5zu %-28s %-36s %6u,%u,%u  %10sFLOP %10sB\n", index, d->label.c_str(),
                plan.kernels[d->kernel].name.c_str(), d->groups[0], d->groups[1], d->groups[2],
                count_text(d->flops).c_str(), count_text(d->bytes).c_str());
  else if (const auto* c = std::get_if<Copy>(&step))
    std::printf("%5zu copy %s\n", index, bytes_text(c->from.size).c_str());
  else
    std::printf("%5zu clear %s\n", index, bytes_text(std::get<Clear>(step).range.size).c_str());
}

// Kernels are named by their place, since several variants share a family's name.
void dump_kernels(const Plan& plan, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) fail(ErrorCode::Io, folder, "cannot be made: ", failed.message());
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    std::string name = plan.kernels[i].name;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    char number[32];
    std::snprintf(number, sizeof number, "%03zu_", i);
    write_file((fs::path(folder) / (number + name + ".wgsl")).string(), plan.kernels[i].wgsl);
  }
}

void write_plan(const Plan& plan, const std::string& path) {
  fs::path weights(path);
  weights.replace_extension(".bin");
  if (weights == fs::path(path))
    fail(ErrorCode::InvalidInput, path, "the weights go to the .bin file beside it; name it .json");
  write_file(weights.string(), plan.weights);
  write_file(path, to_json(plan));
}

// `before` and `precision` are set; the graph after every pass is kept for those who want to see it.
void plan_it(Looked& looked) {
  looked.passes.emplace_back("as imported", looked.before);
  looked.after = optimize(looked.before, looked.precision, [&](const std::string& pass, const Graph& graph) {
    looked.passes.emplace_back(pass, graph);
  });
  PlanOptions options = looked.target.tuning;
  if (looked.target.kept)
    if (const auto kept = looked.target.kept(looked.target, looked.after)) options.conv = *kept;
  looked.plan = make_plan(looked.after, looked.target, options, &looked.trace);
}

TrainingOptions training_options(const PlanArguments& arguments) {
  TrainingOptions options;
  for (const auto& [name, recompute] : kRecompute)
    if (arguments.recompute == name) options.recompute = recompute;
  return options;
}

// The network with its loss, of which steps are planned.
Graph trained_network(const PlanArguments& arguments, bool onnx) {
  if (onnx) {
    NetworkArguments network = arguments.network;
    network.model = arguments.compile.model;
    network.quiet = true;
    return with_loss(with_parameters(load_network(network).graph), arguments.loss);
  }
  const CompileRequest request = read_request(arguments.compile);
  Shape shape = {1, request.model.input_channels};
  shape.insert(shape.end(), request.size.begin(), request.size.end());
  return with_loss(with_parameters(load_graph(arguments.compile.model, {{"image", shape}})), arguments.loss);
}

Looked look_at_training(const PlanArguments& arguments, const Graph& network) {
  Looked looked;
  looked.name = arguments.compile.model;
  looked.target = plan_target(arguments.compile.device);
  looked.precision = arguments.compile.device.precision == "f16" ? Precision::F16 : Precision::F32;
  looked.before = training_graph(network, training_options(arguments));
  plan_it(looked);
  return looked;
}

// What each way of making activations again needs, and what it costs.
void print_training(const PlanArguments& arguments, const Graph& network) {
  std::printf("\na training step (forward, backward, Adam), by what the way back makes again\n");
  std::printf("%-8s %14s %9s %12s\n", "", "peak memory", "saved", "traffic");
  uint64_t all = 0;
  for (const auto& [name, recompute] : kRecompute) {
    PlanArguments other = arguments;
    other.recompute = name;
    const Plan plan = look_at_training(other, network).plan;
    if (all == 0) all = plan.peak_bytes();
    const double saved = 100 * (1 - static_cast<double>(plan.peak_bytes()) / static_cast<double>(all));
    std::printf("%-8s %14s %8.0f%% %11sB%s\n", name, bytes_text(plan.peak_bytes()).c_str(), saved,
                count_text(plan.bytes()).c_str(), arguments.recompute == name ? "  this plan" : "");
  }
}

Looked look_at_volumes(const PlanArguments& arguments) {
  if (!arguments.network.shapes.empty() || !arguments.network.bound.empty())
    fail(ErrorCode::InvalidInput, arguments.compile.model,
         "takes volumes: --size says how large, not --shape or --bind");
  const CompileRequest request = read_request(arguments.compile);
  Looked looked;
  looked.name = request.model.name;
  looked.target = plan_target(arguments.compile.device);
  Compiled compiled = compile(request.model, request.size, request.network, looked.target,
                              parse_precision(arguments.compile.device.precision));
  if (!compiled.decision.notice.empty()) say(compiled.decision.notice);
  looked.precision = compiled.decision.plan.halves ? Precision::F16 : Precision::F32;
  looked.target.limits = limits_for(compiled.decision.plan, looked.target.limits);
  looked.before = std::move(compiled.before);
  plan_it(looked);
  return looked;
}

Looked look_at_onnx(const PlanArguments& arguments) {
  NetworkArguments network = arguments.network;
  network.model = arguments.compile.model;
  network.quiet = true;
  Looked looked;
  const fs::path path = fs::path(network.model).lexically_normal();
  looked.name = (path.filename() == "model.onnx" ? path.parent_path() : path).filename().string();
  looked.target = plan_target(arguments.compile.device);
  looked.precision = arguments.compile.device.precision == "f16" ? Precision::F16 : Precision::F32;
  looked.before = without_empty_ports(load_network(network).graph);
  plan_it(looked);
  return looked;
}

Profile measure(const Looked& looked, const DeviceArguments& arguments) {
  std::optional<Limits> limits;
  const Device device = open(arguments, limits);
  if (!device.features().timestamp_query)
    fail(ErrorCode::Unsupported, "--profile", device.adapter().name, " does not tell how long kernels take");
  std::map<std::string, Tensor> inputs = random_tensors(looked.after, 1);
  Executor executor(device, looked.plan);
  RunOptions options;
  options.profile = true;
  options.cancel = &interrupted();
  executor.run(inputs, options);  // the first run is slower than those that count
  return executor.run(inputs, options).profile;
}

void write_page(const PlanArguments& arguments, const Looked& looked, const Profile& profile) {
  PlanPage page;
  page.title = looked.name;
  page.about = cat("gyrus ", version(), ", planned for ", looked.target.name);
  page.facts = {{"precision", looked.plan.precision},
                {"nodes", cat(looked.before.nodes().size(), " → ", looked.trace.graph.nodes().size())},
                {"steps", cat(looked.plan.steps.size())},
                {"kernels", cat(looked.plan.kernels.size())},
                {"peak memory", bytes_text(looked.plan.peak_bytes())},
                {"arithmetic", count_text(looked.plan.flops()) + "FLOP"},
                {"traffic", count_text(looked.plan.bytes()) + "B"}};
  if (profile.gpu_seconds > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f ms", profile.gpu_seconds * 1e3);
    page.facts.emplace_back("measured", text);
  }
  page.graphs = looked.passes;
  page.plan = looked.plan;
  page.trace = looked.trace;
  page.profile = profile;
  write_file(arguments.html, plan_page(page));
}

void run(const PlanArguments& arguments) {
  if (is_text_model(arguments.compile.model))
    return print_text_plan(arguments.compile.model, arguments.text, arguments.compile.device);
  const bool onnx = onnx::open_model(resolve_model(arguments.compile.model)).has_value();
  const std::optional<Graph> network = arguments.train ? std::optional(trained_network(arguments, onnx)) : std::nullopt;
  const Looked looked = network ? look_at_training(arguments, *network)
                        : onnx  ? look_at_onnx(arguments)
                                : look_at_volumes(arguments);
  check(looked.plan, looked.target.limits);
  if (!arguments.dump.empty()) dump_kernels(looked.plan, arguments.dump);
  if (!arguments.output.empty()) write_plan(looked.plan, arguments.output);
  Profile profile;
  if (arguments.profile) profile = measure(looked, arguments.compile.device);
  if (!arguments.html.empty()) write_page(arguments, looked, profile);
  print_summary(looked.plan, looked.target);
  if (network) print_training(arguments, *network);
  if (arguments.profile) std::fputs(profile_table(profile).c_str(), stderr);
  if (arguments.quiet || !arguments.html.empty()) return;
  std::printf("\ngraph before the passes\n%s\ngraph after the passes\n%s", print(looked.before).c_str(),
              print(looked.after).c_str());
  print_buffers(looked.plan);
  std::printf("\nsteps\n");
  for (size_t i = 0; i < looked.plan.steps.size(); ++i) print_step(looked.plan, i, looked.plan.steps[i]);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Compile a model and show the plan: graph, steps, buffers, cost");
  auto arguments = std::make_shared<PlanArguments>();
  add_compile_options(*command, arguments->compile);
  command->add_option("--dump", arguments->dump, "Write every kernel's WGSL into this folder")->type_name("DIR");
  command
      ->add_option("-o,--output", arguments->output,
                   "Write the plan as JSON, and its weights to the .bin file beside it")
      ->type_name("FILE.json");
  command
      ->add_option("--html", arguments->html,
                   "Write a page to look through: graphs after every pass, steps, kernels, memory, times")
      ->type_name("FILE.html");
  command->add_flag("--profile", arguments->profile, "Run the plan on random inputs and measure its kernels");
  CLI::Option* train =
      command->add_flag("--train", arguments->train,
                        "The plan of a training step with Adam, and what making activations again would save");
  command->add_option("--loss", arguments->loss, "With --train: cross_entropy, dice, focal, mse …")
      ->needs(train)
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--recompute", arguments->recompute,
                   "With --train: what the way back makes again, none, norms or cheap (norms and all elementwise)")
      ->needs(train)
      ->check(CLI::IsMember({"none", "norms", "cheap"}))
      ->type_name("WHAT")
      ->capture_default_str();
  add_text_options(*command, arguments->text);
  add_shape_options(*command, arguments->network);
  command->add_flag("-q,--quiet", arguments->quiet, "Print the summary only");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
