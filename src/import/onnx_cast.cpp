// ONNX's Cast: whole numbers keep their lower bits, floats are cut off towards 0.

#include "graph/graph.h"
#include "import/onnx_build.h"

namespace gyrus::onnx {
namespace {

std::string dtype_name(DType dtype) { return gyrus::to_string(dtype); }

// Integers that are stored in wider ones: how many bits they have, and whether one is a sign.
struct Width {
  int64_t bits = 0;  // 0: as wide as they are stored
  bool is_signed = false;
};

Width width_of(Elem elem) {
  switch (elem) {
    case Elem::U4: return {4, false};
    case Elem::I4: return {4, true};
    case Elem::U8: return {8, false};
    case Elem::I8: return {8, true};
    case Elem::U16: return {16, false};
    case Elem::I16: return {16, true};
    default: return {};
  }
}

// Whether all numbers of the one are numbers of the other.
bool holds(Width to, Width from) {
  if (from.bits == 0) return false;
  return from.is_signed == to.is_signed ? from.bits <= to.bits : !from.is_signed && from.bits < to.bits;
}

// The lowest bits of a whole number, the last of them taken as the sign or not.
Val wrapped(Val x, Width to) {
  const double half = static_cast<double>(int64_t{1} << (to.bits - 1));
  if (x.dtype() == DType::U8) x = as(op("cast", {x}, {{"to", dtype_name(DType::I32)}}), Elem::I32);
  if (x.dtype() == DType::U32) x = as(x, Elem::U32);
  if (x.dtype() == DType::I32) x = as(x, Elem::I32);
  if (to.is_signed) x = x + half;
  x = op("bit_and", {x, scalar(x, 2 * half - 1)});
  if (to.is_signed && x.dtype() == DType::U32) x = as(op("cast", {x}, {{"to", dtype_name(DType::I32)}}), Elem::I32);
  return to.is_signed ? x - half : x;
}

constexpr double kSign = 2147483648.0;  // the highest of 32 bits

// As wrapped, of constants whose numbers are wider than what devices have.
Val low_word(Val x) {
  if (x.dtype() != DType::I64) return x;
  if (!x.is_constant()) return as(op("cast", {x}, {{"to", dtype_name(DType::I32)}}), Elem::I32);
  const Val low = op("bit_and", {x, scalar(x, 2 * kSign - 1)});
  return as(op("cast", {low}, {{"to", dtype_name(DType::U32)}}), Elem::U32);
}

}  // namespace

Val with_sign(Val x) {
  const Val low =
      as(op("cast", {op("bit_and", {x, scalar(x, kSign - 1)})}, {{"to", dtype_name(DType::I32)}}), Elem::I32);
  return op("where", {op("less", {x, scalar(x, kSign)}), low, low + -kSign});
}

Val without_sign(Val x) {
  const Val low =
      as(op("cast", {op("bit_and", {x, scalar(x, kSign - 1)})}, {{"to", dtype_name(DType::U32)}}), Elem::U32);
  return op("where", {op("less", {x, scalar(x, 0)}), low + kSign, low});
}

namespace {

// A single to the nearest number whose lower half of bits is 0, ties to the even one.
Val rounded_to_bf16(Val x) {
  const Val bits = as(op("to_bits", {x}), Elem::U32);
  const Val last = op("bit_and", {op("shift_right", {bits, scalar(bits, 16)}), scalar(bits, 1)});
  const Val high = op("bit_and", {bits + 32767.0 + last, scalar(bits, 4294901760.0)});
  return op("where", {op("isnan", {x}), x, as(op("from_bits", {high}), Elem::F32)});
}

}  // namespace

Val cast(Val x, Elem to) {
  const DType dtype = stored_as(to, "Cast");
  if (to == x.elem) return x;
  if (to == Elem::BF16) return as(rounded_to_bf16(cast(x, Elem::F32)), to);
  const Width width = width_of(to);
  // Floats that are too large for bytes become the largest.
  const bool wraps = x.dtype() != DType::Bool && width.bits != 0 && !(is_float(x) && to == Elem::U8);
  if (wraps && is_float(x)) x = as(op("cast", {x}, {{"to", dtype_name(DType::I32)}}), Elem::I32);
  if (wraps && !holds(width, width_of(x.elem))) x = wrapped(x, width);
  if (!wraps && is_integer(x) && (dtype == DType::I32 || dtype == DType::U32)) {
    x = low_word(x);
    if (x.dtype() == DType::U32 && dtype == DType::I32 && width_of(x.elem).bits == 0) x = with_sign(as(x, Elem::U32));
    if (x.dtype() == DType::I32 && dtype == DType::U32) x = without_sign(as(x, Elem::I32));
  }
  if (x.dtype() == dtype) return as(x, to);
  return as(op("cast", {x}, {{"to", dtype_name(dtype)}}), to);
}

}  // namespace gyrus::onnx
