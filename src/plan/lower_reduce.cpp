#include <limits>

#include "core/error.h"
#include "ops/reduce.h"
#include "plan/lowering.h"

// Reductions go over windows of the input: every dispatch combines what its window holds with the result so far.

namespace gyrus {
namespace {

enum class Kind { Sum, Max, Min, ArgPosition };

struct ReduceSpec {
  std::string name;
  std::string label;
  Kind kind = Kind::Sum;
  StoragePtr in;
  StoragePtr best;  // ArgPosition: the largest value, found before
  StoragePtr out;
  Shape shape;                // of the input
  std::vector<bool> reduced;  // one for each axis
  double scale = 1;           // applied once at the end
};

// Row-major index over some axes of the input as an expression of its element index there.
std::string axes_index(const ReduceSpec& spec, bool reduced, const std::string& variable) {
  const std::vector<int64_t> strides = strides_of(spec.shape);
  std::string text = cat("  var rest = ", variable, ";\n  var at = 0u;\n");
  for (size_t axis = spec.shape.size(); axis-- > 0;) {
    if (spec.reduced[axis] != reduced) continue;
    text += cat("  at += (rest % ", spec.shape[axis], "u) * ", strides[axis], "u;\n  rest = rest / ", spec.shape[axis],
                "u;\n");
  }
  return text + "  return at;\n";
}

std::string identity(Kind kind, const std::string& type) {
  if (kind == Kind::Sum) return type + "(0)";
  if (kind == Kind::ArgPosition) return "4294967295u";
  // Infinity has no literal in WGSL; its bits come as a parameter.
  const bool max = kind == Kind::Max;
  if (type == "f32") return max ? "bitcast<f32>(P.minus_infinity)" : "bitcast<f32>(P.plus_infinity)";
  if (type == "i32") return max ? "i32(-2147483647 - 1)" : "2147483647";
  return max ? "0u" : "4294967295u";
}

std::string combine(Kind kind) {
  if (kind == Kind::Sum) return "a + b";
  return kind == Kind::Max ? "max(a, b)" : "min(a, b)";
}

std::string element_text(const Storage& s) {
  if (s.dtype == DType::U8) return "(input[at / 4u] >> (at % 4u * 8u)) & 255u";
  if (s.dtype == DType::F16) return "unpack2x16float(input[at / 2u])[at % 2u]";
  return "input[at]";
}

void emit_pass(Lowering& lowering, const ReduceSpec& spec, const Window& in, const Window& out, bool first, bool last) {
  int64_t kept = 1;
  int64_t reduced = 1;
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) (spec.reduced[axis] ? reduced : kept) *= spec.shape[axis];
  const Limits& limits = lowering.limits();
  // A whole workgroup for each result where there is enough to add up, else a thread.
  const bool grouped = reduced >= 256;
  DispatchSpec d;
  d.workgroup = lowering.workgroup(grouped ? 128 : 64);
  d.name = cat(spec.name, grouped ? " grouped" : "");
  d.label = spec.label;
  d.params = PlanBuilder::begin_params();
  d.params.add("out_begin", out.first);
  d.params.add("out_count", out.count);
  d.params.add("out_shift", out.skip - out.first);
  d.params.add("in_begin", in.first);
  d.params.add("in_count", in.count);
  d.params.add("in_shift", in.skip - in.first);
  d.params.add("reduced", static_cast<uint64_t>(reduced));
  d.params.add_float("minus_infinity", -std::numeric_limits<float>::infinity());
  d.params.add_float("plus_infinity", std::numeric_limits<float>::infinity());
  d.params.add_float("scale", static_cast<float>(spec.scale));
  d.reads = {in.range};
  const bool position = spec.kind == Kind::ArgPosition;
  if (position) {
    const Window best = window(*spec.best, out.first, out.count, limits);
    d.params.add("best_shift", best.skip - best.first);
    d.reads.push_back(best.range);
  }
  d.writes = {out.range};
  const std::string type = scalar_type(spec.out->dtype);
  KernelVars vars;
  vars["name"] = d.name;
  vars["bindings"] = declare_binding(1, "input", array_type(*spec.in), false) +
                     (position ? declare_binding(2, "best", array_type(*spec.best), false) : "") +
                     declare_binding(position ? 3 : 2, "output", type, true);
  vars["type"] = type;
  vars["identity"] = identity(spec.kind, type);
  vars["combine"] = combine(spec.kind);
  vars["kept_index"] = axes_index(spec, false, "o");
  vars["reduced_index"] = axes_index(spec, true, "r");
  vars["element"] = element_text(*spec.in);
  vars["position"] = position ? "1" : "";
  vars["grouped"] = grouped ? "1" : "";
  vars["first"] = first ? "1" : "";
  vars["scale"] = last && spec.scale != 1 ? "1" : "";
  vars["wg"] = std::to_string(d.workgroup);
  vars["params"] = d.params.declaration();
  d.wgsl = expand_kernel("reduce", vars);
  d.groups = grouped ? out.count : (out.count + d.workgroup - 1) / d.workgroup;
  d.flops = static_cast<double>(in.count);
  d.bytes = static_cast<double>(in.count * spec.in->unit_bytes());
  lowering.builder().dispatch(d);
}

void emit_reduce(Lowering& lowering, const ReduceSpec& spec) {
  const std::vector<Window> inputs = windows(*spec.in, 0, spec.in->units, lowering.limits());
  for (const Window& out : windows(*spec.out, 0, spec.out->units, lowering.limits()))
    for (size_t i = 0; i < inputs.size(); ++i)
      emit_pass(lowering, spec, inputs[i], out, i == 0, i + 1 == inputs.size());
}

// Moves a 4-byte result into the element type that the node's value has.
void store_as(Lowering& lowering, const Node& node, StoragePtr from) {
  MapSpec spec;
  spec.name = "reduce store";
  spec.label = label_of(node);
  spec.out = lowering.make_storage(node.outputs[0], node);
  MapOperand source;
  source.storage = std::move(from);
  source.name = "x";
  spec.operands = {source};
  const std::string type = scalar_type(spec.out->dtype);
  spec.result = type == scalar_type(spec.operands[0].storage->dtype) ? "x" : type + "(x)";
  emit_map(lowering, spec);
}

}  // namespace

void lower_reduce(Lowering& lowering, const Node& node) {
  const TensorType& in = lowering.graph().type(node.inputs[0]);
  const TensorType& out = lowering.graph().type(node.outputs[0]);
  const ReduceAttrs attrs = reduce_attrs(node, in.shape);
  ReduceSpec spec;
  spec.name = node.op;
  spec.label = label_of(node);
  spec.in = lowering.storage(node.inputs[0]);
  spec.shape = in.shape;
  spec.reduced = attrs.reduced;
  const DType wide = is_float(in.dtype) ? DType::F32 : in.dtype == DType::U8 ? DType::U32 : in.dtype;
  if (node.op == "argmax") {
    spec.kind = Kind::Max;
    spec.out = lowering.make_scratch({wide, out.shape, Layout::Plain}, spec.label);
    emit_reduce(lowering, spec);
    spec.kind = Kind::ArgPosition;
    spec.best = spec.out;
    spec.name = "argmax position";
    const bool direct = out.dtype == DType::U32;
    spec.out = direct ? lowering.make_storage(node.outputs[0], node)
                      : lowering.make_scratch({DType::U32, out.shape, Layout::Plain}, spec.label);
    emit_reduce(lowering, spec);
    if (!direct) store_as(lowering, node, spec.out);
    return;
  }
  spec.kind = node.op == "reduce_max" ? Kind::Max : node.op == "reduce_min" ? Kind::Min : Kind::Sum;
  if (node.op == "reduce_mean") {
    double count = 1;
    for (size_t axis = 0; axis < in.shape.size(); ++axis)
      if (attrs.reduced[axis]) count *= static_cast<double>(in.shape[axis]);
    spec.scale = 1 / count;
  }
  const bool direct = out.dtype == wide;
  spec.out = direct ? lowering.make_storage(node.outputs[0], node)
                    : lowering.make_scratch({wide, out.shape, Layout::Plain}, spec.label);
  emit_reduce(lowering, spec);
  if (!direct) store_as(lowering, node, spec.out);
}

}  // namespace gyrus
