#include "runtime/run_ports.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/tensor.h"
#include "gyrus/device_tensor.h"

namespace gyrus {
namespace {

template <class List>
auto find_named(const List& items, const std::string& name) {
  return std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
}

template <class List>
std::string listed(const List& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item.name;
  return text.empty() ? "none" : text;
}

template <class List>
[[noreturn]] void unknown(const List& items, const std::string& name, const char* what) {
  fail(ErrorCode::InvalidInput, name, "the plan has no such ", what, "; it has: ", listed(items));
}

void check_type(const PlanPort& port, DType dtype, const Shape& shape) {
  if (dtype != port.dtype || shape != port.shape)
    fail(ErrorCode::InvalidInput, port.name, "the plan takes ", to_string(port.dtype), to_string(port.shape),
         ", the input is ", to_string(dtype), to_string(shape));
}

void check_inputs(const Plan& plan, const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  for (const PlanPort& port : plan.inputs) {
    const auto host = inputs.find(port.name);
    const auto device = options.device_inputs.find(port.name);
    if (host == inputs.end() && device == options.device_inputs.end())
      fail(ErrorCode::InvalidInput, port.name, "this input is missing");
    if (host != inputs.end() && device != options.device_inputs.end())
      fail(ErrorCode::InvalidInput, port.name, "this input is given twice");
    if (host == inputs.end()) {
      check_type(port, device->second.dtype(), device->second.shape());
      continue;
    }
    const Tensor& tensor = host->second;
    check_type(port, tensor.dtype, tensor.shape);
    if (tensor.data.size() != static_cast<uint64_t>(element_count(tensor.shape)) * byte_size(tensor.dtype))
      fail(ErrorCode::InvalidInput, port.name, "the input has ", tensor.data.size(),
           " bytes, which do not fit its shape");
  }
  for (const auto& [name, tensor] : inputs)
    if (find_named(plan.inputs, name) == plan.inputs.end()) unknown(plan.inputs, name, "input");
  for (const auto& [name, tensor] : options.device_inputs)
    if (find_named(plan.inputs, name) == plan.inputs.end()) unknown(plan.inputs, name, "input");
}

void check_arguments(const Plan& plan, const std::map<std::string, double>& given) {
  for (const PlanArgument& argument : plan.arguments) {
    const auto found = given.find(argument.name);
    if (found == given.end()) fail(ErrorCode::InvalidInput, argument.name, "this argument is missing");
    const double value = found->second;
    if (argument.dtype != DType::F32 && std::isfinite(value) && value != std::trunc(value))
      fail(ErrorCode::InvalidInput, argument.name, value, " is no whole number");
    if (!(argument.least <= value && value <= argument.most))
      fail(ErrorCode::InvalidInput, argument.name, value, " is not between ", argument.least, " and ", argument.most);
  }
  for (const auto& [name, value] : given)
    if (find_named(plan.arguments, name) == plan.arguments.end()) unknown(plan.arguments, name, "argument");
}

void add_named(const std::vector<PlanPort>& ports, const std::vector<std::string>& names, const char* what,
               std::vector<const PlanPort*>& out) {
  for (const std::string& name : names) {
    const auto found = find_named(ports, name);
    if (found == ports.end()) unknown(ports, name, what);
    if (std::find(out.begin(), out.end(), &*found) == out.end()) out.push_back(&*found);
  }
}

ChosenPorts choose(const Plan& plan, const RunOptions& options) {
  ChosenPorts chosen;
  for (const std::string& name : options.keep) {
    const bool output = find_named(plan.outputs, name) != plan.outputs.end();
    add_named(output ? plan.outputs : plan.captures, {name}, "output or capture", chosen.keep);
  }
  std::vector<const PlanPort*> read;
  if (options.outputs) {
    add_named(plan.outputs, *options.outputs, "output", read);
  } else {
    for (const PlanPort& port : plan.outputs) read.push_back(&port);
  }
  add_named(plan.captures, options.captures, "capture", read);
  for (const PlanPort* port : read)
    if (std::find(chosen.keep.begin(), chosen.keep.end(), port) == chosen.keep.end()) chosen.read.push_back(port);
  return chosen;
}

}  // namespace

ChosenPorts check_run(const Plan& plan, const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  check_inputs(plan, inputs, options);
  check_arguments(plan, options.arguments);
  return choose(plan, options);
}

std::vector<std::byte> argument_bytes(const Plan& plan, const std::map<std::string, double>& arguments, uint64_t size) {
  std::vector<std::byte> bytes(size);
  for (const PlanArgument& argument : plan.arguments) {
    Tensor scalar(argument.dtype, {});
    set(scalar, 0, arguments.at(argument.name));
    std::memcpy(bytes.data() + argument.offset, scalar.data.data(), 4);
  }
  return bytes;
}

void check_report(const Plan& plan, const uint32_t (&words)[4]) {
  if (words[0] == 0) return;
  if (words[0] > plan.reports.size())
    fail(ErrorCode::Device, "report", "the device reported ", words[0], ", which the plan does not know");
  const PlanReport& report = plan.reports[words[0] - 1];
  if (report.kind == ReportKind::Finite)
    fail(ErrorCode::NonFinite, {Hint::SinglePrecision, Hint::OtherDevice}, report.label,
         "computed a value that is not finite");
  if (report.kind == ReportKind::Room)
    fail(ErrorCode::InvalidInput, report.label, "needs ", words[1], " places and has ", words[2], ": give it more");
  fail(ErrorCode::InvalidInput, report.label, "index ", static_cast<int32_t>(words[1]),
       " is out of range: the extent is ", words[2]);
}

StateWrites state_writes(const Plan& plan) {
  std::set<uint32_t> written;
  StateWrites writes;
  const auto write = [&](size_t step, const BufferRange& range) {
    if (plan.buffers[range.buffer].kind != BufferKind::State) return;
    written.insert(range.buffer);
    writes.first = std::min(writes.first, step);
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (const auto* dispatch = std::get_if<Dispatch>(&plan.steps[i])) {
      const std::vector<BindingKind>& kinds = plan.kernels[dispatch->kernel].bindings;
      for (size_t b = 0; b < kinds.size(); ++b)
        if (kinds[b] == BindingKind::ReadWriteStorage) write(i, dispatch->bindings[b]);
    } else if (const auto* copy = std::get_if<Copy>(&plan.steps[i])) {
      write(i, copy->to);
    } else {
      write(i, std::get<Clear>(plan.steps[i]).range);
    }
  }
  for (const PlanState& state : plan.states) {
    const auto is_written = [&](const Piece& piece) { return written.count(piece.range.buffer) > 0; };
    if (std::any_of(state.pieces.begin(), state.pieces.end(), is_written)) writes.names.push_back(state.name);
  }
  return writes;
}

}  // namespace gyrus
