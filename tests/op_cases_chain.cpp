#include "op_cases_build.h"

// Several ops in a row, as networks have them: what passes fuse, fold and lay out.

namespace gyrus::test {
namespace {

const Attrs kSame = {{"pads", Ints{1, 1, 1, 1, 1, 1}}};

ValueId conv3(CaseBuilder& b, ValueId x, int64_t filters, Attrs attrs = kSame) {
  const int64_t channels = b.graph.type(x).shape[1];
  return b.add("conv", {x, b.weight({filters, channels, 3, 3, 3}), b.constant({filters})}, std::move(attrs));
}

ValueId conv1(CaseBuilder& b, ValueId x, int64_t filters) {
  const int64_t channels = b.graph.type(x).shape[1];
  return b.add("conv", {x, b.weight({filters, channels, 1, 1, 1}), b.constant({filters})});
}

ValueId group_norm(CaseBuilder& b, ValueId x, int64_t groups) {
  return b.add("group_norm", {x}, {{"groups", groups}, {"eps", 1e-5}});
}

void add_segmentation(std::vector<OpCase>& cases) {
  // The shape of a MeshNet: dilated convolutions, statistics over the whole volume, a label for each voxel.
  cases.push_back(make_case({"chain_conv_norm_gelu_argmax", "argmax", {}}, [](CaseBuilder& b) {
    ValueId x = b.input({1, 1, 9, 10, 11});
    for (const int64_t d : {1, 2, 4})
      x = b.add("gelu",
                {group_norm(b, conv3(b, x, 5, {{"dilation", Ints{d, d, d}}, {"pads", Ints{d, d, d, d, d, d}}}), 5)});
    b.output(b.add("argmax", {conv1(b, x, 18)}, {{"axis", int64_t{1}}, {"dtype", "u8"}}));
  }));
  cases.push_back(make_case({"chain_conv_batch_norm_relu", "relu", {}}, [](CaseBuilder& b) {
    const ValueId x = conv3(b, b.input({1, 3, 7, 8, 6}), 21);
    b.output(b.add("relu",
                   {b.add("batch_norm", {x, b.constant({21}), b.positive({21}), b.positive({21}), b.constant({21})})}));
  }));
  OpCase exact{"chain_u8_to_labels", "argmax", {}, Fill::Whole, -3, 3};
  exact.exact = true;
  cases.push_back(make_case(exact, [](CaseBuilder& b) {
    const ValueId x = b.add("affine_clamp", {b.input({1, 1, 8, 9, 7}, DType::U8)},
                            {{"scale", 1.0}, {"shift", -1.0}, {"lo", -2.0}, {"hi", 2.0}});
    b.output(b.add("argmax", {conv1(b, b.add("relu", {conv3(b, x, 5)}), 3)}, {{"axis", int64_t{1}}, {"dtype", "u8"}}));
  }));
  cases.push_back(make_case({"chain_conv_softmax", "softmax", {}}, [](CaseBuilder& b) {
    b.output(b.add("softmax", {conv3(b, b.input({2, 4, 5, 6, 5}), 7)}, {{"axis", int64_t{1}}}));
  }));
}

void add_branches(std::vector<OpCase>& cases) {
  cases.push_back(make_case({"chain_residual", "add", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 8, 6, 7, 5});
    const ValueId y = conv3(b, b.add("relu", {conv3(b, x, 8)}), 8);
    b.output(b.add("relu", {b.add("add", {y, x})}));
  }));
  cases.push_back(make_case({"chain_skip_concat", "concat", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 5, 8, 8, 8});
    const ValueId down = b.add("relu", {conv3(b, x, 7, {{"stride", Ints{2, 2, 2}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}})});
    const ValueId cut = b.add("slice", {x}, {{"starts", Ints{0, 0, 2, 2, 2}}, {"ends", Ints{1, 5, 6, 6, 6}}});
    b.output(conv3(b, b.add("concat", {down, cut}, {{"axis", int64_t{1}}}), 4));
  }));
  // A value that is read twice and is an output too: it may not be fused away.
  cases.push_back(make_case({"chain_shared_value", "mul", {}}, [](CaseBuilder& b) {
    const ValueId x = conv3(b, b.input({1, 4, 5, 6, 7}), 6);
    const ValueId gate = b.add("sigmoid", {x});
    b.output(b.add("mul", {x, gate}));
    b.output(gate);
  }));
  cases.push_back(make_case({"chain_sibling_norms", "add", {}}, [](CaseBuilder& b) {
    const ValueId x = conv3(b, b.input({1, 3, 6, 6, 6}), 8);
    b.output(b.add("add", {group_norm(b, x, 2), b.add("instance_norm", {x})}));
  }));
}

void add_corners(std::vector<OpCase>& cases) {
  // A gate for all voxels and channels: one element, made by a convolution.
  cases.push_back(make_case({"chain_scalar_gate", "mul", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 6, 5, 4, 7});
    const ValueId mean = b.add("reduce_mean", {x}, {{"axes", Ints{2, 3, 4}}, {"keepdims", int64_t{1}}});
    b.output(b.add("mul", {conv3(b, x, 5), b.add("sigmoid", {conv1(b, mean, 1)})}));
  }));
  cases.push_back(make_case({"chain_one_element", "add", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 1, 1, 1, 1});
    b.output(b.add("add", {conv1(b, x, 1), x}));
  }));
  // Weights shared by two convolutions whose norms are folded into them.
  cases.push_back(make_case({"chain_shared_weights", "batch_norm", {}}, [](CaseBuilder& b) {
    const ValueId weight = b.weight({5, 5, 1, 1, 1});
    ValueId x = b.input({1, 5, 4, 6, 5});
    for (int i = 0; i < 2; ++i) x = b.add("batch_norm", {b.add("conv", {x, weight}), b.constant({5}), b.positive({5})});
    b.output(x);
  }));
  // Halves that the graph itself has, at every kind of operand that convolutions and norms read.
  cases.push_back(make_case({"chain_halves", "group_norm", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 6, 7, 5}, DType::F16);
    const ValueId depthwise =
        b.add("conv", {x, b.weight({6, 1, 3, 3})}, {{"groups", int64_t{6}}, {"pads", Ints{1, 1, 1, 1}}});
    const ValueId wide = b.add("conv", {depthwise, b.weight({8, 6, 1, 1}), b.constant({8}, DType::F16)});
    const ValueId norm =
        b.add("group_norm", {wide, b.input({8}, DType::F16), b.input({8}, DType::F16)}, {{"groups", int64_t{2}}});
    b.output(b.add("mul", {norm, b.input({1}, DType::F16)}));
  }));
  cases.push_back(make_case({"chain_one_channel_halves", "conv", {}}, [](CaseBuilder& b) {
    b.output(conv3(b, b.input({1, 1, 5, 6, 4}, DType::F16), 6));
  }));
}

// More operands than small targets have bindings; some are broadcast.
ValueId with_many(CaseBuilder& b, ValueId y, const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes) y = b.add("tanh", {b.add("sub", {b.input(shape), y})});
  return y;
}

void add_plain(std::vector<OpCase>& cases) {
  cases.push_back(make_case({"chain_many_operands", "tanh", {}}, [](CaseBuilder& b) {
    const Shape whole = {3, 7, 11};
    b.output(with_many(b, b.input(whole), {whole, {7, 1}, whole, {}, whole, {11}, whole}));
  }));
  cases.push_back(make_case({"chain_many_operands_packed", "tanh", {}}, [](CaseBuilder& b) {
    const Shape whole = {1, 6, 4, 5, 3};
    b.output(with_many(b, conv3(b, b.input({1, 2, 4, 5, 3}), 6), {whole, {1, 6, 1, 1, 1}, whole, {}, whole}));
  }));
  cases.push_back(make_case({"chain_elementwise", "div", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({2, 7, 33}), y = b.input({7, 1});
    ValueId z = b.add("mul", {b.add("tanh", {x}), b.add("exp", {y})});
    z = b.add("sub", {z, b.constant({})});
    b.output(b.add("div", {b.add("square", {z}), b.add("softplus", {b.add("add", {z, x})})}));
  }));
  cases.push_back(make_case({"chain_transpose_reduce", "reduce_mean", {}}, [](CaseBuilder& b) {
    const ValueId x = b.add("transpose", {b.input({4, 9, 13})}, {{"perm", Ints{2, 0, 1}}});
    const ValueId mean = b.add("reduce_mean", {x}, {{"axes", Ints{0}}, {"keepdims", int64_t{1}}});
    b.output(b.add("reduce_max", {b.add("abs", {b.add("sub", {x, mean})})}, {{"axes", Ints{-1}}}));
  }));
  cases.push_back(make_case({"chain_pad_slice_reshape", "reshape", {}}, [](CaseBuilder& b) {
    const ValueId x = b.add("pad", {b.input({3, 5, 7})}, {{"pads", Ints{1, 0, 2, 0, 1, 2}}, {"value", 0.5}});
    const ValueId cut =
        b.add("slice", {x}, {{"starts", Ints{0, 1, 1}}, {"ends", Ints{4, 6, 11}}, {"steps", Ints{1, 1, 2}}});
    b.output(b.add("reshape", {b.add("neg", {cut})}, {{"shape", Ints{-1, 5}}}));
  }));
  cases.push_back(make_case({"chain_2d_depthwise_separable", "silu", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({2, 6, 11, 9});
    const ValueId depthwise =
        b.add("conv", {x, b.weight({6, 1, 3, 3})}, {{"groups", int64_t{6}}, {"pads", Ints{1, 1, 1, 1}}});
    b.output(b.add("silu", {b.add("conv", {b.add("relu", {depthwise}), b.weight({10, 6, 1, 1}), b.constant({10})})}));
  }));
}

// Attention by parts. A mask of the lowest number, added or chosen, hides the first row's keys and some others.
void add_attention(std::vector<OpCase>& cases, const std::string& name, bool chosen, const Shape& batch) {
  cases.push_back(make_case({"chain_attention_" + name, "matmul", {}}, [=](CaseBuilder& b) {
    const auto matrices = [&](int64_t rows, int64_t columns) {
      Shape shape = batch;
      shape.insert(shape.end(), {rows, columns});
      return shape;
    };
    constexpr int64_t kQueries = 9, kKeys = 21;
    constexpr double kLowest = -3.4028234663852886e38;
    Tensor seen(DType::Bool, {kQueries, kKeys}), added(DType::F32, {kQueries, kKeys}), lowest(DType::F32, {});
    for (int64_t i = 0; i < seen.size(); ++i) {
      const bool on = i >= kKeys && i % 3 != 0;
      set(seen, i, on);
      set(added, i, on ? 0 : kLowest);
    }
    set(lowest, 0, kLowest);
    const ValueId product =
        b.add("matmul", {b.input(matrices(kQueries, 8)), b.input(matrices(kKeys, 8))}, {{"transpose_b", int64_t{1}}});
    const ValueId scores = b.add("affine", {product}, {{"scale", 0.4}});
    const ValueId masked = chosen ? b.add("where", {b.graph.add_constant("seen", std::move(seen)), scores,
                                                    b.graph.add_constant("lowest", std::move(lowest))})
                                  : b.add("add", {b.graph.add_constant("added", std::move(added)), scores});
    b.output(b.add("matmul", {b.add("softmax", {masked}, {{"axis", int64_t{-1}}}), b.input(matrices(kKeys, 12))}));
  }));
}

void add_transformer(std::vector<OpCase>& cases) {
  add_attention(cases, "bias", false, {2, 3});
  add_attention(cases, "mask", true, {2, 3});
  add_attention(cases, "heads", false, {5});
  // Queries, keys and values of one x, with biases behind the products.
  cases.push_back(make_case({"chain_queries_keys_values", "attention", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({2, 7, 24});
    std::vector<ValueId> heads;
    for (int i = 0; i < 3; ++i) {
      const ValueId product = b.add("matmul", {x, b.weight({24, 16})});
      const ValueId biased = i == 1 ? product : b.add("add", {product, b.constant({16})});
      const ValueId apart = b.add("reshape", {biased}, {{"shape", Ints{2, 7, 2, 8}}});
      heads.push_back(b.add("transpose", {apart}, {{"perm", Ints{0, 2, 1, 3}}}));
    }
    b.output(b.add("attention", heads));
  }));
}

}  // namespace

void add_chain_cases(std::vector<OpCase>& cases) {
  add_segmentation(cases);
  add_branches(cases);
  add_corners(cases);
  add_plain(cases);
  add_transformer(cases);
}

}  // namespace gyrus::test
