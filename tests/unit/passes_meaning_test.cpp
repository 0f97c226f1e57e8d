// What every pass must keep: the outputs, their names and types, and a graph that the verifier accepts.
#include "core/error.h"
#include "graph/op.h"
#include "passes_support.h"

namespace gyrus::test {
namespace {

const std::vector<std::string> kPasses = {"find_composites", "decompose",       "fold_constants", "narrow_integers",
                                          "join_products",   "join_movement",   "fold_scale",     "gather_statistics",
                                          "fuse_argmax",     "fuse_epilogues",  "fuse_residual",  "fuse_elementwise",
                                          "assign_layout",   "assign_precision"};

TEST(Passes, KeepTheMeaningOfEveryOpCase) {
  for (const Precision precision : {Precision::F32, Precision::F16})
    for (const OpCase& c : op_cases()) {
      if (c.large) continue;
      SCOPED_TRACE(c.name);
      const Graph graph = case_graph(c);
      const std::map<std::string, Tensor> inputs = case_inputs(c, 3);
      const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
      std::vector<std::string> seen;
      optimize(graph, precision, [&](const std::string& pass, const Graph& after) {
        SCOPED_TRACE("after " + pass);
        seen.push_back(pass);
        expect_outputs(after, inputs, want, pass_tolerance(graph));
      });
      EXPECT_EQ(seen, kPasses);
      if (testing::Test::HasFailure()) return;
    }
}

// Ports of wide integers and truth values are narrowed.
TensorType narrow_type(TensorType type) {
  if (type.dtype == DType::I64) type.dtype = DType::I32;
  if (type.dtype == DType::Bool) type.dtype = DType::U8;
  return type;
}

TEST(Passes, KeepPortsAndLeaveNothingComposite) {
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.name);
    const Graph graph = case_graph(c);
    const Graph result = optimize(graph, Precision::F16);
    ASSERT_EQ(result.inputs().size(), graph.inputs().size());
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      EXPECT_EQ(result.inputs()[i].name, graph.inputs()[i].name);
      EXPECT_EQ(result.type(result.inputs()[i].value), narrow_type(graph.type(graph.inputs()[i].value)));
    }
    ASSERT_EQ(result.outputs().size(), graph.outputs().size());
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      EXPECT_EQ(result.outputs()[i].name, graph.outputs()[i].name);
      EXPECT_EQ(result.type(result.outputs()[i].value), narrow_type(graph.type(graph.outputs()[i].value)));
    }
    for (const Node& node : result.nodes())
      EXPECT_TRUE(!op(node.op).decompose || op(node.op).has_kernel || node.op == "conv_argmax")
          << node.op << " has a kernel as well";
  }
}

TEST(Passes, AreTheSameWhenRunTwice) {
  for (const OpCase& c : op_cases())
    EXPECT_EQ(print(optimize(case_graph(c), Precision::F16)), print(optimize(case_graph(c), Precision::F16))) << c.name;
}

// A graph that already went through the passes may go again: layouts and bodies are there already.
TEST(Passes, TakeTheirOwnResult) {
  for (const OpCase& c : op_cases()) {
    if (c.large) continue;
    SCOPED_TRACE(c.name);
    const std::map<std::string, Tensor> inputs = case_inputs(c, 3);
    const Graph once = optimize(case_graph(c), Precision::F32);
    const Graph twice = optimize(once, Precision::F32);
    expect_outputs(twice, inputs, reference::run(once, inputs), pass_tolerance(once));
  }
}

TEST(Passes, RefuseABrokenGraph) {
  Graph graph;
  graph.add_input("x", {DType::F32, {2}});
  EXPECT_THROW(optimize(graph, Precision::F32), Error);  // no output
}

}  // namespace
}  // namespace gyrus::test
