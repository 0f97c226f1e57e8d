#include "plan/ports.h"

#include <algorithm>

#include "core/tensor.h"

namespace gyrus {
namespace {

// Of a packed value as it lies: [N, planes, quads, rest…, 4].
Shape stored_shape(const TensorType& type) {
  if (type.layout == Layout::Plain) return type.shape;
  const Shape& s = type.shape;
  Shape stored = {s[0], s[2], ceil_div(s[1], 4)};
  stored.insert(stored.end(), s.begin() + 3, s.end());
  stored.push_back(4);
  return stored;
}

PlanPort port(const std::string& name, const TensorType& type, const Storage& storage) {
  PlanPort result{name, type.dtype, stored_shape(type), {}};
  for (const Chunk& chunk : storage.chunks) {
    const uint64_t unit = storage.unit_bytes();
    result.pieces.push_back({chunk.first * unit, {chunk.buffer, chunk.byte_offset, round_up(chunk.count * unit, 4)}});
  }
  return result;
}

}  // namespace

void Ports::lay_sources() {
  const Graph& graph = lowering_.graph();
  PlanBuilder& builder = lowering_.builder();
  for (const Port& input : graph.inputs()) {
    const TensorType& type = graph.type(input.value);
    const StoragePtr storage = lowering_.make_scratch(type, input.name);
    lowering_.set_storage(input.value, storage);
    builder.keep_from_start(*storage);
    inputs_.push_back(port(input.name, type, *storage));
  }
  for (const State& state : graph.states()) {
    const TensorType& type = graph.type(state.value);
    const StoragePtr storage = lowering_.make_scratch(type, state.name, BufferKind::State);
    lowering_.set_storage(state.value, storage);
    PlanState planned{port(state.name, type, *storage), std::nullopt};
    if (state.start) planned.start = builder.add_start(state.start->data);
    states_.push_back(std::move(planned));
  }
  for (const Argument& argument : graph.arguments()) {
    const DType dtype = graph.type(argument.value).dtype;
    const auto storage = std::make_shared<const Storage>(builder.add_argument(dtype));
    lowering_.set_storage(argument.value, storage);
    arguments_.push_back({argument.name, dtype, argument.least, argument.most, storage->chunks[0].byte_offset});
  }
}

StoragePtr Ports::kept(ValueId id) {
  const StoragePtr storage = lowering_.storage(id);
  const auto found = overwritten_.find(storage.get());
  if (found == overwritten_.end()) return storage;
  StoragePtr& copied = found->second;
  if (!copied) {
    const TensorType type{storage->dtype, {static_cast<int64_t>(storage->units)}, Layout::Plain};
    copied = lowering_.make_scratch(type, "old state");
    lowering_.builder().copy(*storage, *copied);
  }
  return copied;
}

void Ports::lay_results() {
  const Graph& graph = lowering_.graph();
  PlanBuilder& builder = lowering_.builder();
  std::vector<const State*> moved;
  for (const State& state : graph.states()) {
    if (state.next == kNoValue || lowering_.storage(state.next) == lowering_.storage(state.value)) continue;
    moved.push_back(&state);
    overwritten_[lowering_.storage(state.value).get()];
  }
  for (const Port& output : graph.outputs()) {
    const StoragePtr storage = kept(output.value);
    builder.keep_to_end(*storage);
    outputs_.push_back(port(output.name, graph.type(output.value), *storage));
  }
  for (const Port& capture : graph.captures()) {
    const StoragePtr storage = kept(capture.value);
    builder.keep_to_end(*storage);
    captures_.push_back(port(capture.name, graph.type(capture.value), *storage));
  }
  std::vector<StoragePtr> sources;
  for (const State* state : moved) sources.push_back(kept(state->next));
  for (size_t i = 0; i < moved.size(); ++i) builder.copy(*sources[i], *lowering_.storage(moved[i]->value));
}

void Ports::finish(Plan& plan) {
  const auto renumber = [this](PlanPort& p) {
    for (Piece& piece : p.pieces) piece.range.buffer = lowering_.builder().final_buffer(piece.range.buffer);
  };
  for (std::vector<PlanPort>* ports : {&inputs_, &outputs_, &captures_})
    for (PlanPort& p : *ports) renumber(p);
  for (PlanState& state : states_) renumber(state);
  plan.inputs = std::move(inputs_);
  plan.outputs = std::move(outputs_);
  plan.captures = std::move(captures_);
  plan.states = std::move(states_);
  plan.arguments = std::move(arguments_);
}

}  // namespace gyrus
