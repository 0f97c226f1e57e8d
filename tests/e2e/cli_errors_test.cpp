// Everything that can be wrong with what the user gives: one line, an exit status by kind, no output.
#include <pty.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>

#include "core/error.h"
#include "e2e/e2e_support.h"
#include "volume/nifti.h"

namespace gyrus::test {
namespace {

class BadInput : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("model");
    write_scan("scan.nii", ramp_volume());
  }
  void expect_bad_model(int status, const std::string& part) const {
    expect_refused({"segment", "scan.nii", "--no-conform", "--model", "bad", "-o", "out.nii.gz"}, status, part,
                   "out.nii.gz");
  }
  void expect_bad_scan(const std::string& scan, int status, const std::string& part) const {
    expect_refused({"segment", scan, "--no-conform", "--model", "model", "-o", "out.nii.gz"}, status, part,
                   "out.nii.gz");
  }
  void write_bad_list(const nlohmann::json& list, const std::vector<NamedFloats>& weights) const {
    write("bad/model.json", json_bytes(list));
    write("bad/model.pth", make_safetensors(weights));
  }
};

ByteVector half_of(const ByteVector& bytes) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2)};
}

TEST_F(BadInput, TruncatedModels) {
  write("bad/model.json", json_bytes(make_layer_list(3)));
  write("bad/model.pth", half_of(make_safetensors(make_meshnet_weights(3))));
  expect_bad_model(kModel, "[bad/model.pth]");
  write("bad/model.pth", half_of(make_torch_zip(make_meshnet_weights(3))));
  expect_bad_model(kModel, "model.pth]");
  write("bad/model.json", half_of(json_bytes(make_layer_list(3))));
  expect_bad_model(kModel, "[bad");
  fs::remove_all(folder_ / "bad");
  const TfjsModel tfjs = make_tfjs();
  write("bad/model.json", json_bytes(tfjs.json));
  write("bad/model.bin", half_of(tfjs.weights));
  expect_bad_model(kModel, "truncated");
}

TEST_F(BadInput, CorruptedTorchZip) {
  ByteVector zip = make_torch_zip(make_meshnet_weights(3));
  zip[zip.size() / 3] ^= std::byte{0xff};
  write("bad/model.json", json_bytes(make_layer_list(3)));
  write("bad/model.pth", zip);
  expect_bad_model(kModel, "model.pth]");
}

TEST_F(BadInput, PickleThatWantsToCall) {
  PickleWriter pickle;
  pickle.global("os", "system").text("touch pwned").raw("\x85R");
  write("bad/model.json", json_bytes(make_layer_list(3)));
  write("bad/model.pth", make_torch_zip(pickle.finish(), {}));
  expect_bad_model(kModel, "wants to call 'os.system'");
  EXPECT_FALSE(fs::exists(folder_ / "pwned"));
}

TEST_F(BadInput, BombsAndOverflowingShapes) {
  write("bad/model.json", json_bytes(make_layer_list(3)));
  write("bad/model.pth", make_safetensors(R"({"model.0.weight":{"dtype":"F32","shape":[4294967296,4294967296],)"
                                          R"("data_offsets":[0,16]}})",
                                          ByteVector(16)));
  expect_bad_model(kModel, "[bad/model.pth]");
  PickleWriter pickle;
  pickle.raw("}").text("x").tensor("FloatStorage", "0", int64_t{1} << 60, 0, {1 << 30, 1 << 30}, {1 << 30, 1}).raw("s");
  write("bad/model.pth", make_torch_zip(pickle.finish(), {ByteVector(16)}));
  expect_bad_model(kModel, "model.pth]");
  write("bad/model.pth", make_zip({{"archive/data.pkl", ByteVector(8), 8, uint64_t{1} << 40, 1, 0, -1}}));
  expect_bad_model(kModel, "model.pth]");
}

TEST_F(BadInput, WrongWeights) {
  const std::vector<NamedFloats> right = make_meshnet_weights(3);
  std::vector<NamedFloats> wrong = right;
  wrong.pop_back();
  write_bad_list(make_layer_list(3), wrong);
  expect_bad_model(kModel, "[bad");
  wrong = right;
  wrong.push_back(ramp("surplus.weight", {2}));
  write_bad_list(make_layer_list(3), wrong);
  expect_bad_model(kModel, "surplus.weight");
  wrong = right;
  wrong[0] = ramp(right[0].name, {2, 1, 3, 3, 5});
  write_bad_list(make_layer_list(3), wrong);
  expect_bad_model(kModel, "[bad");
  wrong = right;
  wrong[0].values[3] = std::nanf("");
  write_bad_list(make_layer_list(3), wrong);
  expect_bad_model(kModel, right[0].name);
}

TEST_F(BadInput, UnknownActivationOrLayer) {
  nlohmann::json list = make_layer_list(3);
  list["activation"] = "frobnicate";
  write_bad_list(list, make_meshnet_weights(3));
  expect_bad_model(kUnsupported, "frobnicate");
  fs::remove_all(folder_ / "bad");
  const TfjsModel tfjs = make_tfjs(1, {keras_layer("Frobnicate", "odd", {{"name", "odd"}}, {"image"})}, {});
  write("bad/model.json", json_bytes(tfjs.json));
  write("bad/model.bin", tfjs.weights);
  expect_bad_model(kUnsupported, "Frobnicate");
}

TEST_F(BadInput, VolumesWithoutContrast) {
  Volume flat({16, 16, 16}, VoxelType::U8);
  write_scan("zeros.nii", flat);
  expect_bad_scan("zeros.nii", kInput, "zeros.nii]");
  for (int64_t i = 0; i < flat.voxels(); ++i) flat.as<uint8_t>()[i] = 7;
  write_scan("sevens.nii", flat);
  expect_bad_scan("sevens.nii", kInput, "sevens.nii]");
}

// T-M7: NaN means outside of the head, as in SPM's images; the labels are those of zero there.
TEST_F(BadInput, WhatIsNotFiniteIsTakenAsZero) {
  Volume volume({16, 16, 16}, VoxelType::F32);
  for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<float>()[i] = static_cast<float>(i % 251);
  for (const float odd : {0.0f, std::nanf(""), HUGE_VALF}) {
    volume.as<float>()[99] = odd;
    write_scan("odd.nii", volume);
    const std::string out = cat("l", odd, ".nii");
    const Outcome outcome = run_well({"segment", "odd.nii", "--no-conform", "-m", "model", "-o", out});
    EXPECT_EQ(outcome.err.find("1 of 4096 voxels are NaN or infinite") == std::string::npos, odd == 0) << outcome.err;
    EXPECT_EQ(read_volume(in_folder(out)).data, read_volume(in_folder("l0.nii")).data) << odd;
  }
  run_well({"conform", "odd.nii", "c.nii"});
  for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<float>()[i] = std::nanf("");
  write_scan("odd.nii", volume);
  expect_bad_scan("odd.nii", kInput, "nothing but NaN");
}

TEST_F(BadInput, FilesThatAreNoVolumes) {
  expect_bad_scan("nowhere.nii.gz", kIo, "[nowhere.nii.gz]");
  expect_bad_scan("model", kIo, "[model]");
  write("text.nii", to_bytes("hello"));
  expect_bad_scan("text.nii", kInput, "[text.nii]");
  write("empty.nii", {});
  expect_bad_scan("empty.nii", kInput, "[empty.nii]");
  write_scan("whole.nii.gz", ramp_volume());
  const std::vector<uint8_t> whole = read_bytes(folder_ / "whole.nii.gz");
  ByteVector cut(whole.size() / 2);
  std::memcpy(cut.data(), whole.data(), cut.size());
  write("cut.nii.gz", cut);
  expect_bad_scan("cut.nii.gz", kIo, "cut.nii.gz]");
}

// T-L20, T-L25
TEST_F(BadInput, FormatsOfOthersAndBrokenLinks) {
  ByteVector dicom(1000);
  std::memcpy(dicom.data() + 128, "DICM", 4);
  write("scan.dcm", dicom);
  expect_bad_scan("scan.dcm", kInput, "dcm2niix");
  ByteVector nrrd = to_bytes("NRRD0004\n");
  nrrd.resize(400);
  write("scan.nrrd", nrrd);
  expect_bad_scan("scan.nrrd", kInput, "niimath");
  fs::create_symlink(".git/annex/objects/x", folder_ / "annexed.nii.gz");
  expect_bad_scan("annexed.nii.gz", kIo, "is a link to .git/annex/objects/x, which is not there");
  write_scan("large.nii", ramp_volume(128));
  expect_refused({"conform", "large.nii", "c.nii"}, kInput, "more than the 1 MiB allowed", "c.nii",
                 {"GYRUS_MAX_SCAN_MIB=1"});
}

// T-L9: what does not arrive is an error.
TEST_F(BadInput, AFullDeviceIsNoticed) {
  for (const char* command : {"devices", "models", "segment scan.nii --no-conform -m model -o l.nii --json -q"}) {
    const Outcome outcome = run({"-c", cat(GYRUS_PROGRAM, " ", command, " > /dev/full")}, {}, "/bin/sh");
    EXPECT_EQ(outcome.status, kIo) << command;
    EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
  }
}

// T-M10: a log shows that it goes on.
TEST_F(BadInput, LogsShowProgress) {
  write_scan("s.nii", ramp_volume(64));
  const std::vector<std::string> one = {"segment", "s.nii", "--no-conform", "-m", "model", "-o", "l.nii"};
  EXPECT_NE(run_well(one, {"GYRUS_LOG_SECONDS=0"}).err.find(" % after "), std::string::npos);
  EXPECT_EQ(run_well(one).err.find(" % after "), std::string::npos) << "too short for a line";
}

TEST_F(BadInput, OverTheMemoryOfTheDevice) {
  write("small.json", to_bytes(R"({"memory": 10000})"));
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "out.nii", "--limits", "small.json"},
                 kOverLimits, "of GPU memory for 16x16x16 voxels in f16", "out.nii");
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "out.nii", "--limits", "small.json",
                  "--precision", "f32"},
                 kOverLimits, "try --precision f16", "out.nii");
}

TEST_F(BadInput, NoAdapter) {
  const std::vector<std::string> none = {"VK_ICD_FILENAMES=/nowhere.json", "VK_DRIVER_FILES=/nowhere.json"};
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "out.nii"}, kDevice, "[", "out.nii",
                 none);
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "out.nii", "--device", "gpu"}, kDevice,
                 "there is no GPU", "out.nii", none);
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "out.nii", "--device", "no such GPU"},
                 kDevice, "no such GPU", "out.nii");
}

TEST_F(BadInput, Usage) {
  expect_refused({}, kInput, "subcommand");
  expect_refused({"segmnt", "scan.nii"}, kInput, "[segmnt] is no command; did you mean segment?");  // T-L3
  EXPECT_EQ(run_well({"help"}).out, run_well({"--help"}).out);
  EXPECT_EQ(run_well({"-v"}).out, run_well({"--version"}).out);
  expect_refused({"models", "fetch", "--nonsense"}, kInput, "(gyrus models fetch --help shows the options)");  // T-L2
  expect_refused({"--offline", "models", "fetch", "nonsense"}, kInput, "[nonsense]");                          // T-L4
  expect_refused({"tune", "model", "--seconds", "0"}, kInput, "--seconds");
  EXPECT_LT(run({"tune", "model", "--seconds", "0"}).err.size(), 200u);  // T-L5
  expect_refused({"segment"}, kInput, "no scan");
  expect_refused({"segment", "scan.nii", "-m", "model", "-o", "o.nii", "--nonsense"}, kInput, "--nonsense");
  expect_refused({"segment", "scan.nii", "-m", "model", "-o", "o.nii", "--precision", "f8"}, kInput, "--precision");
  expect_refused({"segment", "scan.nii", "-m", "model", "-o", "o.nii", "--normalize", "zscore"}, kInput, "zscore");
  expect_refused({"segment", "scan.nii", "-m", "model", "-o", "-", "--json"}, kInput, "--json");
  expect_refused({"segment", "scan.nii", "-m", "nowhere", "-o", "o.nii"}, kIo, "nowhere");
  expect_refused({"segment", "scan.nii", "-m", "models/mindgrab", "-o", "o.nii"}, kIo, "gyrus models fetch");  // T-H4
  expect_refused({"plan", "model", "--size", "0"}, kInput, "--size");
  expect_refused({"plan", "model", "--size", "8x8"}, kInput, "--size");
  expect_refused({"plan", "model", "--limits", "nowhere.json"}, kIo, "nowhere.json");
  write("odd.json", to_bytes(R"({"maxBufferSizes": 1})"));
  expect_refused({"plan", "model", "--limits", "odd.json"}, kInput, "maxBufferSizes");
  expect_refused({"demo", "--size", "4"}, kInput, "--size");
}

TEST_F(BadInput, FoldersThatCannotBeWritten) {
  expect_refused({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "no/such/folder/out.nii"}, kIo,
                 "no/such/folder/out.nii");
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(BadInput, ManifestsThatAreWrong) {
  write("model/gyrus.json", to_bytes(R"({"normalise": "minmax"})"));
  expect_bad_scan("scan.nii", kModel, "normalise");
  write("model/gyrus.json", to_bytes(R"({"labels": ["background"]})"));
  expect_bad_scan("scan.nii", kModel, "labels");
}

// Interrupted while it reads: more was taken from the pipe than a pipe holds, so the program is surely at it.
TEST_F(BadInput, InterruptWhileReadingLeavesNothing) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::string pipe = in_folder("pipe"), command = " segment - --no-conform -m model -o out.nii < pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const ByteVector bytes = encode_nifti(ramp_volume(128));
  const pid_t child = start({"-c", std::string("exec ") + GYRUS_PROGRAM + command}, {}, "/bin/sh");
  const int out = open(pipe.c_str(), O_WRONLY);
  const auto send = [&](size_t begin, size_t end) {
    while (begin < end) {
      const ssize_t sent = ::write(out, bytes.data() + begin, end - begin);
      if (sent <= 0) return ADD_FAILURE() << "the program does not read";
      begin += static_cast<size_t>(sent);
    }
  };
  send(0, bytes.size() / 2);
  kill(child, SIGINT);
  const Outcome outcome = finish(child);  // although the rest never comes
  close(out);
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().filename().string().find("out.nii"), std::string::npos) << entry.path();
}

// Interrupted in the midst of a run, as soon as the terminal shows how far it is: nothing is left behind, not even a
// temporary file. A GPU may have been faster; then all is there.
TEST_F(BadInput, InterruptInARunLeavesNothing) {
  int terminal = -1, other = -1;
  ASSERT_EQ(openpty(&terminal, &other, nullptr, nullptr, nullptr), 0);
  fs::create_directory(folder_ / "out");
  const std::string command = std::string("exec ") + GYRUS_PROGRAM + " demo --size 96 --out out 2> " + ttyname(other);
  const pid_t child = start({"-c", command}, {"TERM=xterm"}, "/bin/sh");
  std::string seen;
  char c = 0;
  while (seen.find('%') == std::string::npos && read(terminal, &c, 1) == 1) seen += c;
  kill(child, SIGINT);
  const Outcome outcome = finish(child);
  close(other);
  close(terminal);
  if (outcome.status == 0) {
    EXPECT_TRUE(fs::exists(folder_ / "out/picture.png"));
  } else {
    EXPECT_EQ(outcome.status, 130) << seen;
    EXPECT_TRUE(fs::is_empty(folder_ / "out"));
  }
}

}  // namespace
}  // namespace gyrus::test
