#pragma once
#include "graph/op.h"

// How close results on a device must be to the reference: for the table of ops, and for `verify`.

namespace gyrus::reference {

// f32 sums of some thousand products of numbers near 1 lose about 1e-7 of their size: a squared relative error of 1e-14
// with room for a factor of 30 in the error.
inline constexpr double kF32Nmse = 1e-11;
// Halves keep 11 bits: each stored map adds a squared relative error of about (2^-12)^2 = 6e-8.
inline constexpr double kF16Nmse = 2e-6;

// No single element may be further off than this share of the largest: it would be wrong, not rounded, and drown in the
// sum of squares over half a million others.
inline constexpr double kF32Largest = 1e-5;
inline constexpr double kF16Largest = 1e-2;

// What share of the integers that are made of floats (labels) may differ: where two candidates are within rounding.
inline constexpr double kF32Different = 0.0005;
inline constexpr double kF16Different = 0.01;

struct Difference {
  double nmse = 0;     // sum of squared differences over sum of squares
  double largest = 0;  // difference over the largest magnitude
};

// Infinities and NaN must be equal in both.
Difference difference(const Tensor& got, const RefTensor& want);

}  // namespace gyrus::reference
