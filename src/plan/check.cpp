#include "plan/check.h"

#include <algorithm>
#include <cfloat>
#include <set>

#include "core/error.h"
#include "core/tensor.h"

namespace gyrus {
namespace {

template <class... Args>
[[noreturn]] void invalid(const std::string& subject, const Args&... message) {
  fail(ErrorCode::InvalidInput, subject, message...);
}

std::string name_of(const Plan& plan, size_t step) {
  const auto* dispatch = std::get_if<Dispatch>(&plan.steps[step]);
  return dispatch ? cat("step ", step, " '", dispatch->label, "'") : cat("step ", step);
}

void check_range(const Plan& plan, const BufferRange& range, const std::string& subject) {
  if (range.buffer >= plan.buffers.size()) invalid(subject, "buffer ", range.buffer, " does not exist");
  const PlanBuffer& buffer = plan.buffers[range.buffer];
  if (range.offset % 4 != 0 || range.size % 4 != 0)
    invalid(subject, "offset ", range.offset, " and size ", range.size, " must be multiples of 4 bytes");
  if (range.size == 0) invalid(subject, "an empty range of buffer '", buffer.label, "'");
  if (range.offset > buffer.size || range.size > buffer.size - range.offset)
    invalid(subject, "offset ", range.offset, " and size ", range.size, " pass the end of buffer '", buffer.label,
            "' of ", buffer.size, " bytes");
}

bool overlap(const BufferRange& a, const BufferRange& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

void check_buffers(const Plan& plan) {
  uint64_t total = 0;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer& buffer = plan.buffers[i];
    const std::string subject = cat("buffer ", i, " '", buffer.label, "'");
    if (buffer.size == 0 || buffer.size % 4 != 0)
      invalid(subject, "size ", buffer.size, " is not a positive multiple of 4 bytes");
    if (buffer.size > UINT64_MAX - total) invalid(subject, "the sizes of all buffers overflow");
    total += buffer.size;
    if (buffer.kind != BufferKind::Weights && buffer.kind != BufferKind::Params) continue;
    if (buffer.data_offset > plan.weights.size() || buffer.size > plan.weights.size() - buffer.data_offset)
      invalid(subject, "its data, ", buffer.size, " bytes at ", buffer.data_offset, ", pass the end of the weights of ",
              plan.weights.size(), " bytes");
  }
}

void check_kernels(const Plan& plan) {
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const PlanKernel& kernel = plan.kernels[i];
    const std::string subject = cat("kernel ", i, " '", kernel.name, "'");
    for (uint32_t size : kernel.workgroup_size)
      if (size == 0) invalid(subject, "a workgroup size of 0");
    if (kernel.entry.empty()) invalid(subject, "no entry point");
  }
}

// A buffer that a dispatch may write must not be bound in another way, nor the same bytes twice.
void check_aliases(const Plan& plan, const Dispatch& dispatch, const std::string& subject) {
  const std::vector<BindingKind>& kinds = plan.kernels[dispatch.kernel].bindings;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != BindingKind::ReadWriteStorage) continue;
    for (size_t j = 0; j < kinds.size(); ++j) {
      const BufferRange &a = dispatch.bindings[i], &b = dispatch.bindings[j];
      if (i == j || a.buffer != b.buffer) continue;
      if (kinds[j] != BindingKind::ReadWriteStorage || overlap(a, b))
        invalid(subject, "bindings ", i, " and ", j, " share buffer '", plan.buffers[a.buffer].label,
                "', which the first may write");
    }
  }
}

void check_binding(BufferKind buffer, BindingKind binding, const std::string& subject) {
  const bool uniform = binding == BindingKind::Uniform;
  if (buffer == BufferKind::Arguments) {
    if (binding == BindingKind::ReadWriteStorage) invalid(subject, "the buffer of arguments bound to be written");
  } else if ((buffer == BufferKind::Params) != uniform) {
    invalid(subject, uniform ? "a storage buffer bound as uniform" : "a parameter buffer bound as storage");
  }
}

void check_dispatch(const Plan& plan, const Dispatch& dispatch, const std::string& subject) {
  if (dispatch.kernel >= plan.kernels.size()) invalid(subject, "kernel ", dispatch.kernel, " does not exist");
  const PlanKernel& kernel = plan.kernels[dispatch.kernel];
  if (dispatch.bindings.size() != kernel.bindings.size())
    invalid(subject, dispatch.bindings.size(), " bindings for kernel '", kernel.name, "', which takes ",
            kernel.bindings.size());
  for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
    const std::string binding = cat(subject, " binding ", i);
    check_range(plan, dispatch.bindings[i], binding);
    check_binding(plan.buffers[dispatch.bindings[i].buffer].kind, kernel.bindings[i], binding);
  }
  for (uint32_t groups : dispatch.groups)
    if (groups == 0) invalid(subject, "a group count of 0");
  if (!(dispatch.flops >= 0) || !(dispatch.bytes >= 0)) invalid(subject, "a cost below 0 or no number");
  check_aliases(plan, dispatch, subject);
}

// Parameters are only bound; arguments are read in any way, but written by the caller alone.
void check_copied(const Plan& plan, const BufferRange& range, bool written, const std::string& subject) {
  const PlanBuffer& buffer = plan.buffers[range.buffer];
  if (buffer.kind == BufferKind::Params)
    invalid(subject, "parameter buffer '", buffer.label, "' is filled once and not copied or cleared");
  if (written && buffer.kind == BufferKind::Arguments)
    invalid(subject, "argument buffer '", buffer.label, "' is written by the caller alone");
}

void check_copy(const Plan& plan, const Copy& copy, const std::string& subject) {
  check_range(plan, copy.from, subject);
  check_range(plan, copy.to, subject);
  if (copy.from.size != copy.to.size) invalid(subject, "copies ", copy.from.size, " bytes to ", copy.to.size);
  if (copy.from.buffer == copy.to.buffer)
    invalid(subject, "copies within buffer '", plan.buffers[copy.from.buffer].label, "', which WebGPU does not do");
  check_copied(plan, copy.from, /*written=*/false, subject);
  check_copied(plan, copy.to, /*written=*/true, subject);
}

void check_steps(const Plan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const std::string subject = name_of(plan, i);
    if (const auto* dispatch = std::get_if<Dispatch>(&plan.steps[i])) {
      check_dispatch(plan, *dispatch, subject);
    } else if (const auto* copy = std::get_if<Copy>(&plan.steps[i])) {
      check_copy(plan, *copy, subject);
    } else {
      const BufferRange& range = std::get<Clear>(plan.steps[i]).range;
      check_range(plan, range, subject);
      check_copied(plan, range, /*written=*/true, subject);
    }
  }
}

uint64_t padded_bytes(const PlanPort& port) {
  try {
    const auto count = static_cast<uint64_t>(element_count(port.shape));
    return round_up(count * byte_size(port.dtype), 4);
  } catch (const Error& error) {
    invalid(cat("port '", port.name, "'"), "shape ", to_string(port.shape), ": ", error.what());
  }
}

void check_port(const Plan& plan, const PlanPort& port) {
  const std::string subject = cat("port '", port.name, "'");
  const uint64_t bytes = padded_bytes(port);
  std::vector<Piece> pieces = port.pieces;
  for (const Piece& piece : pieces) {
    check_range(plan, piece.range, subject);
    check_copied(plan, piece.range, /*written=*/false, subject);
    if (piece.host_offset > bytes || piece.range.size > bytes - piece.host_offset)
      invalid(subject, "a piece of ", piece.range.size, " bytes at ", piece.host_offset, " passes the tensor's ",
              bytes);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.host_offset < b.host_offset; });
  uint64_t covered = 0;
  for (const Piece& piece : pieces) {
    if (piece.host_offset > covered) break;
    covered = std::max(covered, piece.host_offset + piece.range.size);
  }
  if (covered != bytes) invalid(subject, "its pieces leave out byte ", covered, " of ", bytes);
}

template <class List>
void check_names(const List& items, const char* what) {
  std::set<std::string> names;
  for (const auto& item : items)
    if (!names.insert(item.name).second) invalid(cat(what, " '", item.name, "'"), "is there twice");
}

void check_ports(const Plan& plan) {
  for (const auto* ports : {&plan.inputs, &plan.outputs, &plan.captures})
    for (const PlanPort& port : *ports) check_port(plan, port);
  check_names(plan.inputs, "port");
  std::vector<PlanPort> given = plan.outputs;
  given.insert(given.end(), plan.captures.begin(), plan.captures.end());
  check_names(given, "port");
  for (const PlanPort& port : plan.inputs) {
    for (const Piece& piece : port.pieces) {
      const BufferKind kind = plan.buffers[piece.range.buffer].kind;
      if (kind == BufferKind::State || kind == BufferKind::Arguments)
        invalid(cat("port '", port.name, "'"), "an input lies in the buffer of a state or of arguments");
    }
  }
}

// The pieces of states are all State buffers, each once and whole, in the order of the bytes they hold.
void check_states(const Plan& plan) {
  std::vector<bool> owned(plan.buffers.size());
  for (const PlanState& state : plan.states) {
    check_port(plan, state);
    const std::string subject = cat("state '", state.name, "'");
    uint64_t bytes = 0;
    for (const Piece& piece : state.pieces) {
      const PlanBuffer& buffer = plan.buffers[piece.range.buffer];
      if (buffer.kind != BufferKind::State) invalid(subject, "buffer '", buffer.label, "' is none for state");
      if (piece.range.offset != 0 || piece.range.size != buffer.size || piece.host_offset != bytes)
        invalid(subject, "its pieces are not whole buffers one after another");
      if (owned[piece.range.buffer]) invalid(subject, "buffer '", buffer.label, "' holds two pieces");
      owned[piece.range.buffer] = true;
      bytes += piece.range.size;
    }
    if (state.start && (*state.start > plan.weights.size() || bytes > plan.weights.size() - *state.start))
      invalid(subject, "its start, ", bytes, " bytes at ", *state.start, ", passes the end of the weights of ",
              plan.weights.size(), " bytes");
  }
  check_names(plan.states, "state");
  for (size_t i = 0; i < owned.size(); ++i)
    if (plan.buffers[i].kind == BufferKind::State && !owned[i])
      invalid(cat("buffer ", i, " '", plan.buffers[i].label, "'"), "belongs to no state");
}

void check_argument(const PlanArgument& argument, uint64_t buffer_size) {
  const std::string subject = cat("argument '", argument.name, "'");
  if (argument.offset % 4 != 0 || buffer_size < 4 || argument.offset > buffer_size - 4)
    invalid(subject, "offset ", argument.offset, " is no place in the argument buffer of ", buffer_size, " bytes");
  double lowest = -FLT_MAX, highest = FLT_MAX;
  if (argument.dtype == DType::I32) {
    lowest = INT32_MIN;
    highest = INT32_MAX;
  } else if (argument.dtype == DType::U32) {
    lowest = 0;
    highest = UINT32_MAX;
  } else if (argument.dtype != DType::F32) {
    invalid(subject, "has the type ", to_string(argument.dtype), "; arguments are f32, i32 or u32");
  }
  if (!(lowest <= argument.least && argument.least <= argument.most && argument.most <= highest))
    invalid(subject, "the range from ", argument.least, " to ", argument.most, " is empty or passes that of ",
            to_string(argument.dtype));
}

void check_arguments(const Plan& plan) {
  uint64_t size = 0;
  for (const PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::Arguments) continue;
    if (size) invalid(cat("buffer '", buffer.label, "'"), "is a second buffer of arguments");
    size = buffer.size;
  }
  std::set<uint64_t> offsets;
  for (const PlanArgument& argument : plan.arguments) {
    check_argument(argument, size);
    if (!offsets.insert(argument.offset).second)
      invalid(cat("argument '", argument.name, "'"), "lies where another one lies");
  }
  check_names(plan.arguments, "argument");
}

void check_report(const Plan& plan) {
  if (plan.report.has_value() == plan.reports.empty())
    invalid("report", plan.report ? "a range without a list of reports" : "a list of reports without a range");
  if (!plan.report) return;
  check_range(plan, *plan.report, "report");
  if (plan.report->size != 16 || plan.buffers[plan.report->buffer].kind != BufferKind::Storage)
    invalid("report", "is not 16 bytes of a storage buffer");
}

void check_most(const std::string& subject, const char* what, uint64_t found, uint64_t limit) {
  if (found > limit) fail(ErrorCode::OverLimits, subject, what, " is ", found, ", the limit is ", limit);
}

void check_kernel_limits(const PlanKernel& kernel, const Limits& limits) {
  constexpr uint64_t kUniformBuffers = 12;  // per stage, the specification's default
  const std::string subject = cat("kernel '", kernel.name, "'");
  const auto& size = kernel.workgroup_size;
  check_most(subject, "workgroup size x", size[0], limits.max_compute_workgroup_size_x);
  check_most(subject, "workgroup size y", size[1], limits.max_compute_workgroup_size_y);
  check_most(subject, "workgroup size z", size[2], limits.max_compute_workgroup_size_z);
  check_most(subject, "invocations per workgroup", uint64_t{size[0]} * size[1] * size[2],
             limits.max_compute_invocations_per_workgroup);
  check_most(subject, "workgroup storage", kernel.workgroup_bytes, limits.max_compute_workgroup_storage_size);
  const auto uniforms = std::count(kernel.bindings.begin(), kernel.bindings.end(), BindingKind::Uniform);
  check_most(subject, "number of uniform buffers", static_cast<uint64_t>(uniforms), kUniformBuffers);
  check_most(subject, "number of storage buffers", kernel.bindings.size() - static_cast<uint64_t>(uniforms),
             limits.max_storage_buffers_per_shader_stage);
}

void check_dispatch_limits(const Plan& plan, const Dispatch& dispatch, const std::string& subject,
                           const Limits& limits) {
  for (uint32_t groups : dispatch.groups)
    check_most(subject, "group count", groups, limits.max_compute_workgroups_per_dimension);
  const std::vector<BindingKind>& kinds = plan.kernels[dispatch.kernel].bindings;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool uniform = kinds[i] == BindingKind::Uniform;
    const std::string binding = cat(subject, " binding ", i);
    check_most(binding, "size", dispatch.bindings[i].size,
               uniform ? limits.max_uniform_buffer_binding_size : limits.max_storage_buffer_binding_size);
    const uint32_t alignment =
        uniform ? limits.min_uniform_buffer_offset_alignment : limits.min_storage_buffer_offset_alignment;
    if (alignment != 0 && dispatch.bindings[i].offset % alignment != 0)
      fail(ErrorCode::OverLimits, binding, "offset ", dispatch.bindings[i].offset, " is no multiple of ", alignment);
  }
}

}  // namespace

void check_consistent(const Plan& plan) {
  check_buffers(plan);
  check_kernels(plan);
  check_steps(plan);
  check_ports(plan);
  check_states(plan);
  check_arguments(plan);
  check_report(plan);
}

void check(const Plan& plan, const Limits& limits) {
  check_consistent(plan);
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    check_most(cat("buffer ", i, " '", plan.buffers[i].label, "'"), "size", plan.buffers[i].size,
               limits.max_buffer_size);
  for (const PlanKernel& kernel : plan.kernels) check_kernel_limits(kernel, limits);
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (const auto* dispatch = std::get_if<Dispatch>(&plan.steps[i]))
      check_dispatch_limits(plan, *dispatch, name_of(plan, i), limits);
}

}  // namespace gyrus
