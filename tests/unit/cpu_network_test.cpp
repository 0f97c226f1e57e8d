#include "cpu/network.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "cpu/machine.h"
#include "passes/passes.h"

namespace gyrus::cpu {
namespace {

// Memory that is not there is refused before anything is written to it: the system would end the process.
TEST(CpuNetwork, RefusesMoreMemoryThanThereIs) {
  const uint64_t there = usable_memory();
  if (there == ~uint64_t{0}) GTEST_SKIP() << "the system does not tell its memory";
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {1}, Layout::Plain});
  const auto count = static_cast<int64_t>(there / 4 + there / 40);
  graph.add_output("y", graph.add("expand", {x}, {{"shape", Shape{count}}}));
  Network network(optimize_plain(graph));
  try {
    network.allocate();
    FAIL() << "took " << network.bytes() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OverLimits);
    EXPECT_NE(std::string(error.what()).find(" are left"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace gyrus::cpu
