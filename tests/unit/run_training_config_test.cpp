// A config that is wrong, and data that are, are refused in one line that says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "support/test_folder.h"
#include "training/config.h"
#include "training/subjects.h"
#include "training/train.h"
#include "volume/io.h"

namespace gyrus::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// A good config with one entry replaced: the value of `key`, or nothing where `value` is empty.
std::string config_with(const std::string& key = "", const std::string& value = "") {
  std::vector<std::pair<std::string, std::string>> entries = {
      {"network", R"({"type": "meshnet", "channels": 4, "dilations": [1, 2]})"},
      {"classes", "6"},
      {"data", R"({"phantoms": {"count": 2, "sizes": 16}})"},
      {"steps", "4"}};
  bool replaced = key.empty();
  for (auto& [name, text] : entries)
    if (name == key) {
      text = value;
      replaced = true;
    }
  if (!replaced) entries.emplace_back(key, value);
  std::string all;
  for (const auto& [name, text] : entries)
    if (!text.empty()) all += (all.empty() ? "" : ",\n") + ("\"" + name + "\": " + text);
  return "{ // a comment\n" + all + "}";
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::string& key, const std::string& value) {
  return refusal([&] { parse_config(config_with(key, value), "c.json"); });
}

TEST(TrainConfig, ReadsAGoodOne) {
  const TrainConfig config = parse_config(config_with(), "c.json");
  EXPECT_EQ(config.classes(), 6);
  EXPECT_EQ(config.network.dilations, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.data.subjects.phantoms.count, 2);
  EXPECT_EQ(config.steps, 4);
  EXPECT_EQ(parse_config(config_with(), "c.json", 9).steps, 9);
}

TEST(TrainConfig, InTomlIsTheSame) {
  const std::string text = R"(# a comment
classes = 6
steps = 4
data.phantoms = {count = 2, sizes = 16}
optimizer = {type = "sgd", rate = 0.5, nesterov = true, momentum = 0.9}
[network]
type = "meshnet"
channels = 4
dilations = [1, 2]
)";
  const TrainConfig toml = parse_config(text, "c.toml");
  const TrainConfig json = parse_config(
      config_with("optimizer", R"({"type": "sgd", "rate": 0.5, "nesterov": true, "momentum": 0.9})"), "c.json");
  EXPECT_EQ(toml.hash, json.hash) << "one goes on where the other stopped";
  EXPECT_EQ(toml.network.dilations, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(toml.training.optimizer.nesterov);
  EXPECT_EQ(toml.schedule.rate, 0.5);
  EXPECT_EQ(parse_config(text, "c.toml", 9).steps, 9);
  const struct {
    const char *more, *part;
  } cases[] = {
      {"norms = 3\n", "[c.toml] network.norms: is not known; there are:"},
      {"norm = 3\n", "[c.toml] network.norm: 3 is no text"},
      {"affine = 1979-05-27\n", "[c.toml] network.affine: is a date or time"},
      {"type = \"unet\"\n", "[c.toml] is no TOML: line 10 cannot be read"},
      {"[data.phantoms]\n", "[c.toml] is no TOML: line 10 cannot be read"},
      {"affine = \n", "[c.toml] is no TOML: line 10 cannot be read"},
  };
  for (const auto& [more, part] : cases)
    EXPECT_THAT(refusal([&, more = more] { parse_config(text + more, "c.toml"); }), HasSubstr(part)) << more;
}

TEST(TrainConfig, RefusesInOneLineThatNamesTheKey) {
  const struct {
    const char *key, *value, *part;
  } cases[] = {
      {"stepps", "4", "stepps: is not known; there are: accumulate, adapters"},
      {"steps", "", "steps: is missing"},
      {"steps", "\"many\"", "steps: \"many\" is no whole number"},
      {"steps", "0", "steps: 0 is not between 1 and"},
      {"network", "{\"type\": \"resnet\"}", "network.type: \"resnet\" is not known; there are: meshnet, unet"},
      {"network", "{\"channels\": [4, 5]}", "network.channels: a meshnet has one number"},
      {"network", "{\"chanels\": 4}", "network.chanels: is not known; there are:"},
      {"network", "5", "network: 5 is no object"},
      {"data", "{}", "data: has no subjects"},
      {"data", "{\"phantoms\": {\"sizes\": 8}}", "data.phantoms.sizes: 8 is not between 16 and 512"},
      {"data", "{\"phantoms\": {\"noise\": [5, 1]}}", "data.phantoms.noise: expected one number, or the least"},
      {"data", "{\"phantoms\": {}, \"map\": {\"9\": [1]}}", "data.map.9: is no class; there are 0 to 5"},
      {"data", "{\"phantoms\": {}, \"map\": {\"0\": [1], \"1\": [1]}}", "data.map.1: label 1 has a class already"},
      {"data", "{\"phantoms\": {}, \"normalize\": \"max\"}", "data.normalize:"},
      {"data", "{\"pairs\": [{\"labels\": \"a.nii\"}]}", "data: a.nii has no image; give one, or augment.synthesize"},
      {"classes", "1", "classes: 1 is not between 2 and 256"},
      {"classes", "[\"a\", \"b\", \"a\"]", "classes: \"a\" stands twice"},
      {"classes", "[\"a\", \"\"]", "classes: \"\" is no name"},
      {"loss", "{\"dice\": 0}", "loss: is a sum of nothing"},
      {"loss", "{\"focal\": {\"class_weights\": [0, 0, 0, 0, 0, 0]}}", "loss.focal.class_weights: all are 0"},
      {"clip", "{\"norm\": 0}", "clip.norm: 0 is not between 1e-12 and"},
      {"validation", "{\"pairs\": [{\"labels\": \"a.nii\"}]}", "validation: a.nii has no image to validate with"},
      {"loss", "\"dise\"", "loss: \"dise\" is not known; there are: cross_entropy, dice, focal"},
      {"loss", "{\"focal\": {\"class_weights\": [1]}}", "loss.focal.class_weights: 1 weights for 6 classes"},
      {"optimizer", "{\"type\": \"adam\", \"momentum\": 0.9}", "optimizer.momentum: is not known; there are:"},
      {"schedule", "{\"type\": \"linear\"}", "schedule.type: \"linear\" is not known"},
      {"schedule", "{\"type\": \"step\"}", "schedule.step_size: is missing"},
      {"augment", "{\"flip\": [\"w\"]}", "augment.flip: \"w\" is none of x, y, z"},
      {"augment", "{\"rotate\": -3}", "augment.rotate: -3 is not between 0 and 180"},
      {"validation", "{\"every\": 5}", "validation: has no subjects"},
      {"stop", "{\"patience\": 3}", "stop: looks at the Dice of a validation"},
      {"adapters", "{\"rank\": 2}", "adapters: are trained beside given weights"},
      {"precision", "\"f8\"", "precision: \"f8\" is not known; there are: f32, f16"},
  };
  for (const auto& c : cases) EXPECT_THAT(refusal(c.key, c.value), HasSubstr(std::string("[c.json] ") + c.part));
  EXPECT_THAT(refusal([] { parse_config("{\"steps\": 1, \"steps\": 2}", "c.json"); }),
              HasSubstr("\"steps\" stands twice"));
  EXPECT_THAT(refusal([] { parse_config("{\n\"steps\": ,}", "c.json"); }), HasSubstr("is no JSON: line 2"));
}

// What a step computes is in the hash; where files go is not.
TEST(TrainConfig, HashKnowsWhatDecidesLosses) {
  const auto hash = [](const std::string& key, const std::string& value) {
    return parse_config(config_with(key, value), "c.json").hash;
  };
  EXPECT_EQ(hash("", ""), hash("steps", "40"));
  EXPECT_EQ(hash("", ""), hash("out", "\"elsewhere\""));
  EXPECT_NE(hash("", ""), hash("seed", "2"));
  EXPECT_NE(hash("", ""), hash("batch", "2"));
  const std::string cosine = R"({"type": "cosine"})";
  const auto with_steps = [&](int64_t steps) {
    return parse_config(config_with("schedule", cosine), "c.json", steps).hash;
  };
  EXPECT_NE(with_steps(4), with_steps(8));
  // The warm-up is a part of all steps, unless it is given.
  const auto warming = [&](const std::string& more, int64_t steps) {
    const std::string schedule = R"({"type": "warmup_cosine", "total": 100)" + more + "}";
    return parse_config(config_with("schedule", schedule), "c.json", steps).hash;
  };
  EXPECT_NE(warming("", 40), warming("", 80));
  EXPECT_EQ(warming(", \"warmup\": 5", 40), warming(", \"warmup\": 5", 80));
}

// The configs that the repository holds, and what was made from one of them.
TEST(TrainConfig, OfTheRepositoryAreRead) {
  const fs::path root = GYRUS_SOURCE_DIR;
  const TrainConfig demo = read_config((root / "apps/gyrus/demo_train.json").string());
  const std::vector<std::byte> bytes = read_file((root / "apps/gyrus/demo_model/gyrus.json").string());
  const auto manifest = nlohmann::json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(manifest.at("labels"), nlohmann::json(demo.labels));
  EXPECT_EQ(manifest.at("normalize"), normalize_text(demo.data.normalize));
  // No seed is evaluated that was trained on.
  const PhantomConfig &trained = demo.data.subjects.phantoms, &unseen = demo.evaluation.phantoms;
  EXPECT_GT(unseen.seed, trained.seed + static_cast<uint64_t>(trained.count));
  EXPECT_EQ(unseen.count, 20);
  const TrainConfig brain = read_config((root / "contrib/brain-extraction/brain.json").string());
  EXPECT_TRUE(brain.augment.synthesize);
  EXPECT_EQ(brain.classes(), 2);
}

// A batch is a function of config and step: what was drawn before does not matter.
TEST(TrainBatch, DependsOnConfigAndStepAlone) {
  const TrainConfig config = parse_config(
      config_with("data", R"({"phantoms": {"count": 5, "sizes": 20}, "patch": 8, "margin": 2, "foreground": 0.5})"),
      "c.json");
  const DataSets once = load_data(config), again = load_data(config);
  const Shape extents = with_margin(config, input_extents(config, *once.training));
  EXPECT_EQ(extents, (Shape{12, 12, 12}));
  const auto bytes = [&](const DataSets& sets, int64_t step) {
    return make_batch(config, *sets.training, extents, step).at("image").data;
  };
  const auto third = bytes(once, 3);
  EXPECT_NE(third, bytes(once, 4));
  bytes(again, 7);
  EXPECT_EQ(third, bytes(again, 3));
  // An epoch is every subject once.
  std::set<std::vector<std::byte>> seen;
  const TrainConfig whole = parse_config(config_with("data", R"({"phantoms": {"count": 5, "sizes": 16}})"), "c.json");
  const DataSets sets = load_data(whole);
  for (int64_t step = 5; step < 10; ++step)
    seen.insert(make_batch(whole, *sets.training, {16, 16, 16}, step).at("labels").data);
  EXPECT_EQ(seen.size(), 5u);
}

class TrainData : public InFolder {
 protected:
  void put(const std::string& name, const Dims& dims, uint8_t largest) const {
    Volume volume(dims, VoxelType::U8);
    for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<uint8_t>()[i] = static_cast<uint8_t>(i % (largest + 1));
    write_volume(path(name), volume);
  }

  // What is said of these pairs; nothing is written and no device opened.
  std::string said(const std::string& image, const std::string& labels, const std::string& more = "") const {
    const std::string data = R"({"pairs": [{"image": ")" + image + R"(", "labels": ")" + labels + "\"}]" + more + "}";
    return refusal([&] {
      const TrainConfig config = parse_config(config_with("data", data), path("c.json"));
      outline(config, Target{});
    });
  }
};

TEST_F(TrainData, IsCheckedBeforeTheFirstStep) {
  put("image.nii", {8, 8, 8}, 200);
  put("labels.nii", {8, 8, 8}, 5);
  put("many.nii", {8, 8, 8}, 6);
  put("small.nii", {8, 8, 7}, 5);
  write_file(path("broken.nii"), std::string("no volume"));
  EXPECT_THAT(said("absent.nii", "labels.nii"), HasSubstr("absent.nii"));
  EXPECT_THAT(said("image.nii", "absent.nii"), HasSubstr("absent.nii"));
  EXPECT_THAT(said("broken.nii", "labels.nii"), HasSubstr("broken.nii"));
  EXPECT_THAT(said("image.nii", "small.nii"), HasSubstr("small.nii] lies on another grid (8x8x7) than"));
  EXPECT_THAT(said("image.nii", "many.nii"), HasSubstr("many.nii] holds label 6; the classes are 0 to 5"));
  EXPECT_THAT(said("image.nii", "labels.nii", ", \"map\": {\"0\": [0], \"1\": [1, 2, 3, 4]}"),
              HasSubstr("labels.nii] holds label 5, which has no class"));
  EXPECT_EQ(said("image.nii", "labels.nii", ", \"map\": {\"0\": [0], \"1\": [1, 2, 3, 4, 5]}"), "accepted");
  EXPECT_THAT(said("image.nii", "labels.nii", ", \"map\": {\"2\": [0, 1, 2, 3, 4, 5]}"),
              HasSubstr("every voxel of all label maps is \"label 2\""));
}

// Also where labels are moved to another grid, which would cut the fractions off.
TEST_F(TrainData, LabelsAreWholeNumbers) {
  put("image.nii", {8, 8, 8}, 200);
  Volume shares({8, 8, 8}, VoxelType::F32);
  for (int64_t i = 0; i < shares.voxels(); ++i) shares.as<float>()[i] = 0.5F * static_cast<float>(i % 3);
  write_volume(path("shares.nii"), shares);
  for (const char* more : {"", ", \"conform\": true"})
    EXPECT_THAT(said("image.nii", "shares.nii", more), HasSubstr("shares.nii] holds 0.5, which is no label")) << more;
}

// Around volumes that are smaller than a patch lies background, also where no map of labels has any.
TEST_F(TrainData, AroundLabelMapsLiesBackground) {
  Volume labels({4, 4, 4}, VoxelType::U8);
  for (int64_t i = 0; i < labels.voxels(); ++i) labels.as<uint8_t>()[i] = static_cast<uint8_t>(7 + i % 2);
  write_volume(path("labels.nii"), labels);
  TrainConfig config = parse_config(
      config_with("data", R"({"pairs": [{"labels": "labels.nii"}], "patch": 6, "map": {"1": [7], "2": [8]}})")
          .insert(1, "\"augment\": {\"synthesize\": true},"),
      path("c.json"));
  const DataSets sets = load_data(config);
  const LabelMap& map = sets.training->labels();
  EXPECT_EQ(map.values, (std::vector<int64_t>{0, 7, 8}));
  EXPECT_EQ(map.class_of(0), 0);
  const Tensor batch = make_batch(config, *sets.training, {6, 6, 6}, 0).at("labels");
  EXPECT_EQ(batch.as<uint8_t>()[0], 0);
  EXPECT_EQ(batch.as<uint8_t>()[(36 + 6 + 1)], 1);
}

TEST_F(TrainData, PatternsOfGroupsMatchSomething) {
  const auto said_of = [](const std::string& groups) {
    return refusal([&] { outline(parse_config(config_with("groups", groups), "c.json"), Target{}); });
  };
  EXPECT_THAT(said_of(R"([{"pattern": "modle.*", "frozen": true}])"), HasSubstr("\"modle.*\" matches no parameter"));
  EXPECT_THAT(said_of(R"([{"pattern": "*", "frozen": true}])"), HasSubstr("groups: all weights are frozen"));
  EXPECT_EQ(said_of(R"([{"pattern": "model.0.*", "frozen": true}])"), "accepted");
}

TEST_F(TrainData, WholeVolumesAreOfOneSize) {
  put("a.nii", {8, 8, 8}, 5);
  put("b.nii", {8, 8, 9}, 5);
  const std::string pairs =
      R"({"pairs": [{"image": "a.nii", "labels": "a.nii"}, {"image": "b.nii", "labels": "b.nii"}])";
  const auto said_of = [&](const std::string& more) {
    return refusal([&] { outline(parse_config(config_with("data", pairs + more + "}"), path("c.json")), Target{}); });
  };
  EXPECT_THAT(said_of(""), HasSubstr("whole volumes must be of one size: give data.patch"));
  EXPECT_EQ(said_of(", \"patch\": 8"), "accepted");
}

TEST_F(TrainData, PairsOfAListAndOfBids) {
  fs::create_directories(folder_ / "raw/sub-01/anat");
  fs::create_directories(folder_ / "seg/sub-01/anat");
  put("raw/sub-01/anat/sub-01_run-1_T1w.nii", {8, 8, 8}, 200);
  put("raw/sub-01/anat/sub-01_run-2_T1w.nii", {8, 8, 8}, 200);
  put("seg/sub-01/anat/sub-01_run-2_desc-ours_dseg.nii", {8, 8, 8}, 5);
  const TrainConfig bids =
      parse_config(config_with("data", R"({"bids": {"images": "raw", "labels": "seg"}})"), path("c.json"));
  ASSERT_EQ(bids.data.subjects.pairs.size(), 1u);
  EXPECT_THAT(bids.data.subjects.pairs[0].image, HasSubstr("run-2_T1w"));
  fs::create_directories(folder_ / "raw/derivatives/sub-01");
  put("raw/derivatives/sub-01/sub-01_run-2_T1w.nii", {8, 8, 8}, 200);
  EXPECT_THAT(refusal("data", R"({"bids": {"images": ")" + path("raw") + R"(", "labels": ")" + path("seg") + "\"}}"),
              HasSubstr("may be its image; name pairs or a list instead"));

  write_file(path("list.tsv"), std::string("# comment\na.nii\tb.nii\nc.nii\n"));
  const std::vector<PairConfig> pairs = read_pair_list(path("list.tsv"));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].labels, path("b.nii"));
  EXPECT_EQ(pairs[1].image, "");
  EXPECT_THAT(refusal([&] { read_pair_list(path("absent.tsv")); }), HasSubstr("absent.tsv"));
}

}  // namespace
}  // namespace gyrus::test
