// The entry points behind web/src/cpu-engine.ts: networks that run on the processor, with the kernels of the command
// line. The module is built for threads and runs with one as well; web/src/cpu-threads.ts gives it workers.

#include <pthread.h>

#include "cpu/network.h"
#include "engine/network.h"
#include "network.h"
#include "passes/passes.h"

using namespace gyrus;

// The caller's: told the fraction of a step that has begun, some 20 times a second; answers 1 to stop.
extern "C" __attribute__((import_module("gyrus"), import_name("tick"))) int gyrus_tick(double fraction);

// Of the C library: what its own start of a thread does for a worker that is to be one.
extern "C" void __set_thread_state(pthread_t self, int is_main, int is_runtime, int can_block);
extern "C" void* emscripten_tls_init();

namespace {

struct CpuRun {
  cpu::Network network;
  ProgramPlan ports;  // without a plan
  std::map<std::string, std::vector<std::byte>> given;
  size_t next = 0;
  double done = 0;
  CpuRun(Graph graph, const cpu::NetworkOptions& options) : network(std::move(graph), options) {}
};

std::unique_ptr<cpu::ThreadPool>& pool() {
  static std::unique_ptr<cpu::ThreadPool> threads;
  return threads;
}

// How long a step takes beside others: roughly, for progress.
double weight_of(const cpu::StepFacts& step) { return step.flops / 10 + step.bytes; }

double total_of(const cpu::Network& network) {
  double sum = 0;
  for (const cpu::StepFacts& step : network.steps()) sum += weight_of(step);
  return sum;
}

// Share of the work in steps that have no kernel: those take a thousand times as long as others.
double generic_share(const cpu::Network& network) {
  double sum = 0, generic = 0;
  for (const cpu::StepFacts& step : network.steps()) {
    sum += weight_of(step);
    if (step.kernel.rfind("generic ", 0) == 0) generic += weight_of(step);
  }
  return sum > 0 ? generic / sum : 0;
}

CpuRun* opened(const Graph& given, bool check_finite, bool halves) {
  if (!given.states().empty() || !given.arguments().empty())
    fail(ErrorCode::Unsupported, "cpu", "networks with states or arguments run on a device alone in pages");
  cpu::NetworkOptions options;
  options.check_finite = check_finite;
  Graph whole;
  ProgramPlan ports = split_ports(given, whole);
  const Graph plain = optimize_plain(whole);
  auto run = std::make_unique<CpuRun>(halves ? store_halves(plain) : plain, options);
  run->ports = std::move(ports);
  answer.text = dump({{"flops", run->network.flops()},
                      {"bytes", run->network.bytes() + run->network.constant_bytes()},
                      {"steps", run->network.steps().size()},
                      {"generic", generic_share(run->network)},
                      {"inputs", ports_json(given, given.inputs())},
                      {"outputs", ports_json(given, given.outputs())},
                      {"captures", ports_json(given, given.captures())}});
  return run.release();
}

// The value of a result in the network's graph.
const Port& result_of(const Graph& graph, const std::string& name) {
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports)
      if (port.name == name) return port;
  fail(ErrorCode::InvalidInput, name, "is no result of the network");
}

}  // namespace

// ---- threads ----

// Before any run: threads of loops, the calling one among them. Each other one asks for a worker, which must be ready.
// Answers with how many there are.
GYRUS_EXPORT int gyrus_threads_start(int count) {
  return guarded([&] {
    if (!pool()) pool() = std::make_unique<cpu::ThreadPool>(std::max(1, count));
    return pool()->threads();
  });
}

// Text: where the stack of a thread begins, growing down, and where it ends.
GYRUS_EXPORT int gyrus_thread_stack(pthread_t thread) {
  pthread_attr_t attributes;
  void* least = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(thread, &attributes) != 0) return 0;
  pthread_attr_getstack(&attributes, &least, &size);
  answer.text = dump({reinterpret_cast<uintptr_t>(least) + size, reinterpret_cast<uintptr_t>(least)});
  return 1;
}

// On a worker, with the stack set: the thread itself. Does not return while its pool lives.
GYRUS_EXPORT void gyrus_thread_run(pthread_t self, void* (*start)(void*), void* argument) {
  __set_thread_state(self, 0, 0, 1);
  emscripten_tls_init();
  start(argument);
}

// For the module's main thread, which its C library asks for once.
GYRUS_EXPORT void gyrus_thread_main(pthread_t self, int can_block) {
  __set_thread_state(self, !can_block, 1, can_block);
}

// ---- networks ----

// A model of layers on a volume. `request`: spatial, input, clamp, halves (how maps are stored). Text: flops, bytes,
// steps, ports.
GYRUS_EXPORT CpuRun* gyrus_cpu_volume(const ModelFiles* files, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    NetworkOptions options;
    options.input = json.at("input") == "u8" ? DType::U8 : DType::F32;
    options.clamp = json.at("clamp");
    return opened(network_graph(load_model(*files), json.at("spatial").get<Shape>(), options), false,
                  json.at("halves"));
  });
}

// `request`: shapes, captures, checkFinite. Text: likewise.
GYRUS_EXPORT CpuRun* gyrus_cpu_network(const OpenNetwork* network, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    return opened(graph_for(*network, json), json.at("checkFinite"), false);
  });
}

GYRUS_EXPORT void gyrus_cpu_close(CpuRun* run) { delete run; }

// Copies the bytes of an input.
GYRUS_EXPORT int gyrus_cpu_give(CpuRun* run, const char* name, const std::byte* bytes, size_t size) {
  return guarded([&] {
    const Graph& graph = run->network.graph();
    for (const Port& port : graph.inputs()) {
      if (port.name != name) continue;
      const uint64_t want = element_count(graph.type(port.value).shape) * byte_size(graph.type(port.value).dtype);
      if (size != want) fail(ErrorCode::InvalidInput, name, "has ", size, " bytes, expected ", want);
      std::vector<std::byte>& kept = run->given[name];
      kept.assign(bytes, bytes + size);
      run->network.bind(port.value, kept.data());
      return 1;
    }
    fail(ErrorCode::InvalidInput, name, "is no input of the network");
  });
}

// Begins a run; all inputs were given. Answers with the number of steps plus one.
GYRUS_EXPORT int gyrus_cpu_start(CpuRun* run) {
  return guarded([&] {
    run->network.allocate();
    run->next = 0;
    run->done = 0;
    return static_cast<int>(run->network.steps().size()) + 1;
  });
}

// The next step. Answers with the fraction of the run that is done; text: the step's label. 2: there was none left.
GYRUS_EXPORT double gyrus_cpu_step(CpuRun* run) {
  return guarded([&] {
    const auto& steps = run->network.steps();
    if (run->next >= steps.size()) return 2.0;
    const double total = total_of(run->network), own = weight_of(steps[run->next]);
    const cpu::LoopWatcher watcher([&](double fraction) {
      if (gyrus_tick(total > 0 ? (run->done + fraction * own) / total : 0) != 0)
        fail(ErrorCode::Cancelled, "cpu", "the run was stopped");
    });
    run->network.run_step(run->next, *pool());
    run->done += own;
    answer.text = steps[run->next++].label;
    return run->next == steps.size() ? 1.0 : std::max(1e-9, std::min(run->done / std::max(total, 1e-9), 1 - 1e-9));
  });
}

// Text: the label of the step that comes next.
GYRUS_EXPORT int gyrus_cpu_label(const CpuRun* run) {
  return guarded([&] {
    const auto& steps = run->network.steps();
    answer.text = steps.empty() ? "" : steps[std::min(run->next, steps.size() - 1)].label;
    return 1;
  });
}

// Text: dtype and shape as the network has them; data: the bytes of a result.
GYRUS_EXPORT int gyrus_cpu_result(const CpuRun* run, const char* name) {
  return guarded([&] {
    const Graph& graph = run->network.graph();
    const Port& port = result_of(graph, name);
    const TensorType& type = graph.type(port.value);
    const std::byte* bytes = run->network.data(port.value);
    answer.text = dump({{"dtype", to_string(type.dtype)}, {"shape", type.shape}});
    answer.data.assign(bytes, bytes + element_count(type.shape) * byte_size(type.dtype));
    return 1;
  });
}
