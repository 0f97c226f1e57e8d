// Sorted lines and what stands on them: searching, segments, neighbours.
#include "op_cases_build.h"

namespace gyrus::test {
namespace {

OpCase exact(const std::string& name, const std::string& op, double lo, double hi) {
  OpCase c{name, op, {}, Fill::Whole, lo, hi};
  c.exact = true;
  return c;
}

void outputs_of(CaseBuilder& b, const std::string& op, const std::vector<ValueId>& inputs, const Attrs& attrs) {
  Node node;
  node.op = op;
  node.inputs = inputs;
  node.attrs = attrs;
  for (ValueId id : b.add_node(node)) b.output(id);
}

// Numbers that never fall and end at `last`, with some twice.
Tensor rising(int64_t count, int64_t last) {
  Tensor ends(DType::I32, {count});
  for (int64_t i = 0; i < count; ++i) set(ends, i, static_cast<double>((i + 1) / 2 * 2 * last / (count + count % 2)));
  if (count) set(ends, count - 1, static_cast<double>(last));
  return ends;
}

void add_sorts(std::vector<OpCase>& cases) {
  const auto sort = [&](OpCase c, const Shape& shape, DType dtype, Attrs attrs) {
    cases.push_back(
        make_case(std::move(c), [=](CaseBuilder& b) { outputs_of(b, "sort", {b.input(shape, dtype)}, attrs); }));
  };
  sort(exact("sort_ties", "sort", -9, 9), {3, 700}, DType::F32, {});
  sort(exact("sort_descending", "sort", -9000, 9000), {2, 5000}, DType::I32, {{"descending", int64_t{1}}});
  sort(exact("sort_short", "sort", -9, 9), {4, 33}, DType::F32, {{"descending", int64_t{1}}});
  sort(exact("sort_bits", "sort", 0, 70000), {6000}, DType::U32, {{"bits", int64_t{11}}});
  sort(exact("sort_short_bits", "sort", 0, 70000), {2, 40}, DType::U32, {{"bits", int64_t{5}}});
  sort({"sort_fractions", "sort", {}, Fill::Extreme, -1, 1e6}, {2, 3, 2100}, DType::F32, {});
  sort({"sort_smooth", "sort", {}, Fill::Uniform, -5, 5}, {2, 1, 30}, DType::F32, {{"descending", int64_t{1}}});
  OpCase large = exact("large_sort", "sort", -1000000, 1000000);
  large.large = true;
  sort(large, {2, 300007}, DType::F32, {});
  for (const int64_t axis : {0, 1})
    cases.push_back(
        make_case(exact(axis ? "top_k_sorted" : "top_k_sorted_first", "top_k", -99, 99), [=](CaseBuilder& b) {
          outputs_of(b, "top_k", {b.input(axis ? Shape{3, 1500} : Shape{1500, 3})},
                     {{"axis", axis}, {"k", int64_t{7}}, {"largest", axis}});
        }));
}

void add_on_sorted(std::vector<OpCase>& cases) {
  const auto search = [&](const std::string& name, int64_t count, const Shape& queries, int64_t right) {
    OpCase c = exact(name, "search_sorted", -3, 103);
    c.large = name.compare(0, 5, "large") == 0;
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      const ValueId list = b.graph.add_constant("list", rising(count, 100));
      b.output(b.add("search_sorted", {list, b.input(queries, DType::I32)}, {{"right", right}}));
    }));
  };
  search("search_sorted_left", 37, {5, 7}, 0);
  search("search_sorted_right", 37, {70}, 1);
  search("large_search_sorted", 600001, {900}, 1);
  const auto segments = [&](const std::string& name, int64_t rows, int64_t columns, int64_t count, int64_t listed) {
    OpCase c = exact(name, "segment_sum", -9, 9);
    c.large = name.compare(0, 5, "large") == 0;
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      Tensor order(DType::I32, {listed});
      for (int64_t i = 0; i < listed; ++i) set(order, i, static_cast<double>(i * 7 % rows));
      const ValueId x = b.input({rows, columns}), ends = b.graph.add_constant("ends", rising(count, listed * 3 / 4));
      b.output(b.add("segment_sum", {x, ends, b.graph.add_constant("rows", order)}));
    }));
  };
  segments("segment_sum_some", 30, 5, 9, 40);
  segments("large_segment_sum", 20000, 31, 11, 6000);
  cases.push_back(make_case({"segment_sum_smooth", "segment_sum", {}, Fill::Uniform, -1, 1}, [](CaseBuilder& b) {
    Tensor rows(DType::I32, {20});
    for (int64_t i = 0; i < 20; ++i) set(rows, i, static_cast<double>(i * 3 % 11));
    const ValueId ends = b.graph.add_constant("ends", rising(4, 17));
    b.output(b.add("segment_sum", {b.input({11, 3}), ends, b.graph.add_constant("rows", rows)}));
  }));
  cases.push_back(make_case(exact("at_most_all", "at_most", 0, 50), [](CaseBuilder& b) {
    b.output(b.add("at_most", {b.input({3, 40}, DType::I32)}, {{"most", int64_t{50}}}));
  }));
}

void add_neighbours(std::vector<OpCase>& cases) {
  const auto nearest = [&](OpCase c, int64_t n, int64_t m, int64_t d, int64_t k, const std::string& metric) {
    cases.push_back(make_case(std::move(c), [=](CaseBuilder& b) {
      const ValueId points = b.input({n, d});
      const Attrs attrs{{"k", k}, {"metric", metric}, {"skip_self", int64_t{m == 0}}};
      outputs_of(b, "nearest", {m == 0 ? points : b.input({m, d}), points}, attrs);
    }));
  };
  nearest(exact("nearest_self", "nearest", -4, 4), 70, 0, 3, 5, "euclid");
  nearest(exact("nearest_all", "nearest", -4, 4), 7, 0, 2, 6, "euclid");
  nearest(exact("nearest_queries", "nearest", -4, 4), 30, 11, 4, 30, "euclid");
  nearest(exact("nearest_dot", "nearest", -2, 2), 30, 0, 5, 4, "dot");
  OpCase large = exact("large_nearest", "nearest", -100, 100);
  large.large = true;
  nearest(large, 2200, 9, 251, 2, "euclid");
  large.name = "large_nearest_queries";
  nearest(large, 12, 2200, 251, 2, "euclid");
  const auto smooth = [](const char* name) { return OpCase{name, "nearest", {}, Fill::Uniform, -1, 1}; };
  nearest(smooth("nearest_smooth"), 25, 0, 3, 4, "euclid");
  nearest(smooth("nearest_dot_smooth"), 12, 9, 3, 2, "dot");
  cases.push_back(make_case({"fuzzy_weights_rising", "fuzzy_weights", {}, Fill::Uniform, 0.2, 0.4}, [](CaseBuilder& b) {
    Node node;
    node.op = "fuzzy_weights";
    node.inputs = {b.add("cumsum", {b.input({70, 6})}, {{"axis", int64_t{1}}})};
    for (ValueId id : b.add_node(node)) b.output(id);
  }));
}

// Nine splats in a picture of 3 x 2 tiles; `listed` places, of which tile t has those of (t + i) % 9.
struct SplatParts {
  ValueId splats, lists, ends, order;
};

SplatParts splats_of(CaseBuilder& b) {
  constexpr int64_t kSplats = 9, kTiles = 6, kListed = 40, kUsed = 36;
  Tensor scales(DType::F32, {1, 9}), lists(DType::I32, {kTiles + 1 + kListed}), ends(DType::I32, {kSplats}),
      order(DType::I32, {kListed});
  const double by[] = {44, 22, 0.05, 0.01, 0.05, 1, 1, 1, 1};
  for (int64_t i = 0; i < 9; ++i) set(scales, i, by[i]);
  for (int64_t t = 0; t <= kTiles; ++t) set(lists, t, static_cast<double>(t * kUsed / kTiles));
  std::vector<std::vector<int64_t>> places(kSplats);  // of each splat
  for (int64_t t = 0; t < kTiles; ++t)
    for (int64_t i = 0; i < kUsed / kTiles; ++i) {
      const int64_t place = t * kUsed / kTiles + i, splat = (t + i) % kSplats;
      set(lists, kTiles + 1 + place, static_cast<double>(splat));
      places[static_cast<size_t>(splat)].push_back(place);
    }
  int64_t count = 0;
  for (int64_t s = 0; s < kSplats; ++s) {
    for (const int64_t place : places[static_cast<size_t>(s)]) set(order, place, static_cast<double>(count++));
    set(ends, s, static_cast<double>(count));
  }
  for (int64_t place = kUsed; place < kListed; ++place) set(order, place, static_cast<double>(place));
  const ValueId splats = b.add("mul", {b.input({kSplats, 9}), b.graph.add_constant("scales", scales)});
  return {splats, b.graph.add_constant("lists", lists), b.graph.add_constant("ends", ends),
          b.graph.add_constant("order", order)};
}

void add_splats(std::vector<OpCase>& cases) {
  const Attrs attrs{{"width", int64_t{40}}, {"height", int64_t{20}}, {"threshold", 1e-3}};
  cases.push_back(make_case({"splat_blend_tiles", "splat_blend", {}, Fill::Uniform, 0.2, 0.9}, [=](CaseBuilder& b) {
    const SplatParts p = splats_of(b);
    b.output(b.add("splat_blend", {p.splats, p.lists, p.ends, p.order}, attrs));
  }));
  cases.push_back(
      make_case({"splat_blend_back_tiles", "splat_blend_back", {}, Fill::Uniform, 0.2, 0.9}, [=](CaseBuilder& b) {
        const SplatParts p = splats_of(b);
        const ValueId picture = b.add("splat_blend", {p.splats, p.lists}, attrs);
        const ValueId pixels = b.add("concat", {picture, b.input({20, 40, 4})}, {{"axis", int64_t{2}}});
        b.output(b.add("splat_blend_back", {p.splats, p.lists, pixels}, attrs));
      }));
}

}  // namespace

void add_sort_cases(std::vector<OpCase>& cases) {
  add_sorts(cases);
  add_on_sorted(cases);
  add_neighbours(cases);
  add_splats(cases);
}

}  // namespace gyrus::test
