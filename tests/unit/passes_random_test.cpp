#include "passes_support.h"
#include "support/random_graph.h"

namespace gyrus::test {
namespace {

constexpr uint64_t kGraphs = 400;

TEST(Passes, KeepTheMeaningOfRandomNetworks) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = random_graph(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(graph));
    checked_optimize(graph, seed % 2 ? Precision::F16 : Precision::F32, seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace gyrus::test
