#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "web_files.h"
#include "web_server.h"

extern char** environ;

namespace gyrus::cli {
namespace {

struct WebArguments {
  int port = 8080;
  std::vector<std::string> models;
  bool open = false;
};

void open_browser(const std::string& url) {
  std::string program = "xdg-open", address = url;
  char* const argv[] = {program.data(), address.data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, program.c_str(), nullptr, nullptr, argv, environ) != 0)
    say(cat("[--open] there is no xdg-open; open ", url, " yourself"));
}

void run(const WebArguments& arguments) {
  Site site{web_part("page"), local_models(arguments.models)};
  const size_t models = site.models.size();
  WebServer server(std::move(site), arguments.port);
  const std::string url = cat("http://127.0.0.1:", server.port(), "/");
  std::printf("%s\n", url.c_str());
  std::fflush(stdout);
  say(cat("serving the page and ", models, models == 1 ? " model" : " models", " to this machine only; Ctrl-C ends it",
          models == 0 ? " (gyrus models fetch brings models, --models names a folder of them)" : ""));
  if (arguments.open) open_browser(url);
  server.run();
  say("ended");
}

}  // namespace

void add_web(CLI::App& app) {
  CLI::App* command = app.add_subcommand("web", "Serve the segmentation page and local models to this machine");
  auto arguments = std::make_shared<WebArguments>();
  command->add_option("--port", arguments->port, "Port on 127.0.0.1; 0 is any that is free")
      ->check(CLI::Range(0, 65535))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--models", arguments->models,
                   "A model's folder, or one that holds such folders, beside those of the cache; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command->add_flag("--open", arguments->open, "Open the page in the browser");
  command->footer("Examples:\n  gyrus web --open\n  gyrus web --port 0 --models models --models /data/lab-models");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
