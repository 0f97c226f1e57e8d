#include <algorithm>
#include <cmath>

#include "ops/random.h"
#include "ops_support.h"

namespace gyrus::test {
namespace {

using Words = std::array<uint32_t, 2>;

// The vectors that Random123 is tested by (kat_vectors: threefry2x32 20).
TEST(Random, ThreefryGivesTheKnownWords) {
  EXPECT_EQ(threefry2x32({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry2x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}), (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry2x32({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}), (Words{0xc4923a9c, 0x483df7a0}));
}

constexpr int64_t kCount = 100000;

std::vector<double> drawn(const std::string& op, double seed, double step, double stream) {
  const RefTensor like = ref({kCount}, std::vector<double>(kCount, 1)), first = ref({}, {seed}),
                  second = ref({}, {step});
  Attrs attrs{{"stream", stream}};
  if (op == "dropout") attrs.set("p", 0.25);
  std::vector<RefTensor> made = {ref({kCount}, std::vector<double>(kCount))};
  gyrus::op(op).reference(make_node(op, attrs), {&like, &first, &second}, made);
  return made.front().data;
}

TEST(Random, NumbersAreThoseOfTheCounter) {
  const std::vector<double> bits = drawn("random_bits", -5, 7, 3), uniform = drawn("random_uniform", -5, 7, 3);
  for (uint32_t i : {0u, 1u, 99999u}) {
    const uint32_t word = threefry2x32({i, 3}, {static_cast<uint32_t>(-5), 7})[0];
    EXPECT_EQ(bits[i], word);
    EXPECT_EQ(uniform[i], (word >> 8) / 16777216.0);
  }
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double covariance(const std::vector<double>& x, const std::vector<double>& y, size_t lag = 0) {
  const double mx = mean(x), my = mean(y);
  double sum = 0;
  for (size_t i = 0; i + lag < x.size(); ++i) sum += (x[i] - mx) * (y[i + lag] - my);
  return sum / static_cast<double>(x.size() - lag);
}

// Five standard deviations of a mean of kCount numbers of variance 1.
const double kFar = 5 / std::sqrt(static_cast<double>(kCount));

TEST(Random, MeanAndVarianceAreThoseOfTheDistribution) {
  const std::vector<double> uniform = drawn("random_uniform", 1, 0, 0);
  EXPECT_NEAR(mean(uniform), 0.5, kFar * std::sqrt(1.0 / 12));
  EXPECT_NEAR(covariance(uniform, uniform), 1.0 / 12, kFar * std::sqrt(1.0 / 180));
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), 0);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 1);
  const std::vector<double> normal = drawn("random_normal", 1, 0, 0);
  EXPECT_NEAR(mean(normal), 0, kFar);
  EXPECT_NEAR(covariance(normal, normal), 1, kFar * std::sqrt(2.0));
  double fourth = 0;
  for (double x : normal) fourth += x * x * x * x;
  EXPECT_NEAR(fourth / kCount, 3, kFar * std::sqrt(96.0));
  const std::vector<double> kept = drawn("dropout", 1, 0, 0);
  EXPECT_NEAR(static_cast<double>(std::count(kept.begin(), kept.end(), 0)) / kCount, 0.25, kFar * std::sqrt(3.0 / 16));
  EXPECT_NEAR(mean(kept), 1, kFar);
}

TEST(Random, SeedsStepsStreamsAndPlacesAreIndependent) {
  const std::vector<double> base = drawn("random_normal", 1, 2, 3);
  for (const auto& other : {drawn("random_normal", 2, 2, 3), drawn("random_normal", 1, 3, 3),
                            drawn("random_normal", 1, 2, 4), drawn("random_normal", 2, 1, 3)})
    EXPECT_NEAR(covariance(base, other), 0, kFar);
  for (size_t lag : {1u, 2u, 64u}) EXPECT_NEAR(covariance(base, base, lag), 0, kFar);
  EXPECT_EQ(base, drawn("random_normal", 1, 2, 3));
}

TEST(Random, RefusesWhatItCannotDraw) {
  const TensorType key = typed(DType::I32, {});
  const auto of = [&](Attrs attrs, TensorType seed) { return refusal("dropout", {f32({4}), seed, key}, attrs); };
  EXPECT_EQ(of({}, key), "accepted");
  EXPECT_THAT(of({{"p", 1.0}}, key), testing::HasSubstr("[dropout] p is 1, expected"));
  EXPECT_THAT(of({{"stream", -1.0}}, key), testing::HasSubstr("[dropout] stream is -1, expected"));
  EXPECT_THAT(of({{"stream", 0.5}}, key), testing::HasSubstr("[dropout] stream is 0.5, expected"));
  EXPECT_THAT(of({}, f32({})), testing::HasSubstr("[dropout] word 0 of the key is f32[], expected i32[]"));
}

}  // namespace
}  // namespace gyrus::test
