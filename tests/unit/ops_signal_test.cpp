// Transforms against their sums written out, windows and Welch's spectrum against SciPy, frames there and back.
#include <cmath>
#include <numbers>

#include "gyrus/signal.h"
#include "op_cases.h"
#include "ops/fft.h"
#include "ops/fft_parts.h"
#include "ops_support.h"
#include "reference/reference.h"

namespace gyrus::test {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> random_numbers(int64_t n) {
  Rng rng(static_cast<uint64_t>(n));
  std::vector<Complex> all;
  for (int64_t i = 0; i < n; ++i) all.emplace_back(rng.normal(), rng.normal());
  return all;
}

Complex sum_at(const std::vector<Complex>& x, size_t k) {
  Complex sum = 0;
  for (size_t t = 0; t < x.size(); ++t)
    sum += x[t] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(t * k % x.size()) /
                                      static_cast<double>(x.size()));
  return sum;
}

double nmse(const std::vector<Complex>& found, const std::vector<Complex>& wanted) {
  double error = 0, power = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += std::norm(found[i] - wanted[i]);
    power += std::norm(wanted[i]);
  }
  return error / power;
}

TEST(ExactFft, EqualsItsSum) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 30, 49, 61, 62, 67, 71, 74, 97, 100, 128, 134, 251, 360}) {
    const std::vector<Complex> x = random_numbers(n);
    std::vector<Complex> wanted;
    for (size_t k = 0; k < x.size(); ++k) wanted.push_back(sum_at(x, k));
    EXPECT_LE(nmse(ExactFft(n)(x), wanted), 1e-28) << n;
  }
}

// Of long ones some results.
TEST(ExactFft, OfLongLines) {
  for (const int64_t n : {4096, 131071, 250000}) {
    const std::vector<Complex> x = random_numbers(n), y = ExactFft(n)(x);
    for (const size_t k : {size_t{0}, size_t{1}, x.size() / 3, x.size() - 1})
      EXPECT_LE(std::abs(y[k] - sum_at(x, k)), 1e-9) << n << " result " << k;
  }
}

TEST(Turn, IsExactToTheLastPlace) {
  for (const int64_t n : {1, 3, 8, 100, 4099})
    for (int64_t k = 0; k < 2 * n; ++k) {
      const long double angle =
          -2 * std::numbers::pi_v<long double> * static_cast<long double>(k % n) / static_cast<long double>(n);
      EXPECT_NEAR(turn(k, n).real(), static_cast<double>(std::cos(angle)), 2e-16);
      EXPECT_NEAR(turn(k, n).imag(), static_cast<double>(std::sin(angle)), 2e-16);
    }
  EXPECT_EQ(turn(2, 8), Complex(0, -1));
}

RefTensor run(const std::function<Value(Graph&)>& build, const std::map<std::string, Tensor>& inputs = {}) {
  Graph graph;
  graph.output("y", build(graph));
  return reference::run(graph, inputs).at("y");
}

Tensor noise(const Shape& shape, uint64_t seed = 5) {
  OpCase c;
  c.fill = Fill::Normal;
  Rng rng(seed);
  return random_tensor(c, DType::F32, shape, rng);
}

// What no kernel takes is the same transform, for every way that it is taken apart.
TEST(FftParts, AreTheTransform) {
  size_t checked = 0;
  for (const OpCase& c : op_cases()) {
    if (c.op != "fft" || c.large) continue;
    const Graph whole = case_graph(c);
    Graph apart = whole;
    const Node node = whole.nodes().front();
    apart = Graph();
    const TensorType& type = whole.type(node.inputs[0]);
    Node copy = node;
    copy.inputs = {apart.add_input("x0", type)};
    apart.add_output("y0", decompose_fft(apart, copy).front());
    const auto inputs = case_inputs(c, 3);
    const RefTensor wanted = reference::run(whole, inputs).at("y0"), found = reference::run(apart, inputs).at("y0");
    ASSERT_EQ(found.shape, wanted.shape) << c.name;
    double largest = 1e-30;
    for (double value : wanted.data) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < wanted.data.size(); ++i)  // constants of the parts are f32
      ASSERT_NEAR(found.data[i], wanted.data[i], 1e-6 * largest) << c.name << " element " << i;
    ++checked;
  }
  EXPECT_GE(checked, 20u);
}

TEST(Fft, OfSeveralAxesIsTheSumOverAll) {
  const Shape shape{3, 4, 5};
  const Tensor x = noise({3, 4, 5, 2});
  const RefTensor y = run([&](Graph& g) { return fftn(g.constant(x)); });
  for (const Shape& k : {Shape{0, 0, 0}, Shape{1, 2, 3}, Shape{2, 3, 4}}) {
    Complex sum = 0;
    for (int64_t i = 0; i < 60; ++i) {
      const double angle = static_cast<double>(i / 20 * k[0]) / 3 + static_cast<double>(i / 5 % 4 * k[1]) / 4 +
                           static_cast<double>(i % 5 * k[2]) / 5;
      sum += Complex(get(x, 2 * i), get(x, 2 * i + 1)) * std::polar(1.0, -2 * std::numbers::pi * angle);
    }
    const auto at = static_cast<size_t>((k[0] * 4 + k[1]) * 5 + k[2]);
    EXPECT_NEAR(y.data[2 * at], sum.real(), 1e-9);
    EXPECT_NEAR(y.data[2 * at + 1], sum.imag(), 1e-9);
  }
}

void expect_equal(const RefTensor& found, const Tensor& wanted, double bound) {
  ASSERT_EQ(found.shape, wanted.shape);
  for (int64_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(found.data[static_cast<size_t>(i)], get(wanted, i), bound) << i;
}

TEST(Fft, GoesBackOverSeveralAxes) {
  const Tensor real = noise({2, 6, 7}), complex = noise({4, 3, 5, 2});
  for (const FftNorm norm : {FftNorm::Backward, FftNorm::Ortho, FftNorm::Forward}) {
    expect_equal(run([&](Graph& g) {
                   return irfftn(rfftn(g.constant(real), {{1, 2}, {}, norm}), {{1, 2}, {6, 7}, norm});
                 }),
                 real, 1e-12);
    expect_equal(run([&](Graph& g) {
                   return ifftn(fftn(g.constant(complex), {{}, {}, norm}), {{}, {}, norm});
                 }),
                 complex, 1e-12);
  }
}

TEST(Frames, AddUpWhereTheyOverlap) {
  for (const auto& [size, hop, count, length] :
       {std::array<int64_t, 4>{6, 2, 5, 14}, {7, 3, 4, 20}, {4, 4, 3, 10}, {3, 5, 4, 18}, {5, 1, 1, 5}, {8, 3, 6, 9}}) {
    const Tensor x = noise({2, count, size});
    std::vector<double> wanted(static_cast<size_t>(2 * length), 0);
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t at = i / size % count * hop + i % size;
      if (at < length) wanted[static_cast<size_t>(i / (size * count) * length + at)] += get(x, i);
    }
    const RefTensor found = run([&, h = hop, l = length](Graph& g) { return overlap_add(g.constant(x), h, l); });
    ASSERT_EQ(found.data.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found.data[i], wanted[i], 1e-12) << size << " " << hop;
  }
}

TEST(Stft, GoesBack) {
  const Tensor x = noise({2, 300});
  for (const bool center : {true, false})
    for (const bool onesided : {true, false}) {
      const RefTensor y = run([&](Graph& g) {
        const StftOptions options{.n_fft = 32,
                                  .hop = 9,
                                  .window = g.constant(window_tensor(WindowKind::Hamming, center ? 30 : 32)),
                                  .center = center,
                                  .onesided = onesided};
        const Value spectrum = stft(g.constant(x), options);
        return center ? istft(spectrum, options, 297) : istft(spectrum, options);
      });
      EXPECT_EQ(y.shape, (Shape{2, center ? 297 : 293}));
      for (size_t i = 0; i < y.data.size(); ++i) {
        const auto line = static_cast<int64_t>(i) / y.shape[1], t = static_cast<int64_t>(i) % y.shape[1];
        EXPECT_NEAR(y.data[i], get(x, line * 300 + t), 1e-6) << t;
      }
    }
}

TEST(Stft, RefusesToGoBackWhereNothingIsSeen) {
  Graph graph;
  const Value window = graph.constant(window_tensor(WindowKind::Hann, 8));
  const StftOptions options{.n_fft = 8, .hop = 8, .window = window, .center = false};
  const Value y = stft(graph.input("x", DType::F32, {1, 64}), options);
  try {
    istft(y, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("[istft] windows add up to 0 at element 0"));
  }
}

TEST(Stft, RefusesWindowsAndLengthsThatDoNotFit) {
  Graph graph;
  const Value y = graph.input("y", DType::F32, {5, 7, 2});  // 7 frames of 8
  const auto refused = [&](int64_t window, std::optional<int64_t> length) -> std::string {
    const StftOptions options{
        .n_fft = 8, .hop = 4, .window = graph.constant(window_tensor(WindowKind::Hamming, window))};
    try {
      istft(y, options, length);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(8, {}), "");
  EXPECT_EQ(refused(8, 28), "");  // to the end of the last frame
  EXPECT_EQ(refused(12, {}), "[istft] the window is [12], expected [1 to 8]");
  EXPECT_EQ(refused(8, 29), "[istft] the signal would have 29 elements; frames hold 1 to 28");
  EXPECT_EQ(refused(8, int64_t{1} << 60),
            "[istft] the signal would have 1152921504606846976 elements; frames hold 1 to 28");
}

// scipy.signal.get_window(…, 7) of SciPy 1.10.
TEST(Window, IsSciPys) {
  const std::map<WindowKind, std::array<double, 4>> wanted = {
      {WindowKind::Hann, {0, 0.1882550990706333, 0.6112604669781573, 0.9504844339512095}},
      {WindowKind::Hamming, {0.08, 0.2531946911449827, 0.6423596296199047, 0.9544456792351128}},
      {WindowKind::Blackman, {0, 0.09045342435412812, 0.45918295754596367, 0.9203636180999081}},
      {WindowKind::BlackmanHarris, {6e-5, 0.03339172347815124, 0.33283350429856506, 0.8893697722232837}},
      {WindowKind::Nuttall, {0.0003628, 0.03777576895352032, 0.34272761996881956, 0.8918518610776603}},
      {WindowKind::FlatTop, {-0.000421051, -0.036840781154923445, 0.01070371671615349, 0.7808739149387699}},
      {WindowKind::Bartlett, {0, 0.2857142857142857, 0.5714285714285714, 0.8571428571428571}},
      {WindowKind::Kaiser, {7.726866835270368e-06, 0.017964073497790785, 0.2727720681863426, 0.8708037315729595}}};
  for (const auto& [kind, values] : wanted) {
    const Tensor window = window_tensor(kind, 7);
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_NEAR(get(window, i), values[static_cast<size_t>(std::min<int64_t>(i, 7 - i))], 1e-7) << int(kind);
  }
  EXPECT_EQ(get(window_tensor(WindowKind::Hann, 3, false), 1), 1);
  EXPECT_EQ(get(window_tensor(WindowKind::Bartlett, 5, false), 4), 0);
}

// scipy.signal.welch of the same numbers.
TEST(Welch, IsSciPys) {
  Tensor x(DType::F32, {40});
  for (int64_t i = 0; i < 40; ++i) set(x, i, static_cast<double>((i * 31 + 17) % 23) * 0.05 - 0.5);
  const RefTensor density = run([&](Graph& g) { return welch(g.constant(x), {.n_fft = 12, .sample_rate = 10}); });
  EXPECT_THAT(density.data,
              testing::Pointwise(testing::DoubleNear(1e-8),
                                 {0.001269444451618024, 0.005097820584456086, 0.002983547314767988, 0.01928978804344702,
                                  0.0693869676626774, 0.025966239554588162, 0.0014694444999666556}));
  const RefTensor spectrum = run([&](Graph& g) {
    return welch(g.constant(x), {.n_fft = 13, .hop = 5, .sample_rate = 10, .density = false, .detrend = false});
  });
  EXPECT_THAT(spectrum.data,
              testing::Pointwise(testing::DoubleNear(1e-8),
                                 {0.008028413297617764, 0.0092242803170235, 0.00453080948785357, 0.009712465311038879,
                                  0.07115091377133842, 0.05767811949379561, 0.006809729994266052}));
}

TEST(Peaks, AreTheHighestBins) {
  const Tensor p = Tensor::from_floats({2, 6}, {1, 5, 2, 2, 7, 3, 9, 8, 8, 1, 0, 4});
  const auto peaks = [&](int64_t k, bool maxima) {
    Graph graph;
    const SpectrumPeaks found = spectrum_peaks(graph.constant(p), k, maxima);
    graph.output("bins", found.bins);
    graph.output("powers", found.powers);
    return reference::run(graph, {});
  };
  EXPECT_THAT(peaks(3, false).at("bins").data, testing::ElementsAre(4, 1, 5, 0, 1, 2));
  EXPECT_THAT(peaks(3, false).at("powers").data, testing::ElementsAre(7, 5, 3, 9, 8, 8));
  EXPECT_THAT(peaks(3, true).at("bins").data, testing::ElementsAre(4, 1, -1, 0, 5, -1));
  EXPECT_THAT(peaks(3, true).at("powers").data, testing::ElementsAre(7, 5, 0, 9, 4, 0));
}

TEST(Peaks, OfLogarithmsAreFoundToo) {
  Graph graph;
  const Tensor decibels = Tensor::from_floats({6}, {-20, -3, -50, -60, -7, -30});
  const SpectrumPeaks found = spectrum_peaks(graph.constant(decibels), 3, true);
  graph.output("bins", found.bins);
  graph.output("powers", found.powers);
  const auto peaks = reference::run(graph, {});
  EXPECT_THAT(peaks.at("bins").data, testing::ElementsAre(1, 4, -1));
  EXPECT_THAT(peaks.at("powers").data, testing::ElementsAre(-3, -7, 0));
}

TEST(Signals, SayWhatIsWrong) {
  EXPECT_EQ(refusal("fft", {f32({4, 3})}),
            "invalid-graph: [fft] input is [4,3], expected complex numbers, a last axis of 2");
  EXPECT_THAT(refusal("fft", {f32({4, 2})}, {{"n", int64_t{0}}}), testing::HasSubstr("a transform of 0 numbers"));
  EXPECT_THAT(refusal("fft", {f32({4, 2})}, {{"norm", "none"}}), testing::HasSubstr("norm is 'none'"));
  EXPECT_THAT(refusal("fft", {f32({4, 2})}, {{"kind", "odd"}}), testing::HasSubstr("kind is 'odd'"));
  EXPECT_THAT(refusal("fft", {f32({1, 2})}, {{"kind", "half"}}), testing::HasSubstr("a transform of 0 numbers"));
  EXPECT_THAT(refusal("fft", {typed(DType::F16, {4, 2})}),
              testing::HasSubstr("input is f16, expected f32; add a cast"));
  EXPECT_THAT(refusal("frames", {f32({4})}, {{"size", int64_t{5}}, {"hop", int64_t{1}}}),
              testing::HasSubstr("no frame longer than the last axis"));
}

}  // namespace
}  // namespace gyrus::test
