// Every node of a planned network on a device against the reference. The plan is made with captures of what the nodes
// read and make, some nodes at a time where memory asks for it. Captures keep their memory, so the plan differs from
// the one that programs run in that nothing is written in place; that one runs at the end, and its outputs must be the
// same.
#include "gyrus/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <sstream>

#include "core/error.h"
#include "engine/empty_ports.h"
#include "graph/op.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/bounds.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace gyrus {
namespace {

using reference::Difference;

std::string type_text(const TensorType& type) { return cat(to_string(type.dtype), to_string(type.shape)); }

// The nodes of the model that a node was made from, each once.
std::string name_text(const Node& node) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  if (!op(node.op).body_only || node.body.empty()) add(node.label);
  for (const Node& step : node.body) add(step.label);
  if (names.empty()) add(node.label.empty() ? node.op : node.label);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  return text;
}

std::string op_text(const Node& node) {
  std::string text = op(node.op).body_only && !node.body.empty() ? "" : node.op;
  for (const Node& step : node.body) text += (text.empty() ? "" : " + ") + step.op;
  return text;
}

// A packed value as it lies, [N, planes, quads, rest…, 4], in the order of its elements, [N, C, planes, rest…].
Tensor plain(const Tensor& stored, const TensorType& type) {
  if (type.layout == Layout::Plain) return stored;
  Tensor out(type.dtype, type.shape);
  const int64_t images = type.shape[0], channels = type.shape[1], planes = type.shape[2];
  const int64_t quads = ceil_div(channels, 4), rest = out.size() / std::max<int64_t>(images * channels * planes, 1);
  const size_t bytes = byte_size(type.dtype);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < planes; ++p)
        for (int64_t i = 0; i < rest; ++i) {
          const int64_t from = ((((n * planes + p) * quads + c / 4) * rest) + i) * 4 + c % 4;
          const int64_t to = ((n * channels + c) * planes + p) * rest + i;
          std::memcpy(out.data.data() + to * bytes, stored.data.data() + from * bytes, bytes);
        }
  return out;
}

class Verifier {
 public:
  Verifier(const Device& device, const Graph& graph, const std::map<std::string, Tensor>& inputs,
           const VerifyOptions& options)
      : device_(device), options_(options), target_(device.target()) {
    const EmptyPorts empty = empty_ports(graph);
    for (const auto& [name, tensor] : inputs)
      if (empty.inputs.count(name) == 0)
        inputs_[name] = is_wide(tensor.dtype) ? narrow(tensor, name, ErrorCode::InvalidInput) : tensor;
    if (options.limits) target_.limits = *options.limits;
    if (device.adapter().type == AdapterType::Software) plan_options_ = software_options();
    const Graph whole = without_empty_ports(graph);
    if (results(whole).empty()) return;
    graph_ = planned_graph(optimize(whole, options.precision), target_, plan_options_);
    lay_sources();
  }

  Verified run() {
    std::map<std::string, Tensor> outputs;
    for (size_t begin = 0; begin < graph_.nodes().size();) {
      const size_t end = group_end(begin);
      run_group(begin, end, outputs);
      begin = end;
    }
    if (!found_.first && !graph_.nodes().empty()) compare_outputs(outputs);
    return std::move(found_);
  }

 private:
  bool is_source(ValueId id) const { return id == kNoValue || sources_.count(id) != 0 || graph_.is_constant(id); }
  bool is_captured(ValueId id) const { return !is_source(id) && element_count(graph_.type(id).shape) > 0; }
  static std::string capture_name(ValueId id) { return cat("%", id); }

  void lay_sources() {
    for (const Port& port : graph_.inputs()) {
      const auto given = inputs_.find(port.name);
      if (given == inputs_.end()) fail(ErrorCode::InvalidInput, port.name, "no tensor is given for this input");
      sources_[port.value] = given->second;
    }
    for (const State& state : graph_.states()) {
      const TensorType& type = graph_.type(state.value);
      sources_[state.value] = state.start ? *state.start : Tensor(type.dtype, type.shape);
    }
    for (const Argument& a : graph_.arguments()) {
      const auto given = options_.arguments.find(a.name);
      if (given == options_.arguments.end()) fail(ErrorCode::InvalidInput, a.name, "is an argument and not given");
      Tensor value(graph_.type(a.value).dtype, {});
      set(value, 0, given->second);
      sources_[a.value] = std::move(value);
    }
  }

  // What a node reads and makes, of those that are captured.
  std::vector<ValueId> values_of(const Node& node) const {
    std::vector<ValueId> values;
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (ValueId id : *ids)
        if (is_captured(id)) values.push_back(id);
    return values;
  }

  size_t group_end(size_t begin) const {
    std::set<ValueId> captured;
    uint64_t bytes = 0;
    size_t end = begin;
    for (; end < graph_.nodes().size(); ++end) {
      for (ValueId id : values_of(graph_.nodes()[end]))
        if (captured.insert(id).second)
          bytes += static_cast<uint64_t>(element_count(graph_.type(id).shape)) * byte_size(graph_.type(id).dtype);
      if (bytes > options_.capture_bytes && end > begin) break;
    }
    return end;
  }

  RunResult run_plan(Plan& plan, const std::vector<std::string>& captures) {
    // What kernels report would end the run; here the node itself is to be found.
    plan.report.reset();
    plan.reports.clear();
    if (options_.change) options_.change(plan);
    Executor executor(device_, plan);
    RunOptions run_options;
    run_options.arguments = options_.arguments;
    run_options.captures = captures;
    run_options.cancel = options_.cancel;
    return executor.run(inputs_, run_options);
  }

  void run_group(size_t begin, size_t end, std::map<std::string, Tensor>& outputs) {
    Graph captured = graph_;
    std::set<ValueId> values;
    for (size_t n = begin; n < end; ++n)
      for (ValueId id : values_of(graph_.nodes()[n])) values.insert(id);
    std::vector<std::string> names;
    for (ValueId id : values) captured.add_capture(names.emplace_back(capture_name(id)), id);
    PlanTrace trace;
    Plan plan = lower_graph(captured, target_, plan_options_, &trace);
    RunResult result = run_plan(plan, names);
    std::map<ValueId, Tensor> made;
    for (ValueId id : values) made[id] = plain(result.outputs.at(capture_name(id)), graph_.type(id));
    for (const Port& port : graph_.outputs()) outputs[port.name] = std::move(result.outputs.at(port.name));
    for (size_t n = begin; n < end; ++n) {
      if (options_.cancel && *options_.cancel) fail(ErrorCode::Cancelled, "verify", "stopped");
      check_node(n, made, plan, trace);
      if (options_.progress) options_.progress(n + 1, graph_.nodes().size());
    }
  }

  const Tensor& tensor_of(ValueId id, const std::map<ValueId, Tensor>& made) {
    if (graph_.is_constant(id)) return graph_.constant(id);
    const auto source = sources_.find(id);
    if (source != sources_.end()) return source->second;
    const auto found = made.find(id);
    if (found != made.end()) return found->second;
    return empty_[id] = Tensor(graph_.type(id).dtype, graph_.type(id).shape);
  }

  void check_node(size_t n, const std::map<ValueId, Tensor>& made, const Plan& plan, const PlanTrace& trace) {
    const Node& node = graph_.nodes()[n];
    std::vector<RefTensor> operands(node.inputs.size());
    std::vector<const RefTensor*> pointers(node.inputs.size(), nullptr);
    bool floats = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      operands[i] = reference::from_tensor(tensor_of(node.inputs[i], made));
      pointers[i] = &operands[i];
      floats = floats || is_float(graph_.type(node.inputs[i]).dtype);
    }
    const std::vector<RefTensor> want = reference::run_node(graph_, node, pointers);
    VerifiedNode checked{name_text(node), op_text(node), type_text(graph_.type(node.outputs[0]))};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor& got = tensor_of(node.outputs[i], made);
      if (is_float(got.dtype))
        check_floats(node, i, got, want[i], operands, checked);
      else
        check_integers(got, want[i], floats, checked);
    }
    if (!checked.right && !found_.first) found_.first = about(n, want, made, plan, trace);
    found_.nodes.push_back(std::move(checked));
  }

  bool halves(DType dtype) const { return options_.precision.storage == DType::F16 || dtype == DType::F16; }

  void check_floats(const Node& node, size_t output, const Tensor& got, const RefTensor& want,
                    const std::vector<RefTensor>& operands, VerifiedNode& checked) const {
    const bool half = halves(got.dtype);
    const Difference d = reference::difference(got, want);
    checked.error = std::max(checked.error, d.largest);
    checked.nmse = std::max(checked.nmse, d.nmse);
    double nmse = half ? reference::kF16Nmse : reference::kF32Nmse;
    double largest = (half ? reference::kF16Largest : reference::kF32Largest) + 8 * std::sqrt(nmse);
    if (d.nmse <= nmse && d.largest <= largest) return;
    // Where the result hangs on the last digits of the operands (a difference of nearly equal numbers, the sine of a
    // large one), as much is allowed as rounding these would do.
    const Difference rounding = moved_by_rounding(node, output, want, operands, half);
    nmse += 64 * rounding.nmse;
    largest += 8 * rounding.largest;
    if (!(d.nmse <= nmse && d.largest <= largest)) checked.right = false;
  }

  // How far the result moves when every float among the operands moves by a rounding.
  Difference moved_by_rounding(const Node& node, size_t output, const RefTensor& want, std::vector<RefTensor> operands,
                               bool half) const {
    std::mt19937_64 rng(1);
    const double step = std::ldexp(1.0, half ? -12 : -24);
    std::vector<const RefTensor*> pointers(operands.size(), nullptr);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      if (is_float(graph_.type(node.inputs[i]).dtype))
        for (double& value : operands[i].data) value *= (rng() & 1) != 0 ? 1 + step : 1 - step;
      pointers[i] = &operands[i];
    }
    const RefTensor moved = reference::run_node(graph_, node, pointers)[output];
    double error = 0, power = 0, off = 0, most = 0;
    for (size_t i = 0; i < moved.data.size(); ++i) {
      const double by = std::abs(moved.data[i] - want.data[i]);
      if (!std::isfinite(by)) continue;
      error += by * by;
      power += want.data[i] * want.data[i];
      off = std::max(off, by);
      most = std::max(most, std::abs(want.data[i]));
    }
    return {power > 0 ? error / power : error, most > 0 ? off / most : off};
  }

  void check_integers(const Tensor& got, const RefTensor& want, bool floats, VerifiedNode& checked) const {
    int64_t different = 0;
    for (int64_t i = 0; i < got.size(); ++i) different += get(got, i) != want.data[static_cast<size_t>(i)];
    const double share = halves(DType::F32) ? reference::kF16Different : reference::kF32Different;
    // Two scores may be within rounding; not in a result of a few elements, which would then be free to be anything.
    const double allowed = floats ? std::min(std::ceil(share * static_cast<double>(got.size())),
                                             std::floor(static_cast<double>(got.size()) / 64))
                                  : 0;
    checked.different += different;
    if (static_cast<double>(different) > allowed) checked.right = false;
  }

  std::string name_of(ValueId id) const {
    for (const auto* ports : {&graph_.inputs(), &graph_.outputs()})
      for (const Port& port : *ports)
        if (port.value == id) return port.name;
    const std::string& name = graph_.value(id).name;
    return name.empty() ? capture_name(id) : name;
  }

  WrongNode about(size_t n, const std::vector<RefTensor>& want, const std::map<ValueId, Tensor>& made, const Plan& plan,
                  const PlanTrace& trace) {
    const Node& node = graph_.nodes()[n];
    WrongNode wrong;
    wrong.node = n;
    wrong.text = print(graph_, node);
    for (ValueId id : node.inputs)
      if (id != kNoValue) wrong.inputs.push_back({name_of(id), tensor_of(id, made), graph_.is_constant(id)});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor& got = tensor_of(node.outputs[i], made);
      wrong.outputs.push_back({name_of(node.outputs[i]), got});
      wrong.expected.push_back(
          {name_of(node.outputs[i]), reference::to_tensor(want[i], is_float(got.dtype) ? DType::F32 : got.dtype)});
    }
    Plan part = plan;
    part.steps.assign(plan.steps.begin() + static_cast<std::ptrdiff_t>(trace.nodes[n].begin),
                      plan.steps.begin() + static_cast<std::ptrdiff_t>(trace.nodes[n].end));
    part.kernels.clear();
    part.inputs.clear();
    part.outputs.clear();
    part.captures.clear();
    std::map<uint32_t, uint32_t> numbers;
    for (Step& step : part.steps) {
      auto* dispatch = std::get_if<Dispatch>(&step);
      if (!dispatch) continue;
      const PlanKernel& kernel = plan.kernels[dispatch->kernel];
      wrong.kernels.push_back(about_kernel(plan, kernel, *dispatch));
      const auto [at, fresh] = numbers.emplace(dispatch->kernel, static_cast<uint32_t>(part.kernels.size()));
      if (fresh) part.kernels.push_back(kernel);
      dispatch->kernel = at->second;
    }
    wrong.plan = to_json(part);
    return wrong;
  }

  static VerifiedKernel about_kernel(const Plan& plan, const PlanKernel& kernel, const Dispatch& dispatch) {
    VerifiedKernel about{kernel.name, "", kernel.entry, kernel.workgroup_size, dispatch.groups, {}, kernel.wgsl};
    // Kernels open with "// file.wgsl: …".
    if (const size_t end = kernel.wgsl.find(".wgsl"); kernel.wgsl.rfind("// ", 0) == 0 && end < 80)
      about.file = kernel.wgsl.substr(3, end + 2);
    // Parameters are words, in the order of the struct.
    if (kernel.bindings.empty() || kernel.bindings[0] != BindingKind::Uniform) return about;
    const BufferRange& range = dispatch.bindings[0];
    const PlanBuffer& buffer = plan.buffers[range.buffer];
    const size_t open = kernel.wgsl.find("struct Params {");
    if (buffer.kind != BufferKind::Params || open == std::string::npos) return about;
    std::istringstream lines(kernel.wgsl.substr(open));
    std::string line;
    std::getline(lines, line);
    for (uint64_t at = 0; std::getline(lines, line) && line != "}" && at + 4 <= range.size; at += 4) {
      uint32_t word = 0;
      std::memcpy(&word, plan.weights.data() + buffer.data_offset + range.offset + at, 4);
      const size_t first = line.find_first_not_of(' '), colon = line.find(':');
      if (first != std::string::npos && colon != std::string::npos)
        about.params.emplace_back(line.substr(first, colon - first), word);
    }
    return about;
  }

  void compare_outputs(const std::map<std::string, Tensor>& outputs) {
    Plan plan = lower_graph(graph_, target_, plan_options_);
    const RunResult result = run_plan(plan, {});
    for (const Port& port : graph_.outputs()) {
      const Tensor &got = result.outputs.at(port.name), &want = outputs.at(port.name);
      const Difference d = reference::difference(got, reference::from_tensor(want));
      const bool half = halves(got.dtype);
      const bool same =
          is_float(got.dtype) ? d.nmse <= (half ? reference::kF16Nmse : reference::kF32Nmse) : got.data == want.data;
      if (!same) found_.wrong_outputs.push_back(port.name);
    }
  }

  Device device_;
  VerifyOptions options_;
  Target target_;
  PlanOptions plan_options_;
  std::map<std::string, Tensor> inputs_;
  Graph graph_;
  std::map<ValueId, Tensor> sources_;
  std::map<ValueId, Tensor> empty_;
  Verified found_;
};

}  // namespace

Verified verify_on(const Device& device, const Graph& graph, const std::map<std::string, Tensor>& inputs,
                   const VerifyOptions& options) {
  return Verifier(device, graph, inputs, options).run();
}

}  // namespace gyrus
