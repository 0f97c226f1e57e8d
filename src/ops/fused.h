#pragma once
#include <string>
#include <vector>

#include "core/wgsl.h"
#include "graph/op.h"

// Bodies: elementwise steps inside one node. Op "fused" is nothing but a body over the node's inputs; ops with
// `takes_body` may carry one behind their result, with the node's further inputs as further operands.

namespace gyrus {

extern const OpDef kFused;

inline constexpr size_t kMaxBodySteps = 64;

// The types of the results, from the types of the operands; all have one shape. Throws InvalidGraph where a step is no
// elementwise op, reads an id that does not exist yet, or is refused by its op. Without steps: the first operand.
std::vector<TensorType> infer_body(const Node& node, const std::vector<TensorType>& operands);

// The types of a node's results where its own result is `raw`: checks that the op takes a body, and infers it with the
// inputs beyond the op's own as further operands, which must broadcast to `raw`.
std::vector<TensorType> infer_behind(const Node& node, const TensorType& raw, const std::vector<TensorType>& inputs);

// The results of the body at one element.
std::vector<double> eval_body(const Node& node, const std::vector<double>& operands);

// The results of the body over whole tensors, which are consumed.
std::vector<RefTensor> reference_body(const Node& node, std::vector<RefTensor> operands);
// The same behind an op: the raw result, and the node's inputs as its reference got them.
std::vector<RefTensor> reference_behind(const Node& node, RefTensor raw, const std::vector<const RefTensor*>& inputs);

// Whether a node, or a step of its body, depends on where an element stands: only kernels that know that can run it.
bool is_indexed(const Node& node);

// Whether all results of the body are 0 where all operands are 0.
bool body_keeps_zero(const Node& node);

// The steps of an elementwise node as a body over its own inputs.
std::vector<Node> body_of(const Node& node);

// A body in WGSL: one "let" statement a step, a line each, and the names of the results with their types. Without
// steps `statements` is empty and the result is the first operand.
struct BodyText {
  std::string statements;            // e.g. "  let step0 = act_relu(x);\n"
  std::vector<std::string> results;  // e.g. "step0"
  std::vector<WgslType> types;       // of the results
  const std::string& result() const { return results.front(); }
};

// `operands` are names or literals (steps may repeat them), all of one type. Cast steps change the type. `index` names
// the number of the element, for steps that depend on it.
BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, WgslType type);
// The same with a type for each operand.
BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::vector<WgslType>& types,
                   const std::string& index = {});

}  // namespace gyrus
