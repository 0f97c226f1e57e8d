#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "conformance/runtime_plans.h"
#include "core/error.h"

namespace gyrus {
namespace {

using namespace gyrus::testing;
using ::testing::HasSubstr;

TEST(RuntimeDevice, ListsAdaptersBestFirst) {
  const std::vector<AdapterInfo> adapters = list_adapters();
  ASSERT_FALSE(adapters.empty()) << "no GPU adapter: install a Vulkan driver";
  for (size_t i = 0; i < adapters.size(); ++i) {
    EXPECT_EQ(adapters[i].index, i);
    EXPECT_NE(adapters[i].backend, "Null");
    EXPECT_FALSE(adapters[i].name.empty());
    EXPECT_FALSE(adapters[i].driver.empty());
    EXPECT_EQ(intersect(adapters[i].limits, default_limits()), default_limits());
    if (i > 0) {
      EXPECT_GE(adapters[i].type, adapters[i - 1].type);
    }
    if (adapters[i].backend == "Vulkan") {
      ASSERT_TRUE(adapters[i].memory_bytes);
      EXPECT_GT(*adapters[i].memory_bytes, 64u << 20);
    }
  }
}

TEST(RuntimeDevice, ChoosesByIndexAndName) {
  const AdapterInfo best = choose_adapter("webgpu");
  EXPECT_EQ(choose_adapter(std::to_string(best.index)).name, best.name);
  std::string part = best.name.substr(0, 4);
  for (char& c : part) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(choose_adapter(part).name, best.name);
  EXPECT_THAT(error_of([] { choose_adapter("99"); }).what(), HasSubstr(best.name));
  const Error error = error_of([] { choose_adapter("no such adapter"); });
  EXPECT_EQ(error.code(), ErrorCode::Device);
}

TEST(RuntimeDevice, GrantsTheDefaultsUnlessMoreIsAsked) {
  const Device device = open_device();
  Limits granted = device.limits();
  EXPECT_EQ(granted, default_limits()) << "more was requested than needed";
  EXPECT_EQ(device.features(), Features{});
}

TEST(RuntimeDevice, GrantsExactlyWhatIsAsked) {
  const AdapterInfo adapter = choose_adapter("webgpu");
  DeviceOptions options;
  options.limits.max_buffer_size = 300u << 20;
  ASSERT_GE(adapter.limits.max_buffer_size, options.limits.max_buffer_size);
  options.limits.max_compute_invocations_per_workgroup = adapter.limits.max_compute_invocations_per_workgroup;
  options.limits.max_compute_workgroup_size_x = adapter.limits.max_compute_workgroup_size_x;
  EXPECT_EQ(open_device(options).limits(), options.limits);
}

TEST(RuntimeDevice, TinyNeedsAreGrantedAsDefaults) {
  DeviceOptions options;
  options.limits = tiny_limits();
  EXPECT_EQ(open_device(options).limits(), default_limits());
}

TEST(RuntimeDevice, RefusesWhatTheAdapterLacks) {
  const AdapterInfo adapter = choose_adapter("webgpu");
  DeviceOptions options;
  options.limits.max_storage_buffer_binding_size = adapter.limits.max_storage_buffer_binding_size + 4;
  const Error error = error_of([&] { open_device(options); });
  EXPECT_EQ(error.code(), ErrorCode::OverLimits);
  EXPECT_THAT(error.what(), HasSubstr("maxStorageBufferBindingSize"));
  EXPECT_THAT(error.what(), HasSubstr(adapter.name));
}

TEST(RuntimeDevice, PretendedDefaultLimitsAreEnforced) {
  // Over the default buffer size, though the adapter itself may have more.
  Plan plan = chain_plan();
  plan.buffers.push_back({"large", (256u << 20) + 4, BufferKind::Storage, 0});
  const Device device = open_device();
  const Error error = error_of([&] { Executor(device, plan); });
  EXPECT_EQ(error.code(), ErrorCode::OverLimits);
  EXPECT_THAT(error.what(), HasSubstr("large"));
}

TEST(RuntimeDevice, PlanOverTheMemorySaysWhatToTry) {
  const AdapterInfo adapter = choose_adapter("webgpu");
  if (!adapter.memory_bytes) GTEST_SKIP() << "the driver does not tell its memory";
  Plan plan = chain_plan();
  for (uint64_t sum = 0; sum <= *adapter.memory_bytes; sum += 256u << 20)
    plan.buffers.push_back({"large", 256u << 20, BufferKind::Storage, 0});
  const Error error = error_of([&] { Executor(test_device(), plan); });
  EXPECT_EQ(error.code(), ErrorCode::OverLimits);
  EXPECT_THAT(error.hints(), ::testing::Contains(Hint::HalfPrecision));
  EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("--")));
  EXPECT_THAT(error.what(), HasSubstr("MiB"));
}

TEST(RuntimeDevice, RefusedAllocationIsNamed) {
  for (uint64_t refused : {0u, 3u, 6u}) {
    DeviceOptions options = test_options();
    options.fail_allocation_at = refused;
    const Device device = open_device(options);
    const Plan plan = chain_plan();
    const Error error = error_of([&] { Executor(device, plan); });
    EXPECT_EQ(error.code(), ErrorCode::OverLimits);
    EXPECT_THAT(error.what(), HasSubstr(cat("'", plan.buffers[refused].label, "'")));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(plan.buffers[refused].size)));
    EXPECT_THAT(error.hints(), ::testing::Contains(Hint::HalfPrecision));
    // The device is as good as before.
    Executor executor(device, plan);
    EXPECT_EQ(executor.run({{"x", ramp(1000)}}).outputs.at("y").as<float>()[1], 8.0f);
  }
}

TEST(RuntimeDevice, RefusedStagingIsAnErrorToo) {
  DeviceOptions options = test_options();
  const Plan plan = chain_plan();
  const bool timestamps = options.features.timestamp_query;
  options.fail_allocation_at = plan.buffers.size() + (timestamps ? 1 : 0);  // the first readback's staging
  const Device device = open_device(options);
  Executor executor(device, plan);
  const Error error = error_of([&] { executor.run({{"x", ramp(1000)}}); });
  EXPECT_EQ(error.code(), ErrorCode::OverLimits);
  EXPECT_THAT(error.what(), HasSubstr("staging"));
  EXPECT_EQ(executor.run({{"x", ramp(1000)}}).outputs.at("y").as<float>()[1], 8.0f);
}

TEST(RuntimeDevice, LostInARunThenReopened) {
  {
    Device device = open_device(test_options());
    ExecutorOptions short_submissions;
    short_submissions.submission_seconds = 1e-9;
    Executor executor(device, slow_plan(8), short_submissions);
    RunOptions options;
    options.progress = [&](double, const std::string& label) {
      if (label == "slow 2") device.lose_for_test();
      return true;
    };
    const Error error = error_of([&] { executor.run({{"data", ramp(64 * 64)}}, options); });
    EXPECT_EQ(error.code(), ErrorCode::Device);
    EXPECT_THAT(error.what(), HasSubstr("'slow 3'"));
    EXPECT_THAT(error.what(), HasSubstr("lost for a test"));
    EXPECT_TRUE(device.lost());
    EXPECT_EQ(error_of([&] { executor.run({{"data", ramp(64 * 64)}}); }).code(), ErrorCode::Device);
    EXPECT_EQ(error_of([&] { Executor(device, chain_plan()); }).code(), ErrorCode::Device);
    EXPECT_EQ(error_of([&] { device.check(); }).code(), ErrorCode::Device);
    // A new one opens beside the lost one.
    Executor again(open_device(test_options()), chain_plan());
    EXPECT_EQ(again.run({{"x", ramp(1000)}}).outputs.at("y").as<float>()[1], 8.0f);
  }
  Executor later(open_device(test_options()), chain_plan());
  EXPECT_EQ(later.run({{"x", ramp(1000)}}).outputs.at("y").as<float>()[1], 8.0f);
}

TEST(RuntimeDevice, NoDriverIsAnErrorNotTheNullBackend) {
  device_slot().reset();
  release_adapters();
  const char* const kVariables[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"};
  std::map<std::string, std::optional<std::string>> before;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    before[name] = value ? std::optional<std::string>(value) : std::nullopt;
    setenv(name, "/nonexistent/driver.json", 1);
  }
  ASSERT_EQ(list_adapters().size(), 1u);  // the CPU needs no driver
  EXPECT_EQ(list_adapters()[0].type, AdapterType::Cpu);
  const Error error = error_of([] { open_device(); });
  EXPECT_EQ(error.code(), ErrorCode::Device);
  EXPECT_THAT(error.what(), HasSubstr("no GPU adapter found"));
  EXPECT_THAT(error.what(), HasSubstr("mesa-vulkan-drivers"));
  for (const auto& [name, value] : before) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }
  release_adapters();
  EXPECT_FALSE(list_adapters().empty());
}

TEST(RuntimeDevice, NothingLeaks) {
  device_slot().reset();
  release_adapters();
  const auto run_all = [] {
    Device device = open_device(test_options());
    Executor executor(device, chain_plan());
    RunOptions options;
    options.profile = device.features().timestamp_query;
    executor.run({{"x", ramp(1000)}}, options);
    EXPECT_GT(live_objects().at("Buffer"), 7);
    Plan broken = chain_plan();
    broken.kernels[0].wgsl = "nonsense";
    EXPECT_THROW(Executor(device, broken), Error);
    device.lose_for_test();
    EXPECT_THROW(executor.run({{"x", ramp(1000)}}), Error);
  };
  run_all();
  release_adapters();
  for (const auto& [type, count] : live_objects()) EXPECT_EQ(count, 0) << type;
}

}  // namespace
}  // namespace gyrus
