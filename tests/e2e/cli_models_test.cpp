// Models by name: what is listed, described and fetched, from a server that behaves in every way that servers do.
#include <sys/prctl.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

constexpr int kInput = 2, kIo = 3, kModel = 4;

std::string sha256(const std::string& text) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.hex();
}

// The examples of FIPS 180-4, and every length around the end of a block fed in two pieces.
TEST(Sha256, StandardsExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  for (size_t length = 50; length < 140; ++length) {
    const std::string text(length, 'x');
    Sha256 pieces;
    pieces.add(std::as_bytes(std::span(text).first(length / 3)));
    pieces.add(std::as_bytes(std::span(text).subspan(length / 3)));
    EXPECT_EQ(pieces.hex(), sha256(text)) << length;
  }
}

// A server with the tiny model, a table that knows it under the name of the default model, and an empty cache.
class Models : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("server/mindgrab");
    json files;
    for (const char* name : {"model.json", "model.pth"}) {
      const std::string text = text_of(folder_ / "server/mindgrab" / name);
      files.push_back({{"name", name}, {"bytes", text.size()}, {"sha256", sha256(text)}});
    }
    const json table = {{"mindgrab", {{"classes", 3}, {"licence", "MIT"}, {"title", "Tiny"}, {"files", files}}}};
    write("table.json", to_bytes(table.dump()));
    start_server();
  }
  void TearDown() override {
    if (server_ > 0) kill(server_, SIGKILL);
    if (server_ > 0) waitpid(server_, nullptr, 0);
    Program::TearDown();
  }

  void start_server() {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::string script = std::string(GYRUS_SOURCE_DIR) + "/tests/e2e/model_server.py";
    server_ = fork();
    if (server_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDOUT_FILENO);
      execlp("python3", "python3", script.c_str(), in_folder("server").c_str(), in_folder("log").c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    char c = 0;
    while (read(ends[0], &c, 1) == 1 && c != '\n') port_ += c;
    close(ends[0]);
    ASSERT_FALSE(port_.empty()) << "the server did not start";
  }

  std::string url(const std::string& manner) const { return "http://127.0.0.1:" + port_ + "/" + manner; }
  std::vector<std::string> environment(const std::string& manner) const {
    return {"XDG_CACHE_HOME=" + in_folder("cache"),
            "GYRUS_MODELS=",
            "GYRUS_OFFLINE=",
            "GYRUS_MODELS_TABLE=" + in_folder("table.json"),
            "GYRUS_MODELS_URL=" + url(manner),
            "no_proxy=127.0.0.1"};
  }
  std::string log() const { return fs::exists(folder_ / "log") ? text_of(folder_ / "log") : ""; }

  Outcome fetch(const std::string& manner) const { return run({"models", "fetch", "mindgrab"}, environment(manner)); }
  void expect_fetched() const {
    for (const char* name : {"model.json", "model.pth"})
      EXPECT_EQ(text_of(cached_ / name), text_of(folder_ / "server/mindgrab" / name)) << name;
    EXPECT_FALSE(fs::exists(folder_ / "cache/gyrus/models/.fetch-mindgrab"));
  }
  void expect_fetched_from(const std::string& manner) {
    cached_ = folder_ / "cache/gyrus/models/mindgrab";
    const Outcome outcome = fetch(manner);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_fetched();
  }
  void expect_nothing_from(const std::string& manner, int status, const std::string& part) {
    const Outcome outcome = fetch(manner);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << "wanted: " << part;
    EXPECT_FALSE(fs::exists(folder_ / "cache/gyrus/models/mindgrab")) << "something is under the final name";
  }

  pid_t server_ = -1;
  std::string port_;
  fs::path cached_;
};

TEST_F(Models, ListedWithTheirState) {
  const auto list = [&] { return json::parse(run_well({"models", "--json"}, environment("plain")).out); };
  EXPECT_EQ(list()[0].at("state"), "absent");
  expect_fetched_from("plain");
  EXPECT_EQ(list()[0].at("state"), "cached");
  EXPECT_EQ(list()[0].at("classes"), 3);
  write("cache/gyrus/models/mindgrab/model.pth", to_bytes("other"));
  EXPECT_EQ(list()[0].at("state"), "changed");
  write("cache/gyrus/models/mindgrab/notes.txt", to_bytes("mine"));
  expect_fetched_from("plain");
  EXPECT_TRUE(fs::exists(cached_ / "notes.txt"));
  const std::string text = run_well({"models"}, environment("plain")).out;
  for (const char* part : {"mindgrab", "cached", "MIT", "Tiny"}) EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(Models, BuiltInTableIsThatOfTheManifests) {
  const json list = json::parse(run_well({"models", "--json"}, {"XDG_CACHE_HOME=" + in_folder("cache")}).out);
  EXPECT_EQ(list.size(), 7u);
  for (const json& model : list) EXPECT_NE(model.at("title"), "") << model;
}

TEST_F(Models, BuiltInSumsAreThoseOfTheRealFiles) {
  const fs::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  const std::vector<std::string> variables = {"XDG_CACHE_HOME=" + in_folder("cache"), "GYRUS_MODELS="};
  for (const json& model : json::parse(run_well({"models", "--json"}, variables).out)) {
    const std::string name = model.at("name");
    run_well({"models", "fetch", name, "--from", (data / "models").string(), "-q"}, variables);
    const json info = json::parse(run_well({"models", "describe", name, "--size", "32", "--json"}, variables).out);
    EXPECT_EQ(info.at("classes"), model.at("classes")) << name;
    EXPECT_EQ(info.at("colours").size(), info.at("labels").size()) << name;
    EXPECT_EQ(info.at("licence"), "MIT") << name;
  }
}

TEST_F(Models, Described) {
  write_model("model");
  write("model/gyrus.json", to_bytes(R"({"labels": ["background", "one", "two"], "licence": "CC0",
    "citation": "Nobody, 2020", "components": "largest", "normalize": "quantile:0.1,0.9"})"));
  const std::string text = run_well({"models", "describe", "model", "--size", "16"}).out;
  for (const char* part : {"CC0", "Nobody, 2020", "largest", "quantile:0.1,0.9", "two", "#000000", "parameters"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(Models, FetchedOnce) {
  expect_fetched_from("plain");
  const std::string before = log();
  EXPECT_NE(fetch("plain").err.find("already"), std::string::npos);
  EXPECT_EQ(log(), before) << "asked the server again";
}

TEST_F(Models, RedirectsAreFollowed) {
  expect_fetched_from("redirect");
  EXPECT_NE(log().find("/plain/mindgrab/model.pth"), std::string::npos);
}

TEST_F(Models, RedirectsLeadOnlyToTheWeb) { expect_nothing_from("elsewhere", kIo, "cannot be downloaded (1 try)"); }

TEST_F(Models, BusyServerIsAskedAgain) { expect_fetched_from("busy"); }

TEST_F(Models, CutConnectionIsResumed) {
  expect_fetched_from("cut");
  EXPECT_NE(log().find("/cut/mindgrab/model.pth bytes="), std::string::npos) << log();
}

TEST_F(Models, ServerWithoutRangesSendsAll) { expect_fetched_from("norange"); }

TEST_F(Models, TheNextRunResumes) {
  const size_t length = fs::file_size(folder_ / "server/mindgrab/model.json");
  expect_nothing_from("dying", kIo, "--from");
  EXPECT_EQ(fs::file_size(folder_ / "cache/gyrus/models/.fetch-mindgrab/model.json"), length / 2);
  expect_fetched_from("plain");
  EXPECT_NE(log().find("/plain/mindgrab/model.json bytes=" + std::to_string(length / 2)), std::string::npos) << log();
}

// What an earlier run left may be of another file: then it is worth nothing, but does no harm.
TEST_F(Models, StalePartIsReplaced) {
  write("cache/gyrus/models/.fetch-mindgrab/model.json", to_bytes("stale"));
  expect_fetched_from("plain");
}

TEST_F(Models, WrongChecksumIsRefused) {
  expect_nothing_from("wrong", kModel, "SHA-256");
  EXPECT_FALSE(fs::exists(folder_ / "cache/gyrus/models/.fetch-mindgrab"));
}

TEST_F(Models, LongerFileIsRefused) { expect_nothing_from("long", kModel, "longer than"); }

TEST_F(Models, AbsentFileIsNotAskedForTwice) {
  expect_nothing_from("absent", kIo, "404");
  EXPECT_EQ(log(), "/absent/mindgrab/model.json -\n");
}

TEST_F(Models, NoServer) {
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  server_ = -1;
  expect_nothing_from("plain", kIo, "gyrus models fetch NAME --from FOLDER");
}

TEST_F(Models, FromAFolderAFileOrAnAddress) {
  for (const std::string& from : {in_folder("server/mindgrab"), in_folder("server"),
                                  in_folder("server/mindgrab/model.pth"), url("plain/mindgrab")}) {
    fs::remove_all(folder_ / "cache");
    cached_ = folder_ / "cache/gyrus/models/mindgrab";
    const Outcome outcome = run({"models", "fetch", "mindgrab", "--from", from}, environment("absent"));
    EXPECT_EQ(outcome.status, 0) << from << outcome.err;
    expect_fetched();
  }
  fs::remove_all(folder_ / "cache");
  expect_refused({"models", "fetch", "mindgrab", "--from", "nowhere"}, kIo, "[nowhere]", "cache", environment("plain"));
  expect_refused({"models", "fetch", "other"}, kInput, "those are mindgrab", "cache", environment("plain"));
}

TEST_F(Models, WithoutLibcurl) {
  std::vector<std::string> variables = environment("plain");
  variables.push_back("GYRUS_CURL=libnone.so");
  const Outcome outcome = run({"models", "fetch", "mindgrab"}, variables);
  EXPECT_EQ(outcome.status, kIo);
  EXPECT_NE(outcome.err.find("libcurl4"), std::string::npos) << outcome.err;
}

TEST_F(Models, TwoAtOnceFetchOnce) {
  const std::string command = std::string(GYRUS_PROGRAM) + " models fetch mindgrab";
  const Outcome both = run({"-c", command + " & " + command + " && wait $!"}, environment("plain"), "/bin/sh");
  EXPECT_EQ(both.status, 0) << both.err;
  cached_ = folder_ / "cache/gyrus/models/mindgrab";
  expect_fetched();
}

TEST_F(Models, DefaultModelIsFetchedOnce) {
  write_scan("scan.nii", ramp_volume());
  const std::vector<std::string> segment = {"segment", "scan.nii", "--no-conform", "-o", "l.nii"};
  const Outcome first = run_well(segment, environment("plain"));
  EXPECT_NE(first.err.find("[mindgrab] fetching"), std::string::npos) << first.err;
  const std::string before = log();
  const Outcome second = run_well(segment, environment("plain"));
  EXPECT_EQ(second.err.find("fetching"), std::string::npos) << second.err;
  EXPECT_EQ(log(), before);
}

// T-L11, T-L12, T-M14: any known model can be asked for by name or alias, and is described before it is here.
TEST_F(Models, AliasesAndAbsentModels) {
  const json absent =
      json::parse(run_well({"models", "describe", "strip", "--json"}, {"GYRUS_MODELS=" + in_folder("none")}).out);
  EXPECT_EQ(absent.at("model"), "mindgrab");
  EXPECT_NE(absent.at("citation").get<std::string>().find("2506.11860"), std::string::npos);
  const json tissue =
      json::parse(run_well({"models", "describe", "tissue_fast", "--json"}, {"GYRUS_MODELS=" + in_folder("none")}).out);
  EXPECT_NE(tissue.at("citation").get<std::string>().find("joss"), std::string::npos);
  write_scan("scan.nii", ramp_volume());
  const Outcome fetched = run_well(
      {"segment", "scan.nii", "--no-conform", "-m", "strip", "-o", "l.nii", "--allow-empty"}, environment("plain"));
  EXPECT_NE(fetched.err.find("[mindgrab] fetching"), std::string::npos) << fetched.err;
  write_model("own/model18cls");
  run_well({"segment", "scan.nii", "--no-conform", "-m", "subcortical-fast", "-o", "l.nii"},
           {"GYRUS_MODELS=" + in_folder("own")});
}

TEST_F(Models, OfflineFetchesNothing) {
  write_scan("scan.nii", ramp_volume());
  expect_refused({"segment", "scan.nii", "-o", "l.nii", "--offline"}, kIo, "--from FOLDER", "l.nii",
                 environment("plain"));
  std::vector<std::string> variables = environment("plain");
  variables.push_back("GYRUS_OFFLINE=1");
  expect_refused({"segment", "scan.nii", "-o", "l.nii"}, kIo, "GYRUS_OFFLINE", "cache", variables);
  expect_refused({"models", "fetch", "mindgrab"}, kIo, "GYRUS_OFFLINE", "cache", variables);
  EXPECT_EQ(log(), "");
}

}  // namespace
}  // namespace gyrus::test
