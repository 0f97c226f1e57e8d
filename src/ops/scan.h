#pragma once
#include "graph/op.h"

// Running results along an axis.

namespace gyrus {

// Sums, products and largest of all elements up to each along `axis`; exclusive = 1: without the element itself;
// reverse = 1: from the end. Numbers; exclusive largest ones are of f32 and start from its lowest. A kernel
// cuts lines into parts; without it they become log2(extent) shifted sums.
extern const OpDef kCumsum;
extern const OpDef kCumprod;
extern const OpDef kCummax;
// h[t] = a[t] h[t-1] + b[t] along `axis`, all h; reverse = 1: h[t] = a[t] h[t+1] + b[t]. a, b f32 of one shape; start
// [the same with 1 at the axis] is what h was before, 0 where absent.
extern const OpDef kLinearScan;

// What a scan combines.
enum class ScanKind : uint8_t { Sum, Product, Largest, Linear };
ScanKind scan_kind(const Node& node);
// What a scan of that kind and type starts from; that of a linear one is 0.
double scan_start(ScanKind kind, DType dtype);

}  // namespace gyrus
