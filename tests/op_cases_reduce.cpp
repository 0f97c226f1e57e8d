#include "op_cases_build.h"

namespace gyrus::test {
namespace {

void add_one(std::vector<OpCase>& cases, OpCase base, Shape shape, Attrs attrs, DType dtype = DType::F32) {
  cases.push_back(make_case(base, [op = base.op, shape, attrs, dtype](CaseBuilder& b) {
    b.output(b.add(op, {b.input(shape, dtype)}, attrs));
  }));
}

void add_reductions(std::vector<OpCase>& cases) {
  for (const std::string op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    const auto with = [&](const std::string& suffix) { return OpCase{op + suffix, op, {}}; };
    add_one(cases, with("_all"), {3, 7, 11}, {});
    add_one(cases, with("_first"), {9, 5, 4}, {{"axes", Ints{0}}});
    add_one(cases, with("_middle_keep"), {3, 13, 6}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}});
    add_one(cases, with("_last"), {5, 300}, {{"axes", Ints{-1}}});
    add_one(cases, with("_spatial"), {2, 5, 4, 6, 7}, {{"axes", Ints{2, 3, 4}}, {"keepdims", int64_t{1}}});
    add_one(cases, with("_channels"), {1, 7, 4, 6, 5}, {{"axes", Ints{1}}});
    add_one(cases, with("_apart"), {2, 3, 4, 3, 2, 5}, {{"axes", Ints{1, 3, -1}}});
    add_one(cases, with("_extent_1"), {4, 1, 6}, {{"axes", Ints{1}}});
  }
  for (const std::string op : {"reduce_sum", "reduce_max", "reduce_min"})
    for (const DType dtype : {DType::I32, DType::U32}) {
      OpCase c{op + "_" + to_string(dtype), op, {}, Fill::Whole, -1000, 1000};
      c.exact = true;
      add_one(cases, c, {6, 90}, {{"axes", Ints{1}}}, dtype);
    }
  // Many terms far from zero: a running f32 sum would drift.
  add_one(cases, {"reduce_mean_far", "reduce_mean", {}, Fill::Normal, 1000, 1}, {2, 20000}, {{"axes", Ints{1}}});
  add_one(cases, {"reduce_max_all_negative", "reduce_max", {}, Fill::Uniform, -9, -5}, {3, 50}, {{"axes", Ints{1}}});
}

void add_argmax(std::vector<OpCase>& cases) {
  const auto ties = [](const std::string& name) {
    OpCase c{name, "argmax", {}, Fill::Whole, -3, 3};
    c.exact = true;
    return c;
  };
  add_one(cases, ties("argmax_1d"), {19}, {{"axis", int64_t{0}}});
  add_one(cases, ties("argmax_last"), {7, 33}, {{"axis", int64_t{-1}}});
  add_one(cases, ties("argmax_channels"), {1, 21, 4, 5, 6}, {{"axis", int64_t{1}}, {"dtype", "u8"}});
  add_one(cases, ties("argmax_channels_batch2"), {2, 5, 4, 5, 6}, {{"axis", int64_t{1}}});
  add_one(cases, ties("argmax_keepdims_i32"), {3, 9, 5},
          {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}, {"dtype", "i32"}});
  add_one(cases, ties("argmax_256_u8"), {256, 3}, {{"axis", int64_t{0}}, {"dtype", "u8"}});
  add_one(cases, ties("argmax_of_i32"), {5, 17}, {{"axis", int64_t{1}}}, DType::I32);
}

void add_products(std::vector<OpCase>& cases) {
  const auto with = [&](const std::string& name) {
    return OpCase{"reduce_prod_" + name, "reduce_prod", {}, Fill::Uniform, 0.7, 1.4};
  };
  add_one(cases, with("all"), {3, 7, 4}, {});
  add_one(cases, with("middle_keep"), {3, 13, 6}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}});
  add_one(cases, with("last"), {5, 300}, {{"axes", Ints{-1}}});
  OpCase whole{"reduce_prod_i32", "reduce_prod", {}, Fill::Whole, -3, 3};
  whole.exact = true;
  add_one(cases, whole, {6, 5, 3}, {{"axes", Ints{1}}}, DType::I32);
  whole.name = "reduce_prod_u32";
  add_one(cases, whole, {6, 5, 3}, {{"axes", Ints{1}}}, DType::U32);
}

void add_argmin(std::vector<OpCase>& cases) {
  const auto ties = [](const std::string& name, const std::string& op) {
    OpCase c{name, op, {}, Fill::Whole, -3, 3};
    c.exact = true;
    return c;
  };
  add_one(cases, ties("argmax_last_of_equal", "argmax"), {7, 33}, {{"axis", int64_t{-1}}, {"last", int64_t{1}}});
  add_one(cases, ties("argmax_last_of_many", "argmax"), {2, 40000}, {{"axis", int64_t{1}}, {"last", int64_t{1}}});
  add_one(cases, ties("argmin_first", "argmin"), {7, 33}, {{"axis", int64_t{-1}}});
  add_one(cases, ties("argmin_axis", "argmin"), {7, 33}, {{"axis", int64_t{0}}});
  add_one(cases, ties("argmin_last_of_equal", "argmin"), {7, 33}, {{"axis", int64_t{-1}}, {"last", int64_t{1}}});
  add_one(cases, ties("argmin_keepdims", "argmin"), {3, 9, 5},
          {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}, {"dtype", "i32"}});
  for (const DType dtype : {DType::I32, DType::U32, DType::U8})
    add_one(cases, ties(std::string("argmin_") + to_string(dtype), "argmin"), {5, 17}, {{"axis", int64_t{1}}}, dtype);
}

void add_softmax(std::vector<OpCase>& cases) {
  add_one(cases, {"softmax_last", "softmax", {}, Fill::Normal, 0, 3}, {5, 17}, {{"axis", int64_t{-1}}});
  add_one(cases, {"softmax_channels", "softmax", {}, Fill::Normal, 0, 3}, {2, 5, 4, 3, 6}, {{"axis", int64_t{1}}});
  add_one(cases, {"softmax_large_values", "softmax", {}, Fill::Extreme, 0, 1e4}, {9, 33}, {{"axis", int64_t{1}}});
  add_one(cases, {"softmax_one", "softmax", {}}, {7, 1}, {{"axis", int64_t{1}}});
}

}  // namespace

void add_reduce_cases(std::vector<OpCase>& cases) {
  add_reductions(cases);
  add_argmax(cases);
  add_products(cases);
  add_argmin(cases);
  add_softmax(cases);
}

}  // namespace gyrus::test
