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
  std::set<std::string> want = {"dataset_description.json", ".bidsignore", "seg-tinynet_dseg.tsv"};
  for (const std::string stem :
       {"sub-01/anat/sub-01", "sub-02/ses-a/anat/sub-02_ses-a_run-1", "sub-02/ses-b/anat/sub-02_ses-b"})
    for (const char* end :
         {"_seg-tinynet_dseg.nii.gz", "_seg-tinynet_dseg.json", "_desc-tinynet_mask.nii.gz", "_desc-tinynet_mask.json"})
      want.insert(stem + end);
  EXPECT_EQ(files(), want);

  const json description = read_json("dataset_description.json");
  EXPECT_EQ(description["DatasetType"], "derivative");
  EXPECT_EQ(description["GeneratedBy"][0]["Name"], "gyrus");
  EXPECT_FALSE(description["GeneratedBy"][0]["Version"].get<std::string>().empty());
  EXPECT_EQ(description["DatasetLinks"]["raw"], "../..");
  EXPECT_EQ(read_json("sub-02/ses-a/anat/sub-02_ses-a_run-1_seg-tinynet_dseg.json")["Sources"][0],
            "bids:raw:sub-02/ses-a/anat/sub-02_ses-a_run-1_T1w.nii.gz");
  const json mask = read_json("sub-01/anat/sub-01_desc-tinynet_mask.json");
  EXPECT_EQ(mask["Type"], "ROI") << "tissues are no brain mask";
  EXPECT_EQ(mask["Provenance"]["model"], "tiny_net");
  EXPECT_EQ(mask["Provenance"]["scan"], "sub-01/anat/sub-01_T1w.nii.gz");
  const std::string weights = mask["Provenance"]["weights_sha256"];
  EXPECT_NE(description["GeneratedBy"][0]["Description"].get<std::string>().find(weights), std::string::npos);
  EXPECT_EQ(description["SourceDatasets"][0]["URL"], "bids:raw:");
  const std::string table = text_of(folder_ / kOut / "seg-tinynet_dseg.tsv");
  EXPECT_EQ(table.rfind("index\tname\tcolor\n0\t", 0), 0u) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
}

TEST_F(Bids, WhatIsDoneIsSkippedEvenAlone) {
  run_well(command({"--participant-label", "01"}));
  const auto first = fs::last_write_time(folder_ / kOut / "sub-01/anat/sub-01_seg-tinynet_dseg.nii.gz");
  const json summary = json::parse(run_well(command({"--participant_label", "sub-01", "--json"})).out);
  EXPECT_TRUE(summary.at(0).value("skipped", false)) << summary;
  EXPECT_EQ(fs::last_write_time(folder_ / kOut / "sub-01/anat/sub-01_seg-tinynet_dseg.nii.gz"), first);
}

// The name of a scan within its dataset counts, wherever one stands: here another dataset has the same names.
TEST_F(Bids, AnotherDatasetInTheCurrentFolderDoesNotMatter) {
  run_well(command({"--participant-label", "01"}));
  add("sub-01/anat/sub-01_T1w.nii.gz");
  const json summary = json::parse(run_well(command({"--participant-label", "01", "--json"})).out);
  EXPECT_TRUE(summary.at(0).value("skipped", false)) << summary;
}

TEST_F(Bids, FiltersAndFurtherFiles) {
  run_well(command({"--participant-label", "sub-02", "01", "--session-label", "b", "--outputs",
                    "brain,probabilities,report,picture"}));
  const std::string stem = "sub-02/ses-b/anat/sub-02_ses-b_";
  EXPECT_EQ(files(),
            (std::set<std::string>{
                "dataset_description.json", ".bidsignore", "seg-tinynet_dseg.tsv", stem + "seg-tinynet_dseg.nii.gz",
                stem + "seg-tinynet_dseg.json", stem + "desc-tinynet_mask.nii.gz", stem + "desc-tinynet_mask.json",
                stem + "desc-tinynet_T1w.nii.gz", stem + "desc-tinynet_T1w.json", stem + "seg-tinynet_morph.tsv",
                stem + "seg-tinynet_label-label1_probseg.nii.gz", stem + "seg-tinynet_label-label2_probseg.nii.gz",
                stem + "seg-tinynet_label-label1_probseg.json", stem + "seg-tinynet_label-label2_probseg.json",
                "sub-02/figures/sub-02_ses-b_seg-tinynet_dseg.png"}));
  EXPECT_EQ(read_json(stem + "desc-tinynet_T1w.json")["SkullStripped"], true);
}

TEST_F(Bids, SaysWhatIsWrong) {
  expect_refused(command({"--participant-label", "01", "07", "sub-08"}), 2, "no such scan of 07, 08; it has 01, 02, 03",
                 kOut);
  expect_refused(command({"--session-label", "c"}), 2, "no such scan of c; it has a, b", kOut);
  expect_refused(command({"--participant-label", "01", "--session-label", "a"}), 2, "in these sessions", kOut);
  expect_refused({"bids", "study", "out", "group", "-m", "tiny_net"}, 2, "--outputs report first", "out");
  expect_refused({"bids", "study", "out", "session", "-m", "tiny_net"}, 2, "participant or group was expected", "out");
  expect_refused({"bids", "nowhere", "out", "participant", "-m", "tiny_net"}, 3, "BIDS dataset", "out");
  expect_refused({"bids", "tiny_net", "out", "participant", "-m", "tiny_net"}, 2, "has no such scan", "out");
  expect_refused({"bids", "study", "study", "participant", "-m", "tiny_net"}, 2, "the dataset itself");
  write("other/dataset_description.json", to_bytes(R"({"GeneratedBy": [{"Name": "fMRIPrep"}]})"));
  expect_refused({"bids", "study", "other", "participant", "-m", "tiny_net"}, 2, "gyrus did not make");
  add("study/sub-01/anat/sub-01_T1w.nii");
  expect_refused(command(), 2, "would write the same files", kOut);
}

// T-H5: a second model replaces nothing of the first; the dataset names both.
TEST_F(Bids, TwoModelsSideBySide) {
  json list = make_layer_list(2);
  list["layers"][1]["out_channels"] = 2;
  std::vector<NamedFloats> weights = make_meshnet_weights(2);
  weights[2] = ramp(weights[2].name, {2, 2, 1, 1, 1});
  weights[3] = ramp(weights[3].name, {2});
  write("brain_net/model.json", json_bytes(list));
  write("brain_net/model.pth", make_safetensors(weights));
  write("brain_net/gyrus.json", to_bytes(R"({"labels": ["background", "Brain"], "allow_empty": true})"));
  run_well(command({"--participant-label", "01"}));
  const std::string mask = "sub-01/anat/sub-01_desc-tinynet_mask.nii.gz";
  const std::vector<uint8_t> before = read_bytes(folder_ / kOut / mask);
  run_well({"bids", "study", kOut, "participant", "--no-conform", "-m", "brain_net", "--participant-label", "01"});
  EXPECT_EQ(read_bytes(folder_ / kOut / mask), before);
  EXPECT_TRUE(files().count("sub-01/anat/sub-01_desc-brain_mask.nii.gz"));
  EXPECT_EQ(read_json("sub-01/anat/sub-01_desc-brain_mask.json")["Type"], "Brain");
  EXPECT_EQ(read_json("dataset_description.json")["GeneratedBy"].size(), 2u);
  run_well({"bids", "study", kOut, "participant", "--no-conform", "-m", "brain_net", "--participant-label", "01"});
  EXPECT_EQ(read_json("dataset_description.json")["GeneratedBy"].size(), 2u);
}

// T-M15: contrasts keep apart, participants without a scan are named, options of other BIDS Apps are taken.
TEST_F(Bids, OtherContrastsAndAbsentParticipants) {
  fs::create_directories(folder_ / "study/sub-04/func");
  const Outcome outcome = run_well(
      command({"--suffix", "T1w", "T2w", "--session-label", "b", "--skip_bids_validator", "--outputs", "brain"}));
  EXPECT_NE(outcome.err.find("without such a scan (T1w, T2w), left out: 04"), std::string::npos) << outcome.err;
  const std::string stem = "sub-02/ses-b/anat/sub-02_ses-b_";
  for (const char* end : {"seg-tinynet_dseg.nii.gz", "seg-tinynet_desc-T2w_dseg.nii.gz", "desc-tinynetT2w_mask.nii.gz",
                          "desc-tinynetT2w_T2w.nii.gz", "desc-tinynetT2w_T2w.json"})
    EXPECT_TRUE(files().count(stem + end)) << end;
  EXPECT_NE(text_of(folder_ / kOut / ".bidsignore").find("*.html"), std::string::npos);
}

TEST_F(Bids, GroupTableFindsOutliers) {
  for (int i = 10; i < 16; ++i) {
    Volume scan = ramp_volume(16);  // scans differ a little, the last one much
    for (int64_t v = 0; v < (i < 15 ? 20 * (i - 10) : 3000); ++v) scan.as<uint8_t>()[v] = 0;
    set_affine(scan, {});
    const std::string name = "sub-" + std::to_string(i);
    fs::create_directories(folder_ / "many" / name / "anat");
    write_scan("many/" + name + "/anat/" + name + "_T1w.nii.gz", scan);
  }
  run_well({"bids", "many", "out", "participant", "--no-conform", "-m", "tiny_net", "--outputs", "report", "-q"});
  run_well({"bids", "many", "out", "group", "-m", "tiny_net"});
  const std::string table = text_of(folder_ / "out/group_seg-tinynet_morph.tsv");
  EXPECT_EQ(table.rfind("scan\tmodel\tweights_sha256\ttotal_mm3\tlabel 1\tlabel 2\twarnings\nsub-10\ttiny_net\t", 0),
            0u)
      << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 7) << table;
  const size_t last = table.find("sub-15"), outlier = table.find("standard deviations");
  EXPECT_NE(outlier, std::string::npos) << table;
  EXPECT_GT(outlier, last) << table;
}

}  // namespace
}  // namespace gyrus::test
