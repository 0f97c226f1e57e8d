#include "plan/lowering.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/fused.h"

namespace gyrus {

Lowering::Lowering(const Graph& graph, const Target& target, const PlanOptions& options)
    : graph_(graph),
      target_(target),
      builder_(target.limits),
      options_(options),
      storage_(graph.value_count()),
      last_use_(graph.value_count(), -1) {
  builder_.limit_dispatches(options.dispatch_flops);
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    for (ValueId id : graph.nodes()[n].inputs)
      if (id != kNoValue) last_use_[id] = static_cast<int64_t>(n);
  for (ValueId id : results(graph)) last_use_[id] = INT64_MAX;
}

void Lowering::set_storage(ValueId id, StoragePtr storage) {
  for (const Port& input : graph_.inputs())
    if (input.value == id) fixed_[storage.get()] = kNoValue;
  for (const Argument& argument : graph_.arguments())
    if (argument.value == id) fixed_[storage.get()] = kNoValue;
  for (const State& state : graph_.states())
    if (state.value == id) fixed_[storage.get()] = state.next;
  int64_t& last = storage_last_use_.try_emplace(storage.get(), -1).first->second;
  last = std::max(last, last_use_[id]);
  storage_[id] = std::move(storage);
}

StoragePtr Lowering::make_scratch(const TensorType& type, const std::string& label, BufferKind kind) {
  const Storage storage = storage_shape(type);
  if (storage.units * storage.lanes > UINT32_MAX)
    fail(ErrorCode::OverLimits, label, "a tensor of ", storage.units * storage.lanes,
         " elements; indices in kernels end at 4294967295: use a smaller volume");
  return std::make_shared<Storage>(builder_.add_storage(type, label, kind));
}

StoragePtr Lowering::make_storage(ValueId id, const Node& node) {
  const std::string& name = graph_.value(id).name;
  StoragePtr storage = state_becoming(id);
  if (!storage) storage = make_scratch(graph_.type(id), name.empty() ? label_of(node) : name);
  set_storage(id, storage);
  return storage;
}

// The storage of the state that becomes this value, where nothing reads it from the node at hand on.
StoragePtr Lowering::state_becoming(ValueId id) {
  for (const State& state : graph_.states()) {
    if (state.next != id || graph_.type(id) != graph_.type(state.value)) continue;
    const StoragePtr& held = storage_.at(state.value);
    if (held && storage_last_use_.at(held.get()) < static_cast<int64_t>(position_)) return held;
  }
  return nullptr;
}

StoragePtr Lowering::make_constant(ValueId id) {
  const ValueInfo& value = graph_.value(id);
  Storage storage = storage_shape(value.type);
  if (value.type.layout != Layout::Plain) fail(ErrorCode::InvalidGraph, value.name, "a constant must be plain");
  const std::vector<std::byte>& data = value.constant->data;
  const uint64_t unit = storage.unit_bytes();
  const uint64_t most = std::min(limits().max_storage_buffer_binding_size, limits().max_buffer_size);
  const uint64_t piece = round_down(most, 256) / unit;
  if (piece == 0)
    fail(ErrorCode::OverLimits, value.name, "bindings of ", most, " bytes are too small to cut a constant");
  for (uint64_t first = 0; first < std::max<uint64_t>(1, storage.units); first += piece) {
    const uint64_t count = std::min(piece, storage.units - first);
    const std::vector<std::byte> bytes(data.begin() + static_cast<int64_t>(first * unit),
                                       data.begin() + static_cast<int64_t>((first + count) * unit));
    const BufferRange range = builder_.add_constant(bytes, value.name);
    storage.chunks.push_back({range.buffer, range.offset, first, count});
  }
  auto made = std::make_shared<Storage>(std::move(storage));
  fixed_[made.get()] = kNoValue;
  return made;
}

StoragePtr Lowering::storage(ValueId id) {
  if (!storage_.at(id) && graph_.is_constant(id)) storage_[id] = make_constant(id);
  if (!storage_[id]) fail(ErrorCode::InvalidGraph, "plan", "value %", id, " has no memory when it is read");
  return storage_[id];
}

bool Lowering::may_update(ValueId from) const {
  return storage_.at(from) && fixed_.count(storage_.at(from).get()) && may_overwrite(from);
}

bool Lowering::may_become(ValueId from, ValueId to) const {
  return may_update(from) && fixed_.at(storage_.at(from).get()) == to;
}

bool Lowering::may_overwrite(ValueId from) const {
  const StoragePtr& storage = storage_.at(from);
  if (!storage) return false;
  const auto fixed = fixed_.find(storage.get());
  const std::vector<ValueId>& made = graph_.nodes()[position_].outputs;
  if (fixed != fixed_.end() && std::find(made.begin(), made.end(), fixed->second) == made.end()) return false;
  return storage_last_use_.at(storage.get()) <= static_cast<int64_t>(position_);
}

BufferRange Lowering::uniform(ValueId id) {
  const std::vector<std::byte>& data = graph_.constant(id).data;
  std::vector<uint32_t> words(data.size() / 4);
  std::memcpy(words.data(), data.data(), words.size() * 4);
  return builder_.add_uniform(words);
}

uint32_t workgroup_size(const Limits& limits, uint32_t wanted) {
  const uint32_t most = std::min(limits.max_compute_invocations_per_workgroup, limits.max_compute_workgroup_size_x);
  uint32_t size = 1;
  while (size * 2 <= std::min(most, wanted)) size *= 2;
  return size;
}

std::string label_of(const Node& node) { return node.label.empty() ? node.op : node.label; }

std::string scalar_type(DType dtype) { return to_string(scalar_of(dtype)); }

WgslType array_type(const Storage& s) {
  if (s.lanes == 4) return s.dtype == DType::F16 ? wgsl::vec2u : wgsl::vec4f;
  return byte_size(s.dtype) < 4 ? wgsl::u32 : WgslType{scalar_of(s.dtype)};
}

std::string element_text(const Storage& s, const std::string& array, const std::string& index) {
  if (s.dtype == DType::F16) return cat("unpack2x16float(", array, "[(", index, ") / 2u])[(", index, ") % 2u]");
  if (byte_size(s.dtype) == 1) return cat("extractBits(", array, "[(", index, ") / 4u], (", index, ") % 4u * 8u, 8u)");
  return cat(array, "[", index, "]");
}

Storage scalar_view(const Storage& s) {
  Storage view = s;
  view.lanes = 1;
  view.units *= s.lanes;
  view.slab_units *= s.lanes;
  view.plane_units *= s.lanes;
  for (Chunk& chunk : view.chunks) {
    chunk.first *= s.lanes;
    chunk.count *= s.lanes;
  }
  return view;
}

std::string unpack_unit(const Storage& s, const std::string& text) {
  if (s.lanes == 4 && s.dtype == DType::F16)
    return "vec4<f32>(unpack2x16float(" + text + ".x), unpack2x16float(" + text + ".y))";
  return text;
}

std::string pack_unit(const Storage& s, const std::string& text) {
  if (s.lanes == 4 && s.dtype == DType::F16)
    return "vec2<u32>(pack2x16float(" + text + ".xy), pack2x16float(" + text + ".zw))";
  return text;
}

Storage by_planes(const Storage& storage) {
  Storage planes = storage;
  if (planes.lanes == 1) planes.slab_units = planes.plane_units;
  return planes;
}

std::string unpacked_lanes(const Storage& storage) {
  return storage.lanes == 1 ? "vec4<f32>(raw, 0.0, 0.0, 0.0)" : unpack_unit(storage, "raw");
}

BodyText epilogue(const Node& node, const std::string& raw, WgslType type) {
  if (body_operands(node) != 1 || node.results.size() > 1)
    fail(ErrorCode::Unsupported, label_of(node), "carries a body of several operands or results, which no kernel of ",
         node.op, " runs; put those steps behind it");
  return body_wgsl(node, {raw}, type);
}

std::string epilogue_text(const Node& node) {
  const BodyText body = epilogue(node, "x", wgsl::vec4f);
  return body.statements + "  return " + body.result() + ";\n";
}

std::string lane_mask(int64_t channels) {
  std::string mask = "vec4<bool>(";
  const int64_t in_last = (channels - 1) % 4 + 1;
  for (int64_t lane = 0; lane < 4; ++lane) mask += std::string(lane ? ", " : "") + (lane < in_last ? "true" : "false");
  return mask + ")";
}

}  // namespace gyrus
