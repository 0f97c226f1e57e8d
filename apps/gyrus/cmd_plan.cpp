#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "compile_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "plan/check.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct PlanArguments {
  CompileArguments compile;
  std::string dump, output;
  bool quiet = false;
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

void run(const PlanArguments& arguments) {
  const CompileRequest request = read_request(arguments.compile);
  const CompileTarget target = plan_target(arguments.compile.device);
  const Compiled compiled = compile(request.model, request.size, request.network, target,
                                    parse_precision(arguments.compile.device.precision));
  check(compiled.plan, target.limits);
  if (!compiled.decision.notice.empty()) say(compiled.decision.notice);
  if (!arguments.dump.empty()) dump_kernels(compiled.plan, arguments.dump);
  if (!arguments.output.empty()) write_plan(compiled.plan, arguments.output);
  print_summary(compiled.plan, target);
  if (arguments.quiet) return;
  std::printf("\ngraph before the passes\n%s\ngraph after the passes\n%s", print(compiled.before).c_str(),
              print(compiled.after).c_str());
  print_buffers(compiled.plan);
  std::printf("\nsteps\n");
  for (size_t i = 0; i < compiled.plan.steps.size(); ++i) print_step(compiled.plan, i, compiled.plan.steps[i]);
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
  command->add_flag("-q,--quiet", arguments->quiet, "Print the summary only");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
