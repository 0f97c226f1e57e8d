#include "cpu/network.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "core/error.h"
#include "core/lifetimes.h"
#include "core/tensor.h"
#include "core/text.h"
#include "cpu/machine.h"

namespace gyrus::cpu {
namespace {

constexpr size_t kAlignment = 128;  // bytes: two lines of the cache
constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Bytes = std::unique_ptr<std::byte, Freed>;

Bytes allocate_bytes(uint64_t size) {
#if defined(__EMSCRIPTEN__)
  constexpr bool large = false;  // a page of the browser has no pages of its own
#else
  const bool large = size >= 4 * kHugePage;
#endif
  const uint64_t alignment = large ? kHugePage : kAlignment;
  Bytes bytes(static_cast<std::byte*>(std::aligned_alloc(alignment, round_up(std::max<uint64_t>(size, 1), alignment))));
  if (!bytes)
    fail(ErrorCode::OverLimits, {Hint::SmallerVolume, Hint::SmallerModel}, "memory", "the system refused ", size,
         " bytes");
#if defined(__linux__)
  if (large) madvise(bytes.get(), size, MADV_HUGEPAGE);
#endif
  return bytes;
}

void check_floats(const Graph& graph, const Node& node, ValueId id, const std::byte* bytes) {
  const TensorType& type = graph.type(id);
  if (!is_float(type.dtype)) return;
  const int64_t count = element_count(type.shape);
  for (int64_t i = 0; i < count; ++i) {
    const float value =
        type.dtype == DType::F32 ? floats(bytes)[i] : half_to_float(reinterpret_cast<const uint16_t*>(bytes)[i]);
    if (!std::isfinite(value))
      fail(ErrorCode::NonFinite, {Hint::OtherDevice}, subject_of(node), "computed a value that is not finite");
  }
}

}  // namespace

struct Network::Slots {
  std::vector<uint64_t> sizes;
  std::vector<Bytes> bytes;
};

Network::~Network() = default;

Network::Network(Graph graph, const NetworkOptions& options)
    : graph_(std::move(graph)), options_(options), slots_(std::make_unique<Slots>()) {
  roots_.resize(graph_.value_count());
  for (ValueId id = 0; id < roots_.size(); ++id) roots_[id] = id;
  given_.assign(graph_.value_count(), nullptr);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (op(node.op).alias) {
      roots_[node.outputs[0]] = roots_[node.inputs[0]];
      prepared_.emplace_back();
      continue;
    }
    prepared_.push_back(prepare(graph_, node, options_.kernels));
    nodes_.push_back(i);
    StepFacts facts{subject_of(node), prepared_.back().kernel, 0, 0};
    std::vector<TensorType> inputs, outputs;
    for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? TensorType{} : graph_.type(id));
    for (ValueId id : node.outputs) outputs.push_back(graph_.type(id));
    if (op(node.op).flops) facts.flops = op(node.op).flops(node, inputs, outputs);
    for (size_t k = 0; k < inputs.size(); ++k)
      if (node.inputs[k] != kNoValue) facts.bytes += static_cast<double>(bytes_of(inputs[k]));
    for (const TensorType& type : outputs) facts.bytes += static_cast<double>(bytes_of(type));
    facts_.push_back(std::move(facts));
    weight_bytes_ += prepared_.back().weights;
  }
  assign();
}

// Lifetimes of what nodes make, then places. A result that may lie where an operand does takes over its memory where
// nothing reads that operand later.
void Network::assign() {
  const auto end = static_cast<int64_t>(graph_.nodes().size());
  std::vector<int64_t> first(graph_.value_count(), -1), last(graph_.value_count(), -1);
  std::vector<bool> made(graph_.value_count(), false);
  for (int64_t i = 0; i < end; ++i) {
    const Node& node = graph_.nodes()[static_cast<size_t>(i)];
    for (ValueId id : node.inputs)
      if (id != kNoValue) last[root(id)] = i;
    for (ValueId id : node.outputs) {
      if (root(id) != id) continue;
      made[id] = true;
      first[id] = last[id] = i;
    }
  }
  for (ValueId id : results(graph_)) last[root(id)] = end;
  // Memory is requested for groups of values that take over from one another.
  std::vector<ValueId> holder(graph_.value_count());
  for (ValueId id = 0; id < holder.size(); ++id) holder[id] = id;
  for (int64_t i = 0; i < end; ++i) {
    const Node& node = graph_.nodes()[static_cast<size_t>(i)];
    if (!prepared_[static_cast<size_t>(i)].in_place) continue;
    const OpDef& def = op(node.op);
    const ValueId out = node.outputs[0];
    const size_t candidates = def.in_place == InPlace::Never   ? 0
                              : def.in_place == InPlace::First ? 1
                                                               : node.inputs.size();
    for (size_t k = 0; k < candidates; ++k) {
      const ValueId in = node.inputs[k];
      if (in == kNoValue || !made[root(in)] || last[root(in)] != i) continue;
      if (graph_.type(in).shape != graph_.type(out).shape || bytes_of(graph_.type(in)) != bytes_of(graph_.type(out)))
        continue;
      holder[out] = holder[root(in)];
      break;
    }
  }
  std::vector<MemoryRequest> requests;
  std::vector<int64_t> request_of(graph_.value_count(), -1);
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    if (!made[id]) continue;
    const ValueId to = holder[id];
    if (request_of[to] < 0) {
      request_of[to] = static_cast<int64_t>(requests.size());
      requests.push_back({bytes_of(graph_.type(id)), first[id], last[id]});
    }
    MemoryRequest& request = requests[static_cast<size_t>(request_of[to])];
    request.first = std::min(request.first, first[id]);
    request.last = std::max(request.last, last[id]);
    request.bytes = std::max(request.bytes, bytes_of(graph_.type(id)));
  }
  std::vector<int64_t> scratch_request(prepared_.size(), -1);
  for (size_t i = 0; i < prepared_.size(); ++i) {
    if (prepared_[i].scratch == 0) continue;
    scratch_request[i] = static_cast<int64_t>(requests.size());
    requests.push_back({prepared_[i].scratch, static_cast<int64_t>(i), static_cast<int64_t>(i)});
  }
  const MemoryAssignment memory = assign_memory(requests);
  const auto slot = [&](int64_t request) -> int64_t {
    return request < 0 ? -1 : static_cast<int64_t>(memory.slot[static_cast<size_t>(request)]);
  };
  slot_of_.assign(graph_.value_count(), -1);
  for (ValueId id = 0; id < graph_.value_count(); ++id)
    if (made[id]) slot_of_[id] = slot(request_of[holder[id]]);
  for (int64_t request : scratch_request) scratch_slot_.push_back(slot(request));
  slots_->sizes = memory.slot_bytes;
  for (uint64_t bytes : memory.slot_bytes) arena_bytes_ += bytes;
}

void Network::allocate() {
  if (slots_->bytes.size() == slots_->sizes.size()) return;
  slots_->bytes.clear();
  // Pages are given out when they are written, so the system would rather end the process than refuse here.
  if (const uint64_t left = usable_memory(); arena_bytes_ > left)
    fail(ErrorCode::OverLimits, {Hint::HalfPrecision, Hint::SmallerVolume, Hint::SmallerModel}, "memory",
         "the network needs ", bytes_text(arena_bytes_), " on the CPU, but ", bytes_text(left), " are left");
  for (uint64_t size : slots_->sizes) slots_->bytes.push_back(allocate_bytes(size));
}

uint64_t Network::constant_bytes() const {
  uint64_t sum = 0;
  for (ValueId id = 0; id < graph_.value_count(); ++id)
    if (graph_.is_constant(id)) sum += graph_.constant(id).data.size();
  return sum;
}

double Network::flops() const {
  double sum = 0;
  for (const StepFacts& step : facts_) sum += step.flops;
  return sum;
}

void Network::bind(ValueId source, const std::byte* data) { given_.at(source) = data; }

const std::byte* Network::place(ValueId value) const {
  if (value == kNoValue) return nullptr;
  const ValueId at = root(value);
  if (slot_of_[at] >= 0) return slots_->bytes[static_cast<size_t>(slot_of_[at])].get();
  return graph_.is_constant(at) ? graph_.constant(at).data.data() : given_[at];
}

const std::byte* Network::data(ValueId value) const { return place(value); }

void Network::run(ThreadPool& pool, const std::function<void(size_t)>& before) {
  allocate();
  for (size_t s = 0; s < nodes_.size(); ++s) {
    if (before) before(s);
    run_step(s, pool);
  }
}

void Network::run_step(size_t step, ThreadPool& pool) {
  const Node& node = graph_.nodes()[nodes_[step]];
  Places at;
  for (ValueId id : node.inputs) at.inputs.push_back(place(id));
  for (ValueId id : node.outputs) at.outputs.push_back(const_cast<std::byte*>(place(id)));
  const int64_t scratch = scratch_slot_[nodes_[step]];
  if (scratch >= 0) at.scratch = slots_->bytes[static_cast<size_t>(scratch)].get();
  prepared_[nodes_[step]].run(at, pool);
  if (options_.check_finite)
    for (ValueId id : node.outputs) check_floats(graph_, node, id, place(id));
}

}  // namespace gyrus::cpu
