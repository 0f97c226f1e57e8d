// What the documents say about the sources is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

// Every text between `before` and the next `after` on the same line.
std::vector<std::string> between(const std::string& text, const std::string& before, const std::string& after) {
  std::vector<std::string> found;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const size_t begin = at + before.size();
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.find(after) != std::string::npos) found.push_back(line.substr(0, line.find(after)));
  }
  return found;
}

// The folders of a file's own #include lines.
std::vector<std::string> included_folders(const fs::path& file) {
  std::vector<std::string> folders = between(text_of(file), "#include \"", "/");
  // A file of the same folder, without one.
  std::erase_if(folders, [](const std::string& folder) { return folder.find('"') != std::string::npos; });
  return folders;
}

using Folders = std::map<std::string, std::set<std::string>>;

// The rows "| `src/name/` | … | a, b |" of the table of folders.
Folders allowed_includes() {
  Folders allowed;
  std::istringstream lines(text_of(kRoot / "docs/architecture.md"));
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> name = between(line, "| `src/", "/` |");
    if (name.empty()) continue;
    const size_t end = line.rfind('|');
    std::string list = line.substr(line.rfind('|', end - 1) + 1);
    std::replace_if(
        list.begin(), list.end(), [](char c) { return c == ',' || c == '|'; }, ' ');
    std::istringstream words(list);
    std::set<std::string>& folders = allowed[name.front()];
    for (std::string word; words >> word;) folders.insert(word);
    folders.insert({name.front(), "gyrus"});
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
      for (const std::string& included : included_folders(file))
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
    for (const std::string& included : included_folders(file)) EXPECT_EQ(included, "gyrus") << file;
    EXPECT_EQ(text_of(file).find("#if"), std::string::npos) << file;
  }
}

TEST(Architecture, OnlyTheRuntimeIncludesWebGpu) {
  for (const char* folder : {"src", "include", "apps"})
    for (const fs::path& file : sources_of(kRoot / folder)) {
      if (file.string().find("/src/runtime/") != std::string::npos) continue;
      const std::string text = text_of(file);
      EXPECT_EQ(text.find("#include <webgpu"), std::string::npos) << file;
      EXPECT_EQ(text.find("#include \"webgpu"), std::string::npos) << file;
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
  EXPECT_EQ(between(text.substr(begin, end - begin), "\n| `", "` |"), ran);
}

TEST(OpsDocument, IsWhatTheRegistryAndTheCasesSay) {
  EXPECT_EQ(text_of(kRoot / "docs/ops.md"), ops_document()) << "stale: run `ninja docs`";
}

}  // namespace
}  // namespace gyrus::test
