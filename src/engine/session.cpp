#include "engine/session.h"

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "cpu/network.h"
#include "engine/tuner.h"

namespace gyrus {
namespace {

// More of each limit: what both need.
Limits both(Limits a, const Limits& b) {
  visit_limits_of([](const char* name, auto& to, const auto& from) { to = asks_more(name, from, to) ? from : to; }, a,
                  b);
  return a;
}

// A run after those before it, as one.
void append(Profile& all, const Profile& next) {
  const auto offset = static_cast<uint64_t>(all.wall_seconds * 1e9);
  const bool first = all.submissions == 0;
  if (first) all.gpu_begin_ns = next.gpu_begin_ns;
  for (StageTime stage : next.stages) {
    stage.begin_ns += offset;
    stage.end_ns += offset;
    all.stages.push_back(std::move(stage));
  }
  for (StepTime step : next.steps) {
    step.begin_ns += offset + next.gpu_begin_ns - all.gpu_begin_ns;
    step.end_ns += offset + next.gpu_begin_ns - all.gpu_begin_ns;
    all.steps.push_back(std::move(step));
  }
  all.gpu_seconds += next.gpu_seconds;
  all.wall_seconds += next.wall_seconds;
  all.gpu_timestamps = (first || all.gpu_timestamps) && next.gpu_timestamps;
  all.submissions += next.submissions;
  all.uploaded_bytes += next.uploaded_bytes;
  all.read_back_bytes += next.read_back_bytes;
}

Device device_for(const std::string& selector, const Compiled& compiled, int threads) {
  if (compiled.network) return open_best("cpu", threads);
  DeviceOptions wanted;
  wanted.selector = std::to_string(choose_adapter(selector).index);
  wanted.limits = compiled.plan.needs;
  if (compiled.windowed) wanted.limits = both(wanted.limits, compiled.windowed->finish.needs);
  wanted.features = compiled.plan.features;
  wanted.features.timestamp_query = choose_adapter(selector).features.timestamp_query;
  return open_device(wanted);
}

// The network with its kernels and memory.
Compiled prepare_for_cpu(const Model& model, const Shape& spatial, const NetworkOptions& network,
                         const CompileTarget& target, bool halves) {
  Compiled out;
  std::optional<WindowGraphs> graphs;
  if (model.onnx) graphs = window_graphs(model, spatial, network.output);
  out.before = graphs ? std::move(graphs->window) : network_graph(model, spatial, network);
  out.after = optimize_plain(out.before);
  if (halves) out.after = store_halves(out.after);
  cpu::NetworkOptions options;
  options.check_finite = target.tuning.check_finite;
  out.network = std::make_shared<cpu::Network>(out.after, options);
  out.plan = describe(*out.network);
  if (graphs && graphs->finish) {
    out.finish_network = std::make_shared<cpu::Network>(optimize_plain(*graphs->finish), options);
    out.windowed = {describe(*out.finish_network), std::move(graphs->starts)};
  }
  out.decision.plan.halves = halves;
  return out;
}

}  // namespace

CompileTarget target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits) {
  CompileTarget target{static_cast<const Target&>(adapter), adapter.name, {}, std::nullopt};
  if (adapter.memory_bytes) target.memory = MemoryBudget{*adapter.memory_bytes};
  target.device = cat(adapter.name, ", ", adapter.driver, ", ", adapter.backend,
                      adapter.features.subgroup_matrix ? ", matrix units" : "");
  target.kept = [](const CompileTarget& t, const Graph& graph) {
    return kept_tuning(tuning_key(t.device, graph, t.limits), t.tuning.conv);
  };
  target.cpu = adapter.type == AdapterType::Cpu;
  if (adapter.type == AdapterType::Software) target.tuning = software_options();
  if (limits) target.limits = intersect(*limits, adapter.limits);
  return target;
}

CompileTarget target_of(const SessionOptions& options) {
  CompileTarget target = target_of(choose_adapter(options.device), options.limits);
  target.tuning.matrix = options.matrix;
  if (options.memory_bytes) target.memory = MemoryBudget{*options.memory_bytes};
  return target;
}

Compiled compile_for_cpu(const Model& model, const Shape& spatial, const NetworkOptions& network,
                         const CompileTarget& target, PrecisionChoice precision) {
  Compiled made = prepare_for_cpu(model, spatial, network, target, precision == PrecisionChoice::F16);
  const auto fits = [&] { return !target.memory || made.peak_bytes() <= target.memory->bytes; };
  if (fits()) return made;
  const auto left = [&] { return cat("on the CPU, but ", bytes_text(target.memory->bytes), " are left"); };
  if (precision == PrecisionChoice::Auto) {
    const std::string why = cat(model.name, " needs ", bytes_text(made.peak_bytes()), " in f32 ", left());
    made = prepare_for_cpu(model, spatial, network, target, true);
    made.decision.why = why;
    made.decision.notice = cat("storing feature maps in f16: ", why);
    if (fits()) return made;
  }
  std::vector<Hint> hints = {Hint::SmallerVolume, Hint::SmallerModel};
  if (!made.decision.plan.halves) hints.insert(hints.begin(), Hint::HalfPrecision);
  fail(ErrorCode::OverLimits, hints, model.name, "needs ", bytes_text(made.peak_bytes()), " of memory for ",
       extents_text(spatial), " voxels in ", made.plan.precision, " ", left());
}

Session::Session(const std::string& device, Compiled compiled, int threads)
    : decision_(std::move(compiled.decision)),
      peak_bytes_(compiled.peak_bytes()),
      flops_(compiled.flops()),
      device_(device_for(device, compiled, threads)),
      memory_(device_),
      executor_(compiled.network ? Executor(device_, compiled.network, memory_)
                                 : Executor(device_, std::move(compiled.plan), memory_)) {
  if (!compiled.windowed) return;
  starts_ = std::move(compiled.windowed->starts);
  if (compiled.finish_network)
    finish_.emplace(device_, compiled.finish_network, memory_);
  else
    finish_.emplace(device_, std::move(compiled.windowed->finish), memory_);
}

uint64_t Session::allocated_bytes() const {
  return executor_.allocated_bytes() + (finish_ ? finish_->allocated_bytes() + memory_.bytes() : 0);
}

RunResult Session::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  RunResult result = finish_ ? run_windows(inputs.at("image"), options) : executor_.run(inputs, options);
  for (const auto& [name, tensor] : result.outputs) refuse_nonfinite(name, tensor);
  return result;
}

RunResult Session::run_windows(const Tensor& image, const RunOptions& options) {
  memory_.reset({"scores"});
  memory_.write("image", image);
  Profile all;
  RunOptions one = options;
  for (size_t i = 0; i < starts_.size(); ++i) {
    const auto [a, b, c] = starts_[i];
    one.arguments = {{"at0", static_cast<double>(a)}, {"at1", static_cast<double>(b)}, {"at2", static_cast<double>(c)}};
    if (options.progress)
      one.progress = [&](double fraction, const std::string& label) {
        return options.progress((static_cast<double>(i) + fraction) / static_cast<double>(starts_.size()), label);
      };
    append(all, executor_.run({}, one).profile);
  }
  one.arguments.clear();
  one.progress = {};
  RunResult result = finish_->run({}, one);
  append(all, result.profile);
  result.profile = std::move(all);
  return result;
}

}  // namespace gyrus
