#pragma once
#include "graph/op.h"

// What a convolution can take over from the ops behind it; the fields of OpDef of the same names.

namespace gyrus::conv_joins {

// Packed kernels know no groups.
bool packs(const Graph& graph, const Node& conv);
std::optional<Node> with_statistics(const Graph& graph, const Node& conv);
std::optional<Node> with_affine(Graph& graph, const Node& conv, const std::vector<double>& scale,
                                const std::vector<double>& shift, const std::string& name);
std::optional<Node> with_argmax(const Graph& graph, const Node& conv, DType dtype);

}  // namespace gyrus::conv_joins
