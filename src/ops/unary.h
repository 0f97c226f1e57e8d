#pragma once
#include "graph/op.h"

// Functions of one float; neg, abs and square also take i32.

namespace gyrus {

extern const OpDef kExp;
extern const OpDef kLog;
extern const OpDef kSqrt;
extern const OpDef kRsqrt;
extern const OpDef kNeg;
extern const OpDef kAbs;
extern const OpDef kSquare;

}  // namespace gyrus
