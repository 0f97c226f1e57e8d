#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_signal_ops(OpTable&) {}

}  // namespace gyrus::onnx
