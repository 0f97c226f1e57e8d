#include "op_cases.h"

#include <algorithm>
#include <cmath>

#include "op_cases_build.h"

namespace gyrus::test {
namespace {

constexpr double kPi = 3.14159265358979323846;

// FNV-1a: the seed of a case is its name, so that adding a case changes no other.
uint64_t hash(const std::string& text) {
  uint64_t h = 1469598103934665603ull;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

double draw(const OpCase& c, Rng& rng) {
  switch (c.fill) {
    case Fill::Normal: return c.lo + c.hi * rng.normal();
    case Fill::Uniform: return rng.uniform(c.lo, c.hi);
    case Fill::Whole: return static_cast<double>(rng.integer(static_cast<int64_t>(c.lo), static_cast<int64_t>(c.hi)));
    case Fill::Extreme: {
      if (rng.integer(0, 31) == 0) return 0;
      const double magnitude = std::pow(10.0, rng.uniform(-6, std::log10(c.hi)));
      return rng.integer(0, 1) ? magnitude : -magnitude;
    }
  }
  return 0;
}

double draw_integer(const OpCase& c, DType dtype, Rng& rng) {
  const bool ranged = c.fill == Fill::Whole || c.fill == Fill::Uniform;
  const int64_t lo = ranged ? static_cast<int64_t>(c.lo) : -100;
  const int64_t hi = ranged ? static_cast<int64_t>(c.hi) : 100;
  const int64_t value = rng.integer(dtype == DType::I32 ? lo : std::max<int64_t>(lo, 0), std::max<int64_t>(hi, 1));
  return static_cast<double>(value);
}

}  // namespace

uint64_t Rng::bits() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double Rng::uniform(double lo, double hi) { return lo + (hi - lo) * static_cast<double>(bits() >> 11) * 0x1p-53; }

double Rng::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform(0x1p-53, 1)));
  return radius * std::cos(2 * kPi * uniform(0, 1));
}

int64_t Rng::integer(int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(bits() % static_cast<uint64_t>(hi - lo + 1));
}

Tensor random_tensor(const OpCase& c, DType dtype, const Shape& shape, Rng& rng) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    set(tensor, i, is_float(dtype) ? draw(c, rng) : draw_integer(c, dtype, rng));
  return tensor;
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    add_conv_cases(all);
    add_norm_cases(all);
    add_elementwise_cases(all);
    add_movement_cases(all);
    add_reduce_cases(all);
    add_chain_cases(all);
    add_large_cases(all);
    add_matmul_cases(all);
    add_order_cases(all);
    add_sort_cases(all);
    add_random_cases(all);
    add_scan_cases(all);
    add_block_cases(all);
    add_signal_cases(all);
    return all;
  }();
  return cases;
}

Graph case_graph(const OpCase& c) {
  Rng rng(hash(c.name));
  Graph graph = c.build(rng);
  verify(graph, "op case " + c.name);
  return graph;
}

std::map<std::string, Tensor> case_inputs(const OpCase& c, uint64_t seed) {
  Rng rng(hash(c.name) ^ (seed * 0x2545f4914f6cdd1dull));
  const Graph graph = case_graph(c);
  std::map<std::string, Tensor> inputs;
  for (const Port& port : graph.inputs()) {
    const TensorType& type = graph.type(port.value);
    inputs[port.name] = random_tensor(c, type.dtype, type.shape, rng);
  }
  return inputs;
}

}  // namespace gyrus::test
