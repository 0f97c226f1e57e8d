// Writes the op table as plans, for executors that are not C++: op_plans LIMITS [--each-once] [--op=NAME…] SETTING…
//
// LIMITS is the adapter's limits as JSON, SETTING the names of op_settings. --each-once leaves out plans that ask for
// nothing new of an executor, and takes the settings in turn. On standard output, for every case: one line of JSON,
// then `bytes` bytes that it points into by [offset, size]:
//   name, bytes, inputs: [{ name, dtype, shape, data }], want: [{ name, data }] as doubles,
//   settings: [{ name, plan, weights, bounds: { output: { nmse } | { different } } }]
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "op_cases.h"
#include "plan/check.h"
#include "reference/reference.h"
#include "support/op_bounds.h"

namespace gyrus::test {
namespace {

using Json = nlohmann::ordered_json;

Limits parse_limits(const char* text) {
  const Json json = Json::parse(text);
  Limits limits;
  visit_limits(limits, [&](const char* key, auto& value) { json.at(key).get_to(value); });
  return limits;
}

// The bytes that follow a line; every item starts at a multiple of 8.
class Blob {
 public:
  Json add(const void* data, size_t size) {
    bytes_.resize(round_up(bytes_.size(), 8));
    const size_t offset = bytes_.size();
    bytes_.resize(offset + size);
    if (size) std::memcpy(bytes_.data() + offset, data, size);
    return Json::array({offset, size});
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Json bounds(const OpCase& c, const OpSetting& setting, const Plan& plan) {
  Json all = Json::object();
  for (const PlanPort& port : plan.outputs) {
    if (is_float(port.dtype))
      all[port.name] = {{"nmse", most_nmse(c, setting, port.dtype)}};
    else
      all[port.name] = {{"different", most_different(c, setting, element_count(port.shape))}};
  }
  return all;
}

// What a plan asks of an executor: families of kernels, kinds of steps, types and cuts of ports.
std::set<std::string> traits(const Plan& plan) {
  std::set<std::string> out;
  for (const PlanKernel& kernel : plan.kernels) out.insert(kernel.name.substr(0, kernel.name.find(' ')));
  for (const Step& step : plan.steps) out.insert(cat("step ", step.index()));
  for (const auto* ports : {&plan.inputs, &plan.outputs})
    for (const PlanPort& port : *ports)
      out.insert(cat("port ", to_string(port.dtype), port.pieces.size() > 1 ? " cut" : ""));
  return out;
}

void write_case(const OpCase& c, const Graph& graph, const std::vector<OpSetting>& settings) {
  const auto inputs = case_inputs(c, 7);
  Blob blob;
  Json line = {
      {"name", c.name}, {"bytes", 0}, {"inputs", Json::array()}, {"want", Json::array()}, {"settings", Json::array()}};
  for (const auto& [name, tensor] : inputs)
    line["inputs"].push_back({{"name", name},
                              {"dtype", to_string(tensor.dtype)},
                              {"shape", tensor.shape},
                              {"data", blob.add(tensor.data.data(), tensor.data.size())}});
  for (const auto& [name, want] : reference::run(graph, inputs))
    line["want"].push_back({{"name", name}, {"data", blob.add(want.data.data(), want.data.size() * sizeof(double))}});
  for (const OpSetting& setting : settings) {
    const Plan plan = op_plan(c, graph, setting);
    check(plan, setting.limits);
    const std::string json = to_json(plan);
    line["settings"].push_back({{"name", setting.name},
                                {"plan", blob.add(json.data(), json.size())},
                                {"weights", blob.add(plan.weights.data(), plan.weights.size())},
                                {"bounds", bounds(c, setting, plan)}});
  }
  line["bytes"] = blob.bytes().size();
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fwrite(blob.bytes().data(), 1, blob.bytes().size(), stdout) != blob.bytes().size())
    fail(ErrorCode::Io, "op_plans", "standard output was closed");
}

int run(int argc, char** argv) {
  std::set<std::string> wanted(argv + 2, argv + argc);
  const bool each_once = wanted.erase("--each-once") > 0;
  std::set<std::string> ops;  // empty: all
  const std::string prefix = "--op=";
  for (const std::string& word : std::set<std::string>(wanted))
    if (word.compare(0, prefix.size(), prefix) == 0) {
      ops.insert(word.substr(prefix.size()));
      wanted.erase(word);
    }
  std::vector<OpSetting> settings;
  for (const OpSetting& setting : op_settings(parse_limits(argv[1])))
    if (wanted.count(setting.name)) settings.push_back(setting);
  if (settings.size() != wanted.size()) {
    std::fprintf(stderr, "op_plans: an unknown setting; the table of op_settings has the names\n");
    return 2;
  }
  std::set<std::string> seen;
  size_t written = 0;
  for (const OpCase& c : op_cases()) {
    if (!ops.empty() && ops.count(c.op) == 0) continue;
    const Graph graph = case_graph(c);
    std::vector<OpSetting> taken = settings;
    if (each_once) {
      taken = {settings[written % settings.size()]};
      const size_t before = seen.size();
      seen.merge(traits(op_plan(c, graph, taken[0])));
      if (seen.size() == before) continue;
    }
    write_case(c, graph, taken);
    ++written;
  }
  return 0;
}

}  // namespace
}  // namespace gyrus::test

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: op_plans LIMITS [--each-once] [--op=NAME...] SETTING...\n");
    return 2;
  }
  try {
    return gyrus::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "op_plans: %s\n", error.what());
    return 1;
  }
}
