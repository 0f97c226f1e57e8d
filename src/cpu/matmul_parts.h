#pragma once
#include "cpu/matmul.h"

// The inside of a MatmulPlan, shared by what makes it (matmul.cpp) and what runs it (matmul_kernels.cpp), which is
// compiled once for each instruction set.

namespace gyrus::cpu {

struct MatmulCall {
  const float *a = nullptr, *b = nullptr, *bias = nullptr;
  float* out = nullptr;
  const MatmulEpilogue* epilogue = nullptr;
};

// What an instruction set offers.
struct MatmulTarget {
  int64_t panel = 1;  // columns of b that are multiplied at a time
  void (*item)(const MatmulParts&, const MatmulCall&, int64_t item) = nullptr;
};
MatmulTarget matmul_target();

constexpr int64_t kMatmulDepth = 512;  // rows of b that are multiplied at a time: a panel of them stays in the cache
constexpr int64_t kMatmulRows = 6;     // rows of the result in registers

struct MatmulParts {
  MatmulShape shape;
  MatmulTarget target;
  int64_t panels = 0;     // of a matrix
  int64_t rows = 0;       // of an item, at most
  int64_t row_parts = 0;  // items along M
  bool in_place = false;  // few rows: b is read where it lies
  std::vector<float> b;   // where it is constant, [matrix][panel][K][columns], the last panel filled with zeros
};

// Panel of b of `columns` columns from `column` on, rows begin to end, into [row][panel]; zeros behind.
void pack_panel(const MatmulShape& shape, const float* b, int64_t column, int64_t panel, int64_t begin, int64_t end,
                float* to);

}  // namespace gyrus::cpu
