#include "ops/steps.h"

namespace gyrus {

Term Steps::add(const char* op, const std::vector<Term>& inputs, Attrs attrs) {
  Node step;
  step.op = op;
  step.attrs = std::move(attrs);
  for (const Term& input : inputs) step.inputs.push_back(input.id);
  body_.push_back(std::move(step));
  return {this, static_cast<ValueId>(operands_ + body_.size() - 1)};
}

Term operator+(Term a, Term b) { return apply("add", a, b); }
Term operator-(Term a, Term b) { return apply("sub", a, b); }
Term operator*(Term a, Term b) { return apply("mul", a, b); }
Term operator/(Term a, Term b) { return apply("div", a, b); }
Term operator-(Term a) { return apply("neg", a); }
Term affine(Term a, double scale, double shift) {
  return a.steps->add("affine", {a}, {{"scale", scale}, {"shift", shift}});
}
Term apply(const char* op, Term a) { return a.steps->add(op, {a}); }
Term apply(const char* op, Term a, Term b) { return a.steps->add(op, {a, b}); }
Term apply(const char* op, Term a, Term b, Term c) { return a.steps->add(op, {a, b, c}); }

}  // namespace gyrus
