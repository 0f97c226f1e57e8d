#pragma once
#include <map>
#include <string>

#include "graph/op.h"

// The slow executor that every kernel is tested against: doubles throughout, nothing rounds but `cast`.

namespace gyrus::reference {

// Runs the graph; `inputs` by name, one for each input of the graph. Returns the outputs by name.
std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs);

// The values rounded to the element type.
Tensor to_tensor(const RefTensor& values, DType dtype);
RefTensor from_tensor(const Tensor& tensor);

}  // namespace gyrus::reference
