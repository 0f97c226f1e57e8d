#pragma once
#include <string>
#include <vector>

#include "graph/op.h"

// Bodies: elementwise steps inside one node. Op "fused" is nothing but a body over the node's inputs; conv and
// norm_apply may carry one as an epilogue over their result.

namespace gyrus {

extern const OpDef kFused;

inline constexpr size_t kMaxBodySteps = 64;

// How many operands the body has: the inputs of a "fused" node, else 1.
size_t body_operands(const Node& node);

// The type of the last step, from the types of the operands. Throws InvalidGraph where a step is no elementwise op,
// reads an id that does not exist yet, or is refused by its op. Without steps: the first operand.
TensorType infer_body(const Node& node, const std::vector<TensorType>& operands);

// The result of the body at one element.
double eval_body(const Node& node, const double* operands);

// The result of the body over whole tensors, which are consumed.
RefTensor reference_body(const Node& node, std::vector<RefTensor> operands);

// Whether the body gives 0 where all operands are 0.
bool body_keeps_zero(const Node& node);

// A body in WGSL: one "let" statement a step, a line each, and the name of the result with its WGSL type. Without
// steps `statements` is empty and the result is the first operand.
struct BodyText {
  std::string statements;  // e.g. "  let step0 = act_relu(x);\n"
  std::string result;      // e.g. "step0"
  std::string type;        // "f32", "vec4<f32>", "i32" or "u32"
};

// `operands` are names or literals (steps may repeat them), all of WGSL type `type`. Cast steps change the type.
BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::string& type);
// The same with a WGSL type for each operand.
BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::vector<std::string>& types);

}  // namespace gyrus
