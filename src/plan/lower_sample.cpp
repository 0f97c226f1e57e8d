#include "core/error.h"
#include "ops/sample.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

SampleAttrs attrs_of(const Graph& graph, const Node& node) {
  return sample_attrs(node, graph.type(node.inputs[0]).shape, graph.type(node.outputs[0]).shape);
}

// Neighbours are read by the function that reads operand 0, wherever they lie in x.
std::string statements(const SampleAttrs& s, const std::string& type) {
  std::string places, inside, weight, place;
  for (size_t a = 0; a < s.extents.size(); ++a) {
    const std::string at = cat("at", a), high = cat("f32((tap >> ", a, "u) & 1u)");
    places += s.nearest ? cat("  let p", a, " = round(", at, ");\n")
                        : cat("    let p", a, " = floor(", at, ") + ", high, ";\n");
    inside += cat(a ? " && " : "", "p", a, " >= 0.0 && p", a, " < f32(P.extent", a, ")");
    weight += cat(a ? " * " : "", "(1.0 - abs(", at, " - p", a, "))");
    place += cat(" + u32(p", a, ") * P.stride", a);
  }
  if (s.nearest)
    return cat(places, "  var y = ", type, "(0);\n  if (", inside, ") {\n    y = read0(plane", place, ");\n  }\n");
  return cat("  var y = 0.0;\n  for (var tap = 0u; tap < ", size_t{1} << s.extents.size(), "u; tap++) {\n", places,
             "    if (", inside, ") {\n      y += ", weight, " * read0(plane", place, ");\n    }\n  }\n");
}

}  // namespace

bool suits_sample(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Limits& limits = target.limits;
  const TensorType& x = graph.type(node.inputs[0]);
  const uint64_t bytes = static_cast<uint64_t>(element_count(x.shape)) * byte_size(x.dtype);
  const size_t bindings = node.inputs.size() + 1 + (options.check_finite ? 1 : 0);
  return bytes > 0 && bytes + 512 <= std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size) &&
         bindings <= limits.max_storage_buffers_per_shader_stage;
}

void lower_sample(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const SampleAttrs s = attrs_of(graph, node);
  MapSpec spec;
  spec.name = s.nearest ? "sample nearest" : "sample linear";
  spec.label = label_of(node);
  spec.dims = {s.images, s.channels, s.points};
  spec.params = {{"places", s.places}, {"points", s.points}, {"channels", s.channels}};
  MapOperand x;
  x.storage = lowering.storage(node.inputs[0]);
  x.name = "first";
  x.index = "0u";
  spec.operands.push_back(x);
  for (size_t a = 0; a < s.extents.size(); ++a) {
    spec.params.emplace_back(cat("extent", a), s.extents[a]);
    spec.params.emplace_back(cat("stride", a), s.strides[a]);
    MapOperand at;
    at.storage = lowering.storage(node.inputs[a + 1]);
    at.name = cat("at", a);
    // With one channel the coordinates lie as the result does, and windows of both go together.
    if (s.channels != 1) at.index = "c0 * P.points + c2";
    spec.operands.push_back(std::move(at));
  }
  spec.statements = "  let plane = (c0 * P.channels + c1) * P.places;\n" +
                    statements(s, scalar_type(graph.type(node.outputs[0]).dtype));
  spec.result = "y";
  spec.flops_per_element = s.nearest ? 4 : 64;
  spec.out = lowering.make_storage(node.outputs[0], node);
  emit_map(lowering, spec);
}

}  // namespace gyrus
