#include "plan/builder.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace gyrus {
namespace {

constexpr uint64_t kParamsBufferBytes = 1 << 20;

void append(std::vector<std::byte>& to, const void* data, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  to.insert(to.end(), first, first + bytes);
}

}  // namespace

uint32_t PlanBuilder::add_buffer(const std::string& label, uint64_t bytes) {
  if (bytes > limits_.max_buffer_size)
    fail(ErrorCode::OverLimits, label, "needs a buffer of ", bytes, " bytes; the device allows ",
         limits_.max_buffer_size);
  plan_.buffers.push_back({label, std::max<uint64_t>(4, round_up(bytes, 4)), BufferKind::Storage, 0});
  lifetimes_.emplace_back();
  contents_.emplace_back();
  return static_cast<uint32_t>(plan_.buffers.size() - 1);
}

Storage PlanBuilder::add_storage(const TensorType& type, const std::string& label, BufferKind kind) {
  Storage storage = laid_out(type, limits_, label);
  for (Chunk& chunk : storage.chunks) {
    chunk.buffer = add_buffer(label, chunk.count * storage.unit_bytes());
    plan_.buffers.back().kind = kind;
  }
  return storage;
}

BufferRange PlanBuilder::add_constant(const std::vector<std::byte>& bytes, const std::string& label) {
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<BufferRange>& alike = constants_[std::hash<std::string_view>{}(view)];
  for (const BufferRange& known : alike) {
    const std::byte* at = contents_[known.buffer].data() + known.offset;
    if (known.size == std::max<uint64_t>(4, round_up(bytes.size(), 4)) && std::equal(bytes.begin(), bytes.end(), at))
      return known;
  }
  const uint64_t size = std::max<uint64_t>(4, round_up(bytes.size(), 4));
  const uint64_t aligned = round_up(size, limits_.min_storage_buffer_offset_alignment);
  const bool fresh = open_constants_ == ~0u || contents_[open_constants_].size() + size > limits_.max_buffer_size;
  if (fresh) {
    if (size > limits_.max_buffer_size)
      fail(ErrorCode::OverLimits, label, "constant of ", size, " bytes is over the buffer limit of ",
           limits_.max_buffer_size);
    open_constants_ = add_buffer("weights", 4);
    plan_.buffers[open_constants_].kind = BufferKind::Weights;
  }
  std::vector<std::byte>& content = contents_[open_constants_];
  const BufferRange range{open_constants_, content.size(), size};
  append(content, bytes.data(), bytes.size());
  content.resize(std::min(range.offset + aligned, std::max(limits_.max_buffer_size, range.offset + size)));
  alike.push_back(range);
  return range;
}

BufferRange PlanBuilder::add_uniform(const std::vector<uint32_t>& words) {
  const auto known = uniforms_.find(words);
  if (known != uniforms_.end()) return known->second;
  const uint64_t size = round_up(words.size() * 4, 16);
  const uint64_t slot = round_up(size, limits_.min_uniform_buffer_offset_alignment);
  const uint64_t most = std::min(kParamsBufferBytes, limits_.max_buffer_size);
  if (open_uniforms_ == ~0u || contents_[open_uniforms_].size() + slot > most) {
    open_uniforms_ = add_buffer("params", 4);
    plan_.buffers[open_uniforms_].kind = BufferKind::Params;
  }
  std::vector<std::byte>& content = contents_[open_uniforms_];
  const BufferRange range{open_uniforms_, content.size(), size};
  append(content, words.data(), words.size() * 4);
  content.resize(range.offset + slot);
  return uniforms_[words] = range;
}

uint32_t PlanBuilder::add_kernel(PlanKernel kernel) {
  const auto [entry, fresh] = kernels_.try_emplace(kernel.wgsl, static_cast<uint32_t>(plan_.kernels.size()));
  if (!fresh) return entry->second;
  if (kernel.workgroup_bytes > limits_.max_compute_workgroup_storage_size)
    fail(ErrorCode::OverLimits, kernel.name, "needs ", kernel.workgroup_bytes,
         " bytes of workgroup memory; the device has ", limits_.max_compute_workgroup_storage_size);
  plan_.kernels.push_back(std::move(kernel));
  return entry->second;
}

void PlanBuilder::check_bindings(const PlanKernel& kernel, const Dispatch& step) const {
  uint64_t storage = 0;
  for (size_t i = 0; i < step.bindings.size(); ++i) {
    storage += kernel.bindings[i] != BindingKind::Uniform;
    const uint64_t most = kernel.bindings[i] == BindingKind::Uniform ? limits_.max_uniform_buffer_binding_size
                                                                     : limits_.max_storage_buffer_binding_size;
    if (step.bindings[i].size > most)
      fail(ErrorCode::OverLimits, step.label, kernel.name, " needs a binding of ", step.bindings[i].size,
           " bytes; the device allows ", most);
  }
  if (storage > limits_.max_storage_buffers_per_shader_stage)
    fail(ErrorCode::OverLimits, step.label, kernel.name, " needs ", storage, " storage buffers; the device allows ",
         limits_.max_storage_buffers_per_shader_stage);
}

Storage PlanBuilder::add_argument(DType dtype) {
  if (arguments_ == ~0u) {
    arguments_ = add_buffer("arguments", 0);
    plan_.buffers[arguments_] = {"arguments", 0, BufferKind::Arguments, 0};
  }
  Storage storage = storage_shape({dtype, {}, Layout::Plain});
  storage.chunks.push_back({arguments_, plan_.buffers[arguments_].size, 0, 1});
  plan_.buffers[arguments_].size += 4;
  return storage;
}

// Everything else is appended when the plan is finished, so these stand at the front.
uint64_t PlanBuilder::add_start(const std::vector<std::byte>& bytes) {
  const uint64_t offset = plan_.weights.size();
  append(plan_.weights, bytes.data(), bytes.size());
  plan_.weights.resize(round_up(plan_.weights.size(), 4));
  return offset;
}

void PlanBuilder::copy(const Storage& from, const Storage& to) {
  const uint64_t unit = from.unit_bytes();
  for (const Chunk& a : from.chunks) {
    for (const Chunk& b : to.chunks) {
      const uint64_t begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
      if (begin >= end) continue;
      const uint64_t size = round_up((end - begin) * unit, 4);
      const Copy step{{a.buffer, a.byte_offset + (begin - a.first) * unit, size},
                      {b.buffer, b.byte_offset + (begin - b.first) * unit, size}};
      touch(step.from);
      touch(step.to);
      plan_.steps.emplace_back(step);
    }
  }
}

void PlanBuilder::touch(const BufferRange& range) {
  Lifetime& life = lifetimes_.at(range.buffer);
  const int64_t step = static_cast<int64_t>(plan_.steps.size());
  life.first = std::min(life.first, step);
  life.last = std::max(life.last, step);
}

void PlanBuilder::mark(const Storage& storage, bool start) {
  for (const Chunk& chunk : storage.chunks) {
    Lifetime& life = lifetimes_.at(chunk.buffer);
    if (start)
      life.first = -1;
    else
      life.last = INT64_MAX;
  }
}

namespace {

// Workgroups along an axis. No device has more than fits 16 bits; the bound keeps the product of three in 64.
uint64_t most_along(const Limits& limits) {
  return std::min<uint64_t>(limits.max_compute_workgroups_per_dimension, 1 << 20);
}

}  // namespace

// How many of the groups that are left go into the next dispatch. Where more follow, they fill its axes: a group that
// ran twice would add twice to a sum that goes on.
uint64_t PlanBuilder::groups_at_once(const DispatchSpec& spec, uint64_t left) const {
  const uint64_t most = most_along(limits_);
  uint64_t count = std::min(left, most * most * most);
  if (most_flops_ > 0 && spec.flops > most_flops_) {
    const double share = static_cast<double>(spec.groups) * most_flops_ / spec.flops;
    count = std::min(count, std::max<uint64_t>(1, static_cast<uint64_t>(share)));
  }
  if (count == left) return count;
  for (const uint64_t whole : {most * most, most})
    if (count > whole) return count - count % whole;
  return count;
}

void PlanBuilder::dispatch(const DispatchSpec& spec) {
  const uint64_t most = most_along(limits_);
  for (uint64_t done = 0; done < spec.groups;) {
    const uint64_t count = groups_at_once(spec, spec.groups - done);
    const uint64_t z = (count + most * most - 1) / (most * most);
    const uint64_t in_plane = (count + z - 1) / z;
    const uint64_t y = (in_plane + most - 1) / most;
    const uint64_t x = (in_plane + y - 1) / y;
    const double share = static_cast<double>(count) / static_cast<double>(spec.groups);
    emit(spec, {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)}, done, share);
    done += count;
  }
}

void PlanBuilder::emit(const DispatchSpec& spec, std::array<uint32_t, 3> groups, uint64_t first_group, double share) {
  PlanKernel kernel{spec.name, spec.wgsl, "main", {spec.workgroup, 1, 1}, {BindingKind::Uniform}, 0};
  kernel.workgroup_bytes = static_cast<uint32_t>(spec.workgroup_bytes);
  plan_.features.shader_f16 |= spec.features.shader_f16;
  plan_.features.subgroups |= spec.features.subgroups;
  plan_.features.subgroup_matrix |= spec.features.subgroup_matrix;
  Dispatch step;
  step.label = spec.label;
  std::vector<uint32_t> words = spec.params;
  words.at(0) = static_cast<uint32_t>(first_group);
  words.at(1) = static_cast<uint32_t>(spec.groups);
  step.bindings.push_back(add_uniform(words));
  for (const Binding& binding : spec.bindings) {
    kernel.bindings.push_back(binding.kind);
    step.bindings.push_back(binding.range);
  }
  check_bindings(kernel, step);
  for (const BufferRange& range : step.bindings) touch(range);
  step.kernel = add_kernel(std::move(kernel));
  step.groups = groups;
  step.flops = spec.flops * share;
  step.bytes = spec.bytes * share;
  plan_.steps.emplace_back(std::move(step));
}

BufferRange PlanBuilder::report_words() {
  constexpr uint64_t kReportBytes = 16;
  if (report_buffer_ == ~0u) {
    report_buffer_ = add_buffer("report", kReportBytes);
    lifetimes_[report_buffer_] = {-1, INT64_MAX};
  }
  return {report_buffer_, 0, kReportBytes};
}

uint32_t PlanBuilder::add_report(ReportKind kind, const std::string& label) {
  for (size_t i = 0; i < plan_.reports.size(); ++i)
    if (plan_.reports[i].kind == kind && plan_.reports[i].label == label) return static_cast<uint32_t>(i + 1);
  plan_.reports.push_back({kind, label});
  return static_cast<uint32_t>(plan_.reports.size());
}

Plan PlanBuilder::finish(bool share_memory, std::vector<PlanTrace::Tenant>* tenants) {
  std::vector<MemoryRequest> requests;
  std::vector<uint32_t> requested;  // buffer of each request
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const bool used = lifetimes_[b].last >= 0 || lifetimes_[b].first < 0;
    if (plan_.buffers[b].kind != BufferKind::Storage || !used) continue;
    const Lifetime whole{-1, INT64_MAX}, life = share_memory ? lifetimes_[b] : whole;
    requests.push_back({plan_.buffers[b].size, life.first, std::max(life.last, life.first)});
    requested.push_back(b);
  }
  const MemoryAssignment memory = assign_memory(requests);
  final_.assign(plan_.buffers.size(), ~0u);
  std::vector<PlanBuffer> buffers;
  for (uint64_t bytes : memory.slot_bytes) buffers.push_back({"", bytes, BufferKind::Storage, 0});
  for (size_t r = 0; r < requests.size(); ++r) {
    final_[requested[r]] = memory.slot[r];
    const std::string& label = plan_.buffers[requested[r]].label;
    if (buffers[memory.slot[r]].label.empty()) buffers[memory.slot[r]].label = label;
    const int64_t end = static_cast<int64_t>(plan_.steps.size());
    if (tenants)
      tenants->push_back(
          {label, requests[r].bytes, requests[r].first, std::min(requests[r].last, end), memory.slot[r]});
  }
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    PlanBuffer buffer = plan_.buffers[b];
    if (buffer.kind == BufferKind::Storage) continue;
    if (buffer.kind == BufferKind::Weights || buffer.kind == BufferKind::Params) {
      contents_[b].resize(round_up(contents_[b].size(), 4));
      buffer.size = contents_[b].size();
      buffer.data_offset = plan_.weights.size();
      append(plan_.weights, contents_[b].data(), contents_[b].size());
    }
    final_[b] = static_cast<uint32_t>(buffers.size());
    buffers.push_back(std::move(buffer));
  }
  plan_.buffers = std::move(buffers);
  if (report_buffer_ != ~0u) plan_.report = {final_.at(report_buffer_), 0, 16};
  const auto move = [this](BufferRange& range) { range.buffer = final_.at(range.buffer); };
  for (Step& step : plan_.steps) {
    if (auto* dispatch = std::get_if<Dispatch>(&step)) {
      for (BufferRange& range : dispatch->bindings) move(range);
    } else if (auto* copied = std::get_if<Copy>(&step)) {
      move(copied->from);
      move(copied->to);
    } else {
      move(std::get<Clear>(step).range);
    }
  }
  return std::move(plan_);
}

}  // namespace gyrus
