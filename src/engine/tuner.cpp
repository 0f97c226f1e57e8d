#include "engine/tuner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/limits.h"
#include "kernels/kernels.h"
#include "runtime/blob_cache.h"
#include "runtime/executor.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kWorkgroups[] = {64, 128, 256};
constexpr uint32_t kRegisters[] = {4, 8, 16, 32};
constexpr uint32_t kQuads[] = {1, 2, 4};
constexpr double kWorthIt = 0.98;  // of the time so far: less is noise

// Every output quad needs a register, and more than eight voxels a thread never pay.
bool makes_sense(const ConvTuning& t) { return t.registers >= t.quads && t.registers <= 8 * t.quads; }

// The base with one axis changed.
std::vector<ConvTuning> along_axis(const ConvTuning& base, int axis) {
  std::vector<ConvTuning> shapes;
  const auto add = [&](auto member, const auto& values) {
    for (auto value : values) {
      ConvTuning t = base;
      t.*member = value;
      if (makes_sense(t) && t != base) shapes.push_back(t);
    }
  };
  if (axis == 0) add(&ConvTuning::workgroup, kWorkgroups);
  if (axis == 1) add(&ConvTuning::registers, kRegisters);
  if (axis == 2) add(&ConvTuning::quads, kQuads);
  if (axis == 3) add(&ConvTuning::stage_weights, std::vector<bool>{false, true});
  return shapes;
}
constexpr int kAxes = 4;

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::map<std::string, Tensor> zeros(const Graph& graph) {
  std::map<std::string, Tensor> inputs;
  for (const Port& port : graph.inputs()) {
    const TensorType& type = graph.type(port.value);
    inputs.emplace(port.name, Tensor(type.dtype, type.shape));
  }
  return inputs;
}

// The fastest of a few runs, milliseconds of GPU time; nothing where the device cannot run this shape.
std::optional<double> time_of(const Device& device, const Graph& graph, const Target& target, const PlanOptions& plan,
                              const std::map<std::string, Tensor>& inputs, const TuneOptions& options) {
  RunOptions run;
  run.cancel = options.cancel;
  try {
    Executor executor(device, make_plan(graph, target, plan));
    double best = 0;
    for (int r = 0; r <= options.repeats; ++r) {  // the first warms up
      const double ms = executor.run(inputs, run).profile.gpu_seconds * 1e3;
      if (r == 1 || (r > 1 && ms < best)) best = ms;
    }
    return best;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::OverLimits) return std::nullopt;
    throw;
  }
}

fs::path file_of(const std::string& key) {
  const std::string folder = cache_folder("tuning");
  if (folder.empty()) return {};
  const uint64_t first = fnv1a(key);
  return fs::path(folder) / (hex(first) + hex(fnv1a(key, first)) + ".json");
}

nlohmann::json to_json(const ConvTuning& t) {
  return {
      {"workgroup", t.workgroup}, {"registers", t.registers}, {"quads", t.quads}, {"stage_weights", t.stage_weights}};
}

}  // namespace

std::vector<ConvTuning> tuning_candidates(const ConvTuning& base) {
  std::vector<ConvTuning> shapes;
  for (uint32_t workgroup : kWorkgroups)
    for (uint32_t registers : kRegisters)
      for (uint32_t quads : kQuads)
        for (bool staged : {false, true}) {
          ConvTuning t = base;
          t.workgroup = workgroup;
          t.registers = registers;
          t.quads = quads;
          t.stage_weights = staged;
          if (makes_sense(t)) shapes.push_back(t);
        }
  return shapes;
}

TuneResult tune(const Device& device, const Graph& graph, const Target& target, const PlanOptions& base,
                const TuneOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::map<std::string, Tensor> inputs = zeros(graph);
  TuneResult result;
  PlanOptions plan = base;
  const auto measure = [&](const ConvTuning& shape) {
    plan.conv = shape;
    const auto ms = time_of(device, graph, target, plan, inputs, options);
    ++result.tried;
    if (ms && options.observer) options.observer(shape, *ms);
    return ms;
  };
  result.best = base.conv;
  const auto base_ms = measure(base.conv);
  if (!base_ms) fail(ErrorCode::OverLimits, device.adapter().name, "cannot run the network in any shape");
  result.base_ms = result.best_ms = *base_ms;
  for (int axis = 0; axis < kAxes; ++axis)
    for (const ConvTuning& shape : along_axis(result.best, axis)) {
      if (spent() > options.budget_seconds) return result;
      const auto ms = measure(shape);
      if (!ms || *ms >= kWorthIt * result.best_ms) continue;
      result.best = shape;
      result.best_ms = *ms;
    }
  result.complete = true;
  return result;
}

std::string tuning_key(const std::string& device, const Graph& graph, const Limits& limits) {
  uint64_t kernels = kFnvStart;
  for (const EmbeddedKernel& kernel : embedded_kernels()) kernels = fnv1a(kernel.text, kernels);
  std::string text;
  visit_limits(limits, [&](const char*, const auto& limit) { text += cat(limit, " "); });
  return cat(device, "\ngyrus ", GYRUS_VERSION, " kernels ", hex(kernels), "\nnetwork ", hex(fnv1a(print(graph))),
             "\nlimits ", text);
}

std::optional<ConvTuning> kept_tuning(const std::string& key, const ConvTuning& base) {
  const fs::path file = file_of(key);
  if (file.empty()) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json root = nlohmann::json::parse(in, nullptr, false);
  if (!root.is_object() || root.value("key", nlohmann::json()) != key) return std::nullopt;
  const nlohmann::json wanted = root.value("tuning", nlohmann::json());
  for (const ConvTuning& t : tuning_candidates(base))
    if (to_json(t) == wanted) return t;
  return std::nullopt;
}

std::string keep_tuning(const std::string& key, const TuneResult& result) {
  const fs::path file = file_of(key);
  if (file.empty()) return {};
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  if (failed) fail(ErrorCode::Io, file.parent_path().string(), "cannot be made: ", failed.message());
  const nlohmann::json root = {{"key", key},
                               {"tuning", to_json(result.best)},
                               {"base_ms", result.base_ms},
                               {"best_ms", result.best_ms},
                               {"tried", result.tried}};
  write_file(file.string(), root.dump(1) + "\n");
  return file.string();
}

std::string to_string(const ConvTuning& t) {
  return cat("workgroup ", t.workgroup, ", ", t.registers, " registers, ", t.quads,
             t.quads == 1 ? " quad, " : " quads, ", t.stage_weights ? "staged" : "direct");
}

}  // namespace gyrus
