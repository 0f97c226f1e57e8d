#include "fuzz/fuzz.h"
#include "import/model.h"

// model.json, a zero byte, model.pth.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gyrus::fuzz::TwoFiles input(data, size);
  return gyrus::fuzz::expect_only_errors([&] {
    gyrus::ModelFiles files{"fuzz", "fuzz", {{"model.json", input.first}, {"model.pth", input.second}}, ""};
    const gyrus::Model model = gyrus::load_model(files);
    model.build(gyrus::Shape(static_cast<size_t>(model.spatial_rank), 8));
  });
}
