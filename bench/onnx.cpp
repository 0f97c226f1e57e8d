// ONNX models with a test_data_set_0 beside them: the time of a run from host memory to host memory, least of a few,
// and the largest difference from the stored outputs relative to their largest value. A line of JSON for each.
//   onnx [--repeats N] [--device cpu [--threads N]] FOLDER…
#include <chrono>
#include <cmath>
#include <filesystem>

#include "common.h"
#include "core/files.h"
#include "gyrus/program.h"
#include "import/onnx_path.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

std::vector<Tensor> stored(const std::string& folder, const std::string& what) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = cat(folder, "/test_data_set_0/", what, "_", i, ".pb");
    if (!std::filesystem::exists(path)) return tensors;
    const std::vector<std::byte> bytes = read_file(path);
    tensors.push_back(onnx::to_tensor(onnx::read_tensor(bytes_of(bytes), path), path));
  }
}

double difference(const Tensor& found, const Tensor& wanted) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(get(wanted, i)));
    worst = std::max(worst, std::abs(get(found, i) - get(wanted, i)));
  }
  return largest > 0 ? worst / largest : worst;
}

nlohmann::json measure(const Device& device, const std::string& folder, int repeats) {
  const auto file = onnx::open_model(folder);
  if (!file) fail(ErrorCode::InvalidInput, folder, "holds no ONNX model");
  const std::vector<Tensor> given = stored(folder, "input"), wanted = stored(folder, "output");
  onnx::ImportOptions options;
  options.subject = file->path;
  options.external = file->external;
  const std::vector<onnx::DeclaredInput> declared = onnx::declared_inputs(file->model);
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    options.shapes[declared.at(i).name] = given[i].shape;
    inputs[declared[i].name] = given[i];
  }
  const onnx::Imported imported = onnx::import_model(file->model, options);
  Program program(device, imported.graph);
  double best = 0, error = 0;
  for (int i = 0; i <= repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const RunResult result = program.run(inputs);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0 && (best == 0 || ms < best)) best = ms;
    for (size_t o = 0; o < wanted.size(); ++o)
      error = std::max(error, difference(result.outputs.at(imported.outputs.at(o).name), wanted[o]));
  }
  return {{"model", std::filesystem::path(folder).filename().string()}, {"ms", best}, {"error", error}};
}

}  // namespace

int main(int argc, char** argv) try {
  int repeats = 5, threads = 0;
  std::string selector;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--repeats" && i + 1 < argc)
      repeats = std::atoi(argv[++i]);
    else if (std::string(argv[i]) == "--threads" && i + 1 < argc)
      threads = std::atoi(argv[++i]);
    else if (std::string(argv[i]) == "--device" && i + 1 < argc)
      selector = argv[++i];
    else
      folders.push_back(argv[i]);
  }
  if (folders.empty())
    fail(ErrorCode::InvalidInput, "bench", "usage: onnx [--repeats N] [--device cpu [--threads N]] FOLDER…");
  const Device device = selector.empty() ? bench::open_best() : gyrus::open_best(selector, threads);
  for (const std::string& folder : folders) {
    std::printf("%s\n", measure(device, folder, repeats).dump().c_str());
    std::fflush(stdout);
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "onnx: %s\n", error.what());
  return 1;
}
