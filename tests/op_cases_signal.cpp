#include "op_cases_build.h"

namespace gyrus::test {
namespace {

struct Transform {
  std::string name;
  Shape shape;  // of complex numbers without their axis, or of real ones
  std::string kind = "complex";
  Attrs attrs{};
};

void add(std::vector<OpCase>& cases, const Transform& t, bool large = false) {
  OpCase c{(large ? "large_fft_" : "fft_") + t.name, "fft", {}, Fill::Normal, 0, 1};
  c.large = large;
  cases.push_back(make_case(c, [=](CaseBuilder& b) {
    Shape shape = t.shape;
    if (t.kind != "real") shape.push_back(2);
    Attrs attrs = t.attrs;
    attrs.set("kind", t.kind);
    b.output(b.add("fft", {b.input(shape)}, attrs));
  }));
}

Attrs along(int64_t axis, int64_t inverse = 0) { return {{"axis", axis}, {"inverse", inverse}}; }

void add_transforms(std::vector<OpCase>& cases) {
  add(cases, {"one", {3, 1}});
  add(cases, {"steps", {5, 420}});  // radices 4, 3, 5, 7
  add(cases, {"steps_inverse", {2, 2, 61}, "complex", {{"inverse", int64_t{1}}, {"norm", "ortho"}}});
  add(cases, {"registers", {3, 256}});  // 16 times 16
  add(cases, {"registers_eight", {2, 128}, "complex", along(-1, 1)});
  add(cases, {"registers_axis", {2, 64, 5}, "complex", along(1)});
  add(cases, {"registers_two", {33, 32}, "complex", {{"norm", "forward"}}});
  add(cases, {"first_axis", {36, 2, 3}, "complex", along(0, 1)});
  add(cases, {"filled", {3, 10}, "complex", {{"n", int64_t{18}}}});
  add(cases, {"cut", {3, 18, 2}, "complex", {{"n", int64_t{10}}, {"axis", int64_t{1}}}});
  add(cases, {"passes", {2, 4096}, "complex", {{"norm", "ortho"}}});
  add(cases, {"passes_mixed", {2, 6000}, "complex", along(-1, 1)});
  add(cases, {"passes_axis", {3000, 3}, "complex", along(0)});
  add(cases, {"prime", {3, 67}});
  add(cases, {"prime_inverse", {2, 101, 2}, "complex", along(1, 1)});
  add(cases, {"prime_passes", {1, 2 * 1499}, "complex", {{"norm", "ortho"}}});
  add(cases, {"real", {4, 400}, "real"});
  add(cases, {"real_odd", {2, 45, 3}, "real", {{"axis", int64_t{1}}, {"norm", "ortho"}}});
  add(cases, {"real_registers", {2, 64}, "real"});
  add(cases, {"real_prime", {2, 71}, "real", {{"n", int64_t{73}}}});
  add(cases, {"half", {3, 31}, "half", along(-1, 1)});
  add(cases, {"half_odd", {3, 20}, "half", {{"n", int64_t{31}}, {"inverse", int64_t{1}}, {"norm", "forward"}}});
  add(cases, {"half_prime", {2, 40}, "half", {{"n", int64_t{79}}, {"inverse", int64_t{1}}}});
  // What tiny limits cut: many lines, lines that no binding holds, and such of a prime length.
  add(cases, {"lines", {90, 3000}}, true);
  add(cases, {"long", {1, 270000}, "complex", along(-1, 1)}, true);
  add(cases, {"long_axis", {420, 5, 150}, "complex", along(0)}, true);
  add(cases, {"long_prime", {5, 65521}}, true);
}

}  // namespace

void add_signal_cases(std::vector<OpCase>& cases) {
  add_transforms(cases);
  const auto frames = [&](const std::string& name, const Shape& shape, int64_t size, int64_t hop, DType dtype) {
    OpCase c{"frames_" + name, "frames", {}, Fill::Whole, -9, 9};
    c.exact = true;
    cases.push_back(make_case(c, [=](CaseBuilder& b) {
      b.output(b.add("frames", {b.input(shape, dtype)}, {{"size", size}, {"hop", hop}}));
    }));
  };
  frames("overlap", {2, 3, 50}, 16, 5, DType::F32);
  frames("apart", {40}, 6, 9, DType::I32);
}

}  // namespace gyrus::test
