#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "graph/graph.h"
#include "plan/planner.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "volume/io.h"

// What the benchmark programs share: a device, graphs with made-up weights, a report in JSON.

namespace gyrus::bench {

struct Arguments {
  std::string json;    // file to write
  bool quick = false;  // fewer and smaller cases
};

inline Arguments parse(int argc, char** argv, const char* usage) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc)
      a.json = argv[++i];
    else if (word == "--quick")
      a.quick = true;
    else
      fail(ErrorCode::InvalidInput, "bench", "usage: ", usage);
  }
  return a;
}

// The best adapter with all its limits and features.
inline Device open_best() {
  const AdapterInfo adapter = choose_adapter("");
  if (!adapter.features.timestamp_query)
    fail(ErrorCode::Device, adapter.name, "has no timestamps, which these benchmarks need");
  DeviceOptions options;
  options.limits = adapter.limits;
  options.features = adapter.features;
  return open_device(options);
}

inline bool is_software(const Device& device) { return device.adapter().type == AdapterType::Software; }

inline PlanOptions plan_options(const Device& device) {
  return is_software(device) ? software_options() : PlanOptions{};
}

inline nlohmann::json report_of(const Device& device) {
  nlohmann::json report = {{"device", device.adapter().name}, {"driver", device.adapter().driver}};
  report["results"] = nlohmann::json::array();
  return report;
}

// After every case, so that what is done survives whatever comes.
inline void save(const Arguments& a, const nlohmann::json& report) {
  if (!a.json.empty()) write_file(a.json, report.dump(1) + "\n");
}

// A constant of small numbers of both signs.
inline ValueId constant(Graph& graph, const Shape& shape, const std::string& name) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, 0.02 * static_cast<double>((i * 7919) % 13 - 6));
  return graph.add_constant(name, t);
}

inline ValueId conv(Graph& graph, ValueId x, int64_t in, int64_t out, int64_t kernel, int64_t dilation,
                    const std::string& label) {
  const int64_t pad = kernel / 2 * dilation;
  return graph.add(
      "conv",
      {x, constant(graph, {out, in, kernel, kernel, kernel}, label + ".w"), constant(graph, {out}, label + ".b")},
      {{"dilation", std::vector<int64_t>(3, dilation)}, {"pads", std::vector<int64_t>(6, pad)}}, label);
}

}  // namespace gyrus::bench
