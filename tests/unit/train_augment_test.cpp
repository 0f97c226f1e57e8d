// Augmentation on the reference: what it changes, and what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "gyrus/augment.h"
#include "gyrus/random.h"
#include "gyrus/train.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"

namespace gyrus::test {
namespace {

constexpr int64_t kSamples = 3;
const Shape kVolume = {9, 8, 10};

struct Sample {
  std::vector<double> image, labels;
};

// A ball of labels 3 within 2 within 1; the image is the label over 4.
Sample phantom() {
  Sample made;
  for (int64_t n = 0; n < kSamples; ++n)
    for (int64_t z = 0; z < kVolume[0]; ++z)
      for (int64_t y = 0; y < kVolume[1]; ++y)
        for (int64_t x = 0; x < kVolume[2]; ++x) {
          const double r =
              std::hypot(static_cast<double>(z) - 3.6, static_cast<double>(y) - 3.2, static_cast<double>(x) - 5.4);
          made.labels.push_back(std::floor(std::max(0.0, 4.2 - r)));
          made.image.push_back(made.labels.back() / 4);
        }
  return made;
}

Sample augmented(const AugmentOptions& options, double seed = 1, double step = 0, bool with_image = true) {
  Graph graph;
  Shape shape = {kSamples};
  shape.insert(shape.end(), kVolume.begin(), kVolume.end());
  const Value labels = graph.input("labels", DType::I32, shape);
  shape.insert(shape.begin() + 1, 1);
  const Value image = with_image ? graph.input("image", DType::F32, shape) : Value{};
  const Augmented made = augment(image, labels, random_key(graph), 0, options);
  graph.output("image_out", made.image);
  graph.output("labels_out", made.labels);
  const Sample given = phantom();
  Shape map = shape;
  map.erase(map.begin() + 1);
  std::map<std::string, Tensor> inputs;
  if (with_image) inputs["image"] = reference::to_tensor({shape, given.image}, DType::F32);
  inputs["labels"] = reference::to_tensor({map, given.labels}, DType::I32);
  inputs[kRandomSeed] = reference::to_tensor({{}, {seed}}, DType::I32);
  inputs[kRandomStep] = reference::to_tensor({{}, {step}}, DType::I32);
  const auto found = reference::run(graph, inputs);
  return {found.at("image_out").data, found.at("labels_out").data};
}

TEST(Augment, WithoutOptionsChangesNothing) {
  const Sample given = phantom(), made = augmented({});
  EXPECT_EQ(made.image, given.image);
  EXPECT_EQ(made.labels, given.labels);
}

TEST(Augment, FlipsAreExact) {
  const Sample given = phantom();
  const auto size = static_cast<size_t>(element_count(kVolume));
  int mirrored = 0, kept = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    AugmentOptions options;
    options.flip[axis] = true;
    for (double seed = 0; seed < 4; ++seed) {
      const Sample made = augmented(options, seed);
      for (size_t n = 0; n < kSamples; ++n) {
        bool as_given = true, as_mirrored = true;
        for (size_t i = 0; i < size; ++i) {
          size_t at[3] = {i / 80, i / 10 % 8, i % 10};
          at[axis] = static_cast<size_t>(kVolume[axis]) - 1 - at[axis];
          const size_t j = n * size + (at[0] * 8 + at[1]) * 10 + at[2], k = n * size + i;
          as_given = as_given && made.image[k] == given.image[k] && made.labels[k] == given.labels[k];
          as_mirrored = as_mirrored && made.image[k] == given.image[j] && made.labels[k] == given.labels[j];
        }
        EXPECT_NE(as_given, as_mirrored) << "axis " << axis << " seed " << seed << " sample " << n;
        (as_given ? kept : mirrored) += 1;
      }
    }
  }
  EXPECT_GT(kept, 9);
  EXPECT_GT(mirrored, 9);
}

AugmentOptions strong() {
  AugmentOptions options;
  options.flip[0] = options.flip[2] = true;
  options.rotate = 25;
  options.scale = 0.15;
  options.shear = 0.1;
  options.translate = 2;
  options.elastic = 0.6;
  options.elastic_spacing = 4;
  return options;
}

TEST(Augment, ImageAndLabelsMoveTogether) {
  const Sample given = phantom();
  for (double seed = 0; seed < 3; ++seed) {
    const Sample made = augmented(strong(), seed);
    EXPECT_NE(made.labels, given.labels);
    // How well the image follows the labels `shift` voxels away.
    const auto agreement = [&](size_t shift) {
      double xy = 0, xx = 0, yy = 0;
      for (size_t i = shift; i < made.labels.size(); ++i) {
        const double x = made.image[i], y = made.labels[i - shift];
        xy += x * y, xx += x * x, yy += y * y;
      }
      return xy / std::sqrt(xx * yy);
    };
    for (double label : made.labels) EXPECT_TRUE(label == 0 || label == 1 || label == 2 || label == 3) << label;
    EXPECT_GT(agreement(0), 0.95);
    EXPECT_LT(agreement(1), 0.9) << "the test tells voxels apart";
  }
}

TEST(Augment, SamplesStepsAndSeedsDrawTheirOwn) {
  const Sample base = augmented(strong(), 1, 0);
  EXPECT_EQ(base.image, augmented(strong(), 1, 0).image);
  EXPECT_NE(base.image, augmented(strong(), 2, 0).image);
  EXPECT_NE(base.image, augmented(strong(), 1, 1).image);
  const size_t size = base.image.size() / kSamples;
  EXPECT_FALSE(std::equal(base.image.begin(), base.image.begin() + static_cast<std::ptrdiff_t>(size),
                          base.image.begin() + static_cast<std::ptrdiff_t>(size)));
}

double spread(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (double v : values) sum += v, squares += v * v;
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

TEST(Augment, IntensitiesChangeAndLabelsStay) {
  const Sample given = phantom();
  const auto with = [&](double AugmentOptions::*amount, double value) {
    AugmentOptions options;
    options.*amount = value;
    const Sample made = augmented(options);
    EXPECT_EQ(made.labels, given.labels);
    EXPECT_NE(made.image, given.image);
    for (double v : made.image) EXPECT_TRUE(v >= 0 && v <= 1) << v;
    return made.image;
  };
  EXPECT_LT(spread(with(&AugmentOptions::blur, 3)), spread(given.image));
  EXPECT_LT(spread(with(&AugmentOptions::resolution, 4)), spread(given.image));
  with(&AugmentOptions::noise, 0.2);
  with(&AugmentOptions::bias, 0.5);
  with(&AugmentOptions::contrast, 0.3);
  with(&AugmentOptions::brightness, 0.2);
  // Order survives a power.
  const std::vector<double> gamma = with(&AugmentOptions::gamma, 0.5);
  for (size_t i = 1; i < gamma.size() / kSamples; ++i)
    EXPECT_EQ(gamma[i] > gamma[i - 1], given.image[i] > given.image[i - 1]);
}

TEST(Augment, HardlyBlurredIsTheSame) {
  AugmentOptions options;
  options.blur = 1e-6;
  options.resolution = 1 + 1e-9;
  const Sample given = phantom(), made = augmented(options);
  for (size_t i = 0; i < given.image.size(); ++i) EXPECT_NEAR(made.image[i], given.image[i], 1e-6);
}

TEST(Augment, SynthesisesAnImageFromLabels) {
  AugmentOptions options;
  options.synthesize = true;
  options.labels = 4;
  for (bool with_image : {true, false}) {
    const Sample made = augmented(options, 5, 0, with_image);
    const size_t size = made.image.size() / kSamples;
    double first[kSamples] = {};
    for (size_t n = 0; n < kSamples; ++n) {
      double sum[4] = {}, squares[4] = {}, count[4] = {};
      for (size_t i = n * size; i < (n + 1) * size; ++i) {
        const auto label = static_cast<size_t>(made.labels[i]);
        sum[label] += made.image[i], squares[label] += made.image[i] * made.image[i], count[label] += 1;
        EXPECT_TRUE(made.image[i] >= 0 && made.image[i] <= 1);
      }
      for (size_t k = 0; k < 3; ++k) {
        const double mean = sum[k] / count[k];
        EXPECT_LT(squares[k] / count[k] - mean * mean, 0.2 * 0.2) << "a tissue varies less than tissues do";
      }
      first[n] = sum[2] / count[2];
    }
    EXPECT_NE(first[0], first[1]);
    EXPECT_NE(first[1], first[2]);
  }
}

TEST(Augment, IsNothingWhereANetworkOnlyRuns) {
  Graph graph;
  const Value labels = graph.input("labels", DType::I32, {1, 4, 4, 4});
  const Value image = graph.input("image", DType::F32, {1, 1, 4, 4, 4});
  AugmentOptions options = strong();
  options.noise = 0.1;
  const Augmented made = augment(image, labels, random_key(graph), 0, options);
  const Value y = dropout(made.image, random_key(graph), 1, 0.5) * graph.parameter("w", Tensor(DType::F32, {}));
  graph.output("y", y);
  graph.output("loss", reduce_mean(square(y - reshape(cast(made.labels, DType::F32), {1, 1, 4, 4, 4}))));
  const Graph runs = inference_graph(graph, {});
  EXPECT_EQ(runs.nodes().size(), 1u);
  EXPECT_EQ(runs.inputs().size(), 1u);
  EXPECT_TRUE(runs.arguments().empty());
  EXPECT_EQ(training_graph(graph, {}).arguments().size(), 4u);
}

TEST(Augment, OfLargeVolumesNeedsFewMaps) {
  for (bool synthesize : {false, true}) {
    Graph graph;
    const int64_t n = 256;
    const Value labels = graph.input("labels", DType::I32, {1, n, n, n});
    const Value image = graph.input("image", DType::F32, {1, 1, n, n, n});
    AugmentOptions options = strong();
    options.elastic_spacing = 16;
    options.noise = options.bias = options.gamma = options.contrast = options.brightness = 0.1;
    options.blur = 1;
    options.resolution = 3;
    options.synthesize = synthesize;
    options.labels = 20;
    const Augmented made = augment(image, labels, random_key(graph), 0, options);
    graph.output("moved", made.image);
    graph.output("labels_moved", made.labels);
    const Plan plan = make_plan(optimize(graph, Precision::F32), default_limits(), {});
    const double map = 4.0 * n * n * n;
    // Two come, two go, three coordinates and what they are made of; no constant is as large as a volume.
    EXPECT_LT(static_cast<double>(plan.peak_bytes()), 7 * map);
    EXPECT_LT(static_cast<double>(plan.weights.size()), 0.05 * map);
  }
}

std::string refusal(const AugmentOptions& options, bool with_image = true) {
  try {
    augmented(options, 1, 0, with_image);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Augment, RefusesWhatMakesNoSense) {
  AugmentOptions options;
  options.rotate = -1;
  EXPECT_THAT(refusal(options), testing::HasSubstr("[augment] rotate is -1, expected 0 or more"));
  options = {};
  options.scale = 1;
  EXPECT_THAT(refusal(options), testing::HasSubstr("[augment] scale is 1, expected less than 1"));
  options = {};
  options.synthesize = true;
  EXPECT_THAT(refusal(options), testing::HasSubstr("[augment] labels is 0"));
  EXPECT_THAT(refusal({}, false), testing::HasSubstr("[augment] the image is absent"));
}

}  // namespace
}  // namespace gyrus::test
