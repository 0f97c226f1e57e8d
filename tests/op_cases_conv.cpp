#include "op_cases_build.h"

namespace gyrus::test {
namespace {

struct ConvSpec {
  std::string name;
  Shape x;
  Shape w;
  Attrs attrs;
  bool bias = true;
  bool weights_are_inputs = false;
  std::vector<Node> body = {};
};

Ints pads(std::initializer_list<int64_t> lo, std::initializer_list<int64_t> hi) {
  Ints list(lo);
  list.insert(list.end(), hi);
  return list;
}

// The same padding on both sides of each axis.
Ints same(std::initializer_list<int64_t> p) { return pads(p, p); }

Node conv_node(CaseBuilder& b, const ConvSpec& spec, const std::string& op) {
  Node node;
  node.op = op;
  node.attrs = spec.attrs;
  node.body = spec.body;
  node.inputs = {b.input(spec.x), spec.weights_are_inputs ? b.input(spec.w) : b.weight(spec.w)};
  if (spec.bias) node.inputs.push_back(spec.weights_are_inputs ? b.input({spec.w[0]}) : b.constant({spec.w[0]}));
  return node;
}

void add_conv(std::vector<OpCase>& cases, const ConvSpec& spec, OpCase base = {}) {
  base.name = (base.large ? "large_conv_" : "conv_") + spec.name;
  base.op = "conv";
  cases.push_back(make_case(base, [spec](CaseBuilder& b) {
    for (ValueId id : b.add_node(conv_node(b, spec, "conv"))) b.output(id);
  }));
}

// Whole numbers: scores are exact, ties occur, and labels must match everywhere.
void add_conv_argmax(std::vector<OpCase>& cases, const ConvSpec& spec) {
  OpCase base;
  base.name = "conv_argmax_" + spec.name;
  base.op = "conv_argmax";
  base.fill = Fill::Whole;
  base.lo = -3;
  base.hi = 3;
  base.exact = true;
  cases.push_back(
      make_case(base, [spec](CaseBuilder& b) { b.output(b.add_node(conv_node(b, spec, "conv_argmax")).front()); }));
}

// Halves throughout; a kernel arranges constant weights beside a bias that is none.
void add_halves(std::vector<OpCase>& cases) {
  cases.push_back(make_case({"conv_2d_halves", "conv", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({2, 2, 6, 4}, DType::F16), bias = b.input({3}, DType::F16);
    b.output(b.add("conv", {x, b.constant({3, 2, 2, 3}, DType::F16), bias}));
    b.output(b.add("conv", {x, b.input({3, 2, 2, 3}, DType::F16), bias}));
  }));
}

// The orders in which kernels read weights; two of each kind differ in one attribute alone.
void add_arrange(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& w, int64_t begin, int64_t end, int64_t lanes, int64_t held,
                       int64_t depth = 0) {
    OpCase base;
    base.name = "arrange_" + name;
    base.op = "arrange";
    if (depth) base.fill = Fill::Whole;  // halves hold whole numbers exactly, and words are compared bit for bit
    if (depth) base.lo = -9, base.hi = 9;
    cases.push_back(make_case(base, [=](CaseBuilder& b) {
      const std::string kernel = name.substr(0, name.find('0'));
      const ValueId weight = b.input(w);
      Attrs attrs = {{"kernel", kernel}, {"begin", begin}, {"end", end}, {"lanes", lanes}, {"held", held}};
      if (depth) attrs.set("depth", depth);
      b.output(b.add("arrange", {weight, b.input({w[0]})}, attrs));
    }));
  };
  add("direct", {10, 3, 3, 2, 3}, 0, 3, 4, 1);
  add("direct0_part", {10, 3, 3, 2, 3}, 1, 3, 4, 1);
  add("direct0_plane", {5, 1, 3, 3}, 0, 2, 1, 1);
  add("argmax", {6, 5, 1, 1, 1}, 0, 2, 8, 1);
  add("winograd", {10, 6, 3, 3, 2}, 0, 3, 8, 2);
  add("winograd0_held", {10, 6, 3, 3, 2}, 0, 3, 8, 3);
  add("matrix", {10, 18, 3, 2, 3}, 0, 3, 32, 4, 16);
  add("matrix0_small", {10, 18, 3, 2, 3}, 0, 3, 24, 2, 8);
  add("winograd_last", {10, 6, 3, 3, 2}, 0, 3, 8, 2);
}

void add_ranks(std::vector<OpCase>& cases) {
  add_conv(cases, {"1d", {1, 3, 17}, {5, 3, 3}, {}});
  add_conv(cases, {"1d_k1", {2, 8, 9}, {4, 8, 1}, {}});
  add_conv(cases, {"1d_stride3_pad", {2, 4, 31}, {7, 4, 5}, {{"stride", Ints{3}}, {"pads", pads({2}, {1})}}});
  add_conv(cases, {"1d_dilated", {1, 2, 40}, {3, 2, 4}, {{"dilation", Ints{7}}}, false});
  add_conv(cases, {"2d", {1, 4, 9, 11}, {8, 4, 3, 3}, {{"pads", same({1, 1})}}});
  add_conv(cases, {"2d_uneven_kernel", {2, 5, 8, 13}, {6, 5, 2, 5}, {{"pads", pads({0, 2}, {1, 2})}}});
  add_conv(cases, {"2d_stride2", {1, 7, 12, 10}, {5, 7, 3, 3}, {{"stride", Ints{2, 2}}, {"pads", same({1, 1})}}});
  add_conv(cases, {"2d_stride_differs", {1, 3, 13, 14}, {4, 3, 3, 2}, {{"stride", Ints{3, 2}}}, false});
  add_conv(cases, {"3d_valid", {1, 1, 7, 6, 5}, {1, 1, 3, 3, 3}, {}});
  add_conv(cases, {"3d_same", {1, 5, 8, 9, 10}, {5, 5, 3, 3, 3}, {{"pads", same({1, 1, 1})}}});
  add_conv(cases, {"3d_one_voxel", {1, 4, 1, 1, 1}, {8, 4, 3, 3, 3}, {{"pads", same({1, 1, 1})}}});
}

void add_channels(std::vector<OpCase>& cases) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{1, 21},
                                {2, 3},
                                {3, 15},
                                {4, 16},
                                {5, 1},
                                {7, 5},
                                {8, 32},
                                {15, 7},
                                {16, 4},
                                {21, 2},
                                {32, 8}}) {
    const std::string name = "3d_c" + std::to_string(in) + "_o" + std::to_string(out);
    add_conv(cases, {name, {1, in, 5, 6, 7}, {out, in, 3, 3, 3}, {{"pads", same({1, 1, 1})}}});
  }
  add_conv(cases, {"3d_k1_c21_o18", {1, 21, 6, 5, 9}, {18, 21, 1, 1, 1}, {}});
  add_conv(cases, {"3d_k1_c15_o104", {1, 15, 4, 5, 6}, {104, 15, 1, 1, 1}, {}, false});
}

void add_geometry(std::vector<OpCase>& cases) {
  add_conv(cases, {"3d_batch3", {3, 5, 6, 5, 4}, {7, 5, 3, 3, 3}, {{"pads", same({1, 1, 1})}}});
  add_conv(cases, {"3d_no_bias", {1, 8, 6, 6, 6}, {8, 8, 3, 3, 3}, {{"pads", same({1, 1, 1})}}, false});
  add_conv(cases, {"3d_weights_as_inputs", {1, 3, 6, 7, 5}, {5, 3, 3, 3, 3}, {{"pads", same({1, 1, 1})}}, true, true});
  add_conv(cases,
           {"3d_stride2", {1, 4, 9, 10, 11}, {8, 4, 3, 3, 3}, {{"stride", Ints{2, 2, 2}}, {"pads", same({1, 1, 1})}}});
  add_conv(
      cases,
      {"3d_stride3_k5", {1, 3, 14, 13, 12}, {4, 3, 5, 5, 5}, {{"stride", Ints{3, 3, 3}}, {"pads", same({2, 2, 2})}}});
  add_conv(cases, {"3d_stride_differs", {2, 2, 9, 8, 7}, {3, 2, 2, 3, 1}, {{"stride", Ints{1, 2, 3}}}});
  add_conv(cases, {"3d_k2_stride2", {1, 5, 8, 8, 8}, {8, 5, 2, 2, 2}, {{"stride", Ints{2, 2, 2}}}});
  add_conv(cases, {"3d_asymmetric_pads", {1, 4, 5, 6, 7}, {5, 4, 3, 3, 3}, {{"pads", pads({0, 1, 2}, {2, 0, 1})}}});
  add_conv(cases, {"3d_wide_pads", {1, 2, 3, 4, 5}, {3, 2, 3, 3, 3}, {{"pads", same({4, 4, 4})}}});
  for (int64_t d : {2, 4, 8, 16})
    add_conv(cases, {"3d_dilation" + std::to_string(d),
                     {1, 5, 9, 12, 20},
                     {5, 5, 3, 3, 3},
                     {{"dilation", Ints{d, d, d}}, {"pads", same({d, d, d})}}});
  add_conv(cases, {"3d_dilation_differs",
                   {1, 4, 9, 8, 10},
                   {4, 4, 3, 3, 3},
                   {{"dilation", Ints{1, 2, 3}}, {"pads", same({1, 2, 3})}}});
  add_conv(cases, {"3d_dilation_stride",
                   {1, 3, 15, 14, 13},
                   {4, 3, 3, 3, 3},
                   {{"dilation", Ints{2, 2, 2}}, {"stride", Ints{2, 2, 2}}, {"pads", same({2, 2, 2})}}});
}

// Enough channels for tiles of matrices, with remainders along every side of a tile.
void add_many_channels(std::vector<OpCase>& cases) {
  add_conv(cases, {"1d_many", {2, 16, 50}, {130, 16, 3}, {}});
  add_conv(cases,
           {"2d_many", {3, 18, 9, 11}, {34, 18, 3, 3}, {{"pads", same({1, 1})}}, true, false, {step("sigmoid", {0})}});
  add_conv(cases, {"2d_many_stride",
                   {2, 20, 11, 10},
                   {36, 20, 3, 2},
                   {{"stride", Ints{2, 3}}, {"pads", pads({0, 1}, {2, 0})}},
                   false,
                   true});
  add_conv(cases, {"2d_many_stats", {2, 16, 8, 9}, {32, 16, 1, 1}, {{"stats", int64_t{1}}}});
  add_conv(cases, {"3d_many_dilation",
                   {2, 17, 5, 6, 7},
                   {40, 17, 3, 2, 3},
                   {{"dilation", Ints{2, 3, 1}}, {"pads", same({2, 1, 1})}}});
  OpCase large;
  large.large = true;
  add_conv(cases, {"2d_many_large", {1, 16, 182, 181}, {128, 16, 1, 1}, {}}, large);
}

void add_groups(std::vector<OpCase>& cases) {
  add_conv(cases,
           {"3d_depthwise", {1, 7, 6, 5, 6}, {7, 1, 3, 3, 3}, {{"groups", int64_t{7}}, {"pads", same({1, 1, 1})}}});
  add_conv(cases, {"3d_depthwise_multiplier",
                   {1, 4, 5, 5, 5},
                   {8, 1, 3, 3, 3},
                   {{"groups", int64_t{4}}, {"pads", same({1, 1, 1})}}});
  add_conv(cases,
           {"3d_groups2", {1, 8, 6, 5, 4}, {6, 4, 3, 3, 3}, {{"groups", int64_t{2}}, {"pads", same({1, 1, 1})}}});
  add_conv(cases,
           {"2d_groups3", {2, 15, 7, 8}, {21, 5, 3, 3}, {{"groups", int64_t{3}}, {"pads", same({1, 1})}}, false});
}

void add_epilogues(std::vector<OpCase>& cases) {
  const Attrs padded = {{"pads", same({1, 1, 1})}};
  const Attrs with_stats = {{"pads", same({1, 1, 1})}, {"stats", int64_t{1}}};
  add_conv(cases, {"3d_body_gelu", {1, 5, 6, 7, 8}, {5, 5, 3, 3, 3}, padded, true, false, {step("gelu", {0})}});
  add_conv(cases, {"3d_body_sigmoid", {1, 5, 5, 6, 7}, {7, 5, 3, 3, 3}, padded, true, false, {step("sigmoid", {0})}});
  add_conv(cases, {"3d_body_silu_by_hand",
                   {1, 4, 6, 5, 8},
                   {6, 4, 3, 3, 3},
                   padded,
                   false,
                   false,
                   {step("sigmoid", {0}), step("mul", {0, 1}),
                    step("affine_clamp", {2}, {{"scale", 2.0}, {"shift", 0.5}, {"lo", -1.0}, {"hi", 3.0}})}});
  add_conv(cases, {"3d_stats", {1, 4, 6, 7, 8}, {5, 4, 3, 3, 3}, with_stats});
  add_conv(cases, {"3d_stats_batch2", {2, 3, 5, 5, 6}, {16, 3, 3, 3, 3}, with_stats, false});
  OpCase whole;
  whole.fill = Fill::Whole;
  whole.lo = -4;
  whole.hi = 4;
  whole.exact = true;
  add_conv(cases, {"3d_exact_sums", {1, 7, 6, 6, 6}, {9, 7, 3, 3, 3}, padded}, whole);
}

void add_argmax(std::vector<OpCase>& cases) {
  const std::string u8 = "u8", u32 = "u32";
  add_conv_argmax(cases, {"3d_k1", {1, 5, 6, 7, 8}, {3, 5, 1, 1, 1}, {{"dtype", u8}}});
  add_conv_argmax(cases, {"3d_k1_o104", {1, 21, 5, 6, 7}, {104, 21, 1, 1, 1}, {{"dtype", u8}}});
  add_conv_argmax(cases, {"3d_k1_u32", {2, 15, 4, 5, 7}, {18, 15, 1, 1, 1}, {{"dtype", u32}}, false});
  add_conv_argmax(cases, {"3d_k3", {1, 4, 6, 5, 7}, {5, 4, 3, 3, 3}, {{"dtype", u8}, {"pads", same({1, 1, 1})}}});
  add_conv_argmax(cases, {"3d_one_class", {1, 4, 3, 3, 3}, {1, 4, 1, 1, 1}, {{"dtype", u8}}});
  add_conv_argmax(cases, {"3d_stride2", {1, 3, 9, 8, 7}, {6, 3, 2, 2, 2}, {{"dtype", u8}, {"stride", Ints{2, 2, 2}}}});
  add_conv_argmax(cases, {"2d", {1, 8, 9, 11}, {7, 8, 1, 1}, {{"dtype", u8}}});
  add_conv_argmax(cases, {"1d_groups", {3, 4, 13}, {6, 2, 1}, {{"dtype", u32}, {"groups", int64_t{2}}}});
}

void add_transposed(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& x, const Shape& w, const Attrs& attrs, bool bias = false) {
    OpCase base;
    base.name = "conv_transpose_" + name;
    base.op = "conv_transpose";
    cases.push_back(make_case(base, [=](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input(x), b.input(w)};
      if (bias) inputs.push_back(b.input({w[1] * attrs.integer("groups", 1)}));
      b.output(b.add("conv_transpose", inputs, attrs));
    }));
  };
  add("1d", {2, 4, 9}, {4, 3, 3}, {});
  add("2d", {1, 5, 6, 7}, {5, 4, 3, 3}, {});
  add("2d_bias", {1, 5, 6, 7}, {5, 4, 3, 3}, {}, true);
  add("2d_stride", {1, 5, 6, 7}, {5, 4, 3, 3}, {{"stride", Ints{2, 3}}});
  add("2d_more", {1, 5, 6, 7}, {5, 4, 3, 3}, {{"stride", Ints{2, 3}}, {"output_padding", Ints{1, 2}}});
  add("2d_pads", {1, 5, 6, 7}, {5, 4, 3, 3}, {{"pads", pads({1, 0}, {2, 1})}});
  // All of the map is cut away, and zeros are left.
  add("1d_beyond", {2, 3, 1}, {3, 4, 1}, {{"stride", Ints{3}}, {"pads", Ints{2, 0}}, {"output_padding", Ints{2}}},
      true);
  add("2d_negative", {1, 5, 6, 7}, {5, 4, 3, 3}, {{"pads", pads({-1, 0}, {0, -2})}});
  add("2d_dilation", {1, 5, 6, 7}, {5, 4, 3, 3}, {{"dilation", Ints{2, 1}}});
  add("2d_groups", {1, 6, 6, 7}, {6, 2, 3, 3}, {{"groups", int64_t{3}}});
  add("2d_blocks", {2, 5, 6, 7}, {5, 4, 2, 3}, {{"stride", Ints{2, 3}}});
  add("3d", {1, 5, 4, 5, 6}, {5, 7, 2, 2, 2}, {{"stride", Ints{2, 2, 2}}}, true);
}

// The gradient of weights: x, the gradient of the result, the kernel.
void add_weights(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& x, const Shape& g, const Ints& kernel, Attrs attrs,
                       OpCase base = {}) {
    base.name = (base.large ? "large_conv_weights_" : "conv_weights_") + name;
    base.op = "conv_weights";
    attrs.set("kernel", kernel);
    cases.push_back(make_case(base, [=](CaseBuilder& b) {
      b.output(b.add("conv_weights", {b.input(x), b.input(g)}, attrs));
    }));
  };
  add("1d", {2, 3, 19}, {2, 5, 17}, {3}, {});
  add("2d", {2, 6, 9, 11}, {2, 7, 9, 11}, {3, 3}, {{"pads", same({1, 1})}});
  add("2d_unpadded", {2, 6, 9, 11}, {2, 7, 7, 9}, {3, 3}, {});
  add("2d_stride", {1, 5, 12, 10}, {1, 6, 6, 5}, {3, 3}, {{"stride", Ints{2, 2}}, {"pads", same({1, 1})}});
  add("2d_groups", {2, 6, 7, 8}, {2, 9, 7, 8}, {3, 3}, {{"groups", int64_t{3}}, {"pads", same({1, 1})}});
  add("2d_pointwise", {1, 9, 6, 7}, {1, 5, 6, 7}, {1, 1}, {});
  add("3d", {1, 5, 6, 7, 8}, {1, 5, 6, 7, 8}, {3, 3, 3}, {{"pads", same({1, 1, 1})}});
  add("3d_dilation", {1, 5, 9, 8, 11}, {1, 6, 9, 8, 11}, {3, 3, 3},
      {{"dilation", Ints{2, 4, 3}}, {"pads", same({2, 4, 3})}});
  add("3d_one_channel", {2, 1, 6, 5, 7}, {2, 5, 6, 5, 7}, {3, 3, 3}, {{"pads", same({1, 1, 1})}});
  add("3d_one_result", {1, 6, 6, 5, 7}, {1, 1, 6, 5, 7}, {3, 3, 3}, {{"pads", same({1, 1, 1})}});
  add("3d_uneven", {1, 3, 6, 7, 9}, {1, 4, 3, 4, 3}, {2, 3, 5},
      {{"stride", Ints{2, 2, 3}}, {"pads", pads({0, 1, 1}, {0, 1, 2})}});
  add("3d_out_of_reach", {1, 2, 3, 3, 3}, {1, 2, 3, 3, 3}, {3, 3, 3},
      {{"dilation", Ints{4, 4, 4}}, {"pads", same({4, 4, 4})}});
  add("2d_many", {2, 30, 5, 21}, {2, 50, 5, 21}, {3, 3}, {{"pads", same({1, 1})}});
  add("2d_many_dilation", {1, 26, 6, 19}, {1, 32, 6, 17}, {2, 2},
      {{"dilation", Ints{1, 3}}, {"pads", pads({1, 1}, {0, 0})}});
  add("3d_many_stride", {1, 32, 4, 5, 33}, {1, 27, 2, 3, 17}, {3, 3, 3},
      {{"stride", Ints{2, 2, 2}}, {"pads", same({1, 1, 1})}});
  OpCase large;
  large.large = true;
  add("large", {1, 5, 40, 66, 52}, {1, 6, 40, 66, 52}, {3, 3, 3}, {{"pads", same({1, 1, 1})}}, large);
}

}  // namespace

void add_conv_cases(std::vector<OpCase>& cases) {
  add_halves(cases);
  add_transposed(cases);
  add_weights(cases);
  add_ranks(cases);
  add_arrange(cases);
  add_channels(cases);
  add_geometry(cases);
  add_many_channels(cases);
  add_groups(cases);
  add_epilogues(cases);
  add_argmax(cases);
}

}  // namespace gyrus::test
