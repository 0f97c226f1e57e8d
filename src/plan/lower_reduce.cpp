#include <algorithm>
#include <limits>

#include "core/error.h"
#include "ops/reduce.h"
#include "plan/lowering.h"

// Reductions go over windows of the input: every dispatch combines what its window holds with the result so far. Few
// results of many elements are made in two steps, so that there is work for a whole device.

namespace gyrus {
namespace {

enum class Kind { Sum, Prod, Max, Min, ArgPosition, ArgLast };

struct ReduceSpec {
  std::string name;
  std::string label;
  Kind kind = Kind::Sum;
  StoragePtr in;
  StoragePtr best;  // ArgPosition: the largest value, found before
  StoragePtr out;
  Shape shape;                // of the input
  std::vector<bool> reduced;  // one for each axis
  uint64_t parts = 1;         // results for each kept position
  double scale = 1;           // applied once at the end
  bool scores = false;        // values that are no numbers are reported
};

// Neighbouring axes that are kept or reduced together become one, extents of 1 none.
ReduceSpec merged(ReduceSpec spec) {
  Shape shape;
  std::vector<bool> reduced;
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    if (spec.shape[axis] == 1) continue;
    if (!shape.empty() && reduced.back() == spec.reduced[axis]) {
      shape.back() *= spec.shape[axis];
      continue;
    }
    shape.push_back(spec.shape[axis]);
    reduced.push_back(spec.reduced[axis]);
  }
  spec.shape = shape;
  spec.reduced = reduced;
  return spec;
}

uint64_t count_of(const ReduceSpec& spec, bool reduced) {
  uint64_t count = 1;
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    if (spec.reduced[axis] == reduced) count *= static_cast<uint64_t>(spec.shape[axis]);
  return count;
}

// Row-major index over some axes of the input as an expression of its element index there.
std::string axes_index(const ReduceSpec& spec, bool reduced, const std::string& variable) {
  std::string text = cat("  var rest = ", variable, ";\n  var at = 0u;\n");
  for (size_t axis = spec.shape.size(); axis-- > 0;)
    if (spec.reduced[axis] == reduced)
      text += cat("  at += rest % P.dim", axis, " * P.stride", axis, ";\n  rest = rest / P.dim", axis, ";\n");
  return text + "  return at;\n";
}

uint32_t identity(Kind kind, DType dtype) {
  if (kind == Kind::Sum || kind == Kind::ArgLast) return 0;
  if (kind == Kind::Prod) return dtype == DType::F32 ? bits_of(1) : 1;
  if (kind == Kind::ArgPosition) return UINT32_MAX;
  const bool max = kind == Kind::Max;
  if (dtype == DType::F32)
    return bits_of(max ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
  if (dtype == DType::I32) return max ? 0x80000000u : 0x7fffffffu;
  return max ? 0 : UINT32_MAX;
}

const char* combine(Kind kind) {
  if (kind == Kind::Sum) return "a + b";
  if (kind == Kind::Prod) return "a * b";
  return kind == Kind::Max || kind == Kind::ArgLast ? "max(a, b)" : "min(a, b)";
}

void emit_pass(Lowering& lowering, const ReduceSpec& spec, const Window& in, const Window& out, bool first, bool last) {
  const uint64_t reduced = count_of(spec, true);
  // A whole workgroup for each result where there is enough to add up, else a thread.
  const bool grouped = reduced >= 256 || spec.parts > 1;
  const bool position = spec.kind == Kind::ArgPosition || spec.kind == Kind::ArgLast;
  const std::string type = scalar_type(spec.out->dtype);
  Kernel k(lowering, "reduce", spec.label);
  k.name(cat(spec.name, grouped ? " grouped" : "")).workgroup(grouped ? 256 : 64);
  k.read("input", *spec.in, in).param("in_begin", in.first).param("in_count", in.count);
  if (position) {
    const Window best =
        window(*spec.best, out.first / spec.parts, (out.count + spec.parts - 1) / spec.parts, lowering.limits());
    k.read("best", *spec.best, best);
  }
  k.write("output", *spec.out, out).param("out_begin", out.first).param("out_count", out.count);
  if (spec.scores)
    k.reports(ReportKind::Finite);
  else if (is_float(spec.out->dtype) && last)
    k.checks_stored();
  k.param("parts", spec.parts).param("part", (reduced + spec.parts - 1) / spec.parts).param("reduced", reduced);
  k.param("identity", uint64_t{identity(spec.kind, spec.out->dtype)}).param("scale", static_cast<float>(spec.scale));
  const std::vector<int64_t> strides = strides_of(spec.shape);
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    k.param(cat("dim", axis), spec.shape[axis]).param(cat("stride", axis), strides[axis]);
  if (grouped) k.shared("stage", {scalar_of(spec.out->dtype)}, k.workgroup());
  k.text("title", spec.name).text("type", type).text("combine", combine(spec.kind));
  k.text("kept_index", axes_index(spec, false, "o")).text("reduced_index", axes_index(spec, true, "r"));
  k.text("element", element_text(*spec.in, "input", "i + P.input_shift"));
  k.flag("position", position).flag("grouped", grouped).flag("first", first).flag("scores", spec.scores);
  k.flag("scale", last && spec.scale != 1).text("store", k.stored(*spec.out, "value"));
  k.dispatch(grouped ? out.count : (out.count + k.workgroup() - 1) / k.workgroup(),
             {static_cast<double>(in.count), static_cast<double>(in.count * spec.in->unit_bytes())});
}

void emit_windows(Lowering& lowering, const ReduceSpec& spec) {
  const std::vector<Window> inputs = windows(*spec.in, 0, spec.in->units, lowering.limits());
  for (const Window& out : windows(*spec.out, 0, spec.out->units, lowering.limits()))
    for (size_t i = 0; i < inputs.size(); ++i)
      emit_pass(lowering, spec, inputs[i], out, i == 0, i + 1 == inputs.size());
}

// In how many parts each result is made first: enough for a device, of enough elements each.
uint64_t parts_of(const ReduceSpec& spec) {
  constexpr uint64_t kGroups = 2048;
  constexpr uint64_t kLeast = 8192;
  const uint64_t kept = count_of(spec, false);
  return kept == 0 ? 1 : std::max<uint64_t>(1, std::min(kGroups / kept, count_of(spec, true) / kLeast));
}

void emit_reduce(Lowering& lowering, const ReduceSpec& given) {
  ReduceSpec spec = merged(given);
  const uint64_t parts = parts_of(spec);
  if (parts == 1) return emit_windows(lowering, spec);
  ReduceSpec rest = spec;
  const auto kept = static_cast<int64_t>(count_of(spec, false));
  spec.parts = parts;
  spec.scale = 1;
  spec.out = lowering.make_scratch({given.out->dtype, {kept, static_cast<int64_t>(parts)}, Layout::Plain}, spec.label);
  emit_windows(lowering, spec);
  rest.in = spec.out;
  rest.kind = spec.kind == Kind::ArgPosition ? Kind::Min : spec.kind == Kind::ArgLast ? Kind::Max : spec.kind;
  rest.scores = false;
  rest.shape = {kept, static_cast<int64_t>(parts)};
  rest.reduced = {false, true};
  emit_windows(lowering, merged(rest));
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

// The type in which elements of a dtype are combined.
DType wide(DType dtype) { return is_float(dtype) ? DType::F32 : byte_size(dtype) < 4 ? DType::U32 : dtype; }

ReduceSpec reduce_spec(Lowering& lowering, const Node& node, Kind kind) {
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  ReduceSpec spec;
  spec.name = node.op;
  spec.label = label_of(node);
  spec.kind = kind;
  spec.in = lowering.storage(node.inputs[0]);
  spec.shape = shape;
  spec.reduced = reduce_attrs(node, shape).reduced;
  return spec;
}

// Reduces into `dtype`, then into the node's value.
void reduce_into(Lowering& lowering, const Node& node, ReduceSpec spec, DType dtype) {
  const TensorType& out = lowering.graph().type(node.outputs[0]);
  const bool direct = out.dtype == dtype;
  spec.out = direct ? lowering.make_storage(node.outputs[0], node)
                    : lowering.make_scratch({dtype, out.shape, Layout::Plain}, spec.label);
  emit_reduce(lowering, spec);
  if (!direct) store_as(lowering, node, spec.out);
}

void lower_reduce(Lowering& lowering, const Node& node, Kind kind, bool mean) {
  ReduceSpec spec = reduce_spec(lowering, node, kind);
  if (mean) spec.scale = 1 / static_cast<double>(count_of(spec, true));
  reduce_into(lowering, node, spec, wide(spec.in->dtype));
}

}  // namespace

void lower_reduce_sum(Lowering& lowering, const Node& node) { lower_reduce(lowering, node, Kind::Sum, false); }
void lower_reduce_mean(Lowering& lowering, const Node& node) { lower_reduce(lowering, node, Kind::Sum, true); }
void lower_reduce_prod(Lowering& lowering, const Node& node) { lower_reduce(lowering, node, Kind::Prod, false); }
void lower_reduce_max(Lowering& lowering, const Node& node) { lower_reduce(lowering, node, Kind::Max, false); }
void lower_reduce_min(Lowering& lowering, const Node& node) { lower_reduce(lowering, node, Kind::Min, false); }

void lower_argmax(Lowering& lowering, const Node& node) {
  ReduceSpec spec = reduce_spec(lowering, node, Kind::Max);
  const TensorType best{wide(spec.in->dtype), lowering.graph().type(node.outputs[0]).shape, Layout::Plain};
  spec.scores = is_float(best.dtype);
  spec.out = lowering.make_scratch(best, spec.label);
  emit_reduce(lowering, spec);
  spec.kind = node.attrs.integer("last", 0) ? Kind::ArgLast : Kind::ArgPosition;
  spec.name = "argmax position";
  spec.scores = false;
  spec.best = spec.out;
  reduce_into(lowering, node, spec, DType::U32);
}

}  // namespace gyrus
