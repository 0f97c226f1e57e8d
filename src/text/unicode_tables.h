#pragma once
#include <cstddef>
#include <cstdint>

// The tables of unicode_tables.cpp, which scripts/unicode_tables.py writes; unicode.h is what reads them.

namespace gyrus::unicode {

// The first code point of a run << 8, and its Category; in order, from 0.
extern const uint32_t kCategoryRuns[];
extern const size_t kCategoryRunCount;

// Every step-th code point from first to last has itself + delta as its small letter.
struct LowerRun {
  uint32_t first, last;
  int32_t step, delta;
};
extern const LowerRun kLowerRuns[];
extern const size_t kLowerRunCount;

// A code point | the number of its parts << 24, then its parts; in order.
extern const uint32_t kDecompositions[];
extern const size_t kDecompositionCount;

// The first code point of a run << 8, and its canonical combining class; in order, from 0.
extern const uint32_t kClassRuns[];
extern const size_t kClassRunCount;

// Two code points that are one together; in order.
struct Composition {
  uint32_t first, second, both;
};
extern const Composition kCompositions[];
extern const size_t kCompositionCount;

}  // namespace gyrus::unicode
