#include "cpu/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "core/tensor.h"
#include "unit/cpu_kernels_support.h"

namespace gyrus::cpu {
namespace {

// Of the largest sum of absolute products: what f32 loses in some hundreds of additions, and in the transforms.
constexpr double kRounding = 2e-6;

int64_t product(const Extents& e) { return e[0] * e[1] * e[2]; }

struct ConvCase {
  int64_t in, out, groups;
  Extents input, kernel, stride, dilation, pad_lo, pad_hi;
  int64_t batch = 1;
};

std::ostream& operator<<(std::ostream& os, const Extents& e) { return os << e[0] << "," << e[1] << "," << e[2]; }
std::ostream& operator<<(std::ostream& os, const ConvCase& c) {
  os << c.batch << "x" << c.in << " to " << c.out << " in " << c.groups << " groups, input ";
  return os << c.input << " kernel " << c.kernel << " stride " << c.stride << " dilation " << c.dilation << " pads "
            << c.pad_lo << " and " << c.pad_hi;
}

ConvShape shape_of(const ConvCase& c) {
  ConvShape s;
  s.batch = c.batch, s.in_channels = c.in, s.out_channels = c.out, s.groups = c.groups;
  s.input = c.input, s.kernel = c.kernel, s.stride = c.stride, s.dilation = c.dilation, s.pad_lo = c.pad_lo;
  for (size_t a = 0; a < 3; ++a)
    s.output[a] = (c.input[a] + c.pad_lo[a] + c.pad_hi[a] - (c.kernel[a] - 1) * c.dilation[a] - 1) / c.stride[a] + 1;
  return s;
}

// Sums in double, and the sums of the absolute values of the products.
struct ConvSums {
  std::vector<double> values;
  double largest = 0;
};

// Calls visit(place in the result, place in x, place in the weights) for every product.
template <class Visit>
void every_product(const ConvShape& s, Visit visit) {
  const int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t v = 0; v < product(s.output); ++v) {
        const Extents at{v / s.output[2] / s.output[1], v / s.output[2] % s.output[1], v % s.output[2]};
        for (int64_t t = 0; t < group_in * product(s.kernel); ++t) {
          const int64_t k = t % product(s.kernel), c = t / product(s.kernel);
          const Extents tap{k / s.kernel[2] / s.kernel[1], k / s.kernel[2] % s.kernel[1], k % s.kernel[2]};
          Extents from;
          bool inside = true;
          for (size_t a = 0; a < 3; ++a) {
            from[a] = at[a] * s.stride[a] + tap[a] * s.dilation[a] - s.pad_lo[a];
            inside = inside && from[a] >= 0 && from[a] < s.input[a];
          }
          if (!inside) continue;
          const int64_t channel = n * s.in_channels + o / group_out * group_in + c;
          const int64_t i = ((channel * s.input[0] + from[0]) * s.input[1] + from[1]) * s.input[2] + from[2];
          visit(static_cast<size_t>((n * s.out_channels + o) * product(s.output) + v), static_cast<size_t>(i),
                static_cast<size_t>(o * group_in * product(s.kernel) + t));
        }
      }
}

// Sums of values that come one by one.
struct Sums {
  std::vector<double> values, sizes;

  explicit Sums(size_t count) : values(count), sizes(count) {}
  void add(size_t i, float a, float b) {
    const double value = static_cast<double>(a) * static_cast<double>(b);
    values[i] += value, sizes[i] += std::abs(value);
  }
  ConvSums done() { return {std::move(values), *std::max_element(sizes.begin(), sizes.end())}; }
};

ConvSums naive_conv(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& w,
                    const std::vector<float>& b) {
  const auto voxels = static_cast<size_t>(product(s.output));
  Sums sums(static_cast<size_t>(s.batch * s.out_channels) * voxels);
  for (size_t i = 0; i < sums.values.size(); ++i) sums.add(i, b[i / voxels % b.size()], 1);
  every_product(s, [&](size_t out, size_t i, size_t t) { sums.add(out, x[i], w[t]); });
  return sums.done();
}

ConvSums naive_weights(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& g) {
  Sums sums(static_cast<size_t>(s.out_channels * (s.in_channels / s.groups) * product(s.kernel)));
  every_product(s, [&](size_t out, size_t i, size_t t) { sums.add(t, x[i], g[out]); });
  return sums.done();
}

std::vector<ConvCase> conv_cases() {
  const Extents one{1, 1, 1}, none{0, 0, 0}, three{3, 3, 3};
  std::vector<ConvCase> all;
  // MeshNets: every dilation, and channels that fill no block.
  for (const int64_t d : {1, 2, 4, 8, 16})
    all.push_back({5, 7, 1, {9, 18, 37}, three, one, {d, d, d}, {d, d, d}, {d, d, d}});
  for (const int64_t channels : {1, 2, 3, 4, 6, 11, 15, 21, 67})
    all.push_back({channels, channels == 1 ? 15 : channels, 1, {4, 6, 21}, three, one, one, one, one});
  all.push_back({15, 3, 1, {5, 5, 67}, one, one, one, none, none});
  all.push_back({16, 16, 1, {8, 8, 64}, three, one, one, one, one});
  all.push_back({4, 5, 1, {8, 12, 300}, three, one, one, one, one});
  // Extents of 1 to 7, with margins larger than the volume, uneven ones and none.
  for (const int64_t e : {1, 2, 3, 5, 7}) {
    all.push_back({6, 5, 1, {e, e, e}, three, one, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}});
    all.push_back({4, 4, 1, {e, 2, e}, three, one, {1, 3, 2}, {1, 4, 3}, {2, 5, 4}, 2});
  }
  all.push_back({5, 6, 1, {7, 8, 9}, three, one, one, none, none});
  // Strides, alone and with dilation; kernels of other extents.
  for (const Extents& stride : {Extents{2, 2, 2}, Extents{1, 2, 3}, Extents{3, 1, 2}}) {
    all.push_back({3, 8, 1, {7, 9, 35}, three, stride, one, one, one});
    all.push_back({5, 4, 1, {8, 11, 19}, {2, 4, 5}, stride, {2, 3, 2}, {2, 3, 4}, {1, 4, 3}, 2});
  }
  all.push_back({3, 16, 1, {1, 33, 41}, {1, 7, 7}, {1, 2, 2}, one, {0, 3, 3}, {0, 3, 3}});
  all.push_back({4, 4, 1, {5, 9, 40}, {1, 3, 5}, one, {1, 2, 3}, {0, 2, 6}, {0, 2, 6}});
  all.push_back({4, 4, 1, {5, 9, 12}, {3, 1, 1}, one, {2, 1, 1}, {2, 0, 0}, {2, 0, 0}});
  // One and two axes; many channels.
  all.push_back({1, 8, 1, {1, 1, 1000}, {1, 1, 9}, {1, 1, 4}, one, {0, 0, 4}, {0, 0, 4}});
  all.push_back({12, 20, 1, {1, 1, 531}, {1, 1, 3}, one, {1, 1, 8}, {0, 0, 16}, {0, 0, 0}});
  all.push_back({65, 66, 1, {1, 14, 14}, {1, 3, 3}, one, one, {0, 1, 1}, {0, 1, 1}, 2});
  all.push_back({260, 130, 1, {1, 7, 7}, {1, 3, 3}, one, one, {0, 1, 1}, {0, 1, 1}});
  all.push_back({600, 30, 1, {1, 20, 33}, {1, 3, 3}, {1, 2, 2}, one, {0, 1, 1}, {0, 1, 1}});
  all.push_back({520, 33, 1, {1, 6, 41}, one, one, one, none, none});
  all.push_back({32, 20, 1, {1, 9, 9}, one, {1, 2, 2}, one, none, none});
  // Groups and depthwise.
  all.push_back({12, 18, 3, {5, 6, 17}, three, one, one, one, one, 2});
  all.push_back({8, 8, 8, {1, 13, 37}, {1, 3, 3}, one, one, {0, 1, 1}, {0, 1, 1}});
  all.push_back({6, 12, 6, {1, 13, 9}, {1, 3, 3}, {1, 2, 2}, one, {0, 1, 1}, {0, 1, 1}});
  return all;
}

struct ConvInputs {
  std::vector<float> x, w, b;
};

ConvInputs conv_inputs(const ConvShape& s) {
  return {numbers(s.batch * s.in_channels * product(s.input), 1),
          numbers(s.out_channels * (s.in_channels / s.groups) * product(s.kernel), 2), numbers(s.out_channels, 3)};
}

std::vector<float> run(const ConvPlan& plan, const ConvInputs& in, ThreadPool& pool,
                       const ConvEpilogue& epilogue = {}) {
  const ConvShape& s = plan.shape();
  std::vector<float> out(static_cast<size_t>(s.batch * s.out_channels * product(s.output)), NAN);
  run_conv(plan, in.x.data(), in.b.data(), out.data(), pool, epilogue);
  return out;
}

TEST(CpuConv, MatchesSumsInDoubleOnEveryInstructionSet) {
  ThreadPool pool(2);
  double worst = 0;
  for (const ConvCase& c : conv_cases()) {
    const ConvShape s = shape_of(c);
    const ConvInputs in = conv_inputs(s);
    const ConvSums want = naive_conv(s, in.x, in.w, in.b);
    for_every_target([&](const char* target) {
      const std::vector<float> got = run(prepare_conv(s, in.w.data()), in, pool);
      double error = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got[i]) - want.values[i]);
        error = difference <= error ? error : difference;  // NaN is taken
      }
      worst = std::max(worst, error / want.largest);
      EXPECT_LE(error, kRounding * want.largest) << target << ": " << c;
    });
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(CpuConv, GradientsOfWeightsMatchSumsInDoubleOnEveryInstructionSet) {
  ThreadPool one(1), two(2);
  for (const ConvCase& c : conv_cases()) {
    const ConvShape s = shape_of(c);
    const std::vector<float> x = conv_inputs(s).x, g = numbers(s.batch * s.out_channels * product(s.output), 4);
    const ConvSums want = naive_weights(s, x, g);
    for_every_target([&](const char* target) {
      std::vector<float> got(want.values.size(), NAN), again = got;
      run_conv_weights(s, x.data(), g.data(), got.data(), two);
      run_conv_weights(s, x.data(), g.data(), again.data(), one);
      EXPECT_EQ(got, again) << target << ": " << c;
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(static_cast<double>(got[i]), want.values[i], kRounding * want.largest) << target << ": " << c;
    });
  }
}

TEST(CpuConv, ThreadsDoNotChangeABit) {
  for (const ConvCase& c : conv_cases()) {
    const ConvShape s = shape_of(c);
    const ConvInputs in = conv_inputs(s);
    const ConvPlan plan = prepare_conv(s, in.w.data());
    ThreadPool one(1), two(2), eight(8);
    const std::vector<float> first = run(plan, in, one);
    EXPECT_EQ(first, run(plan, in, two)) << c;
    EXPECT_EQ(first, run(plan, in, eight)) << c;
  }
}

// Every voxel of every channel is in exactly one strip, and what an epilogue changes is what remains.
TEST(CpuConv, StripsCoverTheResultOnce) {
  ThreadPool pool(2);
  for (const ConvCase& c : conv_cases())
    for (const bool whole : {false, true}) {
      const ConvShape s = shape_of(c);
      const ConvInputs in = conv_inputs(s);
      const ConvPlan plan = prepare_conv(s, in.w.data(), {whole});
      const std::vector<float> plain = run(plan, in, pool);
      std::vector<float> seen(plain.size(), 0);
      const ConvEpilogue epilogue = [&](const ConvStrip& strip) {
        ASSERT_TRUE(strip.item >= 0 && strip.item < plan.items());
        ASSERT_TRUE(!whole || strip.channels == s.out_channels) << c;
        for (int64_t o = 0; o < strip.channels; ++o)
          for (int64_t v = 0; v < strip.voxels; ++v) {
            float& value = strip.values[o * strip.channel_stride + v];
            seen[static_cast<size_t>((strip.batch * s.out_channels + strip.channel + o) * product(s.output) +
                                     strip.voxel + v)] += value;
            value = 2 * value;
          }
      };
      const std::vector<float> doubled = run(plan, in, pool, epilogue);
      EXPECT_EQ(seen, plain) << c << (whole ? ", whole strips" : "");
      for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(doubled[i], 2 * plain[i]) << c;
      if (!whole) continue;
      std::fill(seen.begin(), seen.end(), 0.0f);
      run_conv(plan, in.x.data(), in.b.data(), nullptr, pool, epilogue);
      EXPECT_EQ(seen, plain) << c << ", no output";
    }
}

// What is read as halves is computed as their values in singles are.
TEST(CpuConv, HalvesGiveTheBitsOfTheirValuesOnEveryInstructionSet) {
  ThreadPool pool(2);
  for (const ConvCase& c : conv_cases()) {
    ConvShape s = shape_of(c);
    ConvInputs in = conv_inputs(s);
    std::vector<uint16_t> halves;
    for (float& x : in.x) x = half_to_float(halves.emplace_back(float_to_half(x)));
    for_every_target([&](const char* target) {
      s.halves = false;
      const std::vector<float> want = run(prepare_conv(s, in.w.data()), in, pool);
      s.halves = true;
      std::vector<float> got(want.size(), NAN);
      run_conv(prepare_conv(s, in.w.data()), halves.data(), in.b.data(), got.data(), pool);
      EXPECT_EQ(got, want) << target << ": " << c;
    });
  }
}

TEST(CpuConv, OtherWeightsWithoutAnotherPlanAndNoBias) {
  ThreadPool pool(2);
  for (const int64_t in_channels : {1, 5}) {
    const ConvShape s =
        shape_of({in_channels, 5, 1, {4, 5, 20}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
    const ConvInputs in = conv_inputs(s);
    ConvPlan plan = prepare_conv(s, nullptr);
    plan.set_weights(numbers(static_cast<int64_t>(in.w.size()), 9).data());
    plan.set_weights(in.w.data());
    std::vector<float> with(static_cast<size_t>(5 * product(s.output))), without = with;
    const std::vector<float> zeros(5, 0.0f);
    run_conv(plan, in.x.data(), zeros.data(), with.data(), pool);
    run_conv(plan, in.x.data(), nullptr, without.data(), pool);
    EXPECT_EQ(with, without);
    EXPECT_EQ(run(plan, in, pool), run(prepare_conv(s, in.w.data()), in, pool));
  }
}

}  // namespace
}  // namespace gyrus::cpu
