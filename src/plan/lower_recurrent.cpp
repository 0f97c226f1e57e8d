// Recurrent layers: one workgroup for each sequence goes along time, as many steps in one dispatch as do not hold the
// device for long.
#include <algorithm>

#include "core/error.h"
#include "ops/recurrent.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Beyond that a product for each step, by all of a device, is quicker than the loads of one workgroup.
constexpr uint64_t kMostWeightBytes = uint64_t{2} << 20;
constexpr uint64_t kMostFlops = uint64_t{1} << 28;  // of a sequence in one dispatch

RecurrentAttrs attrs_of(const Graph& graph, const Node& node) {
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(graph.type(id).shape);
  return recurrent_attrs(node, shapes);
}

// Numbers in workgroup memory: what is kept from step to step, and those that a part of the sums takes.
uint64_t kept_numbers(const RecurrentAttrs& r) {
  return static_cast<uint64_t>((r.back ? 5 : r.lstm ? 2 : 1) * r.hidden);
}
uint64_t part_numbers(const RecurrentAttrs& r) { return static_cast<uint64_t>((r.back ? 1 : r.gates) * r.hidden); }

bool in_quads(const RecurrentAttrs& r) { return r.hidden % 4 == 0; }

// Parts in which sums are made, so that all lanes have something to do.
uint64_t parts_of(const RecurrentAttrs& r, uint32_t lanes, const Limits& limits) {
  const uint64_t items = r.back ? part_numbers(r) : part_numbers(r) / (in_quads(r) ? 4 : 1);
  const uint64_t room = limits.max_compute_workgroup_storage_size - 4 * kept_numbers(r) - 32;
  const uint64_t most = std::min<uint64_t>(lanes / items, static_cast<uint64_t>(r.hidden));
  return std::clamp<uint64_t>(most, 1, room / (4 * part_numbers(r)));
}

}  // namespace

bool suits_recurrent(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Limits& limits = target.limits;
  const RecurrentAttrs r = attrs_of(graph, node);
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  const auto bytes = [&](ValueId id) { return 4 * static_cast<uint64_t>(element_count(graph.type(id).shape)) + 512; };
  const auto fits = [&](ValueId id) { return bytes(id) <= most; };
  return 4u + (options.check_finite ? 1u : 0u) <= limits.max_storage_buffers_per_shader_stage &&
         4 * (kept_numbers(r) + part_numbers(r)) + 32 <= limits.max_compute_workgroup_storage_size &&
         bytes(node.inputs[r.back ? 2 : 1]) <= kMostWeightBytes + 512 &&
         std::all_of(node.inputs.begin(), node.inputs.end(), fits) && fits(node.outputs[0]);
}

void lower_recurrent(Lowering& lowering, const Node& node) {
  const RecurrentAttrs r = attrs_of(lowering.graph(), node);
  const bool quads = in_quads(r);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const auto flops = static_cast<uint64_t>(2 * r.gates * r.hidden * r.hidden);
  const int64_t together = std::max<int64_t>(1, static_cast<int64_t>(kMostFlops / flops));
  for (int64_t begin = 0; begin < r.steps; begin += together) {
    const int64_t end = std::min(r.steps, begin + together);
    Kernel k(lowering, r.back ? "recurrent_back" : "recurrent_steps", label_of(node));
    k.workgroup(1024).read(r.back ? "slopes" : "gates", *lowering.storage(node.inputs[0]));
    const StoragePtr weight = lowering.storage(node.inputs[r.back ? 2 : 1]);
    k.read("weight", quads ? quad_view(*weight) : *weight);
    k.read(r.back ? "gradients" : "start", *lowering.storage(node.inputs[r.back ? 1 : 2]));
    k.checks_stored().write("output", *out);
    k.param("batch", r.batch).param("steps", r.steps).param("hidden", r.hidden).param("begin", begin).param("end", end);
    k.text("title", r.lstm ? "an LSTM" : "a GRU").constant("gates", r.gates).constant("kept", r.lstm ? 2 : 1);
    k.flag("lstm", r.lstm).flag("bias", r.bias).flag("reverse", r.reverse);
    const uint64_t parts = parts_of(r, k.workgroup(), lowering.limits()), sums = parts * part_numbers(r);
    k.constant("parts", static_cast<int64_t>(parts)).param("units", r.gates * r.hidden / (quads ? 4 : 1));
    k.flag("quads", quads).text("U", quads ? "vec4<f32>" : "f32");
    if (r.back) {
      const std::string stored = k.stored(*out, "all");
      k.constant("slopes", r.lstm ? 6 : 5).shared("behind", wgsl::f32, kept_numbers(r)).shared("of_h", wgsl::f32, sums);
      k.text("store", stored.substr(0, stored.find("all"))).text("store_end", stored.substr(stored.find("all") + 3));
    } else {
      k.shared("state", wgsl::f32, kept_numbers(r));
      k.shared("sums", quads ? wgsl::vec4f : wgsl::f32, quads ? sums / 4 : sums);
      k.text("T", "f32").text("store_h", k.stored(*out, "h")).text("store_c", k.stored(*out, "c"));
    }
    const auto steps = static_cast<double>(r.batch * (end - begin));
    k.dispatch(static_cast<uint64_t>(r.batch),
               {steps * static_cast<double>(flops), 4 * steps * static_cast<double>((r.gates + 5) * r.hidden)});
  }
}

}  // namespace gyrus
