#include <cstdio>

#include "commands.h"
#include "core/error.h"
#include "core/files.h"
#include "generator_service.h"
#include "text_arguments.h"
#include "text_server.h"

namespace gyrus::cli {
namespace {

struct ServeArguments {
  std::string model;
  TextServerOptions server;
  TextArguments text;
  DeviceArguments device;
};

void run(const ServeArguments& arguments) {
  TextServerOptions options = arguments.server;
  if (options.key.empty()) options.key = environment_variable("GYRUS_API_KEY");
  const std::unique_ptr<TextService> service =
      make_service(open_text_model(arguments.model, arguments.text, arguments.device), arguments.model);
  TextServer server(*service, options);
  print_out(cat("http://", options.host, ":", server.port(), "/v1\n"));
  std::fflush(stdout);
  say(cat("serving ", service->name(), ", a context of ", service->context(), " tokens; Ctrl-C ends it"));
  if (options.host != "127.0.0.1" && options.host != "localhost" && options.key.empty())
    say("everybody who reaches this address may use it; --key asks for a key");
  server.run();
  say("ended");
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Serve a language model over HTTP, as OpenAI's interface does");
  auto arguments = std::make_shared<ServeArguments>();
  command->add_option("model", arguments->model, "A GGUF file, or a folder with config.json and safetensors")
      ->required()
      ->type_name("MODEL");
  command->add_option("--host", arguments->server.host, "Address to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_option("--port", arguments->server.port, "Port; 0 is any that is free")
      ->check(CLI::Range(0, 65535))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--key", arguments->server.key, "Key that clients must send; also from GYRUS_API_KEY")
      ->type_name("KEY");
  command->add_option("--cors", arguments->server.origin, "Origin of pages that may use it; \"*\": all")
      ->type_name("ORIGIN");
  command->add_option("--temperature", arguments->server.temperature, "Where a request does not say")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("T")
      ->capture_default_str();
  add_text_options(*command, arguments->text);
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
