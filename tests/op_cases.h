#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

// The one table of op cases: unit tests of references, passes and plans, the conformance tests of both executors and
// the list of ops read it.

namespace gyrus::test {

// Splitmix64: the same numbers on every platform and standard library.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  double uniform(double lo, double hi);
  double normal();
  int64_t integer(int64_t lo, int64_t hi);  // both inclusive

 private:
  uint64_t state_;
};

// How the floats of a case are drawn, inputs and constants alike. Integer tensors take whole numbers from [lo, hi].
enum class Fill {
  Normal,   // lo + hi * standard normal
  Uniform,  // from [lo, hi]
  Whole,    // whole numbers from [lo, hi]: sums are exact in f32, and ties occur
  Extreme,  // 0, and ± powers of ten from 1e-6 to hi with random digits
};

struct OpCase {
  std::string name;  // letters, digits and _, unique; starts with the op, with "chain" or with "large"
  std::string op;    // the op under test; the last one of a chain
  std::function<Graph(Rng&)> build;
  Fill fill = Fill::Normal;
  double lo = 0;
  double hi = 1;
  bool large = false;  // tensors of 2 to 12 MiB, cut under tiny limits
  bool exact = false;  // the result is exact in f32: compare bit for bit
};

const std::vector<OpCase>& op_cases();

// The graph of a case, always the same. Verified.
Graph case_graph(const OpCase& c);
// A tensor for each input of the graph.
std::map<std::string, Tensor> case_inputs(const OpCase& c, uint64_t seed);

// A tensor filled as the case says.
Tensor random_tensor(const OpCase& c, DType dtype, const Shape& shape, Rng& rng);

}  // namespace gyrus::test
