#include <cstdio>
#include <utility>

#include "commands.h"
#include "core/error.h"
#include "text_arguments.h"

namespace gyrus::cli {
namespace {

struct GenerateArguments {
  std::string model, prompt;
  GenerateOptions options;
  TextArguments text;
  DeviceArguments device;
};

void run(const GenerateArguments& arguments) {
  TextGenerator generator = open_text_model(arguments.model, arguments.text, arguments.device);
  const TextMemory memory = generator.memory();
  whisper(cat(generator.info().architecture, ", ", memory.weights, " bytes of weights, ", memory.cache, " of cache, ",
              memory.scratch, " of scratch"));
  GenerateOptions options = arguments.options;
  options.cancel = &interrupted();
  // The prompt comes with the first token, so that nothing is printed where there will be none.
  std::string waiting = arguments.prompt;
  options.on_token = [&waiting](const GeneratedToken& token) {
    print_out(std::exchange(waiting, {}) + token.text);
    std::fflush(stdout);
    return true;
  };
  const std::vector<int32_t> prompt = generator.tokenize(arguments.prompt);
  if (prompt.empty())
    fail(ErrorCode::InvalidInput, "prompt", "is empty, and this model has no token that begins a text: give a prompt");
  const Generated made = generator.generate(prompt, options);
  print_out(waiting);
  char line[160];
  std::snprintf(line, sizeof line, "%lld + %zu tokens, the first after %.2f s, then %.1f tokens/s, ended by %s",
                static_cast<long long>(made.prompt_tokens), made.tokens.size(), made.prompt_seconds,
                made.generate_seconds > 0 ? static_cast<double>(made.tokens.size()) / made.generate_seconds : 0,
                to_string(made.finish));
  whisper(line);
  if (made.finish == Finish::Cancelled) check_interrupted();
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Go on with a text by a language model");
  auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("model", arguments->model, "A GGUF file, or a folder with config.json and safetensors")
      ->required();
  command->add_option("prompt", arguments->prompt, "The text to go on with; \"\" begins one")->required();
  command->add_option("--tokens", arguments->options.tokens, "How many tokens to add, at most")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_sampling_options(*command, arguments->options.sampling);
  command->add_option("--stop", arguments->options.stop, "End before this text; may be given several times")
      ->type_name("TEXT");
  add_text_options(*command, arguments->text);
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
