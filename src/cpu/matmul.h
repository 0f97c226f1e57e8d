#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/thread_pool.h"

// a [batch…,M,K] · b [batch…,K,N] + bias [N] or none → [batch…,M,N], f32, rows of the last axis. The same bits for any
// number of threads.

namespace gyrus::cpu {

struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;  // a is [K,M], b is [N,K]
  int64_t shares = 16;                            // parts that there should be for threads
  int64_t batch = 1;                              // matrices of the result
  // For each matrix of the result the index of the matrix of a and of b that make it; empty: its own index.
  std::vector<int64_t> a_of, b_of;
};

// A finished part of the result, still in the cache. May be changed in place. Value (i, j) lies at
// values[i * row_stride + j].
struct MatmulStrip {
  int64_t matrix = 0;
  int64_t row = 0, rows = 0;        // the first and how many
  int64_t column = 0, columns = 0;  // the first and how many
  float* values = nullptr;
  int64_t row_stride = 0;  // elements
};
using MatmulEpilogue = std::function<void(const MatmulStrip&)>;

struct MatmulParts;

class MatmulPlan {
 public:
  MatmulPlan();
  ~MatmulPlan();
  MatmulPlan(MatmulPlan&&) noexcept;
  MatmulPlan& operator=(MatmulPlan&&) noexcept;

  const MatmulShape& shape() const;
  int64_t bytes() const;  // of an arranged b

 private:
  friend MatmulPlan prepare_matmul(const MatmulShape&, const float*);
  friend void run_matmul(const MatmulPlan&, const float*, const float*, const float*, float*, ThreadPool&,
                         const MatmulEpilogue&);
  std::unique_ptr<MatmulParts> parts_;
};

// `constant_b`, where b is the same in every run and no larger than is worth a second copy, is arranged here once.
MatmulPlan prepare_matmul(const MatmulShape& shape, const float* constant_b = nullptr);

// `b` is not read where it was given to prepare_matmul. `bias` [N] may be null.
void run_matmul(const MatmulPlan& plan, const float* a, const float* b, const float* bias, float* out, ThreadPool& pool,
                const MatmulEpilogue& epilogue = {});

}  // namespace gyrus::cpu
