// Results that know where they come from: never a wrong file, never a silent skip, nothing overwritten, nothing late.
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "e2e/e2e_support.h"
#include "volume/nifti.h"
#include "volume/provenance.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Trust : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("model");
    write("other/model.json", json_bytes(make_layer_list(4)));
    write("other/model.pth", make_safetensors(make_meshnet_weights(4)));
    add("sub-01/T1.nii.gz", 200);
    add("sub-02/T1.nii.gz", 210);
  }
  void add(const std::string& name, uint8_t value) const {
    Volume scan = ramp_volume(16);
    scan.as<uint8_t>()[0] = value;
    set_affine(scan, {});
    fs::create_directories((folder_ / name).parent_path());
    write_scan(name, scan);
  }
  static std::vector<std::string> command(const std::string& scan, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"segment", scan, "--no-conform", "--out-dir", "out", "-m", "model"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void expect_clash(const std::vector<std::string>& arguments, const std::string& part) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 9) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << "wanted: " << part;
    EXPECT_NE(outcome.err.find("--again"), std::string::npos) << outcome.err;
  }
  Provenance provenance_of(const std::string& name) const {
    const auto found = parse_provenance(volume_comment(in_folder(name)));
    EXPECT_TRUE(found.has_value()) << name;
    return found.value_or(Provenance{});
  }
};

// T-M9
TEST_F(Trust, EveryResultSaysWhatMadeIt) {
  const json summary =
      json::parse(run_well(command("sub-01/T1.nii.gz",
                                   {"--json", "--outputs", "mask,brain,report,probabilities", "--qc", "qc.html"}))
                      .out);
  const Provenance by = provenance_of("out/T1_labels.nii.gz");
  EXPECT_EQ(by.model, "model");
  EXPECT_EQ(by.weights.size(), 64u);
  EXPECT_EQ(by.scan, "sub-01/T1.nii.gz");
  EXPECT_EQ(by.scan_bytes, fs::file_size(folder_ / "sub-01/T1.nii.gz"));
  EXPECT_EQ(by.scan_sha256.size(), 64u);
  EXPECT_EQ(by.options.at("conform"), "no");
  EXPECT_EQ(by.date, "2023-11-14T22:13:20Z");
  EXPECT_FALSE(by.device.empty());
  const json want = json::parse(provenance_json(by));
  EXPECT_EQ(summary.at(0).at("provenance"), want);
  EXPECT_EQ(json::parse(text_of(in_folder("out/T1_report.json"))).at("provenance"), want);
  EXPECT_NE(text_of(in_folder("qc.html")).find(by.weights.substr(0, 8)), std::string::npos);
  for (const char* file : {"mask", "brain", "probability_label-1"})
    EXPECT_EQ(provenance_of(std::string("out/T1_") + file + ".nii.gz").scan_sha256, by.scan_sha256) << file;
  const std::string line = read_volume(in_folder("out/T1_labels.nii.gz")).description;
  EXPECT_EQ(line, provenance_line(by));
  EXPECT_LE(line.size(), 79u);
}

// T-H1: two subjects with files of one name, in two calls.
TEST_F(Trust, AnotherScanOfTheSameNameIsAnError) {
  run_well(command("sub-01/T1.nii.gz"));
  const std::vector<uint8_t> first = read_bytes(folder_ / "out/T1_labels.nii.gz");
  expect_clash(command("sub-02/T1.nii.gz"), "another scan (sub-01/T1.nii.gz)");
  EXPECT_EQ(read_bytes(folder_ / "out/T1_labels.nii.gz"), first);
  run_well(command("sub-01/T1.nii.gz"));  // that one is done
  fs::copy_file(folder_ / "sub-01/T1.nii.gz", folder_ / "sub-02/T1.nii.gz", fs::copy_options::overwrite_existing);
  expect_clash(command("sub-02/T1.nii.gz"), "another scan");  // two files are two scans, even with one content
  fs::rename(folder_ / "sub-01", folder_ / "moved");
  run_well(command("moved/T1.nii.gz"));
  run_well(command("sub-02/T1.nii.gz", {"--again"}));
}

// What comes through a pipe can be read only once, and so not be compared.
TEST_F(Trust, APipeIsNotComparedWithWhatIsThere) {
  const auto piped = [&](const std::string& more) {
    return run({"-c", std::string(GYRUS_PROGRAM) + " segment - --no-conform -m model --out-dir out" + more +
                          " < sub-01/T1.nii.gz"},
               {}, "/bin/sh");
  };
  EXPECT_EQ(piped("").status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/stdin_labels.nii.gz"));
  const Outcome second = piped("");
  EXPECT_EQ(second.status, 9) << second.err;
  EXPECT_NE(second.err.find("a pipe cannot be compared"), std::string::npos) << second.err;
  EXPECT_EQ(piped(" --again").status, 0);
}

// T-H2, and the same for options.
TEST_F(Trust, AnotherModelOrOptionIsAnError) {
  run_well(command("sub-01/T1.nii.gz"));
  std::vector<std::string> other = command("sub-01/T1.nii.gz");
  other.back() = "other";
  expect_clash(other, "another model (model, not other)");
  expect_clash(command("sub-01/T1.nii.gz", {"--normalize", "quantile"}), "option normalize (minmax, not quantile");
  expect_clash(command("sub-01/T1.nii.gz", {"--components", "largest"}), "option components");
  expect_clash(command("sub-01/T1.nii.gz", {"--precision", "f16"}), "made in f32");
  run_well(command("sub-01/T1.nii.gz", {"--outputs", "mask"}));
  expect_clash(command("sub-01/T1.nii.gz", {"--outputs", "mask", "--border", "2"}), "option border_mm");
  write_scan("out/T1_labels.nii.gz", ramp_volume());
  expect_clash(command("sub-01/T1.nii.gz"), "does not say what made it");
}

// A model's folder may be called what it likes.
TEST_F(Trust, ARenamedModelIsTheSame) {
  run_well(command("sub-01/T1.nii.gz"));
  fs::rename(folder_ / "model", folder_ / "renamed");
  std::vector<std::string> again = command("sub-01/T1.nii.gz", {});
  again.back() = "renamed";
  EXPECT_NE(run_well(again).err.find("is done already"), std::string::npos);
}

TEST_F(Trust, NamesKeepTheFolder) {
  std::vector<std::string> both = command("sub-01/T1.nii.gz", {"--name", "{parent}_{stem}"});
  both.insert(both.begin() + 2, "sub-02/T1.nii.gz");
  run_well(both);
  EXPECT_EQ(provenance_of("out/sub-01_T1_labels.nii.gz").scan, "sub-01/T1.nii.gz");
  EXPECT_EQ(provenance_of("out/sub-02_T1_labels.nii.gz").scan, "sub-02/T1.nii.gz");
  run_well(command("sub-01/T1.nii.gz", {"--name", "{path}/{stem}"}));
  EXPECT_TRUE(fs::exists(folder_ / "out/sub-01/T1_labels.nii.gz"));
  expect_refused(command("sub-01/T1.nii.gz", {"--name", "{nonsense}"}), 2, "{nonsense}");
  expect_refused(command("sub-01/T1.nii.gz", {"--name", "../{stem}"}), 2, "no name in the folder");
}

// T-M8: a finished scan gets what is newly wanted, without the network; T-H6: a page of all scans stays one.
TEST_F(Trust, FinishedScansAreCompletedAndStayOnThePage) {
  const std::vector<std::string> named = {"--name", "{parent}"};
  run_well(command("sub-01/T1.nii.gz", named));
  const auto first = fs::last_write_time(folder_ / "out/sub-01_labels.nii.gz");
  std::vector<std::string> both = command(
      "sub-01/T1.nii.gz", {"--name", "{parent}", "--outputs", "mask,report,picture,tables", "--qc", "out/qc.html"});
  both.insert(both.begin() + 2, "sub-02/T1.nii.gz");
  run_well(both);
  EXPECT_EQ(fs::last_write_time(folder_ / "out/sub-01_labels.nii.gz"), first);
  for (const char* end : {"mask.nii.gz", "report.json", "picture.png", "labels.json", "labels_itksnap.txt"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / (std::string("sub-01_") + end))) << end;
  const std::string page = text_of(in_folder("out/qc.html"));
  EXPECT_NE(page.find("2 scans"), std::string::npos);
  run_well(both);
  EXPECT_EQ(text_of(in_folder("out/qc.html")), page) << "a second run changed the page";
  run_well(command("sub-01/T1.nii.gz", {"--name", "{parent}", "--outputs", "probabilities"}));
  EXPECT_TRUE(fs::exists(folder_ / "out/sub-01_probability_label-1.nii.gz"));
}

// Two array tasks at once: one of them has the scan.
TEST_F(Trust, AScanIsClaimedBeforeItIsComputed) {
  write("out/T1_labels.nii.gz.claim", to_bytes("elsewhere 1\n"));
  const Outcome outcome = run_well(command("sub-01/T1.nii.gz", {"--json"}));
  EXPECT_NE(outcome.err.find("another process"), std::string::npos) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at(0).at("claimed_by"), "elsewhere, process 1");
  EXPECT_FALSE(fs::exists(folder_ / "out/T1_labels.nii.gz"));
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const pid_t gone = start({"--version"});
  finish(gone);
  write("out/T1_labels.nii.gz.claim", to_bytes(std::string(host) + " " + std::to_string(gone) + "\n"));
  run_well(command("sub-01/T1.nii.gz"));
  EXPECT_TRUE(fs::exists(folder_ / "out/T1_labels.nii.gz"));
  EXPECT_FALSE(fs::exists(folder_ / "out/T1_labels.nii.gz.claim"));
}

// A claim of another machine or container holds as long as its time is set again and again.
TEST_F(Trust, AClaimOfElsewhereIsTakenOverWhenItIsSilent) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const pid_t gone = start({"--version"});
  finish(gone);
  const fs::path claim = folder_ / "out/T1_labels.nii.gz.claim";
  for (const std::string& holder :
       {std::string("elsewhere 1 pid:[1]\n"), std::string(host) + " " + std::to_string(gone) + " pid:[1]\n"}) {
    write("out/T1_labels.nii.gz.claim", to_bytes(holder));
    const Outcome outcome = run_well(command("sub-01/T1.nii.gz"));
    EXPECT_NE(outcome.err.find("if there is none, remove out/T1_labels.nii.gz.claim"), std::string::npos)
        << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "out/T1_labels.nii.gz")) << holder;
  }
  fs::last_write_time(claim, fs::last_write_time(claim) - std::chrono::minutes(11));
  run_well(command("sub-01/T1.nii.gz"));
  EXPECT_TRUE(fs::exists(folder_ / "out/T1_labels.nii.gz"));
  EXPECT_FALSE(fs::exists(claim));
}

TEST_F(Trust, AProcessSaysAgainAndAgainThatItLives) {
  ASSERT_EQ(mkfifo(in_folder("pipe.nii").c_str(), 0600), 0);
  const fs::path claim = folder_ / "out/pipe_labels.nii.gz.claim";
  const pid_t child = start(command("pipe.nii"), {"GYRUS_CLAIM_SECONDS=0.05"});
  const auto wait_for = [](const auto& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) usleep(10000);
    return condition();
  };
  ASSERT_TRUE(wait_for([&] { return fs::exists(claim); }));
  EXPECT_NE(text_of(claim).find(" " + std::to_string(child) + " pid:["), std::string::npos) << text_of(claim);
  const auto first = fs::last_write_time(claim);
  EXPECT_TRUE(wait_for([&] { return fs::last_write_time(claim) > first; }));
  kill(child, SIGTERM);
  EXPECT_EQ(finish(child).status, 130);
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

// Page and table have what another process finished meanwhile, and say what is not done yet; what one left that was
// killed is done.
TEST_F(Trust, PageAndTableKnowOfOtherProcesses) {
  ASSERT_EQ(mkfifo(in_folder("pipe.nii").c_str(), 0600), 0);
  write("out/T1_labels.nii.gz.claim", to_bytes("elsewhere 1\n"));
  std::vector<std::string> both = command("sub-01/T1.nii.gz", {"--qc", "qc.html", "--table", "t.csv", "--jobs", "1"});
  both.insert(both.begin() + 2, "sub-02/none.nii");
  EXPECT_NE(run(both).err.find("[t.csv] lacks 1 scan on which other processes work"), std::string::npos);
  EXPECT_NE(text_of(in_folder("qc.html")).find("not done yet"), std::string::npos);

  both[2] = "left.nii.gz";
  both.insert(both.begin() + 3, "pipe.nii");
  add("left.nii.gz", 220);
  const pid_t other = fork();
  if (other == 0) _exit(pause());
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  write("out/left_labels.nii.gz.claim", to_bytes(std::string(host) + " " + std::to_string(other) + "\n"));
  const pid_t child = start(both);
  for (int i = 0; i < 2000 && !fs::exists(folder_ / "out/pipe_labels.nii.gz.claim"); ++i) usleep(10000);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  fs::remove(folder_ / "out/T1_labels.nii.gz.claim");
  ASSERT_EQ(std::system(("cd " + folder_.string() + " && " + GYRUS_PROGRAM +
                         " segment sub-01/T1.nii.gz --no-conform --out-dir out -m model -q")
                            .c_str()),
            0);
  Volume scan = ramp_volume(16);
  set_affine(scan, {});
  write_file(in_folder("pipe.nii"), encode_nifti(scan));
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(text_of(in_folder("qc.html")).find("not done yet"), std::string::npos);
  const std::string table = text_of(in_folder("t.csv"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
  EXPECT_TRUE(fs::exists(folder_ / "out/left_labels.nii.gz"));
  EXPECT_FALSE(fs::exists(folder_ / "out/left_labels.nii.gz.claim"));
}

// T-H3
TEST_F(Trust, AScanIsNeverOverwritten) {
  const std::vector<uint8_t> scan = read_bytes(folder_ / "sub-01/T1.nii.gz");
  fs::create_symlink(folder_ / "sub-01/T1.nii.gz", folder_ / "link.nii.gz");
  const std::vector<std::string> start = {"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model"};
  for (const std::vector<std::string>& end :
       std::vector<std::vector<std::string>>{{"-o", "sub-01/T1.nii.gz"},
                                             {"-o", "l.nii", "--brain", "./sub-01/../sub-01/T1.nii.gz"},
                                             {"-o", "link.nii.gz"}}) {
    std::vector<std::string> arguments = start;
    arguments.insert(arguments.end(), end.begin(), end.end());
    expect_refused(arguments, 2, "never overwritten", "l.nii");
  }
  expect_refused({"conform", "sub-01/T1.nii.gz", "sub-01/T1.nii.gz"}, 2, "never overwritten");
  write("list.tsv", to_bytes("sub-01/T1.nii.gz\n"));
  expect_refused({"segment", "--list", "list.tsv", "-m", "model", "--out-dir", "out", "--table", "list.tsv"}, 2,
                 "never overwritten", "out");
  fs::rename(folder_ / "sub-01/T1.nii.gz", folder_ / "x_labels.nii.gz");
  add("x.nii.gz", 1);
  expect_refused({"segment", "x.nii.gz", "x_labels.nii.gz", "--no-conform", "-m", "model", "--out-dir", "."}, 2,
                 "never overwritten");
  EXPECT_EQ(read_bytes(folder_ / "x_labels.nii.gz"), scan);
}

// T-M2
TEST_F(Trust, TwoResultsNeverShareAName) {
  const std::vector<std::string> start = {"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model"};
  for (const std::vector<std::string>& end :
       std::vector<std::vector<std::string>>{{"-o", "a.nii.gz", "--mask", "./a.nii.gz"},
                                             {"-o", "a.nii.gz", "--tables", "--report", "a.json"},
                                             {"-o", "-", "--mask", "-"}}) {
    std::vector<std::string> arguments = start;
    arguments.insert(arguments.end(), end.begin(), end.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_TRUE(outcome.out.empty());
    EXPECT_FALSE(fs::exists(folder_ / "a.nii.gz"));
  }
  write("model/gyrus.json", to_bytes("{\"labels\": [\"bg\", \"\\u65e5\\u672c\", \"\\u65e5\\u672c\"]}"));
  run_well({"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o", "l.nii", "--probabilities", "p.nii"});
  int maps = 0;
  for (const auto& entry : fs::directory_iterator(folder_))
    maps += entry.path().filename().string().rfind("p_", 0) == 0;
  EXPECT_EQ(maps, 2);
}

// T-M3: nothing is computed for what cannot be written; nothing is left.
TEST_F(Trust, NamesAreCheckedBeforeTheNetworkRuns) {
  const std::vector<std::string> start = {"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o",
                                          "l.nii",   "--mask",           "m.nii"};
  const auto refused = [&](std::vector<std::string> end, int status, const std::string& part) {
    end.insert(end.begin(), start.begin(), start.end());
    expect_refused(end, status, part, "m.nii");
    EXPECT_FALSE(fs::exists(folder_ / "l.nii"));
  };
  refused({"--report", "r.txt"}, 2, ".json, .csv or .tsv");
  refused({"--picture", "p.jpg"}, 2, ".png");
  refused({"--brain", "b.img"}, 2, ".nii, .nii.gz, .mgh or .mgz");
  refused({"--table", "t.xls"}, 2, ".csv or .tsv");
  for (const char* option : {"--report", "--picture", "--qc", "--trace", "--brain"})
    refused({option, std::string("no/such/x") + (option == std::string("--report")    ? ".json"
                                                 : option == std::string("--picture") ? ".png"
                                                                                      : ".nii")},
            3, "no/such");
  for (const char* border : {"nan", "inf", "1e9"}) refused({"--border", border}, 2, "--border");
  refused({"--jobs", "0"}, 2, "--jobs");
  refused({"--jobs", "100000000"}, 2, "--jobs");
  refused({"--volume", "-1"}, 2, "--volume");
  refused({"--device", "0", "--devices", "0"}, 2, "--device");
  expect_refused({"segment", "sub-01/T1.nii.gz", "-m", "model", "-o", ""}, 2, "name");
  expect_refused({"segment", "sub-01/T1.nii.gz", "-m", "model", "--border", "2"}, 2, "--border");
}

// T-M1
TEST_F(Trust, MghIsWrittenWhereAskedFor) {
  run_well({"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o", "l.mgz", "--brain", "b.mgh", "--mask",
            "M.NII.GZ"});
  run_well({"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o", "l.nii"});
  const Volume labels = read_volume(in_folder("l.mgz"));
  EXPECT_EQ(labels.data, read_volume(in_folder("l.nii")).data);
  EXPECT_EQ(read_bytes(folder_ / "l.mgz")[0], 0x1f);
  EXPECT_EQ(read_bytes(folder_ / "M.NII.GZ")[0], 0x1f);
  EXPECT_EQ(read_bytes(folder_ / "b.mgh")[3], 1);
  const Affine want = read_volume(in_folder("l.nii")).affine;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) EXPECT_NEAR(labels.affine(r, c), want(r, c), 1e-5);
}

// T-M4: what is odd is said on standard error and in JSON.
TEST_F(Trust, WarningsReachPeople) {
  const Outcome outcome =
      run_well({"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o", "l.nii", "--json"});
  EXPECT_NE(outcome.err.find("a brain has 600 to 2200"), std::string::npos) << outcome.err;
  EXPECT_NE(json::parse(outcome.out).at("notices").dump().find("a brain has"), std::string::npos);
  EXPECT_EQ(json::parse(outcome.out).at("labels").size(), 3u) << "those without voxels, too";  // T-L15
  // T-L1: every line is ours.
  std::istringstream lines(outcome.err);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.rfind("gyrus: ", 0), 0u) << line;
}

// T-M10: no GPU is no secret. (On a machine with one there is nothing to say.)
TEST_F(Trust, SoftwareIsNoSecret) {
  const json devices = json::parse(run_well({"devices", "--json"}).out);
  const std::string best = devices[0].at("type");
  const bool software = best == "software" || best == "cpu";
  std::vector<std::string> one = {"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-o", "l.nii"};
  const Outcome outcome = run_well(one);
  EXPECT_EQ(outcome.err.find("no GPU is used") != std::string::npos, software) << outcome.err;
  one.push_back("--require-gpu");
  EXPECT_EQ(run(one).status, software ? 7 : 0);
}

// T-M13
TEST_F(Trust, NamesThatAreNotUtf8) {
  const std::string odd = "bad\xff\xfe.nii.gz";
  fs::copy_file(folder_ / "sub-01/T1.nii.gz", folder_ / odd);
  const Outcome outcome = run(command(odd, {"missing.nii", "--json"}));
  EXPECT_EQ(outcome.status, 9) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).size(), 2u);
}

// T-M12: a signal ends the waiting for a pipe without a writer.
TEST_F(Trust, SignalsEndTheWaitingForInput) {
  ASSERT_EQ(mkfifo(in_folder("pipe.nii").c_str(), 0600), 0);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"conform", "pipe.nii", "c.nii"},
        std::vector<std::string>{"segment", "pipe.nii", "--no-conform", "-m", "model", "-o", "l.nii"}}) {
    const pid_t child = start(arguments);
    usleep(1000000);
    kill(child, SIGTERM);
    int status = 0;
    constexpr int kPatience = 50;  // tenths of a second
    int waited = 0;
    while (waitpid(child, &status, WNOHANG) == 0 && waited < kPatience) usleep(100000), ++waited;
    EXPECT_LT(waited, kPatience) << arguments[0];
    if (waited == kPatience) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << arguments[0];
  }
}

// T-M6 and section 5: folders as input, --dry-run, one table, islands, pictures.
TEST_F(Trust, FoldersTablesAndDryRuns) {
  add("scans/a.nii.gz", 1);
  add("scans/b.nii.gz", 2);
  const std::vector<std::string> all = command("scans", {"--table", "t.csv"});
  std::vector<std::string> dry = all;
  dry.push_back("--dry-run");
  const std::string plan = run_well(dry).out;
  EXPECT_NE(plan.find("scans/a.nii.gz\n  out/a_labels.nii.gz\n"), std::string::npos) << plan;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  dry.insert(dry.end(), {"--outputs", "freesurfer"});
  expect_refused(dry, 5, "FreeSurfer has no number", "out");
  run_well(all);
  const std::string table = text_of(in_folder("t.csv"));
  EXPECT_EQ(table.rfind("scan,model,weights_sha256,total_mm3,label 1,label 2,warnings\nscans/a.nii.gz,model,", 0), 0u);
  run_well(all);
  EXPECT_EQ(text_of(in_folder("t.csv")), table) << "a second run changed the table";
  expect_refused({"segment", "scans", "-m", "model"}, 3, "is a folder");
}

TEST_F(Trust, IslandsAndPictures) {
  const std::vector<std::string> start = {"segment", "sub-01/T1.nii.gz", "--no-conform", "-m", "model", "-q"};
  const auto labelled = [&](std::vector<std::string> more) {
    more.insert(more.begin(), start.begin(), start.end());
    more.insert(more.end(), {"-o", "l.nii", "--allow-empty", "--picture", "p.png"});
    run_well(more);
    int64_t count = 0;
    for (const std::byte b : read_volume(in_folder("l.nii")).data) count += b != std::byte{0};
    return count;
  };
  const int64_t all = labelled({});
  const std::vector<uint8_t> filled = read_bytes(folder_ / "p.png");
  EXPECT_LT(labelled({"--islands", "100000"}), all);
  EXPECT_EQ(labelled({"--contours"}), all);
  EXPECT_NE(read_bytes(folder_ / "p.png"), filled);
  EXPECT_EQ(labelled({"--opacity", "0.1"}), all);
  EXPECT_NE(read_bytes(folder_ / "p.png"), filled);
}

}  // namespace
}  // namespace gyrus::test
