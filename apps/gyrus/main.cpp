#include <algorithm>
#include <cstdio>
#include <new>
#include <numeric>
#include <vector>

#include "commands.h"
#include "common.h"
#include "core/error.h"

namespace {

constexpr const char* kFooter =
    "Exit status: 0 done, 2 wrong usage or input, 3 a file cannot be read or written, 4 a broken model,\n"
    "5 not supported, 6 over the limits or memory of the GPU, 7 no GPU or it failed, 8 values that are not finite,\n"
    "9 some scans failed, 130 interrupted, 1 anything else.";

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// How many letters must change to make one word of the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Throws where the first word is no command, with the nearest one.
void check_command(const CLI::App& app, int argc, char** argv) {
  int at = 1;
  while (at < argc && argv[at][0] == '-') ++at;
  if (at >= argc) return;
  const std::string word = argv[at];
  std::string nearest;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == word) return;
    if (nearest.empty() || distance(word, command->get_name()) < distance(word, nearest)) nearest = command->get_name();
  }
  gyrus::fail(gyrus::ErrorCode::InvalidInput, word, "is no command; did you mean ", nearest,
              "? (gyrus --help lists them all)");
}

// The command that was being read, as one asks for its help: "gyrus models fetch".
std::string help_of(const CLI::App& app) {
  std::string path = "gyrus";
  for (const CLI::App* at = &app; at != nullptr;) {
    const auto given = at->get_subcommands();
    at = given.empty() ? nullptr : given[0];
    if (at != nullptr) path += " " + at->get_name();
  }
  return path + " --help";
}

// Options whose values are given in one word, "A,B", are not shown as if further words could follow.
class Help : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const size_t dots = text.find(" ...");
    if (!option->get_positional() && !option->get_allow_extra_args() && dots != std::string::npos) text.erase(dots, 4);
    return text;
  }
};

int run(int argc, char** argv) {
  using namespace gyrus::cli;
  CLI::App app("Whole-brain segmentation on any GPU, through WebGPU.", "gyrus");
  app.set_version_flag("-v,--version", "gyrus " GYRUS_VERSION);
  app.formatter(std::make_shared<Help>());
  app.require_subcommand(1);
  app.footer(kFooter);
  add_segment(app);
  add_bids(app);
  add_conform(app);
  add_run(app);
  add_generate(app);
  add_verify(app);
  add_train(app);
  add_labels(app);
  add_chat(app);
  add_serve(app);
  add_tokenize(app);
  add_plan(app);
  add_info(app);
  add_devices(app);
  add_tune(app);
  add_export(app);
  add_web(app);
  add_demo(app);
  add_models(app);
  add_manual(app);
  add_examples(app);
  add_shared_flags(app);
  if (argc == 2 && std::string(argv[1]) == "help") argv[1] = const_cast<char*>("--help");
  check_command(app, argc, argv);
  try {
    app.parse(argc, argv);
    print_out("");
    return exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    say(one_line(error.what()) + " (" + help_of(app) + " shows the options)");
    return exit_status(gyrus::ErrorCode::InvalidInput);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gyrus::cli;
  catch_interrupts();
  try {
    return run(argc, argv);
  } catch (const gyrus::Error& error) {
    say(one_line(worded(error)));
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {
    say("[memory] the machine has not enough of it for this volume");
    return exit_status(gyrus::ErrorCode::OverLimits);
  } catch (const std::exception& error) {
    say(one_line(error.what()));
    return kUnexpected;
  }
}
