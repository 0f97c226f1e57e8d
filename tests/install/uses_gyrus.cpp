#include <gyrus/gyrus.h>

#include <cstdio>
#include <string>

// uses_gyrus MODEL: labels a ramp of 16³ voxels and prints the sum of the labels, then runs a network of its own;
// without a model, what gyrus knows.
int main(int argc, char** argv) try {
  std::printf("gyrus %s, %zu models by name\n", gyrus::version(), gyrus::list_models().size());
  if (argc < 2) return 0;
  gyrus::Segmenter segmenter(argv[1], {16, 16, 16});
  std::vector<uint8_t> voxels(16 * 16 * 16);
  for (size_t i = 0; i < voxels.size(); ++i) voxels[i] = static_cast<uint8_t>(i * 7 % 251);
  size_t sum = 0;
  for (const uint8_t label : segmenter.run(voxels)) sum += label;
  std::printf("labels sum to %zu\n", sum);
  gyrus::Graph graph;
  graph.output("y", gyrus::reduce_sum(graph.input("x", gyrus::DType::F32, {3}) * 2));
  gyrus::Program program(gyrus::open_gpu(), graph);
  const auto x = gyrus::Tensor::from_floats({4}, {1, 2, 3, 4});
  std::printf("%zu parameters\n", gyrus::with_parameters(graph).states().size());
  try {
    gyrus::describe_text_model(std::string(argv[1]) + "/model.json");
  } catch (const gyrus::Error& error) {
    std::printf("no language model: %s\n", error.what());
  }
  std::printf("twice the sum is %g\n", gyrus::get(program.run({{"x", x}}).outputs.at("y"), 0));
} catch (const gyrus::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
