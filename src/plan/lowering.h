#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/fused.h"
#include "ops/index_map.h"
#include "plan/kernel.h"
#include "plan/planner.h"
#include "plan/storage.h"

// How nodes become dispatches. Every lowering cuts its work with the same few tools: windows of storages, narrowing of
// the result's range, predicated reads where a source may lie in another window, accumulation where a sum does.

namespace gyrus {

using StoragePtr = std::shared_ptr<const Storage>;

// A power of two that the limits allow as lanes of a workgroup, at most `wanted`.
uint32_t workgroup_size(const Limits& limits, uint32_t wanted);

class Lowering {
 public:
  Lowering(const Graph& graph, const Target& target, const PlanOptions& options);

  const Graph& graph() const { return graph_; }
  PlanBuilder& builder() { return builder_; }
  const Target& target() const { return target_; }
  const Limits& limits() const { return target_.limits; }
  const PlanOptions& options() const { return options_; }

  // Where a value lies; constants are laid down on first use.
  StoragePtr storage(ValueId id);
  // New memory for a value computed on the device.
  StoragePtr make_storage(ValueId id, const Node& node);
  StoragePtr make_scratch(const TensorType& type, const std::string& label, BufferKind kind = BufferKind::Storage);
  void set_storage(ValueId id, StoragePtr storage);
  // The storage of `from` may hold the result of the node at hand: nothing reads it later. That of a state may only
  // hold what the state becomes.
  bool may_overwrite(ValueId from) const;
  // The same where that is the storage of a state, which the node updates.
  bool may_update(ValueId from) const;
  // The same where that state becomes `to`.
  bool may_become(ValueId from, ValueId to) const;
  void set_position(size_t node) { position_ = node; }

  // A constant laid down as uniform words.
  BufferRange uniform(ValueId id);

  // As workgroup_size under these limits.
  uint32_t workgroup(uint32_t wanted) const { return workgroup_size(limits(), wanted); }

 private:
  StoragePtr make_constant(ValueId id);
  StoragePtr state_becoming(ValueId id);
  const Graph& graph_;
  Target target_;
  PlanBuilder builder_;
  PlanOptions options_;
  std::vector<StoragePtr> storage_;
  std::vector<int64_t> last_use_;  // node of each value; a large number for results
  std::map<const Storage*, int64_t> storage_last_use_;
  // Constants, inputs, arguments and states are never overwritten, but by the value given.
  std::map<const Storage*, ValueId> fixed_;
  size_t position_ = 0;
};

// Whether an operand that may be absent is there.
inline bool has_operand(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i] != kNoValue; }
// What plans and errors call a node: its label, or its op where it has none.
std::string label_of(const Node& node);
// The element type of the array that holds a storage: vec4<f32>, vec2<u32> for packed halves, u32 for bytes …
WgslType array_type(const Storage& storage);
// The WGSL type in which an element of that dtype is computed, by name.
std::string scalar_type(DType dtype);
// Element `index` (a u32 expression) of the array `array`, which holds a plain storage.
std::string element_text(const Storage& storage, const std::string& array, const std::string& index);
// The storage seen as single elements instead of quads.
Storage scalar_view(const Storage& storage);
// Expression that turns what array_type() holds into f32 lanes, and back.
std::string unpack_unit(const Storage& storage, const std::string& text);
std::string pack_unit(const Storage& storage, const std::string& text);
// A map of which one channel may lie plain, with a slab for each of its planes, and its unit as four lanes.
Storage by_planes(const Storage& storage);
std::string unpacked_lanes(const Storage& storage);
// The body of a node over its raw result alone; throws Unsupported where it has further operands or several results.
BodyText epilogue(const Node& node, const std::string& raw, WgslType type);
// "  let step0 = …;\n  return step0;\n" for the epilogue body of a node over the variable x.
std::string epilogue_text(const Node& node);
// The lanes of the last quad that hold channels, as "vec4<bool>(true, true, false, false)".
std::string lane_mask(int64_t channels);

// An operand of a plain map: where the element for the result's element comes from. Texts may name the parameters of
// the map as P.name, the coordinates c0, c1 …, the result's element o and operands before this one.
struct MapOperand {
  StoragePtr storage;
  std::string name;   // of the WGSL variable in `statements`
  std::string index;  // u32 expression; empty: o itself
  std::string valid;  // bool expression; empty: always
  std::string fill;   // value where not valid; empty: the result's element is left as it is
  std::string check;  // statements before the element is read, which may report
};

// out[o] = result for every element o of a plain result (or of a packed one seen as elements).
struct MapSpec {
  std::string name;  // of the kernel
  std::string label;
  StoragePtr out;
  std::vector<int64_t> dims;  // coordinates c0 … of o, slowest first
  std::vector<MapOperand> operands;
  std::vector<std::pair<std::string, int64_t>> params;
  std::string statements;  // WGSL over the operands' names
  std::string result;      // expression of type scalar_type(out dtype)
  bool reports_index = false;
  double flops_per_element = 0;
};
void emit_map(Lowering& lowering, const MapSpec& spec);
// Several results by one kernel: outs[r][o] = results[r]; `out` and `result` of the spec are not looked at. Each out
// may be the storage of an operand that is read at o. Suits elements of four bytes that lie in one window, as do all
// operands.
bool suits_results(const Lowering& lowering, const MapSpec& spec, const std::vector<StoragePtr>& outs);
void emit_results(Lowering& lowering, const MapSpec& spec, const std::vector<StoragePtr>& outs,
                  const std::vector<std::string>& results);
// Adds an operand that is read by an index map over the coordinates of the result; its numbers become parameters.
void add_mapped(MapSpec& spec, StoragePtr storage, const std::string& name, const IndexMap& map);

// The results of a node from its raw result and its body, whose further operands are the node's further inputs: for
// kernels that do not run the body themselves.
void emit_body(Lowering& lowering, const Node& node, StoragePtr raw, const TensorType& type);

// An operand of a packed map.
struct PackedOperand {
  enum class Access { Same, Channel, Image, Scalar };
  StoragePtr storage;
  std::string name;
  Access access = Access::Same;
  bool per_image = false;  // Channel: each image has its own
  uint32_t rows = 1;       // Image: vec4 rows for each quad of each image, named name0, name1 …
};

// out[unit] = result for every quad of a packed result.
struct PackedMapSpec {
  std::string name;
  std::string label;
  StoragePtr out;
  int64_t images = 1;
  int64_t channels = 0;
  std::vector<PackedOperand> operands;
  std::string statements;
  std::string result;  // of type vec4<f32>
  bool keeps_zero = false;
  bool indexed = false;  // statements may read `place`, the numbers of the elements in their plain order
  double flops_per_element = 0;
};
void emit_packed_map(Lowering& lowering, const PackedMapSpec& spec);

// How a node becomes dispatches; lowerings.cpp lists one for every op that reaches the planner.
using Lower = void (*)(Lowering& lowering, const Node& node);
void lower_alias(Lowering& lowering, const Node& node);
void lower_arrange(Lowering& lowering, const Node& node);
void lower_elementwise(Lowering& lowering, const Node& node);
bool suits_elementwise(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_mapped(Lowering& lowering, const Node& node);
void lower_block_matmul(Lowering& lowering, const Node& node);
void lower_block_normed(Lowering& lowering, const Node& node);
void lower_block_rows(Lowering& lowering, const Node& node);
void lower_gated(Lowering& lowering, const Node& node);
void lower_rope_turns(Lowering& lowering, const Node& node);
void lower_cache_rows(Lowering& lowering, const Node& node);
void lower_cached_attention(Lowering& lowering, const Node& node);
void lower_choose_token(Lowering& lowering, const Node& node);
void lower_chosen_rows(Lowering& lowering, const Node& node);
void lower_mark_tokens(Lowering& lowering, const Node& node);
void lower_gather(Lowering& lowering, const Node& node);
void lower_update_slice(Lowering& lowering, const Node& node);
void lower_matmul(Lowering& lowering, const Node& node);
void lower_repack(Lowering& lowering, const Node& node);
void lower_reduce_sum(Lowering& lowering, const Node& node);
void lower_reduce_mean(Lowering& lowering, const Node& node);
void lower_reduce_max(Lowering& lowering, const Node& node);
void lower_reduce_min(Lowering& lowering, const Node& node);
void lower_reduce_prod(Lowering& lowering, const Node& node);
void lower_attention(Lowering& lowering, const Node& node);
bool suits_attention(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_rows(Lowering& lowering, const Node& node);
bool suits_rows(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
bool suits_block_normed(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_ranks(Lowering& lowering, const Node& node);
void lower_place(Lowering& lowering, const Node& node);
// The kind of key (order_key.wgsl) that elements are put in order by.
uint64_t order_kind(DType dtype, bool descending);
void lower_sort(Lowering& lowering, const Node& node);
bool suits_sort(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_search_sorted(Lowering& lowering, const Node& node);
void lower_segment_sum(Lowering& lowering, const Node& node);
void lower_nearest(Lowering& lowering, const Node& node);
void lower_fuzzy_weights(Lowering& lowering, const Node& node);
void lower_splat_blend(Lowering& lowering, const Node& node);
void lower_splat_blend_back(Lowering& lowering, const Node& node);
void lower_at_most(Lowering& lowering, const Node& node);
void lower_fft(Lowering& lowering, const Node& node);
bool suits_fft(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_sample(Lowering& lowering, const Node& node);
bool suits_sample(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_scatter_rows(Lowering& lowering, const Node& node);
void lower_scan(Lowering& lowering, const Node& node);
bool suits_scan(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_selective_scan(Lowering& lowering, const Node& node);
bool suits_selective_scan(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_delta_rule(Lowering& lowering, const Node& node);
void lower_delta_states(Lowering& lowering, const Node& node);
bool suits_delta(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_recurrent(Lowering& lowering, const Node& node);
bool suits_recurrent(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_group_rows(Lowering& lowering, const Node& node);
bool suits_group_rows(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_grouped_matmul(Lowering& lowering, const Node& node);
void lower_grouped_weights(Lowering& lowering, const Node& node);
bool suits_grouped(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_argmax(Lowering& lowering, const Node& node);
void lower_conv(Lowering& lowering, const Node& node);
void lower_conv_weights(Lowering& lowering, const Node& node);
bool suits_conv_weights(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
void lower_conv_argmax(Lowering& lowering, const Node& node);
void lower_norm_stats(Lowering& lowering, const Node& node);
void lower_norm_sums(Lowering& lowering, const Node& node);
void lower_norm_apply(Lowering& lowering, const Node& node);

}  // namespace gyrus
