#include "core/error.h"
#include "graph/op.h"
#include "plan/lowering.h"

namespace gyrus {

// Ops that only move elements: each operand's index map says where an element of the result comes from. Where an
// operand has no elements outside its box, another one writes those; each writes its own and leaves the rest.
void lower_mapped(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape& out = graph.type(node.outputs[0]).shape;
  std::vector<Shape> inputs;
  for (ValueId id : node.inputs) inputs.push_back(graph.type(id).shape);
  const std::vector<IndexMap> maps = op(node.op).index_maps(node, inputs, out);
  MapSpec spec;
  spec.name = node.op;
  spec.label = label_of(node);
  spec.dims = out;
  spec.result = "x";
  spec.out = lowering.make_storage(node.outputs[0], node);
  for (size_t k = 0; k < maps.size(); ++k) {
    if (element_count(inputs[k]) == 0 && !maps[k].fill) continue;
    MapSpec part = spec;
    add_mapped(part, lowering.storage(node.inputs[k]), "x", maps[k]);
    emit_map(lowering, part);
  }
}

void lower_repack(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const TensorType& from = graph.type(node.inputs[0]);
  const TensorType& to = graph.type(node.outputs[0]);
  const int64_t channels = from.shape[1];
  const int64_t quads = ceil_div(channels, 4);
  const int64_t spatial = element_count(Shape(from.shape.begin() + 2, from.shape.end()));
  const int64_t planes = from.shape[2];
  const int64_t plane = planes ? spatial / planes : 1;
  MapSpec spec;
  spec.label = label_of(node);
  spec.result = "x";
  spec.params = {{"channels", channels}, {"quads", quads}, {"spatial", spatial}, {"planes", planes}, {"plane", plane}};
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const StoragePtr in = lowering.storage(node.inputs[0]);
  MapOperand source;
  source.name = "x";
  if (to.layout == Layout::Packed) {
    spec.name = "repack packed";
    spec.dims = {from.shape[0], planes, quads, plane, 4};
    spec.out = std::make_shared<Storage>(scalar_view(*out));
    source.storage = in;
    source.index = "(c0 * P.channels + c2 * 4u + c4) * P.spatial + c1 * P.plane + c3";
    if (channels % 4 != 0) source.valid = "c2 * 4u + c4 < P.channels";
    source.fill = "0";
  } else {
    spec.name = "repack plain";
    spec.dims = {from.shape[0], channels, planes, plane};
    spec.out = out;
    source.storage = std::make_shared<Storage>(scalar_view(*in));
    source.index = "(((c0 * P.planes + c2) * P.quads + c1 / 4u) * P.plane + c3) * 4u + c1 % 4u";
  }
  spec.operands = {source};
  emit_map(lowering, spec);
}

}  // namespace gyrus
