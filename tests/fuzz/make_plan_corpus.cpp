// Writes the seeds of fuzz_plan into the folder given: make_plan_corpus tests/fuzz/corpus/plan

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "unit/plan_samples.h"

namespace {

void write_seed(const std::filesystem::path& path, const gyrus::Plan& plan) {
  std::ofstream file(path, std::ios::binary);
  file << gyrus::to_json(plan) << '\0';
  file.write(reinterpret_cast<const char*>(plan.weights.data()), static_cast<std::streamsize>(plan.weights.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_plan_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  gyrus::Plan plan = gyrus::testing::sample_plan();
  write_seed(folder / "sample", plan);
  plan.steps.clear();
  plan.kernels.clear();
  write_seed(folder / "buffers_and_ports", plan);
  gyrus::Plan empty;
  empty.precision = "f32";
  write_seed(folder / "empty", empty);
  return 0;
}
