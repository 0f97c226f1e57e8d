#pragma once
#include <string>
#include <vector>

#include "core/wgsl.h"
#include "ops/common.h"
#include "ops/steps.h"

// Elementwise ops are rows of a table: out[i] = f(in0[i], in1[i], …) after broadcasting.

namespace gyrus {

// The element types of which a row takes its operands; all operands of a node have one (halves and singles mix).
enum class Domain : uint8_t {
  Floats,
  Signed,   // floats, i32, i64
  Numbers,  // all but u8 and bool, which have no arithmetic
  Integers,
  Truth,  // bool, also where it is stored as bytes
  All,
};

// The element type of a row's result.
enum class Gives : uint8_t {
  Common,     // that of the operands
  Single,     // f32
  Word,       // u32
  Truth,      // bool
  Attribute,  // what the first attribute, a choice among the element types, says
};

// An attribute of a row, a number. With `choices` it is one of these texts, and its number is the place in the list.
struct RowAttr {
  std::string_view name;
  double fallback = 0;  // NaN: must be given
  std::vector<std::string_view> choices{};
};

// What the derivative of a row is written with: the numbers of its attributes, operands, result, and the gradient g of
// the result.
struct Chain {
  const double* attrs;
  std::vector<Term> x;
  Term y, g;
};

// scale * x + shift.
struct ScaleShift {
  double scale = 1;
  double shift = 0;
};

struct Elementwise {
  std::string_view name;
  size_t arity = 1;
  Domain domain = Domain::Floats;
  Gives gives = Gives::Common;
  std::vector<RowAttr> attrs{};
  bool chooses = false;  // the first operand is a truth value, and the others have the element type
  // The value depends on where the element stands in the result, and on a key: the last two operands, i32 of rank 0.
  bool indexed = false;
  bool only_trains = false;  // where a network only runs, the value is the first operand
  // The value at one element; `a` are the numbers of the attributes, in their order. Behind the operands of an indexed
  // row stands the number of the element.
  double (*value)(const double* x, const double* a) = nullptr;
  // The same of i32 and u32, by their bits, where results wrap around: doubles would lose the low bits of a product.
  uint32_t (*word)(uint32_t a, uint32_t b) = nullptr;
  // The same in WGSL: $0, $1 … are operands, $name an attribute (numbers as literals of f32, choices as their text), $T
  // the type of the operands, $F and $U that with f32 and u32 as its scalar, $i the number of the element. May call the
  // functions of src/kernels/elementwise.wgsl, an indexed row those of random.wgsl. Operands are names or literals,
  // since a row may repeat them.
  std::string_view wgsl{};
  // In place of `wgsl` where the text depends on the types.
  std::string (*wgsl_of)(const std::string& x, const double* a, WgslType type) = nullptr;
  // The gradient of each operand as steps over operands, result and g, all of one shape. Null: there is none.
  ForTraining<std::vector<Term>(const Chain& d)> derivative{};
  // Where operand `k` varies and the other one, if there is one, is the number c: the row as k * scale + shift, or
  // nothing. Null: never.
  std::optional<ScaleShift> (*as_affine)(const double* a, size_t k, double c) = nullptr;
  // Refuses attributes that contradict each other; may be null.
  void (*check)(const Node& node, const double* a) = nullptr;
};

// One op for each row, in the order of the table.
const std::vector<OpDef>& elementwise_ops();
// The rows.
const std::vector<Elementwise>& elementwise_rows();

// The numbers of the attributes with the defaults put in; throws InvalidGraph where one is missing, malformed or not
// finite.
std::vector<double> row_numbers(const Elementwise& row, const Attrs& attrs);
// The value at one element, of an indexed row at the first.
double evaluate(const Elementwise& row, const Attrs& attrs, const double* args);
// The row as a WGSL expression over `args` of that type, and the type of its value. Bytes travel as u32. `index` names
// the number of the element, where the kernel knows it.
std::string row_wgsl(const Elementwise& row, const Attrs& attrs, const std::vector<std::string>& args, WgslType type,
                     const std::string& index = {});
WgslType row_type(const Elementwise& row, const Attrs& attrs, WgslType type);

// The derivative of an elementwise node.
struct Derivative {
  static constexpr size_t kNone = ~size_t{0};        // nothing was asked, or there is no gradient
  static constexpr size_t kPassed = ~size_t{0} - 1;  // the gradient of the result as it is
  // A "fused" node without inputs; without results where none is needed.
  Node node;
  // What its inputs are to be: operands of the node by their place, then its result, then the gradient of that.
  std::vector<size_t> operands;
  // For each operand of the node which result is its gradient, in the shape of the node's result.
  std::vector<size_t> results;
};
// For autodiff, which gives the inputs, adds the node and sums over what was broadcast. Throws Unsupported where the op
// has no derivative.
Derivative derivative_of(const Node& node, const std::vector<bool>& wanted);

// A number as WGSL text that reads back as the same f32, always with a point or an exponent.
std::string wgsl_number(double value);

}  // namespace gyrus
