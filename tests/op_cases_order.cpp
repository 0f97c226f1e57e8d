#include "op_cases_build.h"

namespace gyrus::test {
namespace {

OpCase exact(const std::string& name, const std::string& op, double lo = -9, double hi = 9) {
  OpCase c{name, op, {}, Fill::Whole, lo, hi};
  c.exact = true;
  return c;
}

// Indices within `extent` that repeat, a third of them counted from the end.
Tensor indices(const Shape& shape, int64_t extent, DType dtype = DType::I32) {
  Tensor chosen(dtype, shape);
  for (int64_t i = 0; i < chosen.size(); ++i) {
    const int64_t at = (7 * i + 3) % extent;
    set(chosen, i, static_cast<double>(dtype != DType::U32 && i % 3 == 0 ? at - extent : at));
  }
  return chosen;
}

// Coordinates of axes with these extents.
Tensor coordinates(Shape queries, const Shape& extents) {
  queries.push_back(static_cast<int64_t>(extents.size()));
  Tensor chosen(DType::I32, queries);
  for (int64_t i = 0; i < chosen.size(); ++i) {
    const int64_t extent = extents[static_cast<size_t>(i) % extents.size()];
    const int64_t at = (5 * i + i / 3) % extent;
    set(chosen, i, static_cast<double>(i % 4 == 0 ? at - extent : at));
  }
  return chosen;
}

void add_gathers(std::vector<OpCase>& cases) {
  const auto elements = [&](const std::string& name, const Shape& data, const Shape& chosen, int64_t axis,
                            DType dtype) {
    cases.push_back(make_case(exact("gather_elements_" + name, "gather_elements"), [=](CaseBuilder& b) {
      const ValueId x = b.input(data, dtype);
      const int64_t extent = data[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(data.size()) : axis)];
      b.output(
          b.add("gather_elements", {x, b.graph.add_constant("indices", indices(chosen, extent))}, {{"axis", axis}}));
    }));
  };
  elements("first", {5, 4, 3}, {7, 4, 3}, 0, DType::F32);
  elements("middle", {5, 4, 3}, {5, 9, 3}, 1, DType::F32);
  elements("last", {5, 4, 3}, {5, 4, 2}, -1, DType::I32);
  elements("bytes", {6, 8}, {6, 3}, 1, DType::U8);
  elements("shorter", {5, 4, 6, 3}, {3, 4, 7, 2}, 2, DType::F32);
  const auto nd = [&](const std::string& name, const Shape& data, const Tensor& chosen, int64_t batch) {
    cases.push_back(make_case(exact("gather_nd_" + name, "gather_nd"), [=](CaseBuilder& b) {
      b.output(b.add("gather_nd", {b.input(data), b.graph.add_constant("indices", chosen)}, {{"batch_dims", batch}}));
    }));
  };
  nd("elements", {4, 5, 3}, coordinates({6}, {4, 5, 3}), 0);
  nd("rows", {4, 5, 3}, coordinates({2, 3}, {4, 5}), 0);
  nd("batch", {2, 5, 3}, coordinates({2, 4}, {5}), 1);
  // Indices that are computed on the device.
  cases.push_back(make_case(exact("gather_nd_given", "gather_nd", 0, 3), [](CaseBuilder& b) {
    const ValueId at = b.add("cast", {b.input({9, 2})}, {{"to", "i32"}});
    b.output(b.add("gather_nd", {b.input({4, 4, 2}), at}));
  }));
}

void add_scatters(std::vector<OpCase>& cases) {
  const auto elements = [&](const std::string& name, int64_t axis, const std::string& reduction, DType dtype) {
    cases.push_back(make_case(exact("scatter_elements_" + name, "scatter_elements", -3, 3), [=](CaseBuilder& b) {
      const Shape shape = axis == 0 ? Shape{6, 4, 3} : Shape{5, 6, 3};
      const ValueId data = b.input({5, 4, 3}, dtype), updates = b.input(shape, dtype);
      const ValueId at = b.graph.add_constant("indices", indices(shape, axis == 0 ? 5 : 4));
      b.output(b.add("scatter_elements", {data, at, updates}, {{"axis", axis}, {"reduction", reduction}}));
    }));
  };
  for (const std::string reduction : {"none", "add", "mul", "min", "max"})
    elements(reduction, 1, reduction, DType::F32);
  elements("first_axis", 0, "add", DType::F32);
  elements("i32", 1, "max", DType::I32);
  elements("u8", 1, "none", DType::U8);
  const auto nd = [&](const std::string& name, const Shape& data, const Tensor& chosen, const Shape& updates,
                      const std::string& reduction) {
    cases.push_back(make_case(exact("scatter_nd_" + name, "scatter_nd", -3, 3), [=](CaseBuilder& b) {
      const ValueId x = b.input(data), at = b.graph.add_constant("indices", chosen);
      b.output(b.add("scatter_nd", {x, at, b.input(updates)}, {{"reduction", reduction}}));
    }));
  };
  nd("none", {4, 5, 3}, coordinates({6}, {4, 5}), {6, 3}, "none");
  nd("add", {4, 5, 3}, coordinates({6}, {4, 5}), {6, 3}, "add");
  nd("rows", {7, 5}, coordinates({2, 4}, {7}), {2, 4, 5}, "mul");
  const auto rows = [&](const std::string& name, const std::string& reduction) {
    cases.push_back(make_case(exact("scatter_rows_" + name, "scatter_rows", -3, 3), [=](CaseBuilder& b) {
      Tensor at(DType::I32, {9});
      for (int64_t i = 0; i < 9; ++i) set(at, i, static_cast<double>(i * 5 % 6));
      const ValueId x = b.input({6, 5});
      b.output(
          b.add("scatter_rows", {x, b.graph.add_constant("rows", at), b.input({9, 5})}, {{"reduction", reduction}}));
    }));
  };
  rows("add", "add");
  rows("none", "none");
  OpCase large = exact("large_scatter_rows", "scatter_rows", -3, 3);
  large.large = true;
  cases.push_back(make_case(large, [](CaseBuilder& b) {
    Tensor at(DType::I32, {40});
    for (int64_t i = 0; i < 40; ++i) set(at, i, static_cast<double>(i * 7 % 30));
    const ValueId x = b.input({30, 20011});
    b.output(
        b.add("scatter_rows", {x, b.graph.add_constant("rows", at), b.input({40, 20011})}, {{"reduction", "add"}}));
  }));
}

void add_running(std::vector<OpCase>& cases) {
  for (const std::string op : {"cumsum", "cumprod", "cummax"}) {
    const auto add = [&](const std::string& name, const Shape& shape, Attrs attrs, DType dtype = DType::F32) {
      OpCase c{op + "_" + name, op, {}, Fill::Uniform, 0.8, 1.25};
      if (dtype != DType::F32) c = exact(op + "_" + name, op, -2, 2);
      cases.push_back(make_case(c, [=](CaseBuilder& b) {
        const ValueId y = b.add(op, {b.input(shape, dtype)}, attrs);
        // The lowest number, from which largest ones start, would hide the others.
        b.output(dtype == DType::F32 ? b.add("affine_clamp", {y}, {{"lo", -9000.0}, {"hi", 9000.0}}) : y);
      }));
    };
    add("last", {3, 37}, {{"axis", int64_t{-1}}});
    add("first", {19, 5}, {{"axis", int64_t{0}}});
    add("exclusive", {3, 37}, {{"axis", int64_t{1}}, {"exclusive", int64_t{1}}});
    add("reverse", {3, 37}, {{"axis", int64_t{1}}, {"reverse", int64_t{1}}});
    add("both", {3, 8}, {{"axis", int64_t{1}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{1}}});
    add("one", {3, 1}, {{"axis", int64_t{1}}});
    add("one_exclusive", {3, 1}, {{"axis", int64_t{1}}, {"exclusive", int64_t{1}}});
    add("parts", {2, 75, 3}, {{"axis", int64_t{1}}, {"reverse", int64_t{1}}});
    add("i32", {4, 9}, {{"axis", int64_t{1}}}, DType::I32);
  }
}

void add_ordered(std::vector<OpCase>& cases) {
  const auto top = [&](const std::string& name, const Shape& shape, int64_t axis, int64_t k, int64_t largest,
                       DType dtype) {
    cases.push_back(make_case(exact("top_k_" + name, "top_k"), [=](CaseBuilder& b) {
      Node node;
      node.op = "top_k";
      node.inputs = {b.input(shape, dtype)};
      node.attrs = {{"axis", axis}, {"k", k}, {"largest", largest}};
      for (ValueId id : b.add_node(node)) b.output(id);
    }));
  };
  top("last", {5, 33}, -1, 4, 1, DType::F32);
  top("smallest", {5, 33}, -1, 4, 0, DType::F32);
  top("more", {5, 33}, -1, 9, 1, DType::F32);
  top("middle", {3, 17, 4}, 1, 17, 1, DType::I32);
  top("u32", {40}, 0, 7, 1, DType::U32);
  top("f16", {4, 9}, 1, 3, 1, DType::F16);
  top("u8", {4, 9}, 1, 3, 0, DType::U8);
  for (const int64_t largest : {0, 1})
    cases.push_back(make_case(exact(largest ? "ranks_largest" : "ranks_smallest", "ranks"), [=](CaseBuilder& b) {
      b.output(b.add("ranks", {b.input({3, 21, 2})}, {{"axis", int64_t{1}}, {"largest", largest}}));
    }));
  cases.push_back(make_case(exact("ranks_axis", "ranks"), [](CaseBuilder& b) {
    b.output(b.add("ranks", {b.input({3, 21, 2})}, {{"axis", int64_t{0}}}));
  }));
  const auto place = [&](const std::string& name, int64_t axis, int64_t k) {
    cases.push_back(make_case(exact("place_" + name, "place"), [=](CaseBuilder& b) {
      const ValueId x = b.input({4, 6});
      Tensor at(DType::I32, {4, 6});
      for (int64_t i = 0; i < 24; ++i)
        set(at, i, static_cast<double>(axis == 0 ? (i / 6 + i) % 4 : (i * 5 + i / 6) % 6));
      b.output(b.add("place", {x, b.graph.add_constant("places", at)}, {{"axis", axis}, {"k", k}}));
    }));
  };
  place("all", 1, 6);
  place("some", 1, 2);
  place("first_axis", 0, 3);
  OpCase large = exact("large_ranks", "ranks", -1000, 1000);
  large.large = true;
  cases.push_back(make_case(large, [](CaseBuilder& b) {
    b.output(b.add("ranks", {b.input({45000, 13})}, {{"axis", int64_t{1}}}));
  }));
}

void add_backward_slices(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, Ints starts, Ints ends, Ints steps, DType dtype = DType::F32) {
    cases.push_back(make_case(exact("slice_" + name, "slice"), [=](CaseBuilder& b) {
      b.output(b.add("slice", {b.input({7, 9}, dtype)}, {{"starts", starts}, {"ends", ends}, {"steps", steps}}));
    }));
  };
  add("backwards", {6, 0}, {-8, 9}, {-1, 1});
  add("backwards_by_2", {-1, 8}, {0, -10}, {-2, -3});
  add("backwards_bytes", {5, 7}, {1, 2}, {-1, -1}, DType::U8);
}

}  // namespace

void add_order_cases(std::vector<OpCase>& cases) {
  add_gathers(cases);
  add_scatters(cases);
  add_running(cases);
  add_ordered(cases);
  add_backward_slices(cases);
}

}  // namespace gyrus::test
