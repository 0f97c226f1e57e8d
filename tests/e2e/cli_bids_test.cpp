// gyrus bids: a small dataset in, a dataset of derivatives out.
#include <nlohmann/json.hpp>
#include <set>

#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Bids : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("tiny_net");
    write("study/dataset_description.json", to_bytes(R"({"Name": "study", "BIDSVersion": "1.9.0"})"));
    add("study/sub-01/anat/sub-01_T1w.nii.gz");
    add("study/sub-02/ses-a/anat/sub-02_ses-a_run-1_T1w.nii.gz");
    add("study/sub-02/ses-b/anat/sub-02_ses-b_T1w.nii");
    add("study/sub-02/ses-b/anat/sub-02_ses-b_T2w.nii");
    write("study/sub-03/anat/sub-03_T1w.nii.gz", to_bytes("no scan at all"));
  }
  void add(const std::string& name) const {
    Volume scan = ramp_volume(16);
    set_affine(scan, {});
    fs::create_directories((folder_ / name).parent_path());
    write_scan(name, scan);
  }
  static std::vector<std::string> command(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"bids", "study",   "study/derivatives/gyrus", "participant", "--no-conform",
                                          "-m",   "tiny_net"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  json read_json(const std::string& name) const { return json::parse(text_of(folder_ / kOut / name)); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / kOut))
      if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder_ / kOut).string());
    return names;
  }

  static constexpr const char* kOut = "study/derivatives/gyrus";
};

TEST_F(Bids, WritesDerivatives) {
  const Outcome outcome = run(command());
  EXPECT_EQ(outcome.status, 9) << outcome.err;  // participant 03 is broken
  EXPECT_NE(outcome.err.find("1 of 4 scans failed"), std::string::npos) << outcome.err;
  std::set<std::string> want = {"dataset_description.json", "desc-tinynet_dseg.tsv"};
  for (const std::string stem :
       {"sub-01/anat/sub-01", "sub-02/ses-a/anat/sub-02_ses-a_run-1", "sub-02/ses-b/anat/sub-02_ses-b"})
    for (const char* end :
         {"_desc-tinynet_dseg.nii.gz", "_desc-tinynet_dseg.json", "_desc-brain_mask.nii.gz", "_desc-brain_mask.json"})
      want.insert(stem + end);
  EXPECT_EQ(files(), want);

  const json description = read_json("dataset_description.json");
  EXPECT_EQ(description["DatasetType"], "derivative");
  EXPECT_EQ(description["GeneratedBy"][0]["Name"], "gyrus");
  EXPECT_FALSE(description["GeneratedBy"][0]["Version"].get<std::string>().empty());
  EXPECT_EQ(description["DatasetLinks"]["raw"], "../..");
  EXPECT_EQ(read_json("sub-02/ses-a/anat/sub-02_ses-a_run-1_desc-tinynet_dseg.json")["Sources"][0],
            "bids:raw:sub-02/ses-a/anat/sub-02_ses-a_run-1_T1w.nii.gz");
  EXPECT_EQ(read_json("sub-01/anat/sub-01_desc-brain_mask.json")["Type"], "Brain");
  const std::string table = text_of(folder_ / kOut / "desc-tinynet_dseg.tsv");
  EXPECT_EQ(table.rfind("index\tname\tcolor\n0\t", 0), 0u) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
}

TEST_F(Bids, WhatIsDoneIsSkippedEvenAlone) {
  run_well(command({"--participant-label", "01"}));
  const auto first = fs::last_write_time(folder_ / kOut / "sub-01/anat/sub-01_desc-tinynet_dseg.nii.gz");
  const json summary = json::parse(run_well(command({"--participant_label", "sub-01", "--json"})).out);
  EXPECT_TRUE(summary.at(0).value("skipped", false)) << summary;
  EXPECT_EQ(fs::last_write_time(folder_ / kOut / "sub-01/anat/sub-01_desc-tinynet_dseg.nii.gz"), first);
}

TEST_F(Bids, FiltersAndFurtherFiles) {
  run_well(command({"--participant-label", "sub-02", "01", "--session-label", "b", "--outputs",
                    "brain,probabilities,report,picture"}));
  const std::string stem = "sub-02/ses-b/anat/sub-02_ses-b_";
  EXPECT_EQ(files(),
            (std::set<std::string>{
                "dataset_description.json", "desc-tinynet_dseg.tsv", stem + "desc-tinynet_dseg.nii.gz",
                stem + "desc-tinynet_dseg.json", stem + "desc-brain_mask.nii.gz", stem + "desc-brain_mask.json",
                stem + "desc-brain_T1w.nii.gz", stem + "desc-tinynet_morph.tsv",
                stem + "label-label1_desc-tinynet_probseg.nii.gz", stem + "label-label2_desc-tinynet_probseg.nii.gz",
                "sub-02/figures/sub-02_ses-b_desc-tinynet_dseg.png"}));
}

TEST_F(Bids, SaysWhatIsWrong) {
  expect_refused(command({"--participant-label", "01", "07", "sub-08"}), 2, "no T1w scan of 07, 08; it has 01, 02, 03",
                 kOut);
  expect_refused(command({"--session-label", "c"}), 2, "no T1w scan of c; it has a, b", kOut);
  expect_refused(command({"--participant-label", "01", "--session-label", "a"}), 2, "in these sessions", kOut);
  expect_refused({"bids", "study", "out", "group", "-m", "tiny_net"}, 5, "[group]", "out");
  expect_refused({"bids", "study", "out", "session", "-m", "tiny_net"}, 2, "participant was expected", "out");
  expect_refused({"bids", "nowhere", "out", "participant", "-m", "tiny_net"}, 3, "BIDS dataset", "out");
  expect_refused({"bids", "tiny_net", "out", "participant", "-m", "tiny_net"}, 2, "has no T1w scan", "out");
  expect_refused({"bids", "study", "study", "participant", "-m", "tiny_net"}, 2, "the dataset itself");
  write("other/dataset_description.json", to_bytes(R"({"GeneratedBy": [{"Name": "fMRIPrep"}]})"));
  expect_refused({"bids", "study", "other", "participant", "-m", "tiny_net"}, 2, "gyrus did not make");
  add("study/sub-01/anat/sub-01_T1w.nii");
  expect_refused(command(), 2, "would write the same files", kOut);
}

}  // namespace
}  // namespace gyrus::test
