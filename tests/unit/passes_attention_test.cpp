// Attention found in its parts, as exporters write them.
#include "import/onnx_import.h"
#include "passes_support.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

constexpr double kLowest = -3.4028234663852886e38;

// A graph of attention by parts over inputs "q", "k" and "v"; tests turn its dials.
struct Parts {
  Net net;
  ValueId q, k, v;
  explicit Parts(const Shape& queries = {2, 3, 5, 8}, const Shape& keys = {2, 3, 7, 8}) {
    q = input("q", queries);
    k = input("k", keys);
    v = input("v", keys);
  }
  ValueId input(const std::string& name, const Shape& shape, DType dtype = DType::F32) {
    return net.graph.add_input(name, {dtype, shape});
  }
  ValueId number(double value) {
    Tensor t(DType::F32, {});
    set(t, 0, value);
    return net.graph.add_constant("", std::move(t));
  }
  ValueId swapped(ValueId id) {
    Ints perm(net.graph.type(id).shape.size());
    for (size_t a = 0; a < perm.size(); ++a) perm[a] = static_cast<int64_t>(a);
    std::swap(perm.end()[-1], perm.end()[-2]);
    return net.add("transpose", {id}, {{"perm", perm}});
  }
  ValueId scores() { return net.add("matmul", {q, swapped(k)}); }
  Graph done(ValueId scores) {
    return net.done(net.add("matmul", {net.add("softmax", {scores}, {{"axis", int64_t{-1}}}), v}));
  }
};

// The one attention that is found; the graph means what it meant after every pass.
Node found(const Graph& graph) {
  checked_optimize(graph, Precision::F32);
  const Graph result = find_composites(graph);
  EXPECT_EQ(count_of(result, "attention"), 1) << print(result);
  EXPECT_EQ(count_of(result, "matmul"), 0) << print(result);
  EXPECT_EQ(count_of(result, "softmax"), 0);
  for (const Node& node : result.nodes())
    if (node.op == "attention") return node;
  return {};
}

TEST(FindAttention, ScaleBehindTheProduct) {
  Parts p;
  const Graph graph = p.done(p.net.add("div", {p.scores(), p.number(4)}));
  EXPECT_EQ(found(graph).attrs.number("scale"), 0.25);
  EXPECT_THAT(ops_of(find_composites(graph)), ElementsAre("attention")) << "two transposes undo each other";
}

TEST(FindAttention, NoScaleAtAll) {
  Parts p;
  EXPECT_EQ(found(p.done(p.net.add("matmul", {p.q, p.k}, {{"transpose_b", int64_t{1}}}))).attrs.number("scale"), 1);
}

TEST(FindAttention, ScaleOnBothOperands) {
  Parts p;
  const ValueId q = p.net.add("mul", {p.q, p.number(0.5)}), k = p.net.add("mul", {p.number(0.5), p.swapped(p.k)});
  const Graph graph = p.done(p.net.add("matmul", {q, k}));
  EXPECT_EQ(found(graph).attrs.number("scale"), 0.25);
  EXPECT_THAT(ops_of(find_composites(graph)), ElementsAre("attention"));
}

// [B,S,H,D] to heads, keys at once transposed as they are read.
TEST(FindAttention, KeysTransposedTogetherWithTheirHeads) {
  Parts p({2, 3, 5, 8}, {2, 3, 7, 8});
  const ValueId wide = p.input("wide", {2, 7, 3, 8});
  const ValueId k = p.net.add("transpose", {wide}, {{"perm", Ints{0, 2, 3, 1}}});
  const Graph graph = p.done(p.net.add("matmul", {p.q, k}));
  found(graph);
  const Graph result = find_composites(graph);
  ASSERT_THAT(ops_of(result), ElementsAre("transpose", "attention"));
  EXPECT_EQ(result.nodes()[0].attrs.integers("perm"), (Ints{0, 2, 1, 3}));
}

TEST(FindAttention, BiasOnEitherSide) {
  for (const bool first : {false, true}) {
    Parts p;
    const ValueId bias = p.input("bias", {2, 1, 1, 7}), scores = p.net.add("affine", {p.scores()}, {{"scale", 0.3}});
    const Node node = found(p.done(first ? p.net.add("add", {bias, scores}) : p.net.add("add", {scores, bias})));
    ASSERT_EQ(node.inputs.size(), 5u);
    EXPECT_EQ(node.inputs[3], kNoValue);
  }
}

// A row that is hidden as a whole has all its keys alike, with a mask that is added as with one that chooses.
TEST(FindAttention, RowsWhoseKeysAreAllHidden) {
  for (const int form : {0, 1, 2}) {
    SCOPED_TRACE(form);
    Parts p;
    Tensor seen(DType::Bool, {5, 7}), added(DType::F32, {5, 7});
    for (int64_t i = 0; i < seen.size(); ++i) {
      const bool on = i >= 7 && i % 3 != 0;
      set(seen, i, form == 2 ? !on : on);
      set(added, i, on ? 0 : kLowest);
    }
    const ValueId mask = p.net.graph.add_constant("mask", std::move(seen));
    const ValueId scores = p.scores();
    const Node node = found(p.done(
        form == 0   ? p.net.add("add", {scores, p.net.graph.add_constant("added", std::move(added))})
        : form == 1 ? p.net.add("where", {mask, scores, p.number(-1e4)})
                    : p.net.add("where", {mask, p.number(-1e9), p.net.add("add", {scores, p.input("b", {7})})})));
    EXPECT_EQ(node.attrs.number("hidden", 0), form == 0 ? 0 : form == 1 ? -1e4 : -1e9);
  }
}

TEST(FindAttention, MaskOfInfinityHides) {
  Parts p;
  Tensor seen(DType::Bool, {5, 7});
  for (int64_t i = 0; i < seen.size(); ++i) set(seen, i, i % 7 <= i / 7);
  const ValueId mask = p.net.graph.add_constant("mask", std::move(seen));
  EXPECT_FALSE(found(p.done(p.net.add("where", {mask, p.scores(), p.number(-INFINITY)}))).attrs.has("hidden"));
}

TEST(FindAttention, FewerAxes) {
  for (const Shape& batch : {Shape{}, Shape{6}}) {
    Shape queries = batch, keys = batch;
    queries.insert(queries.end(), {5, 8});
    keys.insert(keys.end(), {7, 8});
    Parts p(queries, keys);
    Shape bias = batch;
    bias.insert(bias.end(), {5, 7});
    found(p.done(p.net.add("add", {p.scores(), p.input("bias", bias)})));
  }
}

TEST(FindAttention, HeadsRepeatedForGroupsOfQueries) {
  Parts p({2, 6, 5, 8}, {2, 2, 7, 8});
  for (ValueId* id : {&p.k, &p.v}) {
    const ValueId apart = p.net.add("reshape", {*id}, {{"shape", Ints{2, 2, 1, 7, 8}}});
    *id = p.net.add("reshape", {p.net.add("expand", {apart}, {{"shape", Ints{2, 2, 3, 7, 8}}})},
                    {{"shape", Ints{2, 6, 7, 8}}});
  }
  const Graph graph = p.done(p.scores());
  found(graph);
  EXPECT_EQ(count_of(find_composites(graph), "expand"), 0);
}

int64_t count_found(const Graph& graph) {
  checked_optimize(graph, Precision::F32);
  return count_of(find_composites(graph), "attention");
}

TEST(FindAttention, LeavesWhatOthersRead) {
  Parts scores;
  const ValueId raw = scores.scores();
  scores.net.graph.add_output("scores", raw);
  EXPECT_EQ(count_found(scores.done(raw)), 0);
  Parts captured;
  const ValueId seen = captured.scores();
  captured.net.graph.add_capture("seen", seen);
  EXPECT_EQ(count_found(captured.done(seen)), 0);
}

TEST(FindAttention, LeavesOtherProducts) {
  Parts other_axis;
  const ValueId p = other_axis.net.add("softmax", {other_axis.scores()}, {{"axis", int64_t{-2}}});
  EXPECT_EQ(count_found(other_axis.net.done(other_axis.net.add("matmul", {p, other_axis.v}))), 0);
  Parts shared({2, 3, 5, 8}, {1, 3, 7, 8});  // keys that broadcast over the batch
  EXPECT_EQ(count_found(shared.done(shared.scores())), 0);
  Parts deep({1, 1, 5, 132}, {1, 1, 7, 132});
  EXPECT_EQ(count_found(deep.done(deep.scores())), 0);
  Parts odd({1, 1, 5, 6}, {1, 1, 7, 6});
  EXPECT_EQ(count_found(odd.done(odd.scores())), 0);
  Parts widened({1, 3, 5, 8}, {1, 3, 7, 8});  // a bias that makes several of the scores
  const ValueId bias = widened.input("bias", {2, 3, 5, 7});
  EXPECT_EQ(count_found(widened.done(widened.net.add("add", {widened.scores(), bias}))), 0);
}

// What PyTorch writes for scaled_dot_product_attention: the root of the scale on q and on kᵀ, computed from a shape.
TEST(FindAttention, InAnExportedModel) {
  using namespace onnx_file;
  const std::vector<int64_t> heads = {0, 2, 1, 3}, turned = {0, 2, 3, 1};
  const auto split = [](const std::string& from, const std::string& to, const std::vector<int64_t>& perm) {
    return node("Reshape", {from, "split"}, {from + "s"}) +
           node("Transpose", {from + "s"}, {to}, attribute("perm", perm));
  };
  const std::string graph =
      input("x", Float, {2, 6, 16}) + input("mask", Float, {2, 1, 1, 6}) +
      initializer(tensor<int64_t>("split", Int64, {4}, {0, 0, 2, 8})) +
      initializer(tensor<int64_t>("join", Int64, {3}, {0, 0, 16})) +
      initializer(tensor<int64_t>("last", Int64, {}, {3})) + initializer(tensor<float>("one", Float, {}, {1})) +
      split("x", "q", heads) + node("Relu", {"x"}, {"xk"}) + split("xk", "kt", turned) + node("Tanh", {"x"}, {"xv"}) +
      split("xv", "v", heads) + node("Shape", {"q"}, {"shape"}) + node("Gather", {"shape", "last"}, {"depth"}) +
      node("Cast", {"depth"}, {"d"}, attribute("to", 1)) + node("Sqrt", {"d"}, {"root"}) +
      node("Div", {"one", "root"}, {"scale"}) + node("Sqrt", {"scale"}, {"half"}) + node("Mul", {"q", "half"}, {"q1"}) +
      node("Mul", {"kt", "half"}, {"k1"}) + node("MatMul", {"q1", "k1"}, {"s"}) + node("Add", {"s", "mask"}, {"s1"}) +
      node("Softmax", {"s1"}, {"p"}, attribute("axis", -1)) + node("MatMul", {"p", "v"}, {"o"}) +
      node("Transpose", {"o"}, {"o1"}, attribute("perm", heads)) + node("Reshape", {"o1", "join"}, {"y"}) + output("y");
  const std::string file = model(graph);
  const onnx::Imported imported = onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), "test"), {});
  EXPECT_NEAR(found(imported.graph).attrs.number("scale"), std::sqrt(0.125), 1e-7);
}

}  // namespace
}  // namespace gyrus::test
