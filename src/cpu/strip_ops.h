#pragma once
#include <cstdint>
#include <string_view>

namespace gyrus::cpu {

// How elements lie in registers: halves as singles, bytes as words.
enum class Lane : uint8_t { F32, I32, U32 };

struct StripCall {
  const void* in[4] = {};  // `count` elements of 4 bytes each
  void* out = nullptr;     // may be one of them
  int64_t count = 0;
  const double* numbers = nullptr;  // of the row's attributes
};
using StripOp = void (*)(const StripCall&);

// The vector loop of an elementwise row over f32 that gives f32; null where there is none. `numbers` are those of its
// attributes.
StripOp find_strip_op(std::string_view row, const double* numbers);

// Σ (x - pivot) and Σ (x - pivot)² of a strip.
struct Moments {
  double sum = 0, squares = 0;
};
Moments moments(const float* x, int64_t count, float pivot);
// y = (x - mean) * scale + shift.
void normalize_strip(const float* x, float* y, int64_t count, float mean, float scale, float shift);
// best = max(best, x), and label = index where x is larger. `count` elements.
void pick_larger(const float* x, float* best, uint32_t* label, uint32_t index, int64_t count);
// Whether all are finite.
bool all_finite(const float* x, int64_t count);
float strip_max(const float* x, int64_t count);
double strip_sum(const float* x, int64_t count);
// y = exp(x - shift); returns the sum.
double exp_strip(const float* x, float* y, int64_t count, float shift);
void scale_strip(const float* x, float* y, int64_t count, float scale);
// The same, times gamma and plus beta of each element; both may be null.
void affine_strip(const float* x, float* y, int64_t count, float mean, float scale, const float* gamma,
                  const float* beta);
// Halves to singles, exactly, and singles to the nearest halves, to the even one of two.
void widen_halves(const uint16_t* x, float* y, int64_t count);
void narrow_singles(const float* x, uint16_t* y, int64_t count);
// The instruction set that was chosen, "AVX-512" …
const char* instruction_set();

}  // namespace gyrus::cpu
