#include "ops/scan.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

// An axis as scans see it: lines `inner` elements apart, in the order in which the scan goes along them.
struct Lines {
  int64_t outer = 1, extent = 1, inner = 1;
  bool reverse = false;
  // Element k of line (o, i), counted from where the scan starts.
  size_t at(int64_t o, int64_t k, int64_t i) const {
    return static_cast<size_t>((o * extent + (reverse ? extent - 1 - k : k)) * inner + i);
  }
};

size_t axis_of(const Node& node, const Shape& shape) {
  return checked_axis(node, node.attrs.integer("axis"), shape.size());
}

Lines lines_of(const Node& node, const Shape& shape) {
  const size_t axis = axis_of(node, shape);
  Lines lines{1, shape[axis], strides_of(shape)[axis], flag(node, "reverse")};
  for (size_t a = 0; a < axis; ++a) lines.outer *= shape[a];
  return lines;
}

std::vector<TensorType> infer_running(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis", "exclusive", "reverse"});
  if (inputs[0].dtype == DType::U8 || inputs[0].dtype == DType::Bool)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(inputs[0].dtype),
         ", which has no arithmetic; cast it first");
  axis_of(node, inputs[0].shape);
  flag(node, "reverse");
  if (flag(node, "exclusive") && scan_kind(node) == ScanKind::Largest && inputs[0].dtype != DType::F32)
    fail(ErrorCode::Unsupported, node.op,
         "without the element itself it starts from the lowest number of f32; input is ", to_string(inputs[0].dtype),
         ": cast it first");
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

double combine(ScanKind kind, double a, double b) {
  return kind == ScanKind::Sum ? a + b : kind == ScanKind::Product ? a * b : std::max(a, b);
}

void reference_running(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const bool exclusive = flag(node, "exclusive");
  const ScanKind kind = scan_kind(node);
  const Lines lines = lines_of(node, x.shape);
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      double value = scan_start(kind, DType::F32);
      for (int64_t k = 0; k < lines.extent; ++k) {
        const size_t at = lines.at(o, k, i);
        if (exclusive) outputs[0].data[at] = value;
        value = combine(kind, value, x.data[at]);
        if (!exclusive) outputs[0].data[at] = value;
      }
    }
}

// x moved by `by` along the axis, away from where the scan starts; `fill` comes in.
Value shifted(Value x, size_t axis, int64_t by, bool reverse, double fill) {
  const Shape shape = x.shape();
  if (by >= shape[axis]) return expand(scalar(x, fill), shape);
  std::vector<int64_t> pads(2 * shape.size(), 0);
  pads[axis + (reverse ? shape.size() : 0)] = by;
  const Value rest = reverse ? slice_of(x, axis, by, shape[axis]) : slice_of(x, axis, 0, shape[axis] - by);
  return pad(rest, pads, fill);
}

std::vector<ValueId> decompose_running(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  Value x(graph, node.inputs[0]);
  const Shape shape = x.shape();
  const size_t axis = axis_of(node, shape);
  if (element_count(shape) == 0) return {x.id()};
  const ScanKind kind = scan_kind(node);
  const bool reverse = flag(node, "reverse");
  const double start = scan_start(kind, x.dtype());
  if (flag(node, "exclusive")) x = shifted(x, axis, 1, reverse, start);
  for (int64_t by = 1; by < shape[axis]; by *= 2) {
    const Value before = shifted(x, axis, by, reverse, start);
    x = kind == ScanKind::Sum ? x + before : kind == ScanKind::Product ? x * before : max(x, before);
  }
  return {x.id()};
}

std::vector<TensorType> infer_linear(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {"axis", "reverse"});
  const TensorType& a = inputs[0];
  for (size_t i = 0; i < inputs.size(); ++i)
    if (has_input(node, inputs, i) && inputs[i].dtype != DType::F32)
      fail(ErrorCode::Unsupported, node.op, "operand ", i, " is ", to_string(inputs[i].dtype),
           ", expected f32; cast it first");
  if (inputs[1].shape != a.shape)
    fail(ErrorCode::InvalidGraph, node.op, "a is ", to_string(a.shape), " and b ", to_string(inputs[1].shape),
         ", expected the same shape");
  Shape start = a.shape;
  start[axis_of(node, a.shape)] = 1;
  if (has_input(node, inputs, 2) && inputs[2].shape != start)
    fail(ErrorCode::InvalidGraph, node.op, "start is ", to_string(inputs[2].shape), ", expected ", to_string(start));
  flag(node, "reverse");
  return {{DType::F32, a.shape, Layout::Plain}};
}

void reference_linear(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &a = *inputs[0], &b = *inputs[1];
  const Lines lines = lines_of(node, a.shape);
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      double h = has_input(inputs, 2) ? inputs[2]->data[static_cast<size_t>(o * lines.inner + i)] : 0;
      for (int64_t k = 0; k < lines.extent; ++k) {
        const size_t at = lines.at(o, k, i);
        outputs[0].data[at] = h = a.data[at] * h + b.data[at];
      }
    }
}

// Pairs (a, b) of growing spans: behind each doubling, h = a h[t - span] + b.
std::vector<ValueId> decompose_linear(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  Value a(graph, node.inputs[0]), b(graph, node.inputs[1]);
  const Shape shape = a.shape();
  const size_t axis = axis_of(node, shape);
  const bool reverse = flag(node, "reverse");
  if (element_count(shape) == 0) return {b.id()};
  for (int64_t by = 1; by < shape[axis]; by *= 2) {
    b = b + a * shifted(b, axis, by, reverse, 0);
    a = a * shifted(a, axis, by, reverse, 1);
  }
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) b = b + a * Value(graph, node.inputs[2]);
  return {b.id()};
}

Value linear_scan_of(Value a, Value b, Value start, size_t axis, bool reverse) {
  return apply("linear_scan", {a, b, start}, {{"axis", static_cast<int64_t>(axis)}, {"reverse", int64_t{reverse}}});
}

std::vector<Value> gradient_cumsum(const Backward& back) {
  return {cumsum(back.gradients[0], back.node.attrs.integer("axis"), flag(back.node, "exclusive"),
                 !flag(back.node, "reverse"))};
}

// With r[i] = Σ over j >= i of g[j] x[i+1] … x[j], itself a scan from the other end, the gradient is the product of
// what is before i times r[i]: no division, so that zeros do no harm.
std::vector<Value> gradient_cumprod(const Backward& back) {
  const Value x = back.inputs[0], g = back.gradients[0];
  const bool exclusive = flag(back.node, "exclusive"), reverse = flag(back.node, "reverse");
  const size_t axis = axis_of(back.node, x.shape());
  if (element_count(x.shape()) == 0) return {g};
  const Value before = exclusive ? back.outputs[0] : cumprod(x, static_cast<int64_t>(axis), true, reverse);
  const Value factors = exclusive ? x : shifted(x, axis, 1, !reverse, 0);
  Value r = linear_scan_of(factors, g, {}, axis, !reverse);
  if (exclusive) r = shifted(r, axis, 1, !reverse, 0);
  return {before * r};
}

// Each gradient goes to the element that the largest came from, of equal ones to the first: sums over the stretch up to
// the next larger element.
std::vector<Value> gradient_cummax(const Backward& back) {
  const Value x = back.inputs[0];
  Value g = back.gradients[0];
  const bool exclusive = flag(back.node, "exclusive"), reverse = flag(back.node, "reverse");
  const size_t axis = axis_of(back.node, x.shape());
  if (element_count(x.shape()) == 0) return {g};
  const Value before =
      exclusive
          ? back.outputs[0]
          : apply("cummax", {x},
                  {{"axis", static_cast<int64_t>(axis)}, {"exclusive", int64_t{1}}, {"reverse", int64_t{reverse}}});
  if (exclusive) g = shifted(g, axis, 1, !reverse, 0);
  const Value larger = cast(greater(x, before), DType::F32);
  const Value stays = 1.0 - shifted(larger, axis, 1, !reverse, 1);
  return {larger * linear_scan_of(stays, g, {}, axis, !reverse)};
}

// The gradient of h runs the other way: G[t] = g[t] + a[t+1] G[t+1].
std::vector<Value> gradient_linear(const Backward& back) {
  const Value a = back.inputs[0], h = back.outputs[0];
  const Value start = back.inputs.size() > 2 ? back.inputs[2] : Value{};
  const bool reverse = flag(back.node, "reverse");
  const size_t axis = axis_of(back.node, a.shape());
  const int64_t extent = a.shape()[axis];
  if (element_count(a.shape()) == 0) return {back.gradients[0], back.gradients[0], {}};
  const Value sums = linear_scan_of(shifted(a, axis, 1, !reverse, 0), back.gradients[0], {}, axis, !reverse);
  Value before = shifted(h, axis, 1, reverse, 0);
  if (start) {
    const Value rest = reverse ? slice_of(h, axis, 1, extent) : slice_of(h, axis, 0, extent - 1);
    const auto along = static_cast<int64_t>(axis);
    before = extent == 1 ? start : reverse ? concat({rest, start}, along) : concat({start, rest}, along);
  }
  Value first;
  if (start && back.wanted[2]) {
    const int64_t at = reverse ? extent - 1 : 0;
    first = slice_of(a, axis, at, at + 1) * slice_of(sums, axis, at, at + 1);
  }
  return {sums * before, sums, first};
}

double linear_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 2.0 * static_cast<double>(element_count(inputs[0].shape));
}

}  // namespace

ScanKind scan_kind(const Node& node) {
  const std::string& name = node.op;
  return name == kCumsum.name    ? ScanKind::Sum
         : name == kCumprod.name ? ScanKind::Product
         : name == kCummax.name  ? ScanKind::Largest
                                 : ScanKind::Linear;
}

double scan_start(ScanKind kind, DType dtype) {
  if (kind == ScanKind::Product) return 1;
  if (kind != ScanKind::Largest) return 0;
  switch (dtype) {
    case DType::U32: return 0;
    case DType::I32: return -2147483648.0;
    case DType::I64: return -9223372036854775808.0;
    case DType::F16: return -65504;
    default: return -3.4028234663852886e38;
  }
}

const OpDef kCumsum = {
    .name = "cumsum",
    .infer = infer_running,
    .reference = reference_running,
    .gradient = gradient_cumsum,
    .decompose = decompose_running,
    .has_kernel = true,
    .flops = element_flops,
};

const OpDef kCumprod = {
    .name = "cumprod",
    .infer = infer_running,
    .reference = reference_running,
    .gradient = gradient_cumprod,
    .decompose = decompose_running,
    .has_kernel = true,
    .flops = element_flops,
};

const OpDef kCummax = {
    .name = "cummax",
    .infer = infer_running,
    .reference = reference_running,
    .gradient = gradient_cummax,
    .decompose = decompose_running,
    .has_kernel = true,
    .flops = element_flops,
};

const OpDef kLinearScan = {
    .name = "linear_scan",
    .infer = infer_linear,
    .reference = reference_linear,
    .gradient = gradient_linear,
    .decompose = decompose_linear,
    .has_kernel = true,
    .flops = linear_flops,
};

}  // namespace gyrus
