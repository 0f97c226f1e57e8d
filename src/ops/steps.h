#pragma once
#include <vector>

#include "graph/graph.h"

// Elementwise steps written as arithmetic: `y * (1 - y)` appends the steps that compute it to a body.

namespace gyrus {

class Steps;

// A value of the body that `steps` makes: an operand or the result of a step.
struct Term {
  Steps* steps = nullptr;
  ValueId id = kNoValue;
};

class Steps {
 public:
  explicit Steps(size_t operands) : operands_(operands) {}
  Term operand(size_t index) { return {this, static_cast<ValueId>(index)}; }
  Term add(const char* op, const std::vector<Term>& inputs, Attrs attrs = {});
  std::vector<Node> body() && { return std::move(body_); }

 private:
  size_t operands_;
  std::vector<Node> body_;
};

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator-(Term a);
// a * scale + shift, numbers that the text of the kernel holds.
Term affine(Term a, double scale, double shift = 0);
// A function by its name.
Term apply(const char* op, Term a);
Term apply(const char* op, Term a, Term b);
Term apply(const char* op, Term a, Term b, Term c);

}  // namespace gyrus
