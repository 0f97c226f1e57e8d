#include "import/onnx_ops.h"

namespace gyrus::onnx {

const OpTable& microsoft_ops() {
  static const OpTable table;
  return table;
}

}  // namespace gyrus::onnx
