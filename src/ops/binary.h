#pragma once
#include "graph/op.h"

// Two operands with numpy broadcasting: both f32/f16 (mixed gives f32), both i32 or both u32. div and pow take floats
// only. Integer results that leave the range are undefined.

namespace gyrus {

extern const OpDef kAdd;
extern const OpDef kSub;
extern const OpDef kMul;
extern const OpDef kDiv;
extern const OpDef kMin;
extern const OpDef kMax;
extern const OpDef kPow;

}  // namespace gyrus
