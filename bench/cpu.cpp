// The CPU's kernels alone: convolutions and matrix products, and an encoder of them, on two or more threads, beside a
// loop of fused multiply-adds that never leaves the registers. bench/cpu.py runs it in turns with PyTorch.
//   cpu [--threads N] [--only TEXT] [--repeats N] [--serve]
// With --serve it takes names of cases from its input, one a line, and answers each with a line of seconds.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "cpu/conv.h"
#include "cpu/matmul.h"
#include "cpu/network.h"
#include "encoder.h"
#include "passes/passes.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Flops of `rounds` rounds of sixteen chains.
double multiply_add(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  hn::Vec<decltype(d)> x[16];
  for (int i = 0; i < 16; ++i) x[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < 16; ++i) x[i] = hn::MulAdd(x[i], factor, term);
  for (int i = 1; i < 16; ++i) x[0] = hn::Add(x[0], x[i]);
  *sink = hn::GetLane(x[0]);
  return 32.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace gyrus::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::bench {
namespace {

HWY_EXPORT(multiply_add);

struct Case {
  std::string name;
  double flops = 0;
  std::function<std::function<void(cpu::ThreadPool&)>()> prepare;
};

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.02f * static_cast<float>((i * 7919) % 13) - 0.12f;
  return values;
}

Case conv_case(int64_t in, int64_t out, const cpu::Extents& extents, const cpu::Extents& kernel, int64_t dilation) {
  cpu::ConvShape s;
  s.in_channels = in, s.out_channels = out, s.input = s.output = extents, s.kernel = kernel;
  for (size_t a = 0; a < 3; ++a)
    s.dilation[a] = kernel[a] > 1 ? dilation : 1, s.pad_lo[a] = (kernel[a] - 1) / 2 * s.dilation[a];
  const int64_t voxels = extents[0] * extents[1] * extents[2], taps = kernel[0] * kernel[1] * kernel[2];
  Case c;
  c.name = "conv " + std::to_string(in) + " to " + std::to_string(out);
  for (size_t a = 0; a < 3; ++a) c.name += (a ? "x" : ", ") + std::to_string(extents[a]);
  for (size_t a = 0; a < 3; ++a) c.name += (a ? "x" : ", ") + std::to_string(kernel[a]);
  c.name += ", dilation " + std::to_string(dilation);
  c.flops = 2.0 * static_cast<double>(voxels * in) * static_cast<double>(out * taps);
  c.prepare = [s, voxels, taps] {
    auto plan =
        std::make_shared<cpu::ConvPlan>(cpu::prepare_conv(s, numbers(s.out_channels * s.in_channels * taps).data()));
    auto x = std::make_shared<std::vector<float>>(numbers(s.in_channels * voxels));
    auto y = std::make_shared<std::vector<float>>(static_cast<size_t>(s.out_channels * voxels));
    return [=](cpu::ThreadPool& pool) { cpu::run_conv(*plan, x->data(), nullptr, y->data(), pool); };
  };
  return c;
}

Case matmul_case(int64_t m, int64_t n, int64_t k, bool constant) {
  cpu::MatmulShape s;
  s.m = m, s.n = n, s.k = k;
  Case c;
  c.name = "matmul " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  if (constant) c.name += ", weights";
  c.flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  c.prepare = [s, constant] {
    auto a = std::make_shared<std::vector<float>>(numbers(s.m * s.k));
    auto b = std::make_shared<std::vector<float>>(numbers(s.k * s.n));
    auto y = std::make_shared<std::vector<float>>(static_cast<size_t>(s.m * s.n));
    auto plan = std::make_shared<cpu::MatmulPlan>(cpu::prepare_matmul(s, constant ? b->data() : nullptr));
    return [=](cpu::ThreadPool& pool) { cpu::run_matmul(*plan, a->data(), b->data(), nullptr, y->data(), pool); };
  };
  return c;
}

Case encoder_case(int64_t layers, int64_t tokens, int64_t width) {
  Case c;
  c.name = cat("encoder ", layers, " layers, ", tokens, "x", width);
  const double linear = 12.0 * static_cast<double>(width * width),
               attention = 2.0 * static_cast<double>(tokens * width);
  c.flops = 2.0 * static_cast<double>(layers * tokens) * (linear + attention);
  c.prepare = [=] {
    auto network = std::make_shared<cpu::Network>(optimize_plain(encoder(layers, tokens, width, false)));
    auto x = std::make_shared<std::vector<float>>(numbers(tokens * width));
    network->bind(network->graph().inputs()[0].value, reinterpret_cast<const std::byte*>(x->data()));
    return [network, x](cpu::ThreadPool& pool) { network->run(pool); };
  };
  return c;
}

constexpr int64_t kPeakRounds = 100000, kPeakShares = 8;  // shares of each thread

std::vector<Case> cases(int threads) {
  std::vector<Case> all;
  Case peak;
  float sink = 0;
  peak.name = "multiply-add";
  peak.flops = HWY_DYNAMIC_DISPATCH(multiply_add)(kPeakRounds, &sink) * static_cast<double>(kPeakShares * threads);
  peak.prepare = [] {
    return [](cpu::ThreadPool& pool) {
      std::vector<float> sinks(static_cast<size_t>(pool.threads()) * 16);
      pool.parallel_for(pool.threads() * kPeakShares, [&](int64_t, int thread) {
        HWY_DYNAMIC_DISPATCH(multiply_add)(kPeakRounds, &sinks[static_cast<size_t>(thread) * 16]);
      });
    };
  };
  all.push_back(peak);
  const cpu::Extents three{3, 3, 3}, one{1, 1, 1}, flat{1, 3, 3};
  for (const int64_t channels : {15, 5, 21, 30})
    for (const int64_t extent : {64, 128})
      for (const int64_t dilation : {1, 4, 16})
        all.push_back(conv_case(channels, channels, {extent, extent, extent}, three, dilation));
  all.push_back(conv_case(15, 15, {256, 256, 256}, three, 1));
  all.push_back(conv_case(15, 15, {256, 256, 256}, three, 16));
  all.push_back(conv_case(1, 15, {128, 128, 128}, three, 1));
  all.push_back(conv_case(15, 3, {128, 128, 128}, one, 1));
  for (const int64_t channels : {64, 128, 256, 512})
    all.push_back(conv_case(channels, channels, {1, 16384 / channels, 16384 / channels}, flat, 1));
  all.push_back(conv_case(256, 256, {1, 64, 64}, one, 1));
  all.push_back(matmul_case(1024, 1024, 1024, false));
  for (const auto& [n, k] : {std::pair{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}})
    all.push_back(matmul_case(512, n, k, true));
  all.push_back(matmul_case(1, 4096, 4096, true));
  all.push_back(encoder_case(12, 512, 768));
  return all;
}

struct Options {
  int threads = 0, repeats = 7;
  std::string only;
  bool serves = false;
};

void measure_all(const Options& options, cpu::ThreadPool& pool) {
  double peak = 0;
  for (const Case& c : cases(pool.threads())) {
    const bool is_peak = c.name == "multiply-add";
    if (!is_peak && c.name.find(options.only) == std::string::npos) continue;
    const auto run = c.prepare();
    double least = 1e30;
    for (int i = 0; i <= options.repeats * (is_peak ? 10 : 1); ++i)
      least = std::min(least, seconds_of([&] { run(pool); }));
    const double rate = c.flops / least * 1e-9;
    if (is_peak) peak = rate;
    std::printf("%-44s %10.3f ms %8.1f GFLOP/s %5.0f %%\n", c.name.c_str(), least * 1e3, rate, 100 * rate / peak);
    std::fflush(stdout);
  }
}

void serve(cpu::ThreadPool& pool) {
  const std::vector<Case> all = cases(pool.threads());
  std::string name, prepared;
  std::function<void(cpu::ThreadPool&)> run;
  while (std::getline(std::cin, name)) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Case& c) { return c.name == name; });
    if (name == "list") {
      for (const Case& c : all) std::printf("%s\t%.17g\n", c.name.c_str(), c.flops);
      std::puts("");
    } else if (found == all.end()) {
      std::puts("unknown");
    } else {
      if (prepared != name) {
        run = nullptr;
        run = found->prepare();
        run(pool);
        prepared = name;
      }
      std::printf("%.9f\n", seconds_of([&] { run(pool); }));
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gyrus::bench

int main(int argc, char** argv) {
  gyrus::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else if (word == "--repeats" && i + 1 < argc) {
      options.repeats = std::atoi(argv[++i]);
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (word == "--serve") {
      options.serves = true;
    } else {
      std::fprintf(stderr, "cpu: usage: cpu [--threads N] [--only TEXT] [--repeats N] [--serve]\n");
      return 2;
    }
  }
  gyrus::cpu::ThreadPool pool(options.threads);
  if (options.serves)
    gyrus::bench::serve(pool);
  else
    gyrus::bench::measure_all(options, pool);
  return 0;
}
#endif
