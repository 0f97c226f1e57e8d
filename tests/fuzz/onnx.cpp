#include "fuzz/fuzz.h"
#include "import/onnx_import.h"

// A model; extents that it does not know are 2.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::onnx::ModelProto model = gyrus::onnx::read_model(gyrus::bytes_of(file), "fuzz");
    gyrus::onnx::ImportOptions options;
    options.subject = "fuzz";
    for (const gyrus::onnx::DeclaredInput& input : gyrus::onnx::declared_inputs(model)) {
      if (input.known) continue;
      gyrus::Shape shape = input.shape;
      for (int64_t& extent : shape) extent = extent < 0 ? 2 : extent;
      options.shapes[input.name] = shape;
    }
    gyrus::onnx::import_model(model, options);
  });
}
