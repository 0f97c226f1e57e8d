#pragma once
#include <vector>

#include "graph/op.h"

namespace gyrus {

// A tensor in doubles, and back into an element type.
RefTensor widen(const Tensor& tensor);
Tensor narrow(const RefTensor& wide, DType dtype);

// The results of a node with constant operands, by its reference; `types` are those of its outputs. An absent operand
// is null.
std::vector<Tensor> evaluate(const Node& node, const std::vector<const Tensor*>& inputs,
                             const std::vector<TensorType>& types);

}  // namespace gyrus
