// A training on a device: what happens when it fails on the way, and what comes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/tensor.h"
#include "import/safetensors.h"
#include "support/test_folder.h"
#include "training/train.h"

namespace gyrus::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Training : public InFolder {
 protected:
  static TrainConfig config(const std::string& more,
                            const std::string& network = R"({"channels": 3, "dilations": [1]})") {
    return parse_config(R"({"classes": 6, "data": {"phantoms": {"count": 2, "sizes": 16}}, "steps": 4,
                            "checkpoint_every": 2, "network": )" +
                            network + (more.empty() ? "" : ", ") + more + "}",
                        "c.json");
  }

  TrainRun run_into(const std::string& name) {
    TrainRun run;
    run.out = path(name);
    run.device = "webgpu";
    run.say = [this](const std::string& line) { said_ += line + "\n"; };
    return run;
  }

  // Steps and losses without the times.
  std::string losses(const std::string& name) const {
    std::ifstream log(path(name + "/log.jsonl"));
    std::string text;
    for (std::string line; std::getline(log, line);) text += line.substr(0, line.find(",\"rate\"")) + "\n";
    return text;
  }

  std::map<std::string, Tensor> weights(const std::string& name) const {
    const std::vector<std::byte> bytes = read_file(path(name + "/model/model.safetensors"));
    return read_safetensors_exactly(std::span(bytes), name);
  }

  std::string said_;
};

TEST_F(Training, LostDeviceGoesOnFromTheCheckpoint) {
  const TrainConfig settings = config("");
  train(settings, run_into("whole"));
  TrainRun run = run_into("lost");
  bool lost = false;
  run.after_step = [&](int64_t step, Device& device) {
    if (step == 3 && !lost) device.lose_for_test();
    lost = lost || step == 3;
  };
  EXPECT_EQ(train(settings, run).steps, 4);
  EXPECT_THAT(said_, HasSubstr("the device was lost at step 4; going on from the checkpoint of step 2"));
  EXPECT_EQ(losses("lost"), losses("whole"));
  EXPECT_EQ(weights("lost").at("model.1.bias").data, weights("whole").at("model.1.bias").data);
}

// A device that is lost at the same step again and again is no accident.
TEST_F(Training, ADeviceThatIsAlwaysLostEndsIt) {
  TrainRun run = run_into("lost");
  run.after_step = [](int64_t step, Device& device) {
    if (step == 3) device.lose_for_test();
  };
  try {
    train(config(""), run);
    FAIL() << "it went on for ever";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Device);
  }
  EXPECT_EQ(std::count(said_.begin(), said_.end(), '\n'), 3);
}

// Weights that overflow in a step whose loss was good are found before they stand in a checkpoint.
TEST_F(Training, WeightsThatAreNotFiniteAreNotKept) {
  TrainConfig settings =
      config(R"("optimizer": {"type": "sgd", "rate": 1e6})", R"({"channels": 3, "dilations": [1], "norm": "none"})");
  settings.training.groups = {{.pattern = "*", .rate = 1e35}};
  for (const int64_t every : {1, 2}) {  // the weights, or the next loss, are looked at first
    TrainConfig these = settings;
    these.checkpoint_every = every;
    const std::string out = "inf" + std::to_string(every);
    try {
      train(these, run_into(out));
      FAIL() << "the weights stayed finite";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NonFinite);
      EXPECT_THAT(error.what(), HasSubstr("weights are not finite after step 1"));
      EXPECT_THAT(error.what(), HasSubstr("the checkpoint of step 0 is kept"));
    }
    EXPECT_TRUE(fs::exists(folder_ / out / "checkpoint-0.safetensors"));
  }
}

TEST_F(Training, NonFiniteLossKeepsTheLastGoodStep) {
  const TrainConfig settings =
      config(R"("optimizer": {"type": "sgd", "rate": 1e6})",
             R"({"channels": 3, "dilations": [1, 1, 1], "norm": "none", "activation": "leaky_relu"})");
  try {
    TrainConfig longer = settings;
    longer.steps = 40;
    train(longer, run_into("nan"));
    FAIL() << "the loss stayed finite";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    EXPECT_THAT(error.what(), HasSubstr("the loss of step"));
    EXPECT_THAT(error.what(), HasSubstr("is kept in"));
  }
  for (const auto& entry : fs::directory_iterator(folder_ / "nan")) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::vector<std::byte> bytes = read_file(entry.path().string());
    for (const auto& [name, tensor] : read_safetensors_exactly(std::span(bytes), "checkpoint"))
      for (int64_t i = 0; i < tensor.size(); ++i) ASSERT_TRUE(std::isfinite(get(tensor, i))) << name;
  }
}

TEST_F(Training, AdaptersChangeWhatTheyMatchAndNothingElse) {
  train(config(""), run_into("base"));
  TrainConfig settings = config(R"("start": "base", "adapters": {"rank": 2, "pattern": "model.0.*"})");
  settings.start = path("base/model");
  train(settings, run_into("adapted"));
  const auto before = weights("base"), after = weights("adapted");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before)
    EXPECT_EQ(tensor.data == after.at(name).data, name != "model.0.0.weight") << name;
}

TEST_F(Training, FrozenLayersStay) {
  train(config("", R"({"channels": 3, "dilations": [1], "norm": "none"})"), run_into("a"));
  TrainConfig settings = config(R"("groups": [{"pattern": "model.0.*", "frozen": true}])",
                                R"({"channels": 3, "dilations": [1], "norm": "none"})");
  settings.start = path("a/model");
  train(settings, run_into("b"));
  const auto before = weights("a"), after = weights("b");
  EXPECT_EQ(before.at("model.0.0.weight").data, after.at("model.0.0.weight").data);
  EXPECT_NE(before.at("model.1.weight").data, after.at("model.1.weight").data);
}

// A U-Net becomes an ONNX file, which is then trained on.
TEST_F(Training, UNetIsWrittenAsOnnxAndTrainedOn) {
  train(config("", R"({"type": "unet", "channels": [3, 4], "norm": "instance", "dropout": 0.2})"), run_into("unet"));
  TrainConfig settings = config("");
  settings.network.kind = NetworkConfig::Kind::File;
  settings.network.file = path("unet/model");
  train(settings, run_into("more"));
  EXPECT_NE(read_file(path("unet/model/model.onnx")), read_file(path("more/model/model.onnx")));
  EXPECT_EQ(read_file(path("unet/model/model.onnx")).size(), read_file(path("more/model/model.onnx")).size());
  // Its weights are where another one starts, and what is evaluated.
  TrainConfig again = config(R"("start": "unet", "optimizer": {"rate": 0}, "evaluation": {"phantoms": {"count": 1,
      "sizes": 16}})",
                             R"({"type": "unet", "channels": [3, 4], "norm": "instance"})");
  again.start = path("unet/model");
  train(again, run_into("again"));
  EXPECT_EQ(read_file(path("unet/model/model.onnx")), read_file(path("again/model/model.onnx")));
  EXPECT_EQ(evaluate(again, run_into("unet")).at(0).validation.dice,
            evaluate(again, run_into("again")).at(0).validation.dice);
  settings.evaluation = again.evaluation;
  EXPECT_EQ(evaluate(settings, run_into("more")).size(), 1u);
  settings.data.patch = {15, 16, 16};
  try {
    train(settings, run_into("odd"));
    FAIL() << "the network halves its extents";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("takes extents that are multiples of 2"));
  }
  settings.data.patch = {};
  settings.batch = 2;
  try {
    train(settings, run_into("two"));
    FAIL() << "the file has a batch of 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidInput);
    EXPECT_THAT(error.what(), HasSubstr("batches of 1 alone: train it with that \"batch\""));
  }
}

// Without norms of the batch two samples of a step are as good as two steps whose gradients are averaged.
TEST_F(Training, ALayerListFromItsFileTakesBatches) {
  train(config("", R"({"channels": 3, "dilations": [1], "norm": "none"})"), run_into("list"));
  TrainConfig settings = config("");
  settings.network = {};
  settings.network.kind = NetworkConfig::Kind::File;
  settings.network.file = path("list/model");
  TrainConfig twice = settings;
  settings.batch = 2;
  twice.training.accumulate = 2;
  twice.steps = 2 * settings.steps;
  train(settings, run_into("batches"));
  train(twice, run_into("accumulated"));
  const auto batches = weights("batches"), accumulated = weights("accumulated");
  constexpr double kSums = 1e-4;  // sums of gradients in another order, through some steps of Adam
  for (const auto& [name, tensor] : batches)
    for (int64_t i = 0; i < tensor.size(); ++i)
      EXPECT_NEAR(get(tensor, i), get(accumulated.at(name), i), kSums) << name;
  EXPECT_NE(weights("list").at("model.1.weight").data, batches.at("model.1.weight").data);
}

TEST_F(Training, StopsWhereDiceGrowsNoMore) {
  TrainConfig settings = config(R"("optimizer": {"rate": 0}, "stop": {"patience": 2},
      "validation": {"phantoms": {"count": 1, "seed": 50, "sizes": 16}, "every": 1})",
                                R"({"channels": 3, "dilations": [1], "norm": "none"})");
  settings.steps = 20;
  const TrainResult result = train(settings, run_into("stopped"));
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.steps, 3);  // the first is the best, two more bring nothing
  // So it stays when it is called again.
  TrainRun again = run_into("stopped");
  again.resume = true;
  EXPECT_EQ(train(settings, again).steps, 3);
}

// The CPU's own kernels train as well; halves are refused before anything is written.
TEST_F(Training, OnTheCpu) {
  TrainRun run = run_into("cpu");
  run.device = "cpu";
  const TrainConfig settings = config(R"("loss": {"cross_entropy": 1, "dice": 1})");
  constexpr double kSums = 1e-5;  // sums in another order, through some steps of Adam
  EXPECT_NEAR(train(settings, run).loss, train(settings, run_into("gpu")).loss, kSums);
  run = run_into("halves");
  run.device = "cpu";
  EXPECT_THROW(train(config(R"("precision": "f16")"), run), Error);
  EXPECT_FALSE(fs::exists(folder_ / "halves"));
}

TEST_F(Training, AveragesAreWritten) {
  train(config(""), run_into("plain"));
  train(config("\"average\": 0.9"), run_into("averaged"));
  EXPECT_EQ(losses("plain"), losses("averaged"));
  EXPECT_NE(weights("plain").at("model.1.weight").data, weights("averaged").at("model.1.weight").data);
}

// Stored in halves, with activations made again: the losses are near those in singles.
TEST_F(Training, InHalves) {
  const double singles = train(config(""), run_into("f32")).loss;
  const double halves = train(config(R"("precision": "f16", "recompute": "cheap")"), run_into("f16")).loss;
  constexpr double kHalves = 5e-3;  // of the loss: some ulps of f16
  EXPECT_NEAR(halves, singles, kHalves * singles);
  EXPECT_NE(halves, singles);
}

TEST_F(Training, SynthesisesImagesFromLabels) {
  const TrainConfig settings = config(R"("augment": {"synthesize": true, "rotate": 10, "noise": 0.1}, "log_every": 1)");
  train(settings, run_into("a"));
  train(settings, run_into("b"));
  EXPECT_EQ(losses("a"), losses("b"));
}

}  // namespace
}  // namespace gyrus::test
