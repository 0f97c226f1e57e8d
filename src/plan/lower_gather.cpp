#include "core/error.h"
#include "ops/common.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// A tensor seen from one axis: what lies before it, the axis, what lies behind it.
struct AroundAxis {
  int64_t outer = 1, extent = 1, inner = 1;
};

AroundAxis around(const Node& node, const Shape& shape) {
  const size_t axis = checked_axis(node, node.attrs.integer("axis", 0), shape.size());
  AroundAxis a;
  for (size_t i = 0; i < axis; ++i) a.outer *= shape[i];
  a.extent = shape[axis];
  for (size_t i = axis + 1; i < shape.size(); ++i) a.inner *= shape[i];
  return a;
}

MapOperand operand(StoragePtr storage, const std::string& name, const std::string& index) {
  MapOperand made;
  made.storage = std::move(storage);
  made.name = name;
  made.index = index;
  return made;
}

}  // namespace

void lower_gather(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const AroundAxis a = around(node, graph.type(node.inputs[0]).shape);
  MapSpec spec;
  spec.name = "gather";
  spec.label = label_of(node);
  spec.dims = {a.outer, element_count(graph.type(node.inputs[1]).shape), a.inner};
  spec.params = {{"extent", a.extent}, {"inner", a.inner}};
  spec.operands = {operand(lowering.storage(node.inputs[1]), "index", "c1"),
                   operand(lowering.storage(node.inputs[0]), "x", "(c0 * P.extent + chosen) * P.inner + c2")};
  spec.operands[1].check =
      "  var chosen = bitcast<u32>(index);\n"
      "  if (bitcast<i32>(chosen) < 0) {\n    chosen += P.extent;\n  }\n"
      "  if (chosen >= P.extent) {\n    report(bitcast<u32>(index), P.extent);\n    chosen = 0u;\n  }\n";
  spec.result = "x";
  spec.reports_index = true;
  spec.out = lowering.make_storage(node.outputs[0], node);
  emit_map(lowering, spec);
}

// In place where nothing else reads the base; only what the value covers is touched. Rows must be
// whole words, since two lanes may not write one.
void lower_update_slice(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const AroundAxis base = around(node, graph.type(node.inputs[0]).shape);
  const AroundAxis value = around(node, graph.type(node.inputs[1]).shape);
  const StoragePtr from = lowering.storage(node.inputs[0]);
  const bool in_place = lowering.may_overwrite(node.inputs[0]);
  if (in_place) lowering.set_storage(node.outputs[0], from);
  const StoragePtr out = in_place ? from : lowering.make_storage(node.outputs[0], node);
  if (!in_place) lowering.builder().copy(*from, *out);
  const StoragePtr source = lowering.storage(node.inputs[1]);
  const auto element = static_cast<int64_t>(source->unit_bytes());
  const bool words = base.inner * element % 4 == 0;
  if (!words)
    fail(ErrorCode::Unsupported, label_of(node), "updates rows of ", base.inner, " elements of ", element,
         " bytes, expected whole words of 4: make the axes behind the updated one longer");
  const Storage moved = word_view(*source);
  const Storage target = word_view(*out);
  for (const Window& to : windows(target, 0, target.units, lowering.limits()))
    for (const Window& in : windows(moved, 0, moved.units, lowering.limits())) {
      Kernel k(lowering, "update_slice", label_of(node));
      k.workgroup(64).read("value", moved, in).param("begin", in.first).param("count", in.count);
      const bool given = has_operand(node, 2);
      if (given) k.read("start", *lowering.storage(node.inputs[2]));
      k.write("base", target, to).param("out_begin", to.first).param("out_count", to.count);
      if (given) k.reports(ReportKind::Index);
      k.param("extent", base.extent).param("length", value.extent).param("inner", base.inner * element / 4);
      k.param("first", node.attrs.integer("start", 0)).flag("given", given);
      k.dispatch((in.count + k.workgroup() - 1) / k.workgroup(), {0, 2.0 * static_cast<double>(in.count * 4)});
    }
}

}  // namespace gyrus
