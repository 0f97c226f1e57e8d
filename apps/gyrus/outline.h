#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// The command line as data: what completion scripts and the manual are made of.

namespace gyrus::cli {

struct OptionOutline {
  std::vector<std::string> names;  // "-o", "--output"; of a positional its one name
  std::string type, description;   // type: what stands for the value; empty for a flag
  std::vector<std::string> choices;
  bool flag = false, positional = false;
  bool files = false;  // a path may be given
};

struct CommandOutline {
  std::string path;  // "gyrus models fetch"
  std::string name, description, footer;
  std::vector<OptionOutline> options, positionals;
  std::vector<CommandOutline> commands;
};

CommandOutline outline_of(const CLI::App& app);
// The command and all below it, parents first.
std::vector<const CommandOutline*> all_commands(const CommandOutline& root);

// Scripts for the shells: "bash", "zsh" or "fish".
std::string completion_script(const CommandOutline& root, const std::string& shell);
// The manual page gyrus(1) as roff.
std::string manual_page(const CommandOutline& root, const std::string& version);

}  // namespace gyrus::cli
