#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_sampling_ops(OpTable&) {}

}  // namespace gyrus::onnx
