// The delta rule, its rows in parallel and cut along time: what each part does to any M (as many rows again as M has
// columns), M before each part, then the results.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/recurrences.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Lanes that keep a large device busy; parts cost three times the work, so they are made only where lanes are few.
constexpr uint64_t kThreads = 65536;
constexpr uint64_t kLeastSteps = 32;
constexpr uint64_t kMostQuads = 16;          // of a row in the registers of one lane
constexpr uint64_t kMostStagedBytes = 8192;  // of vectors in workgroup memory

struct Delta {
  uint64_t batch, steps, heads, keys, values;
  uint64_t lanes = 1, padded = 1;  // of a row; its quads, a multiple of that
  uint64_t parts = 1, length = 0;
  uint64_t heads_total() const { return batch * heads; }
};

Delta delta_of(const Graph& graph, const Node& node, const PlanOptions& options) {
  const Shape rows = graph.type(node.inputs[0]).shape, v = graph.type(node.inputs[1]).shape;
  const auto extent = [](int64_t n) { return static_cast<uint64_t>(n); };
  Delta d{extent(rows[0]), extent(rows[1]), extent(rows[2]), extent(rows[3] / 5), extent(v[3])};
  const uint64_t quads = (d.keys + 3) / 4;
  while (quads > d.lanes * kMostQuads) d.lanes *= 2;
  d.padded = (quads + d.lanes - 1) / d.lanes * d.lanes;
  const uint64_t busy = d.heads_total() * d.values * d.lanes;
  const uint64_t wanted = options.scans_in_parts ? std::max<uint64_t>(1, kThreads / busy) : 1;
  d.length = std::max(kLeastSteps, (d.steps + wanted - 1) / wanted);
  d.parts = (d.steps + d.length - 1) / d.length;
  return d;
}

// Steps whose vectors lie in workgroup memory together; 0: not even those of one.
uint64_t steps_together(const Delta& d, const Limits& limits) {
  const uint64_t wg = workgroup_size(limits, 64), stage = d.lanes > 1 ? 4 * wg : 0;
  const uint64_t most = limits.max_compute_workgroup_storage_size, step = 80 * d.padded;
  if (wg < d.lanes || most < stage + step + 32) return 0;
  return std::clamp<uint64_t>((std::min(most - stage - 32, kMostStagedBytes)) / step, 1, 8);
}

class DeltaEmitter {
 public:
  DeltaEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering), node_(node), d_(delta_of(lowering.graph(), node, lowering.options())) {
    reverse_ = flag(node, "reverse");
    wide_ = d_.keys % 4 == 0;
    if (has_operand(node, 2)) start_ = lowering.storage(node.inputs[2]);
  }

  void rule() {
    const StoragePtr y = lowering_.make_storage(node_.outputs[0], node_);
    const StoragePtr last = lowering_.make_storage(node_.outputs[1], node_);
    const uint64_t bindings = (start_ ? 5u : 4u) + (lowering_.options().check_finite ? 1u : 0u);
    const bool at_once = d_.parts == 1 && bindings <= lowering_.limits().max_storage_buffers_per_shader_stage;
    const StoragePtr carry = at_once ? start_ : carries(last);
    Kernel k = kernel(d_.values, carry);
    k.checks_stored().write("output", *y).text("store", k.stored(*y, "sum"));
    keep(k, at_once ? last : nullptr);
    dispatch(k.flag("apply", true).flag("states", false).flag("ends", at_once).flag("sums", false), d_.values);
  }

  void states() {
    const StoragePtr all = lowering_.make_storage(node_.outputs[0], node_);
    Kernel k = kernel(d_.values, d_.parts > 1 ? carries(nullptr) : start_);
    keep(k.checks_stored(), all);
    dispatch(k.flag("apply", false).flag("states", true).flag("ends", false).flag("sums", false), d_.values);
  }

 private:
  Storage view(const Storage& storage) const { return wide_ ? quad_view(storage) : storage; }

  Kernel kernel(uint64_t rows, const StoragePtr& carry) {
    Kernel k(lowering_, "delta_rule", label_of(node_));
    k.workgroup(64)
        .read("rows", view(*lowering_.storage(node_.inputs[0])))
        .read("v", *lowering_.storage(node_.inputs[1]));
    if (carry) k.read("carry", view(*carry));
    const uint64_t in_group = k.workgroup() / d_.lanes;
    k.param("blocks", (rows + in_group - 1) / in_group).param("parts", d_.parts).param("length", d_.length);
    k.param("steps", d_.steps).param("heads", d_.heads).param("heads_total", d_.heads_total());
    k.param("rows_total", rows).param("keys", d_.keys).param("values", d_.values);
    const uint64_t together = steps_together(d_, lowering_.limits());
    k.constant("rows", static_cast<int64_t>(in_group)).constant("lanes", static_cast<int64_t>(d_.lanes));
    k.constant("quads", static_cast<int64_t>(d_.padded / d_.lanes))
        .constant("padded4", static_cast<int64_t>(d_.padded));
    k.constant("together", static_cast<int64_t>(together)).flag("carried", carry != nullptr);
    k.flag("wide", wide_).flag("reverse", reverse_).flag("shared_rows", d_.lanes > 1).text("store", "");
    k.shared("vectors", wgsl::vec4f, together * 5 * d_.padded);
    if (d_.lanes > 1) k.shared("stage", wgsl::f32, k.workgroup());
    return k;
  }

  // The array that `keep` writes.
  void keep(Kernel& k, const StoragePtr& matrix) const {
    k.flag("matrix", matrix != nullptr).text("store_quad", "").text("store_number", "");
    if (!matrix) return;
    const Storage seen = view(*matrix);
    k.write("matrix", seen).text("store_quad", k.stored(seen, "quad")).text("store_number", k.stored(seen, "number"));
  }

  void dispatch(Kernel& k, uint64_t rows) const {
    const uint64_t in_group = k.workgroup() / d_.lanes;
    const auto steps = static_cast<double>(d_.heads_total() * d_.steps);
    k.dispatch(d_.heads_total() * d_.parts * ((rows + in_group - 1) / in_group),
               {9 * steps * static_cast<double>(rows * d_.keys),
                4 * steps * static_cast<double>(5 * d_.keys + 2 * d_.values)});
  }

  StoragePtr scratch(uint64_t rows, const char* what) {
    const auto count = static_cast<int64_t>(d_.heads_total() * d_.parts * rows * d_.keys);
    return lowering_.make_scratch({DType::F32, {count}, Layout::Plain}, label_of(node_) + what);
  }

  // M before each part.
  StoragePtr carries(const StoragePtr& last) {
    const StoragePtr sums = scratch(d_.keys + d_.values, ".sums"), carry = scratch(d_.values, ".carry");
    Kernel k = kernel(d_.keys + d_.values, nullptr);
    keep(k, sums);
    dispatch(k.flag("apply", false).flag("states", false).flag("ends", true).flag("sums", true), d_.keys + d_.values);
    Kernel c(lowering_, "delta_carry", label_of(node_));
    c.workgroup(64).read("sums", *sums);
    if (start_) c.read("start", *start_);
    c.write("carry", *carry);
    if (last) c.write("last", *last);
    c.param("parts", d_.parts).param("heads_total", d_.heads_total()).param("keys", d_.keys).param("values", d_.values);
    c.shared("m", wgsl::f32, d_.keys).shared("next", wgsl::f32, d_.keys);
    c.flag("start", start_ != nullptr).flag("last", last != nullptr);
    const auto matrices = static_cast<double>(d_.heads_total() * d_.parts * d_.keys);
    c.dispatch(d_.heads_total() * d_.values, {2 * matrices * static_cast<double>(d_.keys * d_.values),
                                              4 * matrices * static_cast<double>(d_.keys + 2 * d_.values)});
    return carry;
  }

  Lowering& lowering_;
  const Node& node_;
  Delta d_;
  bool reverse_ = false, wide_ = false;
  StoragePtr start_;
};

}  // namespace

bool suits_delta(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Limits& limits = target.limits;
  const Delta d = delta_of(graph, node, options);
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  const auto fits = [&](uint64_t elements) { return 4 * elements + 512 <= most; };
  const uint64_t rows = d.heads_total() * d.steps, matrix = d.heads_total() * d.values * d.keys;
  const uint64_t sums = d.heads_total() * d.parts * (d.keys + d.values) * d.keys;
  return steps_together(d, limits) > 0 && d.lanes <= kMostQuads &&
         8 * d.keys + 32 <= limits.max_compute_workgroup_storage_size &&
         4u + (options.check_finite ? 1u : 0u) <= limits.max_storage_buffers_per_shader_stage &&
         fits(rows * 5 * d.keys) && fits(rows * d.values) && fits(sums) &&
         fits(node.outputs.size() == 1 ? rows * d.values * d.keys : matrix);
}

void lower_delta_rule(Lowering& lowering, const Node& node) { DeltaEmitter(lowering, node).rule(); }
void lower_delta_states(Lowering& lowering, const Node& node) { DeltaEmitter(lowering, node).states(); }

}  // namespace gyrus
