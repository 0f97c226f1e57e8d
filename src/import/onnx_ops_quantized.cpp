#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_quantized_ops(OpTable&) {}

}  // namespace gyrus::onnx
