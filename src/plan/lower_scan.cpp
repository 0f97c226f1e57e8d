// Running results along an axis and selective scans. Lines are cut into parts, so that there is work for a device: what
// each part comes to by itself, what comes before each part (a scan over the parts, cut in turn), then the results.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/recurrences.h"
#include "ops/scan.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// As many threads as keep a large device busy, and steps that are worth a part of their own.
constexpr uint64_t kThreads = 131072;
constexpr uint64_t kLeastSteps = 32;

struct Parts {
  uint64_t count = 1, length = 0;
};

Parts parts_of(uint64_t lines, uint64_t steps, const PlanOptions& options) {
  if (!options.scans_in_parts) return {1, steps};
  const uint64_t wanted = std::max<uint64_t>(1, kThreads / std::max<uint64_t>(1, lines));
  const uint64_t length = std::max(kLeastSteps, (steps + wanted - 1) / wanted);
  return {(steps + length - 1) / length, length};
}

struct Scan {
  ScanKind kind = ScanKind::Sum;
  uint64_t outer = 1, extent = 1, inner = 1;
  bool exclusive = false, reverse = false;
  StoragePtr factors, x, start, out, last;  // factors of linear ones; start and last may be null
  std::string label;
};

uint64_t groups_for(const Kernel& k, uint64_t threads) { return (threads + k.workgroup() - 1) / k.workgroup(); }

const char* title_of(ScanKind kind) {
  switch (kind) {
    case ScanKind::Sum: return "sums";
    case ScanKind::Product: return "products";
    case ScanKind::Largest: return "largest";
    case ScanKind::Linear: return "a h + b";
  }
  return "";
}

const char* combine_text(ScanKind kind) {
  return kind == ScanKind::Sum       ? "value + element"
         : kind == ScanKind::Product ? "value * element"
                                     : "max(value, element)";
}

uint64_t start_bits(ScanKind kind, DType dtype) {
  const double start = scan_start(kind, dtype);
  if (dtype == DType::F32) return bits_of(static_cast<float>(start));
  return static_cast<uint32_t>(static_cast<int64_t>(start));
}

StoragePtr scratch(Lowering& lowering, DType dtype, uint64_t count, const std::string& label) {
  return lowering.make_scratch({dtype, {static_cast<int64_t>(count)}, Layout::Plain}, label);
}

Kernel scan_kernel(Lowering& lowering, const Scan& s, const Parts& parts) {
  Kernel k(lowering, "scan", s.label);
  const uint64_t threads = s.outer * parts.count * s.inner;
  k.name(cat("scan ", title_of(s.kind))).workgroup(64).param("count", threads).param("parts", parts.count);
  k.param("length", parts.length).param("extent", s.extent).param("inner", s.inner);
  k.param("start", start_bits(s.kind, s.out->dtype));
  k.text("title", title_of(s.kind)).text("T", scalar_type(s.out->dtype)).text("combine", combine_text(s.kind));
  k.flag("linear", s.kind == ScanKind::Linear).flag("reverse", s.reverse);
  if (s.factors) k.read("a", *s.factors);
  return k.read("x", *s.x);
}

Cost cost_of(const Scan& s) {
  const auto elements = static_cast<double>(s.outer * s.extent * s.inner);
  return {elements * (s.factors ? 2 : 1), elements * (s.factors ? 12 : 8)};
}

void emit_scan(Lowering& lowering, const Scan& s);

// What comes before each part.
StoragePtr emit_carries(Lowering& lowering, const Scan& s, const Parts& parts) {
  const uint64_t count = s.outer * parts.count * s.inner;
  const DType dtype = s.out->dtype;
  const StoragePtr sums = scratch(lowering, dtype, count, s.label + ".sums");
  const StoragePtr products = s.factors ? scratch(lowering, dtype, count, s.label + ".products") : nullptr;
  Kernel k = scan_kernel(lowering, s, parts);
  k.write("sums", *sums).flag("sums", true).flag("carried", false).flag("last", false).flag("exclusive", false);
  if (products) k.write("products", *products);
  k.text("store", "");
  k.dispatch(groups_for(k, count), cost_of(s));
  Scan over = s;
  over.extent = parts.count;
  over.exclusive = true;
  over.reverse = false;
  over.factors = products;
  over.x = sums;
  over.out = scratch(lowering, dtype, count, s.label + ".carry");
  over.last = nullptr;
  emit_scan(lowering, over);
  return over.out;
}

void emit_scan(Lowering& lowering, const Scan& s) {
  const Parts parts = parts_of(s.outer * s.inner, s.extent, lowering.options());
  const StoragePtr carry = parts.count > 1 ? emit_carries(lowering, s, parts) : s.start;
  Kernel k = scan_kernel(lowering, s, parts);
  if (carry) k.read("carry", *carry);
  k.checks_stored().write("output", *s.out).text("store", k.stored(*s.out, s.exclusive ? "before" : "value"));
  if (s.last) k.write("last", *s.last);
  k.flag("sums", false).flag("carried", carry != nullptr).flag("last", s.last != nullptr);
  k.dispatch(groups_for(k, s.outer * parts.count * s.inner), cost_of(s));
}

bool fits_whole(const Graph& graph, const Node& node, const Target& target) {
  const Limits& limits = target.limits;
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  const auto fits = [&](ValueId id) {
    if (id == kNoValue) return true;
    const TensorType& type = graph.type(id);
    const uint64_t bytes = static_cast<uint64_t>(element_count(type.shape)) * byte_size(type.dtype);
    return bytes > 0 && bytes + 512 <= most && byte_size(type.dtype) == 4;
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), fits) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), fits);
}

struct Selective {
  uint64_t batch, steps, channels, states, units;  // units: quads of states, or states
  bool wide;
  uint64_t tile() const {
    uint64_t most = wide ? 4 : 8;
    while (units % most != 0) --most;
    return most;
  }
};

Selective selective_of(const Graph& graph, const Node& node) {
  const Shape x = graph.type(node.inputs[0]).shape;
  const auto states = static_cast<uint64_t>(graph.type(node.inputs[2]).shape[1]);
  const bool wide = states % 4 == 0;
  return {static_cast<uint64_t>(x[0]), static_cast<uint64_t>(x[1]),
          static_cast<uint64_t>(x[2]), states,
          wide ? states / 4 : states,  wide};
}

class SelectiveEmitter {
 public:
  SelectiveEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering), node_(node), s_(selective_of(lowering.graph(), node)) {
    parts_ = parts_of(s_.batch * s_.channels, s_.steps, lowering.options());
    y_ = lowering.make_storage(node.outputs[0], node);
    last_ = lowering.make_storage(node.outputs[1], node);
    if (has_operand(node, 5)) start_ = lowering.storage(node.inputs[5]);
  }

  void run() {
    const uint64_t bindings = lowering_.limits().max_storage_buffers_per_shader_stage;
    const bool at_once =
        parts_.count == 1 && (start_ ? 8u : 7u) + (lowering_.options().check_finite ? 1u : 0u) <= bindings;
    const StoragePtr carry = at_once ? start_ : carries();
    Kernel k = kernel();
    k.read("c", view(*lowering_.storage(node_.inputs[4])));
    if (carry) k.read("carry", view(*carry));
    k.checks_stored().write("output", *y_).text("store", k.stored(*y_, "sum"));
    if (at_once) k.write("last", view(*last_));
    k.flag("sums", false).flag("carried", carry != nullptr).flag("last", at_once);
    dispatch(k);
  }

 private:
  Storage view(const Storage& storage) const { return s_.wide ? quad_view(storage) : storage; }

  Kernel kernel() {
    Kernel k(lowering_, "selective_scan", label_of(node_));
    k.workgroup(64).param("count", s_.batch * parts_.count * s_.channels).param("parts", parts_.count);
    k.param("length", parts_.length).param("steps", s_.steps).param("channels", s_.channels).param("states", s_.units);
    k.read("x", *lowering_.storage(node_.inputs[0])).read("dt", *lowering_.storage(node_.inputs[1]));
    k.read("rates", view(*lowering_.storage(node_.inputs[2]))).read("b", view(*lowering_.storage(node_.inputs[3])));
    k.constant("tile", static_cast<int64_t>(s_.tile())).flag("tiles", s_.units > s_.tile());
    return k.flag("wide", s_.wide).text("T", s_.wide ? "vec4<f32>" : "f32");
  }

  void dispatch(Kernel& k) const {
    const auto elements = static_cast<double>(s_.batch * s_.steps * s_.channels);
    k.dispatch(groups_for(k, s_.batch * parts_.count * s_.channels),
               {8 * elements * static_cast<double>(s_.states), 12 * elements});
  }

  StoragePtr carries() {
    const uint64_t count = s_.batch * parts_.count * s_.channels * s_.states;
    Scan over;
    over.label = label_of(node_);
    over.kind = ScanKind::Linear;
    over.outer = s_.batch;
    over.extent = parts_.count;
    over.inner = s_.channels * s_.states;
    over.exclusive = true;
    over.factors = scratch(lowering_, DType::F32, count, over.label + ".products");
    over.x = scratch(lowering_, DType::F32, count, over.label + ".sums");
    over.out = scratch(lowering_, DType::F32, count, over.label + ".carry");
    over.start = start_;
    over.last = last_;
    Kernel k = kernel();
    k.write("sums", view(*over.x)).write("products", view(*over.factors));
    k.flag("sums", true).flag("carried", false).flag("last", false).text("store", "");
    dispatch(k);
    emit_scan(lowering_, over);
    return over.out;
  }

  Lowering& lowering_;
  const Node& node_;
  Selective s_;
  Parts parts_;
  StoragePtr y_, last_, start_;
};

}  // namespace

bool suits_scan(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const uint64_t bindings = (scan_kind(node) == ScanKind::Linear ? 4 : 3) + (options.check_finite ? 1 : 0);
  return bindings <= target.limits.max_storage_buffers_per_shader_stage && fits_whole(graph, node, target);
}

void lower_scan(Lowering& lowering, const Node& node) {
  const Shape shape = lowering.graph().type(node.inputs[0]).shape;
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), shape.size());
  Scan s;
  s.label = label_of(node);
  s.kind = scan_kind(node);
  s.extent = static_cast<uint64_t>(shape[axis]);
  s.inner = static_cast<uint64_t>(strides_of(shape)[axis]);
  s.outer = static_cast<uint64_t>(element_count(shape)) / (s.extent * s.inner);
  s.exclusive = flag(node, "exclusive");
  s.reverse = flag(node, "reverse");
  if (s.kind == ScanKind::Linear) {
    s.factors = lowering.storage(node.inputs[0]);
    s.x = lowering.storage(node.inputs[1]);
    if (has_operand(node, 2)) s.start = lowering.storage(node.inputs[2]);
  } else {
    s.x = lowering.storage(node.inputs[0]);
  }
  s.out = lowering.make_storage(node.outputs[0], node);
  emit_scan(lowering, s);
}

bool suits_selective_scan(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Limits& limits = target.limits;
  const Selective s = selective_of(graph, node);
  const uint64_t parts = parts_of(s.batch * s.channels, s.steps, options).count;
  const uint64_t scratch_bytes = 4 * s.batch * parts * s.channels * s.states + 512;
  return 7u + (options.check_finite ? 1u : 0u) <= limits.max_storage_buffers_per_shader_stage &&
         scratch_bytes <= std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size) &&
         fits_whole(graph, node, target);
}

void lower_selective_scan(Lowering& lowering, const Node& node) { SelectiveEmitter(lowering, node).run(); }

}  // namespace gyrus
