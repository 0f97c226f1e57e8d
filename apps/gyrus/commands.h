#pragma once
#include <CLI/CLI.hpp>

// One function per command: it declares the options and what happens when the command is given.

namespace gyrus::cli {

void add_segment(CLI::App& app);
void add_bids(CLI::App& app);
void add_plan(CLI::App& app);
void add_run(CLI::App& app);
void add_generate(CLI::App& app);
void add_verify(CLI::App& app);
void add_train(CLI::App& app);
void add_labels(CLI::App& app);
void add_info(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_chat(CLI::App& app);
void add_serve(CLI::App& app);
void add_devices(CLI::App& app);
void add_conform(CLI::App& app);
void add_tune(CLI::App& app);
void add_export(CLI::App& app);
void add_web(CLI::App& app);
void add_demo(CLI::App& app);
void add_models(CLI::App& app);
void add_manual(CLI::App& app);  // completion and man, which tell of all the others
// Ends the help of every command with examples. After the commands.
void add_examples(CLI::App& app);

}  // namespace gyrus::cli
