#include "cpu/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/cpu_kernels_support.h"

namespace gyrus::cpu {
namespace {

struct MatmulCase {
  int64_t m, n, k;
  int64_t batch = 1;
  std::vector<int64_t> a_of = {}, b_of = {};
};

std::vector<MatmulCase> matmul_cases() {
  std::vector<MatmulCase> all;
  for (const int64_t m : {1, 2, 5, 6, 7, 13, 50})
    for (const int64_t n : {1, 3, 8, 16, 33, 64, 130}) all.push_back({m, n, m + n});
  all.push_back({3, 5, 1300});
  all.push_back({70, 64, 1025});
  all.push_back({400, 40, 20});
  all.push_back({9, 17, 5, 6, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1}});
  all.push_back({4, 4, 4, 3});
  return all;
}

int64_t most(const std::vector<int64_t>& which, int64_t batch) {
  return which.empty() ? batch : *std::max_element(which.begin(), which.end()) + 1;
}

MatmulShape matmul_shape(const MatmulCase& c, bool transpose_a, bool transpose_b) {
  MatmulShape s;
  s.m = c.m, s.n = c.n, s.k = c.k, s.batch = c.batch, s.a_of = c.a_of, s.b_of = c.b_of;
  s.transpose_a = transpose_a, s.transpose_b = transpose_b;
  return s;
}

std::vector<double> naive_matmul(const MatmulShape& s, const std::vector<float>& a, const std::vector<float>& b,
                                 const std::vector<float>& bias) {
  std::vector<double> out;
  for (int64_t x = 0; x < s.batch; ++x)
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        const int64_t left = (s.a_of.empty() ? x : s.a_of[static_cast<size_t>(x)]) * s.m * s.k;
        const int64_t right = (s.b_of.empty() ? x : s.b_of[static_cast<size_t>(x)]) * s.k * s.n;
        double sum = bias[static_cast<size_t>(j)];
        for (int64_t l = 0; l < s.k; ++l)
          sum += static_cast<double>(a[static_cast<size_t>(left + (s.transpose_a ? l * s.m + i : i * s.k + l))]) *
                 static_cast<double>(b[static_cast<size_t>(right + (s.transpose_b ? j * s.k + l : l * s.n + j))]);
        out.push_back(sum);
      }
  return out;
}

TEST(CpuMatmul, MatchesSumsInDoubleOnEveryInstructionSet) {
  ThreadPool pool(2), eight(8);
  for (const MatmulCase& c : matmul_cases())
    for (const int bits : {0, 1, 2, 3}) {
      const MatmulShape s = matmul_shape(c, bits & 1, bits & 2);
      const std::vector<float> a = numbers(most(s.a_of, s.batch) * s.m * s.k, 1);
      const std::vector<float> b = numbers(most(s.b_of, s.batch) * s.k * s.n, 2), bias = numbers(s.n, 3);
      const std::vector<double> want = naive_matmul(s, a, b, bias);
      // f32 loses some units of the last place of sums of K products that are at most 1.
      const double bound = 1e-7 * static_cast<double>(s.k + 8);
      for_every_target([&](const char* target) {
        for (const bool constant : {false, true}) {
          const MatmulPlan plan = prepare_matmul(s, constant ? b.data() : nullptr);
          std::vector<float> got(want.size(), NAN), again = got;
          run_matmul(plan, a.data(), constant ? nullptr : b.data(), bias.data(), got.data(), pool);
          run_matmul(plan, a.data(), constant ? nullptr : b.data(), bias.data(), again.data(), eight);
          EXPECT_EQ(got, again);
          double error = 0;
          for (size_t i = 0; i < got.size(); ++i) {
            const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
            error = difference <= error ? error : difference;  // NaN is taken
          }
          EXPECT_LE(error, bound) << target << ": " << s.batch << " x " << s.m << "x" << s.n << "x" << s.k
                                  << " transposed " << bits << " constant " << constant;
        }
      });
    }
}

TEST(CpuMatmul, StripsCoverTheResultOnce) {
  ThreadPool pool(2);
  for (const MatmulCase& c : matmul_cases()) {
    const MatmulShape s = matmul_shape(c, false, false);
    const std::vector<float> a = numbers(most(s.a_of, s.batch) * s.m * s.k, 1);
    const std::vector<float> b = numbers(most(s.b_of, s.batch) * s.k * s.n, 2);
    const MatmulPlan plan = prepare_matmul(s);
    std::vector<float> plain(static_cast<size_t>(s.batch * s.m * s.n)), seen(plain.size()), changed(plain.size());
    run_matmul(plan, a.data(), b.data(), nullptr, plain.data(), pool);
    run_matmul(plan, a.data(), b.data(), nullptr, changed.data(), pool, [&](const MatmulStrip& strip) {
      for (int64_t i = 0; i < strip.rows; ++i)
        for (int64_t j = 0; j < strip.columns; ++j) {
          float& value = strip.values[i * strip.row_stride + j];
          seen[static_cast<size_t>((strip.matrix * s.m + strip.row + i) * s.n + strip.column + j)] += value;
          value = 2 * value;
        }
    });
    EXPECT_EQ(seen, plain);
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(changed[i], 2 * plain[i]);
  }
}

}  // namespace
}  // namespace gyrus::cpu
