#include "outline.h"

#include <algorithm>
#include <sstream>

#include "engine/known_models.h"

namespace gyrus::cli {
namespace {

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool is_word(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// "TEXT:{native,conformed}" lists them, and so does "adapter|default|FILE", where capitals stand for something else.
std::vector<std::string> choices_of(const OptionOutline& option) {
  const size_t open = option.type.find('{');
  if (open != std::string::npos) return split(option.type.substr(open + 1, option.type.find('}') - open - 1), ',');
  std::vector<std::string> choices;
  for (const std::string& part : split(option.type, '|'))
    if (const std::string word = part.substr(0, part.find('[')); is_word(word)) choices.push_back(word);
  if (option.type == "MODEL")
    for (const KnownModel& model : known_models()) choices.push_back(model.name);
  return choices;
}

OptionOutline outline_of(const CLI::Option& option) {
  OptionOutline out;
  out.positional = !option.nonpositional();
  if (out.positional) out.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.flag = option.get_items_expected_max() == 0;
  out.description = option.get_description();
  if (out.flag) return out;
  out.type = option.get_type_name();
  for (const std::string& name : out.names)
    if (name == "MODEL" || name == "--model") out.type = "MODEL";
  out.choices = choices_of(out);
  out.files = out.choices.empty() || holds(out.type, "FILE") || holds(out.type, "DIR") || out.type == "MODEL";
  if (const size_t open = out.type.find('{'); open != std::string::npos) {
    out.type.clear();
    for (const std::string& choice : out.choices) out.type += (out.type.empty() ? "" : "|") + choice;
  }
  return out;
}

CommandOutline outline_of(const CLI::App& app, const std::string& parent) {
  CommandOutline out;
  out.name = app.get_name();
  out.path = parent.empty() ? out.name : parent + " " + out.name;
  out.description = app.get_description();
  out.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    OptionOutline one = outline_of(*option);
    (one.positional ? out.positionals : out.options).push_back(std::move(one));
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) out.commands.push_back(outline_of(*command, out.path));
  return out;
}

}  // namespace

CommandOutline outline_of(const CLI::App& app) { return outline_of(app, ""); }

std::vector<const CommandOutline*> all_commands(const CommandOutline& root) {
  std::vector<const CommandOutline*> all = {&root};
  for (const CommandOutline& command : root.commands) {
    const std::vector<const CommandOutline*> below = all_commands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace gyrus::cli
