#include <gyrus/gyrus.h>

#include <iostream>

int main() try {
  using namespace gyrus;
  const Device device = open_gpu();
  Memory memory(device);  // holds the weights, once, for both programs
  Graph training;         // a step of descent on the mean square of x·w - y
  const Value w = training.parameter("w", Tensor::from_floats({2, 1}, {0, 0}));
  const Value x = training.input("x", DType::F32, {4, 2}), y = training.input("y", DType::F32, {4, 1});
  const Value error = matmul(x, w) - y;
  training.update(w, w - 0.1 * matmul(x, error, {.transpose_a = true}));
  training.output("loss", reduce_mean(square(error)));
  Graph use;
  const Value v = use.parameter("w", Tensor(DType::F32, {2, 1}));
  use.output("y", matmul(use.input("x", DType::F32, {1, 2}), v));
  Program step(device, training, memory), predict(device, use, memory);
  const Tensor xs = Tensor::from_floats({4, 2}, {1, 0, 0, 1, 1, 1, 2, 1}),
               ys = Tensor::from_floats({4, 1}, {3, -1, 2, 5});
  for (int i = 0; i < 100; ++i) step.run({{"x", xs}, {"y", ys}});
  const Tensor five = predict.run({{"x", Tensor::from_floats({1, 2}, {2, 1})}}).outputs.at("y");  // a batch of any size
  std::cout << "3 * 2 - 1 = " << get(five, 0) << " on " << device.adapter().name << "\n";
} catch (const gyrus::Error& error) {
  return std::cerr << error.what() << "\n", 1;
}
