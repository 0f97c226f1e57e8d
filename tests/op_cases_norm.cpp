#include "op_cases_build.h"

namespace gyrus::test {
namespace {

// A mean of 500 standard deviations: sums of squares would lose all digits of the variance.
OpCase far_mean(const std::string& name, const std::string& op) {
  OpCase c{name, op, {}};
  c.fill = Fill::Normal;
  c.lo = 500;
  c.hi = 1;
  return c;
}

void add_stats(std::vector<OpCase>& cases) {
  for (const auto& [name, shape] : std::initializer_list<std::pair<std::string, Shape>>{
           {"norm_stats_1d", {2, 3, 40}},
           {"norm_stats_2d", {1, 5, 9, 13}},
           {"norm_stats_3d", {1, 8, 7, 6, 11}},
           {"norm_stats_3d_batch3", {3, 21, 5, 4, 3}},
           {"norm_stats_one_voxel", {2, 4, 1, 1, 1}},
       }) {
    const auto build = [s = shape](CaseBuilder& b) { b.output(b.add("norm_stats", {b.input(s)})); };
    cases.push_back(make_case({name, "norm_stats", {}}, build));
  }
  cases.push_back(make_case(far_mean("norm_stats_far_mean", "norm_stats"), [](CaseBuilder& b) {
    b.output(b.add("norm_stats", {b.input({1, 5, 16, 16, 16})}));
  }));
}

ValueId stats_of(CaseBuilder& b, ValueId x) { return b.add("norm_stats", {x}); }

void add_apply(std::vector<OpCase>& cases) {
  cases.push_back(make_case({"norm_apply_affine", "norm_apply", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({2, 8, 5, 6, 7});
    b.output(b.add("norm_apply", {x, stats_of(b, x), b.positive({8}), b.constant({8})},
                   {{"groups", int64_t{4}}, {"eps", 1e-5}}));
  }));
  cases.push_back(make_case({"norm_apply_large_eps", "norm_apply", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 6, 40});
    b.output(b.add("norm_apply", {x, stats_of(b, x)}, {{"groups", int64_t{1}}, {"eps", 0.5}}));
  }));
  cases.push_back(make_case({"norm_apply_body", "norm_apply", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 7, 6, 5, 4});
    Node node;
    node.op = "norm_apply";
    node.inputs = {x, stats_of(b, x), b.positive({7}), b.constant({7})};
    node.attrs = {{"groups", int64_t{7}}};
    node.body = {step("gelu", {0}), step("add", {1, 0})};
    b.output(b.add_node(node).front());
  }));
  // Statistics of another tensor, given at run time: not those of x.
  cases.push_back(make_case({"norm_apply_given_stats", "norm_apply", {}, Fill::Uniform, 0.5, 2}, [](CaseBuilder& b) {
    b.output(b.add("norm_apply", {b.input({1, 5, 4, 4, 4}), b.input({1, 5, 2})}, {{"groups", int64_t{5}}}));
  }));
}

void add_composites(std::vector<OpCase>& cases) {
  struct Spec {
    std::string name;
    Shape shape;
    int64_t groups;
    bool affine;
  };
  for (const Spec& spec :
       {Spec{"group_norm_5_of_5", {1, 5, 6, 7, 8}, 5, true}, Spec{"group_norm_3_of_15", {2, 15, 5, 4, 6}, 3, true},
        Spec{"group_norm_1_of_7", {1, 7, 5, 6, 5}, 1, false}, Spec{"group_norm_2d", {1, 16, 9, 7}, 4, true},
        Spec{"group_norm_1d", {3, 4, 21}, 2, false}, Spec{"group_norm_no_voxels", {3, 32}, 8, true}}) {
    cases.push_back(make_case({spec.name, "group_norm", {}}, [spec](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input(spec.shape)};
      if (spec.affine) inputs.insert(inputs.end(), {b.positive({spec.shape[1]}), b.constant({spec.shape[1]})});
      b.output(b.add("group_norm", inputs, {{"groups", spec.groups}, {"eps", 1e-5}}));
    }));
  }
  cases.push_back(make_case(far_mean("group_norm_far_mean", "group_norm"), [](CaseBuilder& b) {
    b.output(b.add("group_norm", {b.input({1, 5, 12, 13, 14})}, {{"groups", int64_t{5}}}));
  }));
  cases.push_back(make_case({"instance_norm_3d", "instance_norm", {}}, [](CaseBuilder& b) {
    b.output(b.add("instance_norm", {b.input({2, 5, 6, 5, 7})}));
  }));
  cases.push_back(make_case({"instance_norm_affine", "instance_norm", {}}, [](CaseBuilder& b) {
    b.output(b.add("instance_norm", {b.input({1, 21, 5, 6, 4}), b.positive({21}), b.constant({21})}, {{"eps", 1e-3}}));
  }));
}

void add_batch_norm(std::vector<OpCase>& cases) {
  for (const bool affine : {false, true})
    cases.push_back(
        make_case({affine ? "batch_norm_affine" : "batch_norm_plain", "batch_norm", {}}, [affine](CaseBuilder& b) {
          std::vector<ValueId> inputs = {b.input({2, 5, 4, 6, 5}), b.constant({5}), b.positive({5})};
          if (affine) inputs.insert(inputs.end(), {b.positive({5}), b.constant({5})});
          b.output(b.add("batch_norm", inputs, {{"eps", 1e-3}}));
        }));
  cases.push_back(make_case({"batch_norm_rank2", "batch_norm", {}}, [](CaseBuilder& b) {
    b.output(b.add("batch_norm", {b.input({5, 7}), b.constant({7}), b.positive({7})}));
  }));
  cases.push_back(make_case({"batch_norm_runtime_statistics", "batch_norm", {}, Fill::Uniform, 0.5, 2}, [](CaseBuilder&
                                                                                                               b) {
    b.output(b.add("batch_norm", {b.input({2, 4, 5, 6, 3}), b.input({4}), b.input({4}), b.input({4}), b.input({4})}));
  }));
}

// Rows of single elements, of quads, of one element, longer than a workgroup, and several to a workgroup.
void add_row_norms(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, const std::string& name, const Shape& shape, int64_t axis, int affine,
                       Attrs attrs = {}, DType dtype = DType::F32) {
    attrs.set("axis", axis);
    cases.push_back(make_case({op + "_" + name, op, {}, Fill::Normal, 1, 2}, [=](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input(shape, dtype)};
      const Shape rows(shape.begin() + (axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis), shape.end());
      for (int i = 0; i < affine; ++i) inputs.push_back(b.constant(rows));
      b.output(b.add(op, inputs, attrs));
    }));
  };
  for (const std::string op : {"layer_norm", "rms_norm"}) {
    add(op, "last", {3, 5, 37}, -1, 0);
    add(op, "quads", {7, 64}, -1, 0);
    add(op, "affine", {7, 64}, -1, op == "layer_norm" ? 2 : 1);
    add(op, "two_axes", {5, 3, 7}, 1, op == "layer_norm" ? 2 : 1);
    add(op, "eps", {3, 5, 37}, -1, 0, {{"eps", 0.5}});
    add(op, "long", {2, 1300}, -1, 1);
    add(op, "f16", {4, 24}, -1, 1, {}, DType::F16);
    add(op, "very_long", {2, 70000}, -1, 1);
  }
}

// Over the sum with a residual, which is a second result; gamma, beta or both.
void add_residual_norms(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, const std::string& name, const Shape& shape, std::vector<bool> affine,
                       DType dtype = DType::F32, const Attrs& attrs = {}) {
    cases.push_back(make_case({op + "_" + name, op, {}, Fill::Normal, 1, 2}, [=](CaseBuilder& b) {
      Node node;
      node.op = op;
      node.attrs = attrs;
      node.inputs = {b.input(shape, dtype)};
      for (const bool there : affine) node.inputs.push_back(there ? b.constant({shape.back()}) : kNoValue);
      node.inputs.push_back(b.input(shape, dtype));
      for (ValueId id : b.add_node(std::move(node))) b.output(id);
    }));
  };
  add("layer_norm", "residual", {3, 5, 37}, {true, true});
  add("layer_norm", "residual_quads", {7, 64}, {true, true});
  add("layer_norm", "residual_alone", {7, 64}, {false, false});
  add("layer_norm", "residual_f16", {4, 24}, {true, false}, DType::F16);
  add("layer_norm", "residual_very_long", {2, 70000}, {true, true});
  add("rms_norm", "residual", {3, 5, 37}, {true});
  add("rms_norm", "residual_quads", {7, 64}, {true});
  add("rms_norm", "residual_alone", {7, 64}, {false});
  add("rows", "residual", {11, 20}, {true, true}, DType::F32, {{"kind", "layer_norm"}});
  // The sum has another reader before the norm, and one behind it.
  cases.push_back(make_case({"chain_sum_norm", "add", {}}, [](CaseBuilder& b) {
    const ValueId sum = b.add("add", {b.input({2, 5, 24}), b.input({2, 5, 24})});
    const ValueId before = b.add("tanh", {sum});
    const ValueId normed = b.add("layer_norm", {sum, b.constant({24}), b.constant({24})});
    b.output(b.add("mul", {b.add("rms_norm", {b.add("add", {normed, sum})}), before}));
  }));
  OpCase large{"large_rows_residual", "rows", {}, Fill::Normal, 0, 3};
  large.large = true;
  cases.push_back(make_case(large, [](CaseBuilder& b) {
    Node node;
    node.op = "rows";
    node.attrs = {{"kind", "layer_norm"}};
    node.inputs = {b.input({601, 1001}), kNoValue, kNoValue, b.input({601, 1001})};
    for (ValueId id : b.add_node(std::move(node))) b.output(id);
  }));
}

void add_row_softmaxes(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, const std::string& name, const Shape& shape, int64_t axis) {
    cases.push_back(make_case({op + "_" + name, op, {}, Fill::Normal, 0, 3}, [=](CaseBuilder& b) {
      b.output(b.add(op, {b.input(shape)}, {{"axis", axis}}));
    }));
  };
  add("softmax", "quads", {9, 64}, 1);
  add("softmax", "long", {3, 1300}, 1);
  add("softmax", "very_long", {2, 70000}, 1);
  add("log_softmax", "last", {5, 17}, -1);
  add("log_softmax", "channels", {2, 5, 4, 3}, 1);
  add("log_softmax", "long", {3, 1300}, 1);
  const auto rows = [&](const std::string& name, const std::string& kind, int affine, Attrs attrs = {}) {
    attrs.set("kind", kind);
    cases.push_back(make_case({"rows_" + name, "rows", {}, Fill::Normal, 0, 3}, [=](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input({11, 20})};
      for (int i = 0; i < affine; ++i) inputs.push_back(b.constant({20}));
      b.output(b.add("rows", inputs, attrs));
    }));
  };
  rows("softmax", "softmax", 0);
  rows("log_softmax", "log_softmax", 0);
  rows("layer_norm", "layer_norm", 2);
  rows("rms_norm", "rms_norm", 1);
  rows("eps", "rms_norm", 1, {{"eps", 0.5}});
  OpCase large{"large_rows", "rows", {}, Fill::Normal, 0, 3};
  large.large = true;
  cases.push_back(make_case(large, [](CaseBuilder& b) {
    b.output(b.add("rows", {b.input({601, 1001})}, {{"kind", "layer_norm"}}));
  }));
}

void add_sums(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& shape, bool large = false) {
    OpCase base;
    base.name = (large ? "large_norm_sums_" : "norm_sums_") + name;
    base.op = "norm_sums";
    base.large = large;
    cases.push_back(make_case(base, [=](CaseBuilder& b) {
      const ValueId x = b.input(shape), g = b.input(shape);
      b.output(b.add("norm_sums", {x, g, stats_of(b, x)}));
    }));
  };
  add("1d", {2, 3, 40});
  add("2d", {1, 5, 9, 13});
  add("3d_batch2", {2, 9, 7, 6, 11});
  add("one_channel", {2, 1, 5, 6, 7});
  add("3d", {1, 6, 41, 54, 52}, true);
}

}  // namespace

void add_norm_cases(std::vector<OpCase>& cases) {
  add_sums(cases);
  add_row_norms(cases);
  add_residual_norms(cases);
  add_row_softmaxes(cases);
  add_stats(cases);
  add_apply(cases);
  add_composites(cases);
  add_batch_norm(cases);
}

}  // namespace gyrus::test
