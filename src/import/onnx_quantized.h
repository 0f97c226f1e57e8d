#pragma once
#include "import/onnx_build.h"

// Quantised tensors: a number is (q - zero) · scale.

namespace gyrus::onnx {

// The numbers, as f32; without a zero point it is 0. Scale and zero point are scalars or broadcast.
Val dequantized(Val x, Val scale, Val zero);
// The nearest q of the zero point's type, of uint8 where there is none; ties to even, what is beyond its range at its
// ends.
Val quantized(Val y, Val scale, Val zero);

// x minus its zero point, as f32. `shape` is that of a zero point with one number for each row or column.
Val centred(Val x, Val zero, const Shape& shape);
// a · b of whole numbers, as i32.
Val integer_matmul(Val a, Val b);

// x as bytes over its own range, and the scale and zero point of that.
struct Bytewise {
  Val q, scale, zero;
};
Bytewise quantized_by_range(Val x);

}  // namespace gyrus::onnx
