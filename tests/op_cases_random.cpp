#include "op_cases_build.h"

// Random numbers: the key is an input, so that every run has its own.

namespace gyrus::test {
namespace {

struct Key {
  ValueId seed, step;
};

Key key_of(CaseBuilder& b) { return {b.input({}, DType::I32), b.input({}, DType::I32)}; }

// A row over a value of this shape, plain.
void add_plain(std::vector<OpCase>& cases, const std::string& op, const std::string& suffix, Shape shape, Attrs attrs,
               bool exact, bool large = false) {
  OpCase c{op + suffix, op, {}, Fill::Whole, -2147483000, 2147483000};
  c.exact = exact;
  c.large = large;
  cases.push_back(make_case(c, [op, shape, attrs](CaseBuilder& b) {
    const Key key = key_of(b);
    const ValueId x = b.add("expand", {b.constant({})}, {{"shape", shape}});
    b.output(b.add(op, {x, key.seed, key.step}, attrs));
  }));
}

// The same behind a convolution, packed, inside a chain.
void add_packed(std::vector<OpCase>& cases, const std::string& op, Shape shape, Attrs attrs) {
  OpCase c{op + "_packed_" + std::to_string(shape[1]), op, {}, Fill::Uniform, -2000, 2000};
  cases.push_back(make_case(c, [op, shape, attrs](CaseBuilder& b) {
    const Key key = key_of(b);
    const ValueId x = b.add("affine", {b.input(shape)}, {{"scale", 1e-3}});
    const ValueId weight = b.weight({shape[1], shape[1], 1, 1, 1});
    const ValueId y = b.add("relu", {b.add("conv", {x, weight})});
    b.output(b.add("affine", {b.add(op, {b.add("abs", {y}), key.seed, key.step}, attrs)}, {{"scale", 0.5}}));
  }));
}

// Coordinates go beyond the ends of every axis.
void add_sample(std::vector<OpCase>& cases, const std::string& suffix, Shape shape, Shape out, const std::string& mode,
                DType dtype = DType::F32, bool large = false) {
  OpCase c{"sample_" + suffix, "sample", {}, Fill::Uniform, -2, 9};
  c.exact = mode == "nearest";
  c.large = large;
  cases.push_back(make_case(c, [=](CaseBuilder& b) {
    std::vector<ValueId> inputs = {b.input(shape, dtype)};
    Shape at = {shape[0]};
    at.insert(at.end(), out.begin(), out.end());
    for (size_t a = 2; a < shape.size(); ++a) {
      // The same drawn range over axes of any length, in a few whole steps: halves occur.
      const double scale = static_cast<double>(shape[a]) / 8;
      inputs.push_back(b.add("affine", {b.input(at)}, {{"scale", scale}}));
    }
    b.output(b.add("sample", inputs, {{"mode", mode}}));
  }));
}

}  // namespace

void add_random_cases(std::vector<OpCase>& cases) {
  for (const std::string op : {"random_bits", "random_uniform", "random_normal"}) {
    const bool exact = op != "random_normal";
    add_plain(cases, op, "_list", {1031}, {}, exact);
    add_plain(cases, op, "_stream", {2, 3, 5, 7}, {{"stream", 16777215.0}}, exact);
    add_plain(cases, op, "_scalar", {}, {{"stream", 3.0}}, exact);
  }
  add_plain(cases, "random_uniform", "_large", {1, 1, 96, 96, 96}, {{"stream", 1.0}}, true, true);
  for (const std::string op : {"random_uniform", "random_normal"}) {
    add_packed(cases, op, {2, 6, 3, 4, 5}, {{"stream", 7.0}});
    add_packed(cases, op, {2, 8, 3, 4, 5}, {{"stream", 7.0}});
  }
  add_packed(cases, "dropout", {2, 6, 3, 4, 5}, {{"stream", 2.0}, {"p", 0.3}});
  add_packed(cases, "dropout", {2, 5, 3, 4, 5}, {{"p", 0.8}});
  add_sample(cases, "linear_1d", {2, 3, 8}, {17}, "linear");
  add_sample(cases, "linear_2d", {2, 1, 8, 16}, {5, 7}, "linear");
  add_sample(cases, "linear_3d", {2, 1, 8, 4, 16}, {5, 6, 7}, "linear");
  add_sample(cases, "linear_channels", {1, 5, 8, 4, 8}, {3, 4, 5}, "linear");
  add_sample(cases, "nearest_3d", {2, 1, 8, 4, 16}, {5, 6, 7}, "nearest");
  add_sample(cases, "nearest_i32", {2, 2, 8, 4, 16}, {5, 6, 7}, "nearest", DType::I32);
  add_sample(cases, "linear_large", {1, 1, 64, 128, 72}, {64, 64, 64}, "linear", DType::F32, true);
  OpCase chosen{"in_training_3d", "in_training", {}};
  cases.push_back(make_case(chosen, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 3, 4, 5, 6});
    b.output(b.add("in_training", {x, b.add("square", {x})}));
  }));
  OpCase c{"dropout_plain", "dropout", {}, Fill::Uniform, -2000, 2000};
  cases.push_back(make_case(c, [](CaseBuilder& b) {
    const Key key = key_of(b);
    const ValueId x = b.input({3, 401});
    b.output(b.add("mul", {b.add("dropout", {b.add("square", {x}), key.seed, key.step}), x}));
  }));
}

}  // namespace gyrus::test
