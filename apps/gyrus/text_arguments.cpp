#include "text_arguments.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "network_inputs.h"

namespace gyrus::cli {
namespace {

void print_line(const char* name, const std::string& value) { std::printf("%-14s %s\n", name, value.c_str()); }

std::string bytes_line(uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%14llu bytes  %10.1f MiB", static_cast<unsigned long long>(bytes),
                static_cast<double>(bytes) / (1 << 20));
  return text;
}

// What else would need less: the cache is what options decide.
void print_tries(const std::string& model, const TextOptions& options, const CompileTarget& target) {
  std::printf("\nwhat to try\n");
  const auto print_try = [&](const std::string& what, const TextOptions& other) {
    const TextMemory memory = plan_text_model(model, target, other);
    const bool fits = !target.memory || memory.total() <= target.memory->bytes;
    std::printf("  %-28s %s%s\n", what.c_str(), bytes_line(memory.total()).c_str(), fits ? "" : "  does not fit");
  };
  TextOptions other = options;
  for (const CacheFormat format : {CacheFormat::F16, CacheFormat::Q8}) {
    if (format <= options.cache) continue;
    other.cache = format;
    print_try(cat("--cache ", to_string(format)), other);
  }
  other = options;
  if (options.context > 256) {
    other.context = options.context / 2;
    other.chunk = std::min(options.chunk, other.context);
    print_try(cat("--context ", other.context), other);
  }
  other = options;
  if (options.chunk > 32) {
    other.chunk = 32;
    print_try("--chunk 32", other);
  }
}

}  // namespace

void add_text_options(CLI::App& command, TextArguments& arguments) {
  command
      .add_option("--context", arguments.options.context,
                  "Tokens that the cache holds; by default as many as the model knows, at most 4096")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command.add_option("--cache", arguments.cache, "How keys and values are kept: f32, f16 or q8")
      ->check(CLI::IsMember({"f32", "f16", "q8"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  command.add_option("--chunk", arguments.options.chunk, "Tokens of a prompt that go through at once")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

TextOptions text_options(const TextArguments& arguments, const DeviceArguments& device) {
  TextOptions options = arguments.options;
  PrecisionChoice precision = parse_precision(device.precision);
  options.matrix = matrix_use(device, precision);
  // Weights and cache have formats of their own; only halves that are asked for are computed from.
  if (precision == PrecisionChoice::F16) options.precision = Precision::F16;
  options.cache = arguments.cache == "q8"    ? CacheFormat::Q8
                  : arguments.cache == "f16" ? CacheFormat::F16
                                             : CacheFormat::F32;
  return options;
}

void add_sampling_options(CLI::App& command, Sampling& sampling) {
  command.add_option("--temperature", sampling.temperature, "How freely tokens are drawn; 0: always the best one")
      ->type_name("T")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Draw among so many best tokens; 0: all")
      ->type_name("K")
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "Draw among the best tokens that have this probability together")
      ->type_name("P")
      ->capture_default_str();
  command.add_option("--min-p", sampling.min_p, "Draw among tokens with this share of the best one's probability")
      ->type_name("P")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Divide positive scores of tokens that are there already by this, multiply negative ones")
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "Of the draws")->type_name("S")->capture_default_str();
}

TextGenerator open_text_model(const std::string& model, const TextArguments& text, const DeviceArguments& device) {
  TextOptions options = text_options(text, device);
  DeviceArguments chosen = device;
  if (chosen.device.empty()) chosen.device = "webgpu";
  const Device opened = open(chosen, options.limits);
  if (opened.adapter().type == AdapterType::Cpu)
    fail(ErrorCode::Unsupported, "--device " + chosen.device,
         "language models run through WebGPU; leave --device away, which takes software Vulkan where there is no GPU");
  return TextGenerator(opened, model, options);
}

void print_text_plan(const std::string& model, const TextArguments& text, const DeviceArguments& device) {
  const CompileTarget target = plan_target(device);
  TextOptions options = text_options(text, device);
  const TextModelInfo info = describe_text_model(model);
  if (options.context == 0) options.context = std::min<int64_t>(info.context, 4096);
  const TextMemory memory = plan_text_model(model, target, options);
  print_line("model",
             cat(info.name.empty() ? model : info.name, ", ", info.architecture, ", ", info.parameters, " parameters"));
  std::string formats;
  for (const auto& [name, bytes] : info.formats) formats += (formats.empty() ? "" : ", ") + cat(name, " ", bytes);
  print_line("formats", formats + " bytes");
  print_line("context", cat(options.context, " tokens of ", info.context, ", cache in ", to_string(options.cache)));
  print_line("weights", bytes_line(memory.weights));
  print_line("cache", bytes_line(memory.cache));
  print_line("scratch", bytes_line(memory.scratch));
  print_line("in all", bytes_line(memory.total()));
  const bool known = target.memory.has_value();
  const bool fits = !known || memory.total() <= target.memory->bytes;
  print_line("planned for", target.name);
  if (!known)
    print_line("fits", "not known: the device does not tell its memory; the plan keeps its limits");
  else
    print_line("fits", cat(fits ? "yes" : "no", ", the device has ", target.memory->bytes, " bytes"));
  print_tries(model, options, target);
  if (!fits)
    fail(ErrorCode::OverLimits, model, "needs ", memory.total(), " bytes, the device has ", target.memory->bytes);
}

}  // namespace gyrus::cli
