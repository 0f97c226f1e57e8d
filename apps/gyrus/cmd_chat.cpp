#include <unistd.h>

#include <iostream>

#include "chat.h"
#include "commands.h"
#include "core/error.h"
#include "generator_service.h"
#include "text_arguments.h"

namespace gyrus::cli {
namespace {

struct ChatArguments {
  std::string model, system;
  Sampling sampling;
  int64_t tokens = 0;
  TextArguments text;
  DeviceArguments device;
};

void run(const ChatArguments& arguments) {
  const std::unique_ptr<TextService> service =
      make_service(open_text_model(arguments.model, arguments.text, arguments.device), arguments.model);
  ChatOptions options;
  options.system = arguments.system;
  options.prompts = isatty(STDIN_FILENO) != 0;
  options.completion.tokens = arguments.tokens;
  options.completion.temperature = arguments.sampling.temperature;
  options.completion.top_k = arguments.sampling.top_k;
  options.completion.top_p = arguments.sampling.top_p;
  options.completion.min_p = arguments.sampling.min_p;
  options.completion.repetition_penalty = arguments.sampling.repetition_penalty;
  options.completion.seed = arguments.sampling.seed;
  Chat chat(*service, options, std::cout, say);
  if (options.prompts) say("/help lists the commands, Ctrl-D ends it");
  chat.run(std::cin);
}

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a language model");
  auto arguments = std::make_shared<ChatArguments>();
  command->add_option("model", arguments->model, "A GGUF file, or a folder with config.json and safetensors")
      ->required()
      ->type_name("MODEL");
  command->add_option("--system", arguments->system, "What the model is told first")->type_name("TEXT");
  command->add_option("--tokens", arguments->tokens, "Of an answer at most; 0: as many as there is room for")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N")
      ->capture_default_str();
  add_sampling_options(*command, arguments->sampling);
  add_text_options(*command, arguments->text);
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
