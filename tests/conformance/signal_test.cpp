// Transforms of many lengths on a device against doubles; spectra in the middle of networks; Welch's peaks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

#include "core/limits.h"
#include "gyrus/gyrus.h"
#include "ops/fft.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan/planner.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/device_tests.h"

namespace gyrus::test {
namespace {

using Complex = std::complex<double>;

// What the transforms promise: sum of squared differences over sum of squares, against doubles.
constexpr double kMostNmse = 1e-12;
constexpr double kMostConvolved = 1e-11;  // where a length has a large prime factor

Tensor noise(const Shape& shape, uint32_t seed) {
  Tensor t(DType::F32, shape);
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    t.as<float>()[i] = static_cast<float>(state >> 8) * 0x1p-23F - 1;
  }
  return t;
}

// Every other length is transformed back.
double nmse_of(int64_t n) {
  const bool inverse = n % 2;
  const Tensor x = noise({1, n, 2}, static_cast<uint32_t>(n));
  Graph graph;
  const Value given = graph.input("x", DType::F32, x.shape);
  graph.output("y", inverse ? ifft(given, {.norm = FftNorm::Forward}) : fft(given));
  const Tensor found = Program(device(), graph).run({{"x", x}}).outputs.at("y");
  std::vector<Complex> line;
  for (int64_t i = 0; i < n; ++i) line.emplace_back(get(x, 2 * i), (inverse ? -1 : 1) * get(x, 2 * i + 1));
  const std::vector<Complex> wanted = ExactFft(n)(line);
  double error = 0, power = 0;
  for (int64_t k = 0; k < n; ++k) {
    const Complex want = wanted[static_cast<size_t>(k)];
    error += std::norm(Complex(get(found, 2 * k), (inverse ? -1 : 1) * get(found, 2 * k + 1)) - want);
    power += std::norm(want);
  }
  return error / power;
}

bool is_prime(int64_t n) { return n > 1 && prime_factors(n).size() == 1; }

// All up to 4096, primes up to 2^17, powers of two up to 2^22; or some of each.
std::set<int64_t> lengths() {
  std::set<int64_t> all;
  if (std::getenv("GYRUS_TEST_FULL")) {
    for (int64_t n = 1; n <= 4096; ++n) all.insert(n);
    for (int64_t n = 4097, last = 0; n < 1 << 17; ++n)
      if (is_prime(n) && (n - last > 1000 || n > (1 << 17) - 50)) all.insert(last = n);
    for (int64_t n = 1; n <= 1 << 22; n *= 2) all.insert(n);
    return all;
  }
  all = {1,    2,    3,    4,    5,    6,    7,    8,    9,    10,    11,    12,    13,    15,    16,
         17,   25,   31,   32,   36,   49,   59,   60,   61,   62,    64,    67,    81,    97,    100,
         121,  127,  128,  134,  169,  210,  243,  256,  257,  360,   400,   480,   509,   512,   625,
         1000, 1021, 1024, 2039, 2187, 3600, 3721, 4093, 4096, 10007, 16384, 44100, 65536, 65537, 131071};
  return all;
}

TEST(FftLengths, EqualDoubles) {
  const std::set<int64_t> all = lengths();
  EXPECT_GE(all.size(), 60u);
  double worst[2] = {0, 0};
  for (const int64_t n : all) {
    const bool smooth = is_smooth(n);
    const double nmse = nmse_of(n);
    EXPECT_LE(nmse, smooth ? kMostNmse : kMostConvolved) << n;
    worst[smooth] = std::max(worst[smooth], nmse);
  }
  std::printf("%zu lengths, nmse up to %.1e, convolved ones up to %.1e\n", all.size(), worst[1], worst[0]);
}

struct Bounded {
  const char* name;
  Limits limits;
};

std::vector<Bounded> limits_to_keep() {
  return {{"device", device().limits()}, {"default", default_limits()}, {"tiny", tiny_limits()}};
}

void expect_near(const Tensor& found, const RefTensor& wanted, double bound) {
  ASSERT_EQ(found.shape, wanted.shape);
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(wanted.data[static_cast<size_t>(i)]));
    worst = std::max(worst, std::abs(get(found, i) - wanted.data[static_cast<size_t>(i)]));
  }
  EXPECT_LE(worst, bound * largest);
}

// A network whose spectrum stands between a filter of the signal and a convolution over mels and time.
Graph network() {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 1, 4800});
  const Value filtered = conv(x, graph.constant(numbers({1, 1, 5})), {.pads = {2, 2}});
  const StftOptions how{.n_fft = 400, .hop = 160, .window = graph.constant(window_tensor(WindowKind::Hann, 400))};
  const Value mels = log_mel(reshape(filtered, {2, 4800}), graph.constant(mel_filters()), {.stft = how});
  const Value maps = reshape(mels, {2, 1, 80, 30});
  graph.output("y", relu(conv(maps, graph.constant(numbers({4, 1, 3, 3})), {.pads = {1, 1, 1, 1}})));
  return graph;
}

TEST(LogMel, InTheMiddleOfANetworkEqualsTheReference) {
  const Graph graph = network();
  const std::map<std::string, Tensor> inputs = {{"x", noise({2, 1, 4800}, 7)}};
  const RefTensor wanted = reference::run(graph, inputs).at("y");
  for (const Bounded& bounded : limits_to_keep()) {
    SCOPED_TRACE(bounded.name);
    const Plan plan = make_plan(optimize(graph, Precision::F32), bounded.limits, software_options());
    ASSERT_NO_THROW(check(plan, bounded.limits));
    expect_near(Executor(device(), plan).run(inputs).outputs.at("y"), wanted, 1e-5);
  }
}

TEST(Welch, Of4096BinsGivesThe200Highest) {
  constexpr int64_t kSize = 8190;  // 4,096 bins
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 3 * kSize});
  const SpectrumPeaks peaks = spectrum_peaks(welch(x, {.n_fft = kSize}), 200);
  graph.output("bins", peaks.bins);
  graph.output("powers", peaks.powers);
  const std::map<std::string, Tensor> inputs = {{"x", noise({2, 3 * kSize}, 11)}};
  const auto wanted = reference::run(graph, inputs);
  for (const Bounded& bounded : limits_to_keep()) {
    SCOPED_TRACE(bounded.name);
    const Plan plan = make_plan(optimize(graph, Precision::F32), bounded.limits, software_options());
    ASSERT_NO_THROW(check(plan, bounded.limits));
    const RunResult result = Executor(device(), plan).run(inputs);
    expect_near(result.outputs.at("bins"), wanted.at("bins"), 0);
    expect_near(result.outputs.at("powers"), wanted.at("powers"), 1e-5);
  }
}

}  // namespace
}  // namespace gyrus::test
