#include "core/error.h"
#include "outline.h"

// Each script finds out which command is being typed (its path, "gyrus models fetch"), then offers the values of the
// option before the cursor, else options after a dash, else commands and what positionals may be.

namespace gyrus::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// In single quotes; `escape` stands for one inside them.
std::string quoted(const std::string& text, const char* escape = "'\\''") {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += escape;
    else
      out += c;
  }
  return out + "'";
}

std::vector<std::string> names_of(const std::vector<OptionOutline>& options) {
  std::vector<std::string> names;
  for (const OptionOutline& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> words_of(const CommandOutline& command) {
  std::vector<std::string> words;
  for (const CommandOutline& below : command.commands) words.push_back(below.name);
  for (const OptionOutline& positional : command.positionals)
    words.insert(words.end(), positional.choices.begin(), positional.choices.end());
  return words;
}

std::string paths_pattern(const std::vector<const CommandOutline*>& commands) {
  std::vector<std::string> paths;
  for (size_t i = 1; i < commands.size(); ++i) paths.push_back(quoted(commands[i]->path));
  return joined(paths, " | ");
}

// The pattern of a case: "path:--name" for each name.
std::string value_pattern(const CommandOutline& command, const OptionOutline& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(quoted(command.path + ":" + name));
  return joined(patterns, " | ");
}

std::string bash_script(const std::vector<const CommandOutline*>& commands) {
  std::string values, options, words;
  for (const CommandOutline* command : commands) {
    for (const OptionOutline& option : command->options)
      if (!option.flag)
        values += cat("    ", value_pattern(*command, option), ") words=", quoted(joined(option.choices)), " ;;\n");
    options += cat("      ", quoted(command->path), ") words=", quoted(joined(names_of(command->options))), " ;;\n");
    words += cat("      ", quoted(command->path), ") words=", quoted(joined(words_of(*command))), " ;;\n");
  }
  return cat(
      "# bash completion of gyrus: source <(gyrus completion bash)\n"
      "_gyrus() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path=gyrus words=- i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n      ",
      paths_pattern(commands),
      ") path=\"$path ${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path:$prev\" in\n",
      values,
      "  esac\n"
      "  if [[ $words != - ]]; then :\n"
      "  elif [[ $cur == -* ]]; then\n"
      "    case \"$path\" in\n",
      options,
      "    esac\n"
      "  else\n"
      "    case \"$path\" in\n",
      words,
      "    esac\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "}\n"
      "complete -o default -F _gyrus gyrus  # default: files where nothing else fits\n");
}

std::string zsh_item(const std::string& name, const std::string& description) {
  return " " + quoted(name + ":" + description);
}

std::string zsh_script(const std::vector<const CommandOutline*>& commands) {
  std::string values, options, words;
  for (const CommandOutline* command : commands) {
    std::string option_items, word_items;
    for (const OptionOutline& option : command->options) {
      for (const std::string& name : option.names) option_items += zsh_item(name, option.description);
      if (option.flag) continue;
      const std::string choices = option.choices.empty() ? "" : cat("compadd -- ", joined(option.choices), "; ");
      values +=
          cat("    (", value_pattern(*command, option), ") ", choices, option.files ? "_files; " : "", "return ;;\n");
    }
    for (const CommandOutline& below : command->commands) word_items += zsh_item(below.name, below.description);
    for (const OptionOutline& positional : command->positionals)
      for (const std::string& choice : positional.choices) word_items += zsh_item(choice, positional.description);
    options += cat("      (", quoted(command->path), ") items=(", option_items, " ) ;;\n");
    words += cat("      (", quoted(command->path), ") items=(", word_items, " ) ;;\n");
  }
  return cat(
      "#compdef gyrus\n"
      "# zsh completion of gyrus: gyrus completion zsh > \"${fpath[1]}/_gyrus\", or source <(gyrus completion zsh)\n"
      "_gyrus() {\n"
      "  local command=gyrus i\n"
      "  local -a items\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$command ${words[i]}\" in\n      (",
      paths_pattern(commands),
      ") command=\"$command ${words[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command:${words[CURRENT-1]}\" in\n",
      values,
      "  esac\n"
      "  if [[ ${words[CURRENT]} == -* ]]; then\n"
      "    case \"$command\" in\n",
      options,
      "    esac\n"
      "    _describe -o option items\n"
      "  else\n"
      "    case \"$command\" in\n",
      words,
      "    esac\n"
      "    (( ${#items} )) && _describe argument items\n"
      "    [[ $command == gyrus ]] || _files\n"
      "  fi\n"
      "}\n"
      "if [[ ${funcstack[1]} == _gyrus ]]; then _gyrus \"$@\"; else compdef _gyrus gyrus; fi\n");
}

std::string fish_script(const std::vector<const CommandOutline*>& commands) {
  std::vector<std::string> paths;
  for (size_t i = 1; i < commands.size(); ++i) paths.push_back(quoted(commands[i]->path));
  std::string lines;
  for (const CommandOutline* command : commands) {
    const std::string start = cat("complete -c gyrus -n '__gyrus_at \"", command->path, "\"'");
    const auto described = [](const std::string& text) { return " -d " + quoted(text, "\\'"); };
    if (!command->commands.empty()) lines += start + " -f\n";
    for (const CommandOutline& below : command->commands)
      lines += cat(start, " -a ", below.name, described(below.description), "\n");
    for (const OptionOutline& positional : command->positionals)
      if (!positional.choices.empty())
        lines += cat(start, " -a ", quoted(joined(positional.choices)), described(positional.description), "\n");
    for (const OptionOutline& option : command->options) {
      lines += start;
      for (const std::string& name : option.names)
        lines += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.flag) lines += option.files ? " -r" : " -x";
      if (!option.choices.empty()) lines += " -a " + quoted(joined(option.choices));
      lines += described(option.description) + "\n";
    }
  }
  return cat(
      "# fish completion of gyrus: gyrus completion fish > ~/.config/fish/completions/gyrus.fish\n"
      "function __gyrus_at\n"
      "  set -l at gyrus\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    contains -- \"$at $word\" ",
      joined(paths),
      "; and set at \"$at $word\"\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n",
      lines);
}

}  // namespace

std::string completion_script(const CommandOutline& root, const std::string& shell) {
  const std::vector<const CommandOutline*> commands = all_commands(root);
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  fail(ErrorCode::InvalidInput, shell, "is none of bash, zsh, fish");
}

}  // namespace gyrus::cli
