// The suite of tests/plans, which the TypeScript executor passes too; its README says what the files hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "conformance/runtime_plans.h"
#include "core/tensor.h"
#include "plan/check.h"

namespace gyrus::testing {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  return text == "nan" ? NAN : text == "inf" ? INFINITY : -INFINITY;
}

Tensor tensor_of(DType dtype, Shape shape, const Json& values) {
  Tensor tensor(dtype, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(tensor.size()), values.size());
  for (size_t i = 0; i < values.size(); ++i) set(tensor, static_cast<int64_t>(i), number(values[i]));
  return tensor;
}

Tensor tensor_of(const Json& json, DType dtype, const Shape& shape) {
  if (json.is_array()) {
    // Lists that do not fit the shape are there to be refused.
    const bool fits = static_cast<size_t>(element_count(shape)) == json.size();
    return tensor_of(dtype, fits ? shape : Shape{static_cast<int64_t>(json.size())}, json);
  }
  return tensor_of(dtype_from_string(json.at("dtype")), json.at("shape").get<Shape>(), json.at("values"));
}

void expect_values(const Tensor& tensor, const Json& wanted) {
  ASSERT_EQ(static_cast<size_t>(tensor.size()), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double value = get(tensor, static_cast<int64_t>(i)), want = number(wanted[i]);
    EXPECT_TRUE(value == want || (std::isnan(value) && std::isnan(want))) << i << ": " << value << " for " << want;
  }
}

// A plan of the file, with the changes that `changed` asks for.
Plan make_plan(const Json& suite, const Json& changed) {
  Json plan = suite.at("plans").at(changed.at("plan").get<std::string>()).at("plan");
  const Json& data = suite.at("plans").at(changed.at("plan").get<std::string>()).at("data");
  std::vector<std::byte> weights(plan.at("weights").get<size_t>());
  for (const Json& entry : data) {
    const Tensor values = tensor_of(dtype_from_string(entry[1]), {static_cast<int64_t>(entry[2].size())}, entry[2]);
    std::copy(values.data.begin(), values.data.end(), weights.begin() + entry[0].get<int64_t>());
  }
  if (changed.contains("set"))
    for (const auto& [pointer, value] : changed["set"].items()) plan[Json::json_pointer(pointer)] = value;
  if (changed.contains("remove")) {
    for (const Json& pointer : changed["remove"]) {
      const Json::json_pointer at(pointer.get<std::string>());
      plan.at(at.parent_pointer()).erase(at.back());
    }
  }
  for (Json& kernel : plan.at("kernels")) {
    if (!kernel.contains("wgsl") || !kernel["wgsl"].is_array()) continue;
    std::string text;
    for (const Json& line : kernel["wgsl"]) text += (text.empty() ? "" : "\n") + line.get<std::string>();
    kernel["wgsl"] = text;
  }
  return parse_plan(plan.dump(), std::move(weights));
}

// Runs `body`, which must fail with the step's error where it has one.
template <class Body>
void expecting(const Json& step, Body&& body) {
  if (!step.contains("error")) {
    body();
    return;
  }
  const Error error = error_of(body);
  EXPECT_EQ(to_string(error.code()), step["error"][0].get<std::string>()) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(step["error"][1].get<std::string>()));
  if (step.contains("changed")) {
    EXPECT_EQ(error.state_changed(), step["changed"].get<bool>()) << error.what();
  }
}

// One list of steps, with memories and executors of its own.
class Play {
 public:
  Play(const Json& suite, Device device) : suite_(suite), device_(std::move(device)) {}

  void perform(const Json& step) {
    const auto text = [&](const char* key) { return step.at(key).get<std::string>(); };
    if (step.contains("load"))
      load(step);
    else if (step.contains("run"))
      run(step);
    else if (step.contains("read"))
      read(step);
    else if (step.contains("write"))
      write(step);
    else if (step.contains("reset") && step["reset"].is_array())
      memory(step).reset(step["reset"].get<Names>());
    else if (step.contains("reset"))
      memory(step).reset();
    else if (step.contains("save"))
      files_[text("save")] = memory(step).save();
    else if (step.contains("restore"))
      memory(step).load(files_.at(text("restore")));
    else if (step.contains("bytes"))
      EXPECT_EQ(memory(step).bytes(), step["bytes"].get<uint64_t>());
    else if (step.contains("names"))
      EXPECT_EQ(memory(step).names(), step["names"].get<Names>());
    else if (step.contains("undefined"))
      EXPECT_EQ(memory(step).undefined(), step["undefined"].get<Names>());
    else if (step.contains("free"))
      free(text("free"));
    else if (step.contains("lose"))
      device_.lose_for_test();
    else if (step.contains("memory"))
      memories_.emplace(text("memory"), Memory(device_));
    else
      ADD_FAILURE() << "unknown step " << step.dump();
  }

 private:
  using Names = std::vector<std::string>;

  Memory& memory(const Json& step) {
    const auto name = step.at("of").get<std::string>();
    const auto found = memories_.find(name);
    return found != memories_.end() ? found->second : executors_.at(name).memory();
  }

  static std::optional<StateRange> range_of(const Json& step) {
    if (!step.contains("range")) return {};
    return StateRange{step["range"][0].get<uint64_t>(), step["range"][1].get<uint64_t>()};
  }

  void load(const Json& step) {
    const Memory own(device_);
    const auto& shared = step.contains("memory") ? memories_.at(step["memory"].get<std::string>()) : own;
    executors_.erase(step.at("load").get<std::string>());
    executors_.emplace(step.at("load").get<std::string>(), Executor(device_, make_plan(suite_, step), shared));
  }

  void run(const Json& step) {
    Executor& executor = executors_.at(step.at("run").get<std::string>());
    std::map<std::string, Tensor> inputs;
    const Json none = Json::object();
    for (const auto& [name, json] : (step.contains("inputs") ? step["inputs"] : none).items()) {
      const PlanPort* port = nullptr;
      for (const PlanPort& p : executor.plan().inputs)
        if (p.name == name) port = &p;
      inputs[name] = tensor_of(json, port ? port->dtype : DType::F32, port ? port->shape : Shape{});
    }
    RunOptions options;
    for (const auto& [name, from] : (step.contains("kept") ? step["kept"] : none).items())
      options.device_inputs.emplace(name, kept_.at(from.get<std::string>()));
    for (const auto& [name, value] : (step.contains("arguments") ? step["arguments"] : none).items())
      options.arguments[name] = number(value);
    if (step.contains("outputs")) options.outputs = step["outputs"].get<Names>();
    if (step.contains("captures")) options.captures = step["captures"].get<Names>();
    if (step.contains("keep")) options.keep = step["keep"].get<Names>();
    const std::atomic<bool> cancel{step.contains("cancel")};
    options.cancel = &cancel;
    const RunResult result = executor.run(inputs, options);
    for (const auto& [name, tensor] : result.kept) kept_.insert_or_assign(name, tensor);
    if (step.contains("uploaded")) {
      EXPECT_EQ(result.profile.uploaded_bytes, step["uploaded"].get<uint64_t>());
    }
    if (!step.contains("gives")) return;
    EXPECT_EQ(result.outputs.size(), step["gives"].size());
    for (const auto& [name, values] : step["gives"].items()) {
      SCOPED_TRACE(name);
      ASSERT_EQ(result.outputs.count(name), 1u);
      expect_values(result.outputs.at(name), values);
    }
  }

  void read(const Json& step) {
    const Tensor found = memory(step).read(step.at("read").get<std::string>(), range_of(step));
    expect_values(found, step.at("gives"));
  }

  void write(const Json& step) {
    const auto name = step.at("write").get<std::string>();
    const StateInfo info = memory(step).has(name) ? memory(step).describe(name) : StateInfo{};
    const auto range = range_of(step);
    const Shape shape = range ? Shape{static_cast<int64_t>(range->count)} : info.shape;
    memory(step).write(name, tensor_of(step.at("value"), info.dtype, shape), range);
  }

  void free(const std::string& name) {
    if (!executors_.erase(name)) memories_.erase(name);
  }

  const Json& suite_;
  Device device_;
  std::map<std::string, Memory> memories_;
  std::map<std::string, Executor> executors_;
  std::map<std::string, std::vector<std::byte>> files_;
  std::map<std::string, DeviceTensor> kept_;
};

void play(const Json& suite, const Json& list) {
  const Json& steps = list.at("do");
  const bool loses = std::any_of(steps.begin(), steps.end(), [](const Json& step) { return step.contains("lose"); });
  DeviceOptions options;
  if (list.contains("refuse")) options.fail_allocation_at = list["refuse"].get<uint64_t>();
  const bool own = loses || list.contains("refuse");
  Play play(suite, own ? open_device(options) : test_device());
  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(cat("step ", i, " ", steps[i].dump().substr(0, 100)));
    expecting(steps[i], [&] { play.perform(steps[i]); });
    if (::testing::Test::HasFailure()) return;
  }
}

class RuntimeSuite : public ::testing::TestWithParam<std::string> {};

TEST_P(RuntimeSuite, Passes) {
  std::ifstream file(std::filesystem::path(GYRUS_SOURCE_DIR) / "tests/plans" / GetParam());
  const Json suite = Json::parse(file);
  for (const Json& read : suite.value("reads", Json::array())) {
    SCOPED_TRACE("reading: " + read.at("name").get<std::string>());
    expecting(read, [&] { make_plan(suite, read); });
  }
  for (const Json& limited : suite.value("checks", Json::array())) {
    SCOPED_TRACE("limits: " + limited.at("name").get<std::string>());
    const Plan plan = make_plan(suite, limited);
    Limits limits = plan.needs;
    visit_limits(limits, [&](const char* name, auto& value) {
      if (limited.contains("limits") && limited["limits"].contains(name)) limited["limits"][name].get_to(value);
    });
    expecting(limited, [&] { check(plan, limits); });
  }
  for (const Json& list : suite.value("runs", Json::array())) {
    SCOPED_TRACE("runs: " + list.at("name").get<std::string>());
    play(suite, list);
  }
}

std::vector<std::string> suite_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(GYRUS_SOURCE_DIR) / "tests/plans"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Plans, RuntimeSuite, ::testing::ValuesIn(suite_files()),
                         [](const auto& file) { return file.param.substr(0, file.param.find('.')); });

}  // namespace
}  // namespace gyrus::testing
