#include "runtime/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/error.h"
#include "core/tensor.h"
#include "runtime/device_tensor_impl.h"
#include "runtime/executor.h"
#include "runtime/run_ports.h"

namespace gyrus {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
uint64_t ns_since(Clock::time_point start) { return static_cast<uint64_t>(seconds_since(start) * 1e9); }

std::vector<PlanPort> ports_of(const Graph& graph, const std::vector<Port>& ports) {
  std::vector<PlanPort> list;
  for (const Port& port : ports)
    list.push_back({port.name, graph.type(port.value).dtype, graph.type(port.value).shape, {}});
  return list;
}

// Whether nodes make maps of halves.
bool holds_halves(const Graph& graph) {
  for (const Node& node : graph.nodes())
    for (ValueId id : node.outputs)
      if (graph.type(id).dtype == DType::F16) return true;
  return false;
}

// How long a step takes beside others: roughly, for progress.
double weight_of(const cpu::StepFacts& step) { return step.flops / 10 + step.bytes; }

}  // namespace

Plan describe(const cpu::Network& network) {
  const Graph& graph = network.graph();
  Plan plan;
  plan.precision = holds_halves(graph) ? "f16" : "f32";
  plan.buffers.push_back({"maps and arranged weights", round_up(network.bytes(), 4), BufferKind::Storage, 0});
  plan.buffers.push_back({"constants", round_up(network.constant_bytes(), 4), BufferKind::Storage, 0});
  for (const cpu::StepFacts& step : network.steps()) {
    Dispatch dispatch;
    const auto known = std::find_if(plan.kernels.begin(), plan.kernels.end(),
                                    [&](const PlanKernel& kernel) { return kernel.name == step.kernel; });
    dispatch.kernel = static_cast<uint32_t>(known - plan.kernels.begin());
    if (known == plan.kernels.end()) {
      plan.kernels.emplace_back();
      plan.kernels.back().name = step.kernel;
    }
    dispatch.label = step.label;
    dispatch.flops = step.flops;
    dispatch.bytes = step.bytes;
    plan.steps.emplace_back(std::move(dispatch));
  }
  plan.inputs = ports_of(graph, graph.inputs());
  plan.outputs = ports_of(graph, graph.outputs());
  plan.captures = ports_of(graph, graph.captures());
  for (const State& state : graph.states()) {
    PlanState made;
    made.name = state.name;
    made.dtype = graph.type(state.value).dtype;
    made.shape = graph.type(state.value).shape;
    if (state.start) {
      made.start = plan.weights.size();
      plan.weights.insert(plan.weights.end(), state.start->data.begin(), state.start->data.end());
    }
    plan.states.push_back(std::move(made));
  }
  for (const Argument& a : graph.arguments())
    plan.arguments.push_back({a.name, graph.type(a.value).dtype, a.least, a.most, 4 * plan.arguments.size()});
  return plan;
}

CpuExecutor::CpuExecutor(const Device& device, std::shared_ptr<cpu::Network> network, const Memory& memory)
    : device_(device.impl()),
      network_(std::move(network)),
      memory_(memory),
      plan_(std::make_shared<const Plan>(describe(*network_))) {
  if (!device_->pool) fail(ErrorCode::Unsupported, "device", "networks for the CPU run there alone");
  if (memory.impl()->device != device_)
    fail(ErrorCode::InvalidInput, "memory", "is on another device than the network");
  network_->allocate();
  memory_.impl()->attach(plan_);
}

void CpuExecutor::bind(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  const Graph& graph = network_->graph();
  for (const Port& port : graph.inputs()) {
    const auto host = inputs.find(port.name);
    const Tensor& tensor = host != inputs.end() ? host->second : options.device_inputs.at(port.name).impl().host;
    network_->bind(port.value, tensor.data.data());
  }
  arguments_ = argument_bytes(*plan_, options.arguments, 4 * plan_->arguments.size());
  for (size_t i = 0; i < graph.arguments().size(); ++i)
    network_->bind(graph.arguments()[i].value, arguments_.data() + plan_->arguments[i].offset);
  for (const State& state : graph.states()) network_->bind(state.value, memory_.impl()->find(state.name).host.data());
}

void CpuExecutor::run_steps(const RunOptions& options, Profile& profile) {
  const std::vector<cpu::StepFacts>& steps = network_->steps();
  double total = 0, done = 0, shown = 0;
  for (const cpu::StepFacts& step : steps) total += weight_of(step);
  size_t current = 0;  // the step under way: how many are done
  const auto stop = [&] {
    fail(ErrorCode::Cancelled, "run", "cancelled after ", current, " of ", steps.size(), " steps");
  };
  const auto heed = [&] {
    if (options.cancel && options.cancel->load()) stop();
  };
  const auto tell = [&](double fraction, const cpu::StepFacts& step) {
    shown = std::max(shown, fraction);
    if (options.progress && !options.progress(shown, step.label)) stop();
  };
  const auto start = Clock::now();
  uint64_t begin = 0;
  const auto finish = [&](size_t step) {  // what came before it is done
    current = step;
    if (step == 0) return;
    const cpu::StepFacts& last = steps[step - 1];
    done += weight_of(last);
    if (options.profile) {
      const uint64_t now = ns_since(start);
      profile.steps.push_back({last.label, last.kernel, begin, now, last.flops, last.bytes});
      begin = now;
    }
    tell(step == steps.size() ? 1.0 : total > 0 ? std::min(1.0, done / total) : 0.0, last);
  };
  // A step of a large network takes seconds, so its loops are watched as well.
  const cpu::LoopWatcher watcher([&](double fraction) {
    heed();
    const cpu::StepFacts& step = steps[current];
    if (total > 0) tell(std::min(1.0, (done + fraction * weight_of(step)) / total), step);
  });
  network_->run(*device_->pool, [&](size_t step) {
    finish(step);
    heed();
  });
  finish(steps.size());
  if (steps.empty() && options.progress) options.progress(1.0, "nothing");
}

Tensor CpuExecutor::result(const PlanPort& port) const {
  const Graph& graph = network_->graph();
  Tensor tensor(port.dtype, port.shape);
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& own : *ports)
      if (own.name == port.name && !tensor.data.empty())
        std::memcpy(tensor.data.data(), network_->data(own.value), tensor.data.size());
  return tensor;
}

// What a state becomes may lie in another one: that is taken before the first is written. The rest, which may be large,
// is copied once.
void CpuExecutor::update_states() {
  const Graph& graph = network_->graph();
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> kept;
  std::vector<std::pair<Resident*, const std::byte*>> made;
  for (const State& state : graph.states()) {
    if (state.next == kNoValue || state.next == state.value) continue;
    Resident& resident = memory_.impl()->find(state.name);
    const std::byte* data = network_->data(state.next);
    const bool in_a_state = std::any_of(graph.states().begin(), graph.states().end(), [&](const State& other) {
      return memory_.impl()->find(other.name).host.data() == data;
    });
    if (in_a_state)
      kept.emplace_back(resident.host.data(), std::vector<std::byte>(data, data + resident.host.size()));
    else
      made.emplace_back(&resident, data);
  }
  for (const auto& [to, bytes] : kept) std::copy(bytes.begin(), bytes.end(), to);
  for (const auto& [resident, data] : made) std::copy_n(data, resident->host.size(), resident->host.begin());
}

RunResult CpuExecutor::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  const ChosenPorts ports = check_run(*plan_, inputs, options);
  for (const auto& [name, tensor] : options.device_inputs)
    if (tensor.impl().device != device_) fail(ErrorCode::InvalidInput, name, "lies on another device");
  std::optional<MemoryImpl::Turn> turn;
  if (!plan_->states.empty()) turn.emplace(*memory_.impl(), /*run=*/true);
  for (const PlanState& state : plan_->states) memory_.impl()->check_defined({state.name});
  RunResult made;
  Profile& profile = made.profile;
  const auto start = Clock::now();
  bind(inputs, options);
  profile.stages.push_back({"bind", 0, ns_since(start)});
  profile.gpu_begin_ns = ns_since(start);
  run_steps(options, profile);
  profile.stages.push_back({"run", profile.gpu_begin_ns, ns_since(start)});
  profile.gpu_seconds = static_cast<double>(ns_since(start) - profile.gpu_begin_ns) * 1e-9;
  profile.gpu_timestamps = true;
  profile.submissions = 1;
  const uint64_t taken = ns_since(start);
  for (const PlanPort* port : ports.read) made.outputs[port->name] = result(*port);
  for (const PlanPort* port : ports.keep) {
    auto kept = std::make_shared<DeviceTensorImpl>();
    kept->device = device_;
    kept->port = *port;
    kept->host = result(*port);
    made.kept.emplace(port->name, DeviceTensor(std::move(kept)));
  }
  update_states();
  profile.stages.push_back({"results", taken, ns_since(start)});
  profile.wall_seconds = seconds_since(start);
  return made;
}

}  // namespace gyrus
