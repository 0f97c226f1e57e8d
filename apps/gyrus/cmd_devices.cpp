#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"

namespace gyrus::cli {
namespace {

std::vector<std::string> feature_names(const Features& features) {
  std::vector<std::string> names;
  if (features.shader_f16) names.emplace_back("shader-f16");
  if (features.subgroups) names.emplace_back("subgroups");
  if (features.subgroup_matrix) names.emplace_back("subgroup-matrix");
  if (features.timestamp_query) names.emplace_back("timestamp-query");
  return names;
}

std::string shape_text(const MatrixShape& shape) {
  return cat(shape.m, "x", shape.n, "x", shape.k, " ", to_string(shape.input), " to ", to_string(shape.result));
}

nlohmann::ordered_json to_json(const AdapterInfo& adapter) {
  nlohmann::ordered_json limits;
  visit_limits(adapter.limits, [&](const char* name, auto value) { limits[name] = value; });
  nlohmann::ordered_json out = {{"index", adapter.index},
                                {"name", adapter.name},
                                {"type", to_string(adapter.type)},
                                {"backend", adapter.backend},
                                {"driver", adapter.driver},
                                {"vendor", adapter.vendor},
                                {"features", feature_names(adapter.features)}};
  for (const MatrixShape& shape : adapter.matrices) out["matrices"].push_back(shape_text(shape));
  if (adapter.memory_bytes) out["memory"] = *adapter.memory_bytes;
  out["limits"] = limits;
  return out;
}

void print(const AdapterInfo& adapter) {
  std::printf("%u: %s\n   %s, %s, %s\n", adapter.index, adapter.name.c_str(), to_string(adapter.type),
              adapter.backend.c_str(), adapter.driver.c_str());
  if (adapter.memory_bytes) std::printf("   memory    %s\n", bytes_text(*adapter.memory_bytes).c_str());
  if (adapter.type == AdapterType::Cpu) return;
  std::string features;
  for (const std::string& name : feature_names(adapter.features)) features += (features.empty() ? "" : ", ") + name;
  std::printf("   features  %s\n", features.empty() ? "none" : features.c_str());
  for (size_t i = 0; i < adapter.matrices.size(); ++i)
    std::printf("   %-8s  %s\n", i == 0 ? "matrices" : "", shape_text(adapter.matrices[i]).c_str());
  std::printf("   limits\n");
  visit_limits(adapter.limits, [](const char* name, auto value) {
    std::printf("     %-36s %llu\n", name, static_cast<unsigned long long>(value));
  });
}

}  // namespace

void add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "List the GPUs that gyrus can use, and the CPU, best first");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] {
    const std::vector<AdapterInfo> adapters = find_adapters();
    if (adapters.empty()) choose_adapter("");  // says why there is none
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const AdapterInfo& adapter : adapters) {
      if (*json)
        all.push_back(to_json(adapter));
      else
        print(adapter);
    }
    if (*json) std::printf("%s\n", all.dump(2).c_str());
  });
}

}  // namespace gyrus::cli
