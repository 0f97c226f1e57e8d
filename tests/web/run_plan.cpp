// Runs a plan file with the native runtime, to compare other executors with: run_plan PLAN.json INPUTS OUTPUTS
//
// INPUTS holds the bytes of all inputs, OUTPUTS will hold those of all outputs, in the order of the plan.
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "runtime/executor.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

void run(const std::filesystem::path& plan_path, const std::filesystem::path& input_path,
         const std::filesystem::path& output_path) {
  const std::vector<std::byte> json = read_file(plan_path);
  const Plan plan = parse_plan(std::string(reinterpret_cast<const char*>(json.data()), json.size()),
                               read_file(std::filesystem::path(plan_path).replace_extension(".bin")));
  const std::vector<std::byte> given = read_file(input_path);
  std::map<std::string, Tensor> inputs;
  size_t at = 0;
  for (const PlanPort& port : plan.inputs) {
    Tensor tensor(port.dtype, port.shape);
    if (tensor.data.size() > given.size() - at) fail(ErrorCode::InvalidInput, input_path.string(), "is too short");
    std::memcpy(tensor.data.data(), given.data() + at, tensor.data.size());
    at += tensor.data.size();
    inputs[port.name] = std::move(tensor);
  }
  DeviceOptions options;
  options.limits = choose_adapter("webgpu").limits;
  const Device device = open_device(options);
  const RunResult result = Executor(device, plan).run(inputs);
  std::ofstream out(output_path, std::ios::binary);
  for (const PlanPort& port : plan.outputs) {
    const std::vector<std::byte>& data = result.outputs.at(port.name).data;
    out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
  out.close();
  if (!out) fail(ErrorCode::Io, output_path.string(), "cannot be written");
}

}  // namespace
}  // namespace gyrus::test

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: run_plan PLAN.json INPUTS OUTPUTS\n");
    return 2;
  }
  try {
    gyrus::test::run(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_plan: %s\n", error.what());
    return 1;
  }
}
