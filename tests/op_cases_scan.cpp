#include "op_cases_build.h"

namespace gyrus::test {
namespace {

ValueId with(CaseBuilder& b, const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.inputs = inputs;
  const std::vector<ValueId> made = b.add_node(std::move(node));
  for (ValueId id : made) b.output(id);
  return made[0];
}

void add_linear_scans(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& shape, size_t axis, bool start, bool reverse) {
    OpCase c{"linear_scan_" + name, "linear_scan", {}, Fill::Uniform, -1, 1};
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input(shape), b.input(shape)};
      Shape first = shape;
      first[axis] = 1;
      if (start) inputs.push_back(b.input(first));
      with(b, "linear_scan", inputs, {{"axis", static_cast<int64_t>(axis)}, {"reverse", int64_t{reverse}}});
    }));
  };
  add("last", {3, 21}, 1, false, false);
  add("first", {70, 5}, 0, true, false);
  add("middle", {2, 75, 3}, 1, true, true);
  add("one", {2, 1, 3}, 1, true, false);
  add("long", {2100}, 0, true, false);  // its parts are cut into parts
  OpCase sums{"cumsum_long", "cumsum", {}, Fill::Whole, -3, 3};
  sums.exact = true;
  cases.push_back(make_case(sums, [](CaseBuilder& b) {
    b.output(b.add("cumsum", {b.input({2, 2500})}, {{"axis", int64_t{1}}}));
  }));
  OpCase large{"large_linear_scan", "linear_scan", {}, Fill::Uniform, -1, 1};
  large.large = true;
  cases.push_back(make_case(large, [](CaseBuilder& b) {
    const Shape shape{20, 30011};
    with(b, "linear_scan", {b.input(shape), b.input(shape)}, {{"axis", int64_t{0}}});
  }));
}

void add_selective_scans(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const Shape& x, int64_t states, bool start) {
    OpCase c{"selective_scan_" + name, "selective_scan", {}, Fill::Uniform, -1, 1};
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      const Shape row{x[0], x[1], states};
      // Times are positive and rates negative, so that states decay.
      const ValueId dt = b.add("abs", {b.input(x)}), rates = b.add("neg", {b.add("abs", {b.input({x[2], states})})});
      std::vector<ValueId> inputs = {b.input(x), dt, rates, b.input(row), b.input(row)};
      if (start) inputs.push_back(b.input({x[0], x[2], states}));
      with(b, "selective_scan", inputs, x[1] == 70 ? Attrs{{"segment", int64_t{32}}} : Attrs{});
    }));
  };
  add("quads", {2, 9, 5}, 16, true);
  add("scalars", {1, 7, 3}, 5, false);
  add("parts", {2, 70, 6}, 8, true);
  add("tiles", {1, 40, 3}, 24, false);  // more than one tile of states, two parts
  add("step", {3, 1, 4}, 4, true);
}

void add_delta_rules(std::vector<OpCase>& cases) {
  struct Sizes {
    int64_t batch, steps, heads, keys, values;
  };
  const auto add = [&](const std::string& op, const std::string& name, const Sizes& s, bool start, bool reverse) {
    OpCase c{op + "_" + name, op, {}, Fill::Uniform, -0.5, 0.5};
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      std::vector<ValueId> inputs = {b.input({s.batch, s.steps, s.heads, 5 * s.keys}),
                                     b.input({s.batch, s.steps, s.heads, s.values})};
      if (start) inputs.push_back(b.input({s.batch, s.heads, s.values, s.keys}));
      with(b, op, inputs,
           op == "delta_states" ? Attrs{{"reverse", int64_t{reverse}}}
           : s.steps == 70      ? Attrs{{"segment", int64_t{32}}}
                                : Attrs{});
    }));
  };
  add("delta_rule", "quads", {2, 7, 3, 8, 5}, true, false);
  add("delta_rule", "scalars", {1, 5, 2, 3, 4}, false, false);
  add("delta_rule", "parts", {1, 70, 2, 6, 7}, true, false);
  add("delta_rule", "lanes", {1, 3, 1, 68, 3}, true, false);  // two lanes for a row
  add("delta_rule", "step", {2, 1, 2, 4, 4}, true, false);
  add("delta_states", "quads", {2, 6, 2, 4, 5}, true, false);
  add("delta_states", "reverse", {1, 40, 2, 5, 3}, true, true);
}

void add_recurrent(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, const std::string& name, const Shape& sizes, int64_t reverse, bool bias) {
    const int64_t batch = sizes[0], steps = sizes[1], n = sizes[2], kept = op.find("lstm") == 0 ? 2 * n : n;
    const int64_t gates = op.find("lstm") == 0 ? 4 * n : 3 * n;
    OpCase c{op + "_" + name, op, {}, Fill::Uniform, -1, 1};
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      const bool back = op.find("back") != std::string::npos;
      const ValueId first = b.input({batch, steps, !back ? gates : kept == n ? 5 * n : 6 * n});
      // Weights that do not let states grow.
      const ValueId weight = b.add("affine", {b.input({bias ? n + 1 : n, gates})}, {{"scale", 0.4}, {"shift", 0.0}});
      const ValueId second = b.input(back ? Shape{batch, steps, kept} : Shape{batch, kept});
      with(b, op, back ? std::vector<ValueId>{first, second, weight} : std::vector<ValueId>{first, weight, second},
           {{"reverse", reverse}});
    }));
  };
  add("lstm_steps", "forward", {2, 5, 6}, 0, false);
  add("lstm_steps", "reverse", {1, 3, 72}, 1, false);
  add("gru_steps", "forward", {2, 5, 8}, 0, true);
  add("gru_steps", "reverse", {1, 4, 3}, 1, false);
  add("lstm_back", "forward", {2, 4, 5}, 0, false);
  add("lstm_back", "reverse", {1, 3, 8}, 1, false);
  add("gru_back", "forward", {2, 4, 8}, 0, true);
  add("gru_back", "reverse", {1, 3, 5}, 1, false);
}

// Which expert each row has; expert 1 has none.
Tensor experts_of(int64_t rows, int64_t experts) {
  Tensor chosen(DType::I32, {rows});
  for (int64_t m = 0; m < rows; ++m) {
    const int64_t e = (5 * m + m / 3) % experts;
    set(chosen, m, static_cast<double>(e == 1 ? 0 : e));
  }
  return chosen;
}

void add_grouped(std::vector<OpCase>& cases) {
  OpCase rows{"group_rows", "group_rows", {}, Fill::Whole, 0, 6};
  rows.exact = true;
  cases.push_back(make_case(rows, [](CaseBuilder& b) {
    b.output(b.add("group_rows", {b.input({300}, DType::I32)}, {{"groups", int64_t{7}}}));
  }));
  const auto add = [&](const std::string& name, const Shape& sizes, int64_t transpose) {
    const int64_t m = sizes[0], experts = sizes[1], k = sizes[2], n = sizes[3];
    for (const std::string op : {"grouped_matmul", "grouped_weights"}) {
      if (op == "grouped_weights" && transpose) continue;
      cases.push_back(make_case({op + "_" + name, op, {}, Fill::Uniform, -1, 1}, [=](CaseBuilder& b) {
        const ValueId expert = b.graph.add_constant("experts", experts_of(m, experts));
        const ValueId groups = b.add("group_rows", {expert}, {{"groups", experts}});
        const bool weights = op == "grouped_weights";
        const ValueId x = b.input({m, k});
        const ValueId other = b.input(weights ? Shape{m, n} : transpose ? Shape{experts, n, k} : Shape{experts, k, n});
        with(b, op, {x, other, groups}, weights ? Attrs{} : Attrs{{"transpose", transpose}});
      }));
    }
  };
  add("small", {9, 4, 5, 3}, 0);
  add("one", {5, 1, 7, 5}, 0);
  add("tiles", {150, 3, 20, 70}, 0);
  add("quads", {40, 3, 20, 36}, 0);
  add("transposed", {40, 5, 9, 37}, 1);
  add("transposed_quads", {40, 3, 12, 36}, 1);
}

}  // namespace

void add_scan_cases(std::vector<OpCase>& cases) {
  add_linear_scans(cases);
  add_selective_scans(cases);
  add_delta_rules(cases);
  add_recurrent(cases);
  add_grouped(cases);
}

}  // namespace gyrus::test
