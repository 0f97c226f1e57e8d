#include "import/onnx_ops.h"

namespace gyrus::onnx {

void add_attention_ops(OpTable&) {}

}  // namespace gyrus::onnx
