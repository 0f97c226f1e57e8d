#include "op_cases_build.h"

namespace gyrus::test {
namespace {

// Moving elements is exact, whatever they are.
OpCase exact(const std::string& name, const std::string& op) {
  OpCase c{name, op, {}};
  c.exact = true;
  return c;
}

void add_one(std::vector<OpCase>& cases, const std::string& name, const std::string& op, Shape shape, Attrs attrs,
             DType dtype = DType::F32) {
  cases.push_back(make_case(exact(op + "_" + name, op), [op, shape, attrs, dtype](CaseBuilder& b) {
    b.output(b.add(op, {b.input(shape, dtype)}, attrs));
  }));
}

void add_reshape(std::vector<OpCase>& cases) {
  add_one(cases, "split", "reshape", {6, 20}, {{"shape", Ints{2, 3, 4, 5}}});
  add_one(cases, "flatten", "reshape", {1, 5, 3, 4, 7}, {{"shape", Ints{-1}}});
  add_one(cases, "open_axis", "reshape", {4, 3, 10}, {{"shape", Ints{2, -1, 5}}});
  add_one(cases, "scalar_to_6", "reshape", {}, {{"shape", Ints{1, 1, 1, 1, 1, 1}}});
  add_one(cases, "to_scalar", "reshape", {1, 1}, {{"shape", Ints{}}});
  add_one(cases, "u8", "reshape", {3, 7}, {{"shape", Ints{7, 3}}}, DType::U8);
  add_one(cases, "i32", "reshape", {3, 8}, {{"shape", Ints{24}}}, DType::I32);
}

void add_transpose(std::vector<OpCase>& cases) {
  add_one(cases, "scalar", "transpose", {}, {{"perm", Ints{}}});
  add_one(cases, "1d", "transpose", {17}, {{"perm", Ints{0}}});
  add_one(cases, "2d", "transpose", {17, 23}, {{"perm", Ints{1, 0}}});
  add_one(cases, "3d", "transpose", {5, 7, 9}, {{"perm", Ints{2, 0, 1}}});
  add_one(cases, "channels_last", "transpose", {2, 5, 4, 6, 7}, {{"perm", Ints{0, 2, 3, 4, 1}}});
  add_one(cases, "channels_first", "transpose", {1, 4, 6, 7, 3}, {{"perm", Ints{0, 4, 1, 2, 3}}});
  add_one(cases, "6d", "transpose", {2, 3, 4, 3, 2, 5}, {{"perm", Ints{5, 3, 1, 4, 2, 0}}});
  add_one(cases, "u8", "transpose", {13, 7}, {{"perm", Ints{1, 0}}}, DType::U8);
  add_one(cases, "i32", "transpose", {3, 4, 5}, {{"perm", Ints{1, 2, 0}}}, DType::I32);
  add_one(cases, "u32", "transpose", {3, 4, 5}, {{"perm", Ints{2, 1, 0}}}, DType::U32);
  add_one(cases, "f16", "transpose", {5, 7}, {{"perm", Ints{1, 0}}}, DType::F16);
}

void add_slice(std::vector<OpCase>& cases) {
  const auto slice = [](Ints starts, Ints ends, Ints steps) {
    Attrs attrs{{"starts", starts}, {"ends", ends}};
    if (!steps.empty()) attrs.set("steps", steps);
    return attrs;
  };
  add_one(cases, "1d", "slice", {19}, slice({3}, {11}, {}));
  add_one(cases, "1d_step3", "slice", {19}, slice({1}, {100}, {3}));
  add_one(cases, "2d_from_end", "slice", {9, 13}, slice({-4, -13}, {-1, 13}, {}));
  add_one(cases, "channels", "slice", {2, 7, 4, 5, 3}, slice({0, 2, 0, 0, 0}, {2, 6, 4, 5, 3}, {}));
  add_one(cases, "5d_all_axes", "slice", {3, 7, 8, 9, 10}, slice({1, 0, 3, 2, 1}, {3, 7, 8, 9, 9}, {1, 3, 2, 4, 1}));
  add_one(cases, "6d", "slice", {2, 3, 4, 3, 2, 5}, slice({0, 1, 1, 0, 0, 2}, {2, 3, 4, 2, 1, 5}, {1, 1, 2, 1, 1, 2}));
  add_one(cases, "u8_odd", "slice", {11, 13}, slice({1, 3}, {10, 12}, {1, 2}), DType::U8);
  add_one(cases, "u32", "slice", {11, 3}, slice({2, 0}, {9, 3}, {}), DType::U32);
  add_one(cases, "f16", "slice", {11, 3}, slice({2, 1}, {9, 3}, {}), DType::F16);
}

void add_concat(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, std::vector<Shape> shapes, int64_t axis, DType dtype = DType::F32) {
    cases.push_back(make_case(exact("concat_" + name, "concat"), [shapes, axis, dtype](CaseBuilder& b) {
      std::vector<ValueId> inputs;
      for (const Shape& shape : shapes) inputs.push_back(b.input(shape, dtype));
      b.output(b.add("concat", inputs, {{"axis", axis}}));
    }));
  };
  add("one", {{3, 5}}, 0);
  add("1d", {{3}, {1}, {7}}, 0);
  add("last_axis", {{4, 3}, {4, 8}, {4, 1}}, -1);
  add("channels", {{2, 5, 3, 4, 6}, {2, 7, 3, 4, 6}}, 1);
  add("channels_aligned", {{1, 8, 5, 4, 3}, {1, 4, 5, 4, 3}, {1, 16, 5, 4, 3}}, 1);
  add("nine_inputs", {{2, 1}, {2, 2}, {2, 3}, {2, 1}, {2, 5}, {2, 1}, {2, 7}, {2, 2}, {2, 1}}, 1);
  add("6d", {{2, 1, 2, 3, 1, 4}, {2, 1, 2, 5, 1, 4}}, 3);
  add("u8", {{5, 3}, {5, 6}}, 1, DType::U8);
  add("i32", {{5, 3}, {2, 3}}, 0, DType::I32);
  cases.push_back(make_case(exact("concat_with_constant", "concat"), [](CaseBuilder& b) {
    b.output(b.add("concat", {b.constant({3, 4}), b.input({3, 5})}, {{"axis", int64_t{1}}}));
  }));
  cases.push_back(make_case(exact("concat_same_twice", "concat"), [](CaseBuilder& b) {
    const ValueId x = b.input({3, 4});
    b.output(b.add("concat", {x, x}, {{"axis", int64_t{0}}}));
  }));
}

void add_pad(std::vector<OpCase>& cases) {
  add_one(cases, "1d", "pad", {7}, {{"pads", Ints{2, 3}}});
  add_one(cases, "1d_nothing", "pad", {7}, {{"pads", Ints{0, 0}}});
  add_one(cases, "2d_value", "pad", {5, 6}, {{"pads", Ints{1, 0, 0, 4}}, {"value", -1.5}});
  add_one(cases, "3d_volume", "pad", {1, 5, 4, 5, 6}, {{"pads", Ints{0, 0, 1, 2, 3, 0, 0, 3, 0, 1}}});
  add_one(cases, "channels", "pad", {1, 5, 3, 4, 2}, {{"pads", Ints{0, 1, 0, 0, 0, 1, 2, 0, 0, 0}}, {"value", 2.5}});
  add_one(cases, "6d", "pad", {2, 1, 3, 2, 2, 3}, {{"pads", Ints{0, 1, 0, 2, 0, 1, 1, 0, 0, 0, 1, 0}}});
  add_one(cases, "u8", "pad", {5, 6}, {{"pads", Ints{1, 2, 0, 3}}, {"value", int64_t{255}}}, DType::U8);
  add_one(cases, "i32", "pad", {5, 6}, {{"pads", Ints{1, 2, 0, 3}}, {"value", int64_t{-7}}}, DType::I32);
}

void add_expand(std::vector<OpCase>& cases) {
  add_one(cases, "scalar", "expand", {}, {{"shape", Ints{5}}});
  add_one(cases, "row", "expand", {7}, {{"shape", Ints{3, 7}}});
  add_one(cases, "column", "expand", {5, 1}, {{"shape", Ints{5, 9}}});
  add_one(cases, "channels", "expand", {1, 5, 1, 1, 1}, {{"shape", Ints{2, 5, 3, 4, 6}}});
  add_one(cases, "6d", "expand", {3, 1, 2, 1}, {{"shape", Ints{2, 1, 3, 4, 2, 5}}});
  add_one(cases, "same", "expand", {3, 4}, {{"shape", Ints{3, 4}}});
  add_one(cases, "u8", "expand", {1, 7}, {{"shape", Ints{3, 7}}}, DType::U8);
}

void add_strided(std::vector<OpCase>& cases) {
  add_one(cases, "turned", "strided", {4, 6}, {{"shape", Ints{6, 4}}, {"strides", Ints{1, 6}}, {"offset", int64_t{0}}});
  add_one(cases, "offset", "strided", {5, 6}, {{"shape", Ints{6, 4}}, {"strides", Ints{1, 6}}, {"offset", int64_t{6}}});
  add_one(cases, "steps", "strided", {5, 12}, {{"shape", Ints{2, 3, 5}}, {"strides", Ints{2, 4, 12}}});
  add_one(cases, "backwards", "strided", {30},
          {{"shape", Ints{3, 4}}, {"strides", Ints{-7, 1}}, {"offset", int64_t{20}}});
  add_one(cases, "repeated", "strided", {9}, {{"shape", Ints{4, 7}}, {"strides", Ints{0, 1}}, {"offset", int64_t{2}}});
}

void add_repack(std::vector<OpCase>& cases) {
  for (const auto& [name, shape] :
       std::initializer_list<std::pair<std::string, Shape>>{{"repack_c1", {1, 1, 3, 4, 5}},
                                                            {"repack_c4", {1, 4, 3, 4, 5}},
                                                            {"repack_c7_batch2", {2, 7, 3, 4, 5}},
                                                            {"repack_2d", {1, 5, 6, 7}}})
    cases.push_back(make_case(exact(name, "repack"), [s = shape](CaseBuilder& b) {
      b.output(b.add("repack", {b.add("repack", {b.input(s)}, {{"to", "packed"}})}, {{"to", "plain"}}));
    }));
}

}  // namespace

void add_movement_cases(std::vector<OpCase>& cases) {
  add_reshape(cases);
  add_transpose(cases);
  add_slice(cases);
  add_concat(cases);
  add_pad(cases);
  add_expand(cases);
  add_strided(cases);
  add_repack(cases);
}

}  // namespace gyrus::test
