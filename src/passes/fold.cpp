#include <algorithm>

#include "core/error.h"
#include "graph/op.h"
#include "passes/passes.h"
#include "graph/rewriter.h"

namespace gyrus {
namespace {

constexpr const char* kFolded = ".folded";

RefTensor widen(const Tensor& tensor) {
  RefTensor wide{tensor.shape, std::vector<double>(static_cast<size_t>(tensor.size()))};
  for (int64_t i = 0; i < tensor.size(); ++i) wide.data[i] = get(tensor, i);
  return wide;
}

Tensor narrow(const RefTensor& wide, DType dtype) {
  Tensor tensor(dtype, wide.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, wide.data[i]);
  return tensor;
}

void fold_node(Rewriter& rewrite, const Node& node) {
  const Graph& graph = rewrite.old();
  std::vector<RefTensor> inputs;
  for (ValueId id : node.inputs) inputs.push_back(widen(rewrite.graph().constant(rewrite(id))));
  std::vector<const RefTensor*> pointers;
  pointers.reserve(inputs.size());
  for (const RefTensor& input : inputs) pointers.push_back(&input);
  std::vector<RefTensor> outputs;
  for (ValueId id : node.outputs) {
    const Shape& shape = graph.type(id).shape;
    outputs.push_back({shape, std::vector<double>(static_cast<size_t>(element_count(shape)))});
  }
  op(node.op).reference(node, pointers, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    rewrite.replace(id, rewrite.graph().add_constant(graph.value(id).name, narrow(outputs[i], graph.type(id).dtype)));
  }
}

// The constant as one value per channel of a tensor of type `type`, or nothing where it varies otherwise.
bool per_channel(const Tensor& constant, const TensorType& type, std::vector<double>& values) {
  const size_t rank = type.shape.size();
  if (rank < 2 || constant.shape.size() > rank) return false;
  const int64_t channels = type.shape[1];
  Shape aligned(rank - constant.shape.size(), 1);
  aligned.insert(aligned.end(), constant.shape.begin(), constant.shape.end());
  for (size_t axis = 0; axis < rank; ++axis)
    if (aligned[axis] != 1 && axis != 1) return false;
  values.resize(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) values[c] = get(constant, aligned[1] == 1 ? 0 : c);
  return true;
}

bool has_name(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).name == name) return true;
  return false;
}

// A name for weights made from these: "w.folded". Several convolutions may share their weights, so a number follows
// where the name is taken; weights that were folded before and are superseded hand their name on.
std::string take_folded_name(Graph& graph, ValueId weight) {
  const std::string old = graph.value(weight).name;
  if (old.empty()) return {};
  if (old.find(kFolded) != std::string::npos && has_name(graph, old + "_bias")) {
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (graph.value(id).name == old || graph.value(id).name == old + "_bias") graph.set_name(id, "");
    return old;
  }
  std::string name = old + kFolded;
  for (int i = 2; has_name(graph, name); ++i) name = cat(old, kFolded, i);
  return name;
}

// conv * scale + shift with constant weights, as one convolution.
ValueId scaled_conv(Graph& graph, Node conv, const std::vector<double>& scale, const std::vector<double>& shift) {
  const Tensor& weight = graph.constant(conv.inputs[1]);
  const int64_t outputs = weight.shape[0];
  const int64_t inner = weight.size() / outputs;
  Tensor folded(DType::F32, weight.shape);
  for (int64_t i = 0; i < weight.size(); ++i) set(folded, i, get(weight, i) * scale[i / inner]);
  Tensor bias(DType::F32, {outputs});
  for (int64_t o = 0; o < outputs; ++o) {
    const double old = conv.inputs.size() > 2 ? get(graph.constant(conv.inputs[2]), o) : 0.0;
    set(bias, o, old * scale[o] + shift[o]);
  }
  const std::string name = take_folded_name(graph, conv.inputs[1]);
  conv.inputs = {conv.inputs[0], graph.add_constant(name, std::move(folded)),
                 graph.add_constant(name.empty() ? "" : name + "_bias", std::move(bias))};
  return graph.add_node(std::move(conv))[0];
}

// A convolution of the graph in the making whose weights and bias are constants that may be changed.
const Node* foldable_conv(const Graph& graph, ValueId id) {
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (node->outputs.empty() || node->outputs[0] != id) continue;
    if (node->op != "conv" || !node->body.empty() || node->attrs.integer("stats", 0) != 0) return nullptr;
    const bool constant =
        graph.is_constant(node->inputs[1]) && (node->inputs.size() < 3 || graph.is_constant(node->inputs[2]));
    return constant ? &*node : nullptr;
  }
  return nullptr;
}

}  // namespace

Graph fold_constants(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    const bool constant = !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return rewrite.graph().is_constant(rewrite(id));
    });
    if (constant && op(node.op).reference)
      fold_node(rewrite, node);
    else
      rewrite.copy(node);
  }
  return rewrite.finish("fold_constants");
}

Graph fold_scale(const Graph& graph) {
  Rewriter rewrite(graph);
  const std::vector<uint32_t> uses = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    bool folded = false;
    for (size_t k = 0; (node.op == "mul" || node.op == "add") && k < 2 && !folded; ++k) {
      const ValueId constant = rewrite(node.inputs[1 - k]);
      const Node* conv = foldable_conv(rewrite.graph(), rewrite(node.inputs[k]));
      std::vector<double> values;
      if (!conv || uses[node.inputs[k]] != 1 || !rewrite.graph().is_constant(constant)) continue;
      const TensorType type = rewrite.graph().type(conv->outputs[0]);
      if (type != graph.type(node.outputs[0])) continue;
      if (!per_channel(rewrite.graph().constant(constant), type, values)) continue;
      const std::vector<double> same(values.size(), node.op == "mul" ? 0.0 : 1.0);
      rewrite.replace(node.outputs[0], node.op == "mul" ? scaled_conv(rewrite.graph(), *conv, values, same)
                                                        : scaled_conv(rewrite.graph(), *conv, same, values));
      folded = true;
    }
    if (!folded) rewrite.copy(node);
  }
  return rewrite.finish("fold_scale");
}

}  // namespace gyrus
