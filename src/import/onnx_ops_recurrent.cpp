#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_recurrent_ops(OpTable&) {}

}  // namespace gyrus::onnx
