#pragma once
#include "import/onnx_ops.h"

namespace gyrus::onnx {

struct Normed {
  Val y, mean, inverse;  // the last two f32, with extents of 1
};
// Over all axes from `axis` on, statistics in f32; scale and bias may be absent.
Normed layer_norm(Val x, size_t axis, double eps, Val scale, Val bias);
Val rms_norm(Val x, size_t axis, double eps, Val scale);

}  // namespace gyrus::onnx
