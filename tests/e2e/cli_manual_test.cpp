// Help, completion and the manual tell of every option that there is.
#include <algorithm>
#include <set>

#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

class Manual : public Program {
 protected:
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  // The commands that --help lists.
  std::vector<std::string> commands() const {
    std::vector<std::string> found;
    bool inside = false;
    for (const std::string& line : lines_of(run_well({"--help"}).out)) {
      if (line.empty()) inside = false;
      if (inside && line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));
      if (line == "Subcommands:") inside = true;
    }
    return found;
  }
  // "--name" for each that the help of a command lists.
  std::set<std::string> options(const std::vector<std::string>& command) const {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    std::set<std::string> found;
    for (const std::string& line : lines_of(run_well(arguments).out)) {
      const size_t start = line.find("--");
      if (line.rfind("  -", 0) != 0 || start == std::string::npos || start > 6) continue;
      found.insert(line.substr(start, line.find_first_of(" ,=", start) - start));
    }
    return found;
  }
  // What bash offers after the words, the last of which is being typed.
  std::set<std::string> bash_offers(const std::string& words) const {
    const std::string script = std::string("source <('") + GYRUS_PROGRAM + "' completion bash); COMP_WORDS=(" + words +
                               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gyrus; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const Outcome outcome = run({"--norc", "-c", script}, {}, "/bin/bash");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const std::vector<std::string> lines = lines_of(outcome.out);
    return {lines.begin(), lines.end()};
  }
};

TEST_F(Manual, HelpEndsWithExamples) {
  ASSERT_GE(commands().size(), 9u);
  for (const std::string& command : commands())
    EXPECT_NE(run_well({command, "--help"}).out.find("\nExample"), std::string::npos) << command;
}

TEST_F(Manual, ManualHasEveryOption) {
  std::string page = run_well({"man"}).out;
  page.erase(std::remove(page.begin(), page.end(), '\\'), page.end());
  for (const std::string& command : commands()) {
    const size_t start = page.find(".SS \"gyrus " + command);
    ASSERT_NE(start, std::string::npos) << command;
    const std::string section = page.substr(start, page.find("\n.SS", start + 1) - start);
    EXPECT_GE(options({command}).size(), 3u) << command;
    for (const std::string& option : options({command}))
      EXPECT_NE(section.find("fB" + option + "fR"), std::string::npos) << command << " " << option;
  }
}

TEST_F(Manual, BashCompletesCommandsOptionsAndValues) {
  for (const std::string& command : commands()) {
    EXPECT_TRUE(bash_offers("gyrus ''").count(command)) << command;
    const std::set<std::string> offered = bash_offers("gyrus " + command + " --");
    for (const std::string& option : options({command})) EXPECT_TRUE(offered.count(option)) << command << " " << option;
  }
  EXPECT_EQ(bash_offers("gyrus segment --space ''"), (std::set<std::string>{"native", "conformed"}));
  EXPECT_EQ(bash_offers("gyrus models fet"), std::set<std::string>{"fetch"});
  EXPECT_EQ(bash_offers("gyrus models fetch mind"), std::set<std::string>{"mindgrab"});
  EXPECT_EQ(bash_offers("gyrus segment -m model18"), std::set<std::string>{"model18cls"});
}

// Where the other shells are installed, they at least accept their scripts.
TEST_F(Manual, OtherShellsAcceptTheirScripts) {
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string script = run_well({"completion", shell}).out;
    EXPECT_NE(script.find(shell == "fish" ? "-l mask" : "--mask"), std::string::npos) << shell;
    write("script", to_bytes(script));
    if (fs::exists("/usr/bin/" + shell)) {
      const Outcome outcome = run({"-n", "script"}, {}, "/usr/bin/" + shell);
      EXPECT_EQ(outcome.status, 0) << shell << ": " << outcome.err;
    }
  }
  expect_refused({"completion", "tcsh"}, 2, "bash");
}

}  // namespace
}  // namespace gyrus::test
