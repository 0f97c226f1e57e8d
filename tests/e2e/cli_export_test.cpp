// gyrus export: what is in the folder, and that it is there whole or not at all. tests/web/export.test.ts runs it.
#include <nlohmann/json.hpp>
#include <set>

#include "e2e/e2e_support.h"
#include "plan/check.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Export : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("model");
    // The executor itself is not needed here, and not everyone who builds gyrus builds web/ too.
    write("web/gyrus.js", to_bytes("// executor"));
    write("web/gyrus.d.ts", to_bytes("// types"));
    fs::copy(fs::path(GYRUS_SOURCE_DIR) / "web/example", folder_ / "web/example", fs::copy_options::recursive);
  }
  std::vector<std::string> variables() const { return {"GYRUS_WEB_DIR=" + in_folder("web")}; }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"export", "model", "--size", "12x10x8", "-o", "site"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void expect_export_refused(const std::vector<std::string>& arguments, int status, const std::string& part) const {
    expect_refused(arguments, status, part, "", variables());
  }
  // What lies in the test's folder beside what the test put there.
  std::set<std::string> leftovers() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    for (const char* mine : {"model", "web", "stdout", "stderr"}) names.erase(mine);
    return names;
  }
  json parsed(const std::string& name) const { return json::parse(text_of(in_folder(name))); }
};

TEST_F(Export, FolderIsSelfContained) {
  write("model/gyrus.json", to_bytes(R"({"title": "Three things", "normalize": "quantile:0.1,0.9",
    "labels": ["background", "one", "two"], "licence": "MIT"})"));
  const Outcome outcome = run_well(command(), variables());
  EXPECT_NE(outcome.err.find("[site] model for 12x10x8 voxels, f32"), std::string::npos) << outcome.err;
  const json index = parsed("site/export.json");
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(folder_ / "site")) there.insert(entry.path().filename().string());
  EXPECT_EQ(there, index.at("files").get<std::set<std::string>>());
  EXPECT_EQ(there, (std::set<std::string>{"plan.json", "plan.bin", "gyrus.js", "gyrus.d.ts", "index.html", "example.js",
                                          "page.js", "labels.json", "README.md", "export.json"}));
  EXPECT_EQ(index.at("normalize"), (json{{"kind", "quantile"}, {"low", 0.1}, {"high", 0.9}}));
  EXPECT_EQ(index.at("title"), "Three things");
  EXPECT_EQ(parsed("site/labels.json").at("labels").at(2).at("name"), "two");

  const Plan plan = parse_plan(text_of(in_folder("site/plan.json")), read_file(in_folder("site/plan.bin")));
  check(plan, Limits{});  // the specification's defaults
  EXPECT_EQ(plan.inputs.at(0).shape, (Shape{1, 1, 12, 10, 8}));
  EXPECT_EQ(plan.outputs.at(0).name, "labels");
  const std::string readme = text_of(in_folder("site/README.md"));
  for (const char* part : {"[1,1,12,10,8]", "quantile:0.1,0.9", "Licence of the model: MIT", "outputs.labels"})
    EXPECT_NE(readme.find(part), std::string::npos) << part;
  EXPECT_EQ(readme.find("{{"), std::string::npos) << "a name was left unfilled";
  EXPECT_EQ(leftovers(), std::set<std::string>{"site"});
}

TEST_F(Export, PlanIsThatOfPlan) {
  run_well(command({"--precision", "f16", "-q"}), variables());
  run_well({"plan", "model", "--size", "12x10x8", "--limits", "default", "--precision", "f16", "-o", "p.json", "-q"});
  EXPECT_EQ(text_of(in_folder("site/plan.json")), text_of(in_folder("p.json")));
  EXPECT_EQ(text_of(in_folder("site/plan.bin")), text_of(in_folder("p.bin")));
}

TEST_F(Export, LogitsAndLimitsOfAFile) {
  write("small.json", to_bytes(R"({"maxBufferSize": 131072, "maxStorageBufferBindingSize": 65536,
    "maxComputeInvocationsPerWorkgroup": 64, "maxComputeWorkgroupSizeX": 64})"));
  run_well(command({"--output", "logits", "--limits", "small.json", "--input", "f32"}), variables());
  const Plan plan = parse_plan(text_of(in_folder("site/plan.json")), read_file(in_folder("site/plan.bin")));
  EXPECT_EQ(plan.outputs.at(0).name, "logits");
  EXPECT_EQ(plan.outputs.at(0).shape, (Shape{1, 3, 12, 10, 8}));
  EXPECT_EQ(plan.inputs.at(0).dtype, DType::F32);
  EXPECT_LE(plan.needs.max_compute_invocations_per_workgroup, 64u);
}

// A GPU may take offsets that no browser lets through.
TEST_F(Export, AlignmentsOfAnAdapterAreThoseOfBrowsers) {
  run_well(command({"--limits", "adapter"}), variables());
  const Plan plan = parse_plan(text_of(in_folder("site/plan.json")), read_file(in_folder("site/plan.bin")));
  Limits limits = plan.needs;
  limits.min_storage_buffer_offset_alignment = limits.min_uniform_buffer_offset_alignment = 256;
  check(plan, limits);
}

TEST_F(Export, ReplacesOnlyItsOwnFolders) {
  fs::create_directory(folder_ / "site");
  run_well(command(), variables());  // an empty one will do
  const std::string before = text_of(in_folder("site/plan.json"));
  expect_export_refused(command(), kIo, "--force replaces it");
  write("site/notes.txt", to_bytes("mine"));
  expect_export_refused(command({"--force"}), kIo, "also holds notes.txt");
  EXPECT_EQ(text_of(in_folder("site/plan.json")), before);
  fs::remove(folder_ / "site/notes.txt");
  run_well(command({"--force", "--precision", "f16"}), variables());
  EXPECT_NE(text_of(in_folder("site/plan.json")), before);

  write("other/thesis.txt", to_bytes("all of it"));
  for (const char* force : {"--quiet", "--force"})
    expect_export_refused({"export", "model", "-o", "other", force}, kIo, "no export of gyrus");
  EXPECT_EQ(text_of(in_folder("other/thesis.txt")), "all of it");
  write("file", to_bytes("x"));
  expect_export_refused({"export", "model", "-o", "file"}, kIo, "is a file");
  expect_export_refused({"export", "model", "-o", "file/below"}, kIo, "cannot be made");
  EXPECT_EQ(leftovers(), (std::set<std::string>{"site", "other", "file"}));
}

TEST_F(Export, WhatIsWrongIsSaidBeforeAnythingIsWritten) {
  write("bad.json", to_bytes(R"({"maxBufferSiz": 1})"));
  expect_export_refused(command({"--limits", "bad.json"}), kInput, "\"maxBufferSiz\" is no limit");
  expect_export_refused(command({"--limits", "absent.json"}), kIo, "[absent.json]");
  write("tight.json", to_bytes(R"({"memory": 1000})"));
  expect_export_refused(command({"--limits", "tight.json"}), kOverLimits, "of GPU memory");
  expect_export_refused(command({"--output", "picture"}), kInput, "--output");
  expect_export_refused({"export", "model", "--size", "0", "-o", "site"}, kInput, "--size");
  expect_export_refused({"export", "nowhere", "-o", "site"}, kIo, "[nowhere]");
  write("broken/model.json", to_bytes("{"));
  expect_export_refused({"export", "broken", "-o", "site"}, kModel, "[broken");
  expect_refused(command(), kIo, "make web", "site", {"GYRUS_WEB_DIR=" + in_folder("nothing")});
  EXPECT_EQ(leftovers(), (std::set<std::string>{"bad.json", "tight.json", "broken"}));
}

// The file system takes no more: nothing stays, and an earlier export is as it was.
TEST_F(Export, FullDiskLeavesNothing) {
  const std::string limited = "trap '' XFSZ; ulimit -f 4; exec '" + std::string(GYRUS_PROGRAM) +
                              "' export model --size 12x10x8 -o site --force";
  const auto expect_full = [&] {
    const Outcome outcome = run({"-c", limited}, variables(), "/bin/sh");
    EXPECT_EQ(outcome.status, kIo) << outcome.err;
    EXPECT_NE(outcome.err.find("cannot be written"), std::string::npos) << outcome.err;
  };
  expect_full();
  EXPECT_EQ(leftovers(), std::set<std::string>{});
  run_well(command(), variables());
  const std::string before = text_of(in_folder("site/plan.json"));
  expect_full();
  EXPECT_EQ(text_of(in_folder("site/plan.json")), before);
  EXPECT_EQ(leftovers(), std::set<std::string>{"site"});
}

TEST_F(Export, OnnxModels) {
  const fs::path file = fs::path(GYRUS_SOURCE_DIR) / "web/example/program/edges.onnx";
  fs::copy(file, folder_ / "edges.onnx");
  const std::vector<std::string> words = {"export", "edges.onnx", "--shape", "image=1,1,7,9", "-o", "site"};
  const Outcome outcome = run_well(words, variables());
  EXPECT_NE(outcome.err.find("[site] edges, f32"), std::string::npos) << outcome.err;
  const json index = parsed("site/export.json");
  EXPECT_EQ(index.at("files").get<std::set<std::string>>(),
            (std::set<std::string>{"plan.json", "plan.bin", "gyrus.js", "gyrus.d.ts", "index.html", "example.js",
                                   "page.js", "README.md", "export.json"}));
  EXPECT_EQ(index.at("inputs").at(0), (json{{"name", "image"}, {"dtype", "f32"}, {"shape", {1, 1, 7, 9}}}));
  const std::string readme = text_of(in_folder("site/README.md"));
  EXPECT_NE(readme.find("\"image\": tensor(\"f32\", [1,1,7,9], new Float32Array(63)),"), std::string::npos) << readme;
  EXPECT_EQ(readme.find("{{"), std::string::npos);
  const Plan plan = parse_plan(text_of(in_folder("site/plan.json")), read_file(in_folder("site/plan.bin")));
  check(plan, Limits{});

  expect_export_refused({"export", "edges.onnx", "-o", "other"}, kInput, "[image] is float[1,1,height,width] in");
  expect_export_refused({"export", "edges.onnx", "--size", "32", "-o", "other"}, kInput, "[--size] is for networks");
  expect_export_refused({"export", "model", "--shape", "image=1", "-o", "other"}, kInput,
                        "--shape and --bind are for ONNX");
  EXPECT_EQ(leftovers(), (std::set<std::string>{"edges.onnx", "site"}));
}

}  // namespace
}  // namespace gyrus::test
