#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_resize_ops(OpTable&) {}

}  // namespace gyrus::onnx
