// gyrus/ops.h has a function for every op that people use, and each makes the node that it says.
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "graph/op.h"
#include "gyrus/neighbours.h"
#include "gyrus/nn.h"
#include "gyrus/random.h"
#include "gyrus/signal.h"
#include "gyrus/splats.h"

namespace gyrus::test {
namespace {

const std::string& last_op(const Graph& graph) { return graph.nodes().back().op; }

// One call of every function.
Graph every_op() {
  Graph g;
  const Value x = g.input("x", DType::F32, {2, 4, 3, 3, 3}), m = g.input("m", DType::F32, {3, 5});
  const Value i = g.input("i", DType::I32, {2}), c = g.input("c", DType::F32, {4}),
              s = g.argument("s", DType::I32, 0, 1);
  for (const Value v : {relu(x),
                        leaky_relu(x),
                        elu(x),
                        gelu(x),
                        gelu_tanh(x),
                        silu(x),
                        sigmoid(x),
                        tanh(x),
                        softplus(x),
                        exp(x),
                        log(x),
                        sqrt(x),
                        rsqrt(x),
                        normal_cdf(x),
                        step(x),
                        neg(x),
                        abs(x),
                        square(x),
                        affine(x, 2, 3),
                        clamp(x, 0, 1),
                        cast(x, DType::F16),
                        x + x,
                        x - x,
                        x * x,
                        x / x,
                        min(x, x),
                        max(x, x),
                        pow(x, x),
                        mish(x),
                        hard_sigmoid(x),
                        hard_swish(x),
                        selu(x),
                        celu(x),
                        softsign(x),
                        relu6(x),
                        detach(x),
                        in_training(x, x),
                        dropout(x, random_key(g), 0),
                        dropout_channels(x, random_key(g), 0),
                        random_uniform(random_key(g), 0, x),
                        random_normal(random_key(g), 0, x),
                        random_uniform(random_key(g), 0, x.shape()),
                        random_normal(random_key(g), 0, x.shape()),
                        thresholded_relu(x),
                        shrink(x),
                        prelu(x, x),
                        sin(x),
                        cos(x),
                        tan(x),
                        asin(x),
                        acos(x),
                        atan(x),
                        sinh(x),
                        cosh(x),
                        asinh(x),
                        acosh(x),
                        atanh(x),
                        log1p(x),
                        expm1(x),
                        erf(x),
                        reciprocal(x),
                        round(x),
                        floor(x),
                        ceil(x),
                        trunc(x),
                        sign(x),
                        isnan(x),
                        isinf(x),
                        atan2(x, x),
                        mod(x, x),
                        fmod(x, x),
                        equal(x, x),
                        less(x, x),
                        less_equal(x, x),
                        greater(x, x),
                        greater_equal(x, x),
                        where(less(x, x), x, x),
                        -x,
                        x + 1,
                        x - 1,
                        x * 2,
                        x / 2,
                        1 + x,
                        1 - x,
                        2 * x,
                        2 / x})
    EXPECT_EQ(v.shape(), x.shape()) << last_op(g);
  for (const Value v : {idiv(i, i), bit_and(i, i), bit_or(i, i), bit_xor(i, i), shift_left(i, i), shift_right(i, i)})
    EXPECT_EQ(v.dtype(), DType::I32);
  EXPECT_EQ(to_bits(x).dtype(), DType::U32);
  EXPECT_EQ(from_bits(i).dtype(), DType::F32);
  const Value t = less(m, m);
  for (const Value v : {logical_not(t), logical_and(t, t), logical_or(t, t), logical_xor(t, t)})
    EXPECT_EQ(v.dtype(), DType::Bool);
  EXPECT_EQ(reshape(x, {2, -1}).shape(), (Shape{2, 108}));
  EXPECT_EQ(transpose(m, {1, 0}).shape(), (Shape{5, 3}));
  EXPECT_EQ(slice(m, {0, 1}, {3, 4}).shape(), (Shape{3, 3}));
  EXPECT_EQ(slice(m, {0, 0}, {3, 5}, {1, 2}).shape(), (Shape{3, 3}));
  EXPECT_EQ(concat({m, m}, 1).shape(), (Shape{3, 10}));
  EXPECT_EQ(pad(m, {0, 1, 0, 1}).shape(), (Shape{3, 7}));
  EXPECT_EQ(expand(c, {3, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(gather(m, i, 1).shape(), (Shape{3, 2}));
  EXPECT_EQ(update_slice(m, slice(m, {0, 0}, {1, 5}), 0, 2).shape(), m.shape());
  EXPECT_EQ(update_slice(m, slice(m, {0, 0}, {1, 5}), 0, s).shape(), m.shape());
  EXPECT_EQ(reduce_sum(m).shape(), Shape{});
  EXPECT_EQ(reduce_mean(m, {{1}, true}).shape(), (Shape{3, 1}));
  EXPECT_EQ(reduce_max(m, {{0}}).shape(), (Shape{5}));
  EXPECT_EQ(reduce_min(m, {{-1}}).shape(), (Shape{3}));
  EXPECT_EQ(argmax(m, 1, true, DType::U8).dtype(), DType::U8);
  const Value n = g.input("n", DType::I32, {3, 2});
  EXPECT_EQ(gather_elements(m, n, 1).shape(), (Shape{3, 2}));
  EXPECT_EQ(gather_nd(m, n).shape(), (Shape{3}));
  EXPECT_EQ(scatter_elements(m, n, slice(m, {0, 0}, {3, 2}), 1).shape(), m.shape());
  EXPECT_EQ(scatter_nd(m, n, reduce_sum(m, {{1}}), "add").shape(), m.shape());
  EXPECT_EQ(reduce_prod(m).shape(), Shape{});
  EXPECT_EQ(argmin(m, 1).shape(), (Shape{3}));
  EXPECT_EQ(cumsum(m, 1).shape(), m.shape());
  EXPECT_EQ(cumprod(m, 1).shape(), m.shape());
  EXPECT_EQ(top_k(m, 2, 1).positions.shape(), (Shape{3, 2}));
  EXPECT_EQ(irfft(fft(rfft(m))).shape(), (Shape{3, 4}));
  EXPECT_EQ(frames(m, 3, 2).shape(), (Shape{3, 2, 3}));
  const Value r = g.input("r", DType::F32, {5});
  EXPECT_EQ(sort(m, 0).values.shape(), m.shape());
  EXPECT_EQ(search_sorted(r, m).shape(), m.shape());
  EXPECT_EQ(fuzzy_graph(nearest(m, 2).indices, nearest(m, 2).distances).weights.shape(), (Shape{3, 2}));
  const Value q = g.input("q", DType::F32, {3, 4}), triples = g.input("triples", DType::F32, {3, 3}),
              three = g.input("three", DType::F32, {3}), sh = g.input("sh", DType::F32, {3, 4, 3});
  EXPECT_EQ(render({triples, triples, q, three, sh}, {q, c}, {.width = 20, .height = 10, .capacity = 9}).colour.shape(),
            (Shape{10, 20, 3}));
  for (const Value v : {softmax(m, 1), log_softmax(m, 1), layer_norm(m, r, r), rms_norm(m, r)})
    EXPECT_EQ(v.shape(), m.shape());
  EXPECT_EQ(matmul(m, m, {.transpose_b = true}).shape(), (Shape{3, 3}));
  EXPECT_EQ(random_bits(random_key(g), 0, {3, 4}).dtype(), DType::U32);
  EXPECT_EQ(random_integers(random_key(g), 0, {3, 4}, 7).dtype(), DType::I32);
  EXPECT_EQ(sample(expand(m, {1, 2, 3, 5}), {expand(m, {1, 3, 5}), expand(m, {1, 3, 5})}).shape(), (Shape{1, 2, 3, 5}));
  const Value h = g.input("h", DType::F32, {1, 2, 3, 4});
  EXPECT_EQ(attention(h, h, h).shape(), h.shape());
  const Value w = g.parameter("w", Tensor(DType::F32, {4, 2, 3, 3, 3}));
  EXPECT_EQ(conv(x, w, {.bias = c, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .pads = {1, 1, 1, 1, 1, 1}, .groups = 2})
                .shape(),
            x.shape());
  EXPECT_EQ(conv_transpose(x, w, {.groups = 2}).shape()[1], 2 * w.shape()[1]);
  EXPECT_EQ(group_norm(x, 2, c, c).shape(), x.shape());
  EXPECT_EQ(instance_norm(x).shape(), x.shape());
  EXPECT_EQ(batch_norm(x, c, c).shape(), x.shape());
  return g;
}

TEST(TypedOps, AreAllThere) {
  const Graph graph = every_op();
  std::set<std::string_view> made = {"fused",     "conv_argmax", "norm_stats",      "norm_apply",
                                     "repack",    "arrange",     "scatter_rows",    "ranks",
                                     "place",     "rows",        "strided",         "conv_weights",
                                     "norm_sums", "segment_sum", "splat_blend_back"};  // passes' and gradients'
  // Of decoders, which src/llm makes.
  made.insert({"block_matmul", "block_normed", "block_rows", "gated", "rope_turns", "cache_rows", "cached_attention",
               "choose_token", "chosen_rows", "mark_tokens"});
  // What gyrus/scans.h and gyrus/routing.h are made of; tests of their own try those functions.
  made.insert({"cummax", "linear_scan", "selective_scan", "delta_rule", "delta_states", "lstm_steps", "lstm_back",
               "gru_steps", "gru_back", "group_rows", "grouped_matmul", "grouped_weights"});
  for (const Node& node : graph.nodes()) made.insert(node.op);
  for (const OpDef* def : all_ops()) EXPECT_EQ(made.count(def->name), 1u) << def->name;
}

TEST(TypedOps, RefuseWhatDoesNotBelongTogether) {
  Graph a, b;
  const Value x = a.input("x", DType::F32, {2}), y = b.input("y", DType::F32, {2});
  const auto message = [](auto&& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message([&] { add(x, y); }), "[add] its operands belong to two graphs");
  EXPECT_EQ(message([&] { a.output("y", y); }), "[y] the value belongs to another graph");
  EXPECT_EQ(message([&] { relu(Value{}); }), "[relu] has no operand");
  EXPECT_EQ(message([&] { a.output("y", Value{}); }), "[y] a value is missing");
  EXPECT_EQ(message([&] { scalar(Value{}, 1); }), "[scalar] a value is missing");
  EXPECT_NE(message([&] { a.update(x, x); }).find("is not a state"), std::string::npos);
}

TEST(TypedOps, PutNodesUnderTheirLabel) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2});
  graph.set_label("first");
  relu(x);
  graph.set_label("second");
  exp(x);
  EXPECT_EQ(graph.nodes()[0].label, "first");
  EXPECT_EQ(graph.nodes()[1].label, "second");
}

TEST(WithShapes, KeepsTheNodes) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 3});
  graph.output("y", reshape(softmax(x * 2, -1), {-1}));
  const Graph longer = with_shapes(graph, {{"x", {5, 7}}});
  EXPECT_EQ(longer.type(longer.outputs()[0].value).shape, (Shape{35}));
  EXPECT_EQ(longer.nodes().size(), graph.nodes().size());
  EXPECT_THROW(with_shapes(graph, {{"z", {5, 7}}}), Error);
}

}  // namespace
}  // namespace gyrus::test
