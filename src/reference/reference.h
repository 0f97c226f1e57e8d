#pragma once
#include <map>
#include <string>

#include "graph/op.h"

// The slow executor that every kernel is tested against: doubles throughout, nothing rounds but `cast`.

namespace gyrus::reference {

using States = std::map<std::string, RefTensor>;

// Runs the graph; `inputs` by name, one for each input and each argument (of rank 0) of the graph. Returns outputs and
// captures by name. States begin as `states` says, or as the graph does where they are not in it, and are in it
// afterwards.
std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs, States& states);
std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs);

// The results of one node of the graph on these operands, null where one is absent.
std::vector<RefTensor> run_node(const Graph& graph, const Node& node, const std::vector<const RefTensor*>& inputs);

// The values rounded to the element type.
Tensor to_tensor(const RefTensor& values, DType dtype);
RefTensor from_tensor(const Tensor& tensor);

}  // namespace gyrus::reference
