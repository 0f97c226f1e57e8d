// gyrus verify, and the bundle that it leaves for a bug report.
#include "core/files.h"
#include "e2e/e2e_support.h"
#include "import/json.h"
#include "import/npy.h"
#include "support/onnx_writer.h"
#include "verify_report.h"

namespace gyrus::test {
namespace {

using namespace onnx_file;

class Verify : public Program {};

TEST_F(Verify, KnownModelsAndOnnxFilesAreRight) {
  write_model("net");
  const Outcome layers = run_well({"verify", "net"});
  EXPECT_NE(layers.out.find("conv_argmax"), std::string::npos) << layers.out;
  EXPECT_NE(layers.out.find("nodes are right"), std::string::npos) << layers.out;
  EXPECT_NE(layers.err.find("--seed 1"), std::string::npos) << layers.err;
  write_file(in_folder("model.onnx"),
             model(input("x", Float, {2, 8}) + node("Exp", {"x"}, {"e"}, {}, {}, "the exponential") +
                   node("Softmax", {"e"}, {"y"}, {}, {}, "the softmax") + output("y")));
  const Outcome printed = run_well({"verify", "model.onnx", "--json"});
  const Json found = parse_json({reinterpret_cast<const std::byte*>(printed.out.data()), printed.out.size()}, "verify");
  EXPECT_TRUE(found.at("right").get<bool>());
  EXPECT_FALSE(found.at("nodes").empty());
  EXPECT_FALSE(found.at("device").at("driver").get<std::string>().empty());
  EXPECT_FALSE(fs::exists(folder_ / "gyrus-verify"));
}

TEST_F(Verify, RealModelsAreRight) {
  const fs::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "no test data";
  run_well({"verify", (data / "models/model5_gw_ae").string(), "--shape", "image=1,1,12,12,12", "-q"});
  run_well({"verify", (data / "onnx/models/text-magika").string(), "--shape", "bytes=1,2048", "-q"});
}

TEST_F(Verify, ErrorsAreOneLine) {
  expect_refused({"verify", "none.onnx"}, 3, "none.onnx");
  write_model("net");
  expect_refused({"verify", "net", "--shape", "image=1,2,8,8,8"}, 2, "image");
  expect_refused({"verify", "net", "-i", "image=none.npy"}, 3, "none.npy");
}

TEST_F(Verify, TheBundleHoldsAllThatAReportNeeds) {
  Verified found;
  found.nodes = {{"first", "relu", "f32[2]", 0, 0, 0, true}, {"second", "exp", "f32[2]", 0.5, 0.1, 0, false}};
  WrongNode wrong;
  wrong.node = 1;
  wrong.text = "%2:f32[2] = exp(%1)";
  wrong.inputs = {{"a/b", Tensor::from_floats({2}, {1, 2})}};
  wrong.outputs = {{"y", Tensor::from_floats({2}, {3, 4})}};
  wrong.expected = {{"y", Tensor::from_floats({2}, {3, 6})}};
  wrong.kernels = {{"map exp", "map.wgsl", "main", {64, 1, 1}, {2, 1, 1}, {{"begin", 7}}, "// map.wgsl: text"}};
  wrong.plan = "{}";
  found.first = wrong;
  cli::VerifyContext context{"net", "f32", 5, {}};
  context.adapter.name = "A GPU";
  context.adapter.driver = "driver 12";
  const std::string text = cli::verify_first(found, context);
  for (const char* part :
       {"second", "exp(%1)", "a/b: f32[2] from 1 to 2", "map.wgsl", "begin=7", "64x1x1", "driver 12"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_NE(cli::verify_table(found).find("WRONG"), std::string::npos);
  cli::write_bundle(in_folder("bundle"), found, context);
  for (const char* name :
       {"report.json", "input_0_a_b.npy", "output_0_y.npy", "expected_0_y.npy", "kernel_0.wgsl", "steps.json"})
    EXPECT_TRUE(fs::exists(folder_ / "bundle" / name)) << name;
  const std::vector<std::byte> bytes = read_file(in_folder("bundle/expected_0_y.npy"));
  EXPECT_EQ(get(read_npy(gyrus::bytes_of(bytes), "y").tensor, 1), 6);
  const std::string report = text_of(folder_ / "bundle/report.json");
  for (const char* part : {"\"seed\": 5", "driver 12", "\"version\"", "map exp"})
    EXPECT_NE(report.find(part == std::string("\"version\"") ? "\"gyrus\": \"" : part), std::string::npos) << report;
}

}  // namespace
}  // namespace gyrus::test
