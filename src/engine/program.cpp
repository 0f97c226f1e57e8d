#include "gyrus/program.h"

#include <chrono>
#include <list>
#include <mutex>

#include "core/error.h"
#include "cpu/network.h"
#include "engine/model_store.h"
#include "engine/policy.h"
#include "engine/program_plan.h"
#include "graph/graph.h"
#include "import/onnx_path.h"
#include "passes/passes.h"
#include "runtime/executor.h"

namespace gyrus {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A plan on the device.
struct Loaded {
  Planned about;
  ProgramPlan ports;                 // its plan is the executor's
  std::optional<Executor> executor;  // none where no result has an element
};

}  // namespace

struct ProgramImpl {
  Device device;
  Memory memory;
  Program::Make make;
  Shapes own;  // of the graph, where there is one for all shapes
  ProgramOptions options;
  mutable std::mutex mutex{};
  std::list<Loaded> loaded{};  // the one used last first

  ProgramImpl(const Device& on, const Memory& shared, Program::Make maker, const ProgramOptions& wanted)
      : device(on), memory(shared), make(std::move(maker)), options(wanted) {}

  Loaded& load(const Shapes& given) {
    Shapes shapes = own;
    for (const auto& [name, shape] : given) shapes[name] = shape;
    for (auto it = loaded.begin(); it != loaded.end(); ++it) {
      if (it->about.shapes != shapes) continue;
      loaded.splice(loaded.begin(), loaded, it);
      return loaded.front();
    }
    Planned about;
    about.shapes = shapes;
    if (device.is_cpu()) return load_on_cpu(std::move(about));
    auto start = std::chrono::steady_clock::now();
    PlanOptions plan_options = device.adapter().type == AdapterType::Software ? software_options() : PlanOptions{};
    plan_options.check_finite = options.check_finite;
    plan_options.matrix = options.matrix;
    Target target = device.target();
    if (options.limits) target.limits = *options.limits;
    ProgramPlan ports = plan_program(make(shapes), target, options.precision, plan_options);
    if (!ports.plan) {
      loaded.push_front({std::move(about), std::move(ports), std::nullopt});
      return loaded.front();
    }
    Plan plan = std::move(*ports.plan);
    ports.plan.reset();
    about.plan_seconds = seconds_since(start);
    about.kernels = plan.kernels.size();
    const size_t before = device.compiled_kernels();
    while (!loaded.empty() && loaded.size() >= std::max<size_t>(options.keep_plans, 1)) loaded.pop_back();
    start = std::chrono::steady_clock::now();
    loaded.push_front({std::move(about), std::move(ports), Executor(device, std::move(plan), memory)});
    Planned& made = loaded.front().about;
    made.load_seconds = seconds_since(start);
    made.compiled = device.compiled_kernels() - before;
    made.bytes = loaded.front().executor->allocated_bytes();
    if (options.planned) options.planned(made);
    return loaded.front();
  }

  Loaded& load_on_cpu(Planned about) {
    const auto start = std::chrono::steady_clock::now();
    Graph whole;
    ProgramPlan ports = split_ports(make(about.shapes), whole);
    if (results(whole).empty()) {
      loaded.push_front({std::move(about), std::move(ports), std::nullopt});
      return loaded.front();
    }
    Graph plain = optimize_plain(whole);
    if (options.precision.storage == DType::F16) plain = store_halves(plain);
    about.plan_seconds = seconds_since(start);
    while (!loaded.empty() && loaded.size() >= std::max<size_t>(options.keep_plans, 1)) loaded.pop_back();
    const auto planned = std::chrono::steady_clock::now();
    cpu::NetworkOptions network_options;
    network_options.check_finite = options.check_finite;
    auto network = std::make_shared<cpu::Network>(std::move(plain), network_options);
    loaded.push_front({std::move(about), std::move(ports), Executor(device, std::move(network), memory)});
    Planned& made = loaded.front().about;
    made.load_seconds = seconds_since(planned);
    made.kernels = loaded.front().executor->plan().kernels.size();
    made.bytes = loaded.front().executor->allocated_bytes();
    if (options.planned) options.planned(made);
    return loaded.front();
  }

  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options) {
    const std::lock_guard lock(mutex);
    Shapes shapes;
    bool wide = false;
    for (const auto& [name, tensor] : inputs) {
      shapes[name] = tensor.shape;
      wide = wide || is_wide(tensor.dtype);
    }
    for (const auto& [name, tensor] : run_options.device_inputs) shapes[name] = tensor.shape();
    Loaded& plan = load(shapes);
    std::map<std::string, Tensor> given;
    const bool changed = wide || !plan.ports.empty_inputs.empty();
    if (changed)
      for (const auto& [name, tensor] : inputs)
        if (plan.ports.empty_inputs.count(name) == 0)
          given[name] = is_wide(tensor.dtype) ? narrow(tensor, name, ErrorCode::InvalidInput) : tensor;
    RunResult result;
    if (plan.ports.empty_results.empty()) {
      result = plan.executor->run(changed ? given : inputs, run_options);
    } else if (plan.executor) {
      result = plan.executor->run(changed ? given : inputs, without(run_options, plan.ports.empty_results));
    }
    for (auto& [name, tensor] : result.outputs)
      if (const auto as = plan.ports.wide.find(name); as != plan.ports.wide.end()) tensor = widen(tensor, as->second);
    for (const auto& [name, type] : plan.ports.empty_results) result.outputs[name] = Tensor(type.dtype, type.shape);
    return result;
  }

  // The options for a plan that lacks these results.
  static RunOptions without(RunOptions options, const std::map<std::string, TensorType>& names) {
    const auto lacks = [&](const std::string& name) { return names.count(name) != 0; };
    if (options.outputs) std::erase_if(*options.outputs, lacks);
    std::erase_if(options.captures, lacks);
    std::erase_if(options.keep, lacks);
    return options;
  }
};

Program::Program(const Device& device, Make make, const Memory& memory, const ProgramOptions& options)
    : impl_(std::make_shared<ProgramImpl>(device, memory, std::move(make), options)) {}
Program::Program(const Device& device, Make make, const ProgramOptions& options)
    : Program(device, std::move(make), Memory(device), options) {}

Program::Program(const Device& device, Graph graph, const Memory& memory, const ProgramOptions& options)
    : Program(device, Make{}, memory, options) {
  verify(graph, "building");
  for (const Port& input : graph.inputs()) impl_->own[input.name] = graph.type(input.value).shape;
  impl_->make = [graph = std::move(graph)](const Shapes& shapes) { return with_shapes(graph, shapes); };
}
Program::Program(const Device& device, Graph graph, const ProgramOptions& options)
    : Program(device, std::move(graph), Memory(device), options) {}

Planned Program::prepare(const Shapes& shapes) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->load(shapes).about;
}

RunResult Program::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  return impl_->run(inputs, options);
}

std::future<RunResult> Program::run_async(std::map<std::string, Tensor> inputs, RunOptions options) {
  return std::async(std::launch::async, [impl = impl_, inputs = std::move(inputs), options = std::move(options)] {
    return impl->run(inputs, options);
  });
}

Memory& Program::memory() { return impl_->memory; }
const Device& Program::device() const { return impl_->device; }

std::vector<Planned> Program::plans() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Planned> all;
  for (const Loaded& plan : impl_->loaded) all.push_back(plan.about);
  return all;
}

Graph load_graph(const std::string& path, const Shapes& shapes) {
  if (const auto file = onnx::open_model(resolve_model(path))) {
    onnx::ImportOptions import_options;
    import_options.subject = file->path;
    import_options.shapes = shapes;
    import_options.external = file->external;
    return onnx::import_model(file->model, import_options).graph;
  }
  return model_graph(load_model(resolve_model(path)), shapes);
}

}  // namespace gyrus
