#include "op_cases_build.h"

// Products of matrices, and ops that choose or overwrite slices by numbers of the run. Cases that differ in one
// attribute alone stand side by side.

namespace gyrus::test {
namespace {

struct MatmulSpec {
  std::string name;
  Shape a, b;
  Attrs attrs = {};
  bool bias = false;
  std::vector<Node> body = {};
  Shape further = {};  // of one more operand of the body
};

void add_matmul(std::vector<OpCase>& cases, const MatmulSpec& spec, DType dtype = DType::F32) {
  OpCase base;
  base.name = "matmul_" + spec.name;
  base.op = "matmul";
  cases.push_back(make_case(base, [spec, dtype](CaseBuilder& b) {
    Node node;
    node.op = "matmul";
    node.attrs = spec.attrs;
    node.body = spec.body;
    const ValueId a = b.input(spec.a, dtype);
    node.inputs = {a, b.input(spec.b, dtype)};
    const bool transposed = spec.attrs.has("transpose_b");
    const int64_t columns = spec.b[spec.b.size() - (transposed ? 2 : 1)];
    if (spec.bias) node.inputs.push_back(b.input({columns}, dtype));
    if (!spec.further.empty()) {
      if (!spec.bias) node.inputs.push_back(kNoValue);
      node.inputs.push_back(b.input(spec.further, dtype));
    }
    b.output(b.add_node(std::move(node)).front());
  }));
}

void add_matmuls(std::vector<OpCase>& cases) {
  const Attrs a{{"transpose_a", int64_t{1}}}, b{{"transpose_b", int64_t{1}}};
  add_matmul(cases, {"square", {37, 37}, {37, 37}});
  add_matmul(cases, {"transpose_a", {37, 37}, {37, 37}, a});
  add_matmul(cases, {"transpose_b", {37, 37}, {37, 37}, b});
  add_matmul(cases, {"transpose_both", {20, 9}, {33, 20}, {{"transpose_a", int64_t{1}}, {"transpose_b", int64_t{1}}}});
  add_matmul(cases, {"row", {1, 100}, {100, 70}});
  add_matmul(cases, {"column", {70, 100}, {100, 1}});
  add_matmul(cases, {"outer", {5, 1}, {1, 6}});
  add_matmul(cases, {"bias", {9, 20}, {20, 33}, {}, true});
  add_matmul(cases, {"batched", {3, 9, 20}, {3, 20, 17}});
  add_matmul(cases, {"broadcast", {2, 1, 9, 20}, {3, 20, 17}});
  add_matmul(cases, {"body", {9, 20}, {20, 33}, {}, true, {step("relu", {0})}});
  add_matmul(cases, {"residual", {9, 20}, {20, 33}, {}, false, {step("add", {0, 1})}, {9, 33}});
  add_matmul(cases, {"row_gate", {2, 9, 20}, {20, 33}, {}, true, {step("sigmoid", {0}), step("mul", {1, 2})}, {33}});
  cases.push_back(make_case({"matmul_bias_halves", "matmul", {}}, [](CaseBuilder& build) {
    build.output(build.add("matmul", {build.input({9, 20}, DType::F16), build.input({20, 33}, DType::F16),
                                      build.input({33}, DType::F16)}));
  }));
  add_matmul(cases, {"halves", {9, 20}, {20, 33}}, DType::F16);
  // Rows of whole quads, for which there is a way of its own.
  add_matmul(cases, {"quads", {37, 36}, {36, 52}});
  add_matmul(cases, {"quads_transpose_a", {36, 72}, {36, 52}, a});
  add_matmul(cases, {"quads_transpose_b", {37, 36}, {72, 36}, b});
  add_matmul(cases, {"quads_batched", {2, 1, 20, 8}, {3, 8, 12}, {}, true});
  // Large enough for the large tile, and cut by small limits.
  add_matmul(cases, {"large", {64, 130, 8}, {8, 130}});
}

void add_gather(std::vector<OpCase>& cases, const std::string& name, const Shape& data, const Shape& indices,
                int64_t axis, DType dtype) {
  OpCase base;
  base.name = "gather_" + name;
  base.op = "gather";
  base.exact = true;
  cases.push_back(make_case(base, [=](CaseBuilder& b) {
    Tensor chosen(dtype, indices);
    for (int64_t i = 0; i < chosen.size(); ++i) {
      const int64_t extent = data[static_cast<size_t>(axis)];
      const int64_t at = (7 * i + 3) % extent;
      set(chosen, i, static_cast<double>(dtype == DType::I32 && i % 3 == 0 ? at - extent : at));
    }
    const ValueId x = b.input(data);
    b.output(b.add("gather", {x, b.graph.add_constant("indices", std::move(chosen))}, {{"axis", axis}}));
  }));
}

void add_update(std::vector<OpCase>& cases, const std::string& name, const Shape& base_shape, const Shape& value,
                int64_t axis, int64_t start, bool operand) {
  OpCase base;
  base.name = "update_slice_" + name;
  base.op = "update_slice";
  base.exact = true;
  cases.push_back(make_case(base, [=](CaseBuilder& b) {
    const ValueId x = b.input(base_shape);
    std::vector<ValueId> inputs = {x, b.input(value)};
    Attrs attrs{{"axis", axis}};
    if (operand) {
      Tensor first(DType::U32, {});
      set(first, 0, static_cast<double>(start));
      inputs.push_back(b.graph.add_constant("start", std::move(first)));
    } else {
      attrs.set("start", start);
    }
    b.output(b.add("update_slice", inputs, attrs));
  }));
}

struct AttentionCase {
  std::string name;
  Shape q, k, v;
  Attrs attrs{};
  Shape mask{}, bias{};  // none where empty
};

void add_attention(std::vector<OpCase>& cases, const AttentionCase& a) {
  cases.push_back(make_case({"attention_" + a.name, "attention", {}}, [a](CaseBuilder& b) {
    std::vector<ValueId> inputs = {b.input(a.q), b.input(a.k), b.input(a.v), kNoValue, kNoValue};
    if (!a.mask.empty()) {
      Tensor seen(DType::Bool, a.mask);
      for (int64_t i = 0; i < seen.size(); ++i) set(seen, i, (i * 7 + i / 5) % 3 != 0);
      inputs[3] = b.graph.add_constant("mask", std::move(seen));
    }
    if (!a.bias.empty()) inputs[4] = b.input(a.bias);
    while (inputs.back() == kNoValue) inputs.pop_back();
    b.output(b.add("attention", inputs, a.attrs));
  }));
}

void add_attentions(std::vector<OpCase>& cases) {
  const Shape small = {2, 2, 9, 8}, keys = {2, 2, 13, 8};
  add_attention(cases, {"plain", small, keys, keys});
  add_attention(cases, {"tiles", {1, 2, 70, 16}, {1, 2, 130, 16}, {1, 2, 130, 16}});
  add_attention(cases, {"causal", small, keys, keys, {{"causal", int64_t{1}}}});
  add_attention(cases, {"causal_tiles", {1, 1, 70, 8}, {1, 1, 70, 8}, {1, 1, 70, 8}, {{"causal", int64_t{1}}}});
  add_attention(cases, {"window", small, keys, keys, {{"window", int64_t{3}}}});
  add_attention(cases, {"causal_window",
                        {1, 1, 70, 8},
                        {1, 1, 90, 8},
                        {1, 1, 90, 8},
                        {{"causal", int64_t{1}}, {"window", int64_t{20}}}});
  add_attention(cases, {"scale", small, keys, keys, {{"scale", 0.9}}});
  add_attention(cases, {"softcap", small, keys, keys, {{"softcap", 0.5}}});
  add_attention(cases, {"grouped", {2, 6, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}});
  add_attention(cases, {"value_depth", small, keys, {2, 2, 13, 20}});
  add_attention(cases, {"odd_depth", {1, 2, 5, 6}, {1, 2, 7, 6}, {1, 2, 7, 5}});
  add_attention(cases, {"mask", small, keys, keys, {}, {2, 1, 9, 13}});
  add_attention(cases, {"bias", small, keys, keys, {}, {}, {2, 1, 13}});
  add_attention(
      cases,
      {"mask_bias", {1, 2, 70, 8}, {1, 2, 75, 8}, {1, 2, 75, 8}, {{"causal", int64_t{1}}}, {70, 75}, {1, 2, 70, 75}});
  // Every third key of the mask's is hidden, all of its first row's too.
  add_attention(cases, {"hidden", small, keys, keys, {{"hidden", -3.4e38}}, {2, 1, 9, 13}});
  add_attention(cases, {"hidden_near", {1, 1, 70, 8}, {1, 1, 70, 8}, {1, 1, 70, 8}, {{"hidden", -2.0}}, {70, 70}});
  // The first queries stand before every key.
  add_attention(cases, {"sees_nothing", {1, 1, 9, 8}, {1, 1, 5, 8}, {1, 1, 5, 8}, {{"causal", int64_t{1}}}});
}

}  // namespace

void add_matmul_cases(std::vector<OpCase>& cases) {
  add_attentions(cases);
  add_matmuls(cases);
  add_gather(cases, "rows", {11, 6}, {5}, 0, DType::I32);
  add_gather(cases, "columns", {11, 6}, {5}, 1, DType::I32);
  add_gather(cases, "of_two_axes", {3, 9, 4}, {2, 3}, 1, DType::U32);
  add_update(cases, "start", {3, 8, 5}, {3, 2, 5}, 1, 4, false);
  add_update(cases, "other_start", {3, 8, 5}, {3, 2, 5}, 1, 1, false);
  add_update(cases, "operand", {3, 8, 5}, {3, 2, 5}, 1, 6, true);
  add_update(cases, "first_axis", {8, 5}, {3, 5}, 0, 2, false);
}

}  // namespace gyrus::test
