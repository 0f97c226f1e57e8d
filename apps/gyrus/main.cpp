#include <cstdio>
#include <new>

#include "commands.h"
#include "common.h"

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

int run(int argc, char** argv) {
  using namespace gyrus::cli;
  CLI::App app("Whole-brain segmentation on any GPU, through WebGPU.", "gyrus");
  app.set_version_flag("--version", "gyrus " GYRUS_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  add_segment(app);
  add_bids(app);
  add_conform(app);
  add_run(app);
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
  try {
    app.parse(argc, argv);
    return exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    say(one_line(error.what()) + " (gyrus --help shows the options)");
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
