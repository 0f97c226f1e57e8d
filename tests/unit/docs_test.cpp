// What the documents say about the sources is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "passes/passes.h"
#include "support/ops_doc.h"

namespace gyrus::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = GYRUS_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), expression); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[1]);
  return found;
}

using Folders = std::map<std::string, std::set<std::string>>;

// The rows "| `src/name/` | … | a, b |" of the table of folders.
Folders allowed_includes() {
  Folders allowed;
  std::istringstream lines(text_of(kRoot / "docs/architecture.md"));
  for (std::string line; std::getline(lines, line);) {
    std::smatch row;
    if (!std::regex_match(line, row, std::regex("\\| `src/([a-z_]+)/` \\|.*\\|([a-z_, ]*)\\|"))) continue;
    for (const std::string& folder : matches(row[2], "([a-z_]+)")) allowed[row[1]].insert(folder);
    allowed[row[1]].insert({row[1], "gyrus"});
  }
  return allowed;
}

std::vector<fs::path> sources_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Architecture, TableNamesEveryFolder) {
  const Folders allowed = allowed_includes();
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    if (!entry.is_directory() || sources_of(entry.path()).empty()) continue;
    EXPECT_TRUE(allowed.count(entry.path().filename())) << entry.path();
  }
  for (const auto& [folder, others] : allowed) EXPECT_TRUE(fs::is_directory(kRoot / "src" / folder)) << folder;
}

TEST(Architecture, SourcesIncludeOnlyWhatTheTableAllows) {
  for (const auto& [folder, allowed] : allowed_includes())
    for (const fs::path& file : sources_of(kRoot / "src" / folder))
      for (const std::string& included : matches(text_of(file), "#include \"([a-z_]+)/"))
        EXPECT_TRUE(allowed.count(included)) << file << " includes " << included << "/";
}

TEST(Architecture, TableHasNoCircle) {
  Folders allowed = allowed_includes();
  ASSERT_GE(allowed.size(), 10u);
  // Folders whose includes are all placed already are placed next.
  std::set<std::string> placed = {"gyrus"};
  for (size_t round = 0; round <= allowed.size(); ++round)
    for (const auto& [folder, others] : allowed) {
      const bool ready = std::all_of(others.begin(), others.end(), [&, f = folder](const std::string& other) {
        return other == f || placed.count(other);
      });
      if (ready) placed.insert(folder);
    }
  for (const auto& [folder, others] : allowed) EXPECT_TRUE(placed.count(folder)) << folder << " is in a circle";
}

TEST(Architecture, PublicHeadersIncludeOnlyEachOtherAndHaveNoConditions) {
  for (const fs::path& file : sources_of(kRoot / "include/gyrus")) {
    const std::string text = text_of(file);
    for (const std::string& included : matches(text, "#include \"([a-z_]+)/")) EXPECT_EQ(included, "gyrus") << file;
    EXPECT_EQ(text.find("#if"), std::string::npos) << file;
  }
}

TEST(Architecture, OnlyTheRuntimeIncludesWebGpu) {
  for (const char* folder : {"src", "include", "apps"})
    for (const fs::path& file : sources_of(kRoot / folder)) {
      if (file.string().find("/src/runtime/") != std::string::npos) continue;
      EXPECT_THAT(matches(text_of(file), "(#include [<\"]webgpu)"), testing::IsEmpty()) << file;
    }
}

TEST(Architecture, ListsThePassesInTheirOrder) {
  std::vector<std::string> ran;
  Graph graph;
  graph.add_output("y", graph.add("relu", {graph.add_input("x", {DType::F32, {2}})}));
  optimize(graph, Precision::F32, [&](const std::string& pass, const Graph&) { ran.push_back(pass); });
  const std::string text = text_of(kRoot / "docs/architecture.md");
  const size_t begin = text.find("## Passes"), end = text.find("## Planner");
  ASSERT_LT(begin, end);
  EXPECT_EQ(matches(text.substr(begin, end - begin), "\n\\| `([a-z_]+)` \\|"), ran);
}

TEST(OpsDocument, IsWhatTheRegistryAndTheCasesSay) {
  EXPECT_EQ(text_of(kRoot / "docs/ops.md"), ops_document()) << "stale: run `ninja docs`";
}

}  // namespace
}  // namespace gyrus::test
