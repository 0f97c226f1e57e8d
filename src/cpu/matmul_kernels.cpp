// Products of matrices. An item is some rows of one panel of columns. The panel of b is laid out row behind row, in
// parts that stay in the second-level cache; a block of rows of the result stays in registers while it goes down the
// panel.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/matmul_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/conv_sums-inl.h"
#include "cpu/matmul_parts.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu::HWY_NAMESPACE {

struct Block {
  const float* a = nullptr;
  int64_t a_row = 0, a_next = 0;  // elements to the next row of the result, to the next factor
  const float* b = nullptr;
  int64_t b_next = 0;  // elements to the next row of b
  int64_t depth = 0;
  const float* start = nullptr;  // a row to begin with, or null: what is in the result
  float* out = nullptr;
  int64_t stride = 0;  // elements from row to row of the result
};

// R rows of V vectors.
template <int R, int V>
HWY_NOINLINE void multiply_block(const Block& block) {
  const Floats d;
  const int64_t n = lanes();
  Vector all[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v)
      all[r][v] = hn::LoadU(d, block.start ? block.start + v * n : block.out + r * block.stride + v * n);
  const float *a = block.a, *b = block.b;
  for (int64_t l = 0; l < block.depth; ++l, a += block.a_next, b += block.b_next) {
    Vector row[V];
    for (int v = 0; v < V; ++v) row[v] = hn::LoadU(d, b + v * n);
    for (int r = 0; r < R; ++r) {
      const Vector factor = hn::Set(d, a[r * block.a_row]);
      for (int v = 0; v < V; ++v) all[r][v] = hn::MulAdd(factor, row[v], all[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(all[r][v], d, block.out + r * block.stride + v * n);
}

template <int R>
void multiply_rows(const Block& block, int64_t vectors) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
  if (vectors == 4) return multiply_block<R, 4>(block);
  if (vectors == 3) return multiply_block<R, 3>(block);
#endif
  return vectors == 2 ? multiply_block<R, 2>(block) : multiply_block<R, 1>(block);
}

void multiply(const Block& block, int64_t rows, int64_t vectors) {
  switch (rows) {
    case 1: return multiply_rows<1>(block, vectors);
    case 2: return multiply_rows<2>(block, vectors);
    case 3: return multiply_rows<3>(block, vectors);
    case 4: return multiply_rows<4>(block, vectors);
    case 5: return multiply_rows<5>(block, vectors);
    default: return multiply_rows<6>(block, vectors);
  }
}

class MatmulItem {
 public:
  MatmulItem(const MatmulParts& parts, const MatmulCall& call, int64_t item) : p_(parts), s_(parts.shape), call_(call) {
    row_ = item % p_.row_parts * p_.rows, item /= p_.row_parts;
    rows_ = std::min(p_.rows, s_.m - row_);
    panel_ = item % p_.panels;
    matrix_ = item / p_.panels;
    const auto matrix = static_cast<size_t>(matrix_);
    a_ = call.a + (s_.a_of.empty() ? matrix_ : s_.a_of[matrix]) * s_.m * s_.k;
    b_of_ = s_.b_of.empty() ? matrix_ : s_.b_of[matrix];
    column_ = panel_ * p_.target.panel;
    columns_ = std::min(p_.target.panel, s_.n - column_);
    vectors_ = (columns_ + lanes() - 1) / lanes();
    is_whole_ = columns_ % lanes() == 0;
  }

  void run() {
    std::fill(start_, start_ + kPanel, 0.0f);
    if (call_.bias) std::copy_n(call_.bias + column_, columns_, start_);
    float* out = call_.out + (matrix_ * s_.m + row_) * s_.n + column_;
    for (int64_t begin = 0; begin == 0 || begin < s_.k; begin += kMatmulDepth) {
      take_panel(begin, std::min(s_.k, begin + kMatmulDepth));
      const int64_t blocks = (rows_ + kMatmulRows - 1) / kMatmulRows;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t first = rows_ * i / blocks;
        multiply_part(first, rows_ * (i + 1) / blocks - first, begin == 0, out + first * s_.n);
      }
    }
    if (*call_.epilogue) (*call_.epilogue)({matrix_, row_, rows_, column_, columns_, out, s_.n});
  }

 private:
  // The last vectors of a row of b that is read where it lies would go beyond the matrix.
  bool reads_in_place() const { return p_.in_place && is_whole_; }

  void take_panel(int64_t begin, int64_t end) {
    block_.depth = end - begin;
    block_.a = a_ + (s_.transpose_a ? begin * s_.m + row_ : row_ * s_.k + begin);
    block_.a_row = s_.transpose_a ? 1 : s_.k, block_.a_next = s_.transpose_a ? s_.m : 1;
    block_.b_next = p_.target.panel;
    if (!p_.b.empty()) {
      block_.b = p_.b.data() + ((b_of_ * p_.panels + panel_) * s_.k + begin) * p_.target.panel;
      return;
    }
    const float* b = call_.b + b_of_ * s_.k * s_.n;
    if (reads_in_place()) {
      block_.b = b + begin * s_.n + column_;
      block_.b_next = s_.n;
      return;
    }
    float* copy = thread_scratch(kMatmulDepth * p_.target.panel);
    pack_panel(s_, b, column_, p_.target.panel, begin, end, copy);
    block_.b = copy;
  }

  void multiply_part(int64_t first, int64_t count, bool is_first, float* out) {
    Block block = block_;
    block.a += first * block.a_row;
    block.start = is_first ? start_ : nullptr;
    block.out = out, block.stride = s_.n;
    if (is_whole_) return multiply(block, count, vectors_);
    // Vectors that end beyond the row.
    float stage[kMatmulRows * kPanel];
    block.out = stage, block.stride = kPanel;
    for (int64_t r = 0; r < count && !is_first; ++r) std::copy_n(out + r * s_.n, columns_, stage + r * kPanel);
    multiply(block, count, vectors_);
    for (int64_t r = 0; r < count; ++r) std::copy_n(stage + r * kPanel, columns_, out + r * s_.n);
  }

  static constexpr int64_t kPanel = kVectors * static_cast<int64_t>(hn::MaxLanes(Floats()));
  const MatmulParts& p_;
  const MatmulShape& s_;
  const MatmulCall& call_;
  int64_t matrix_ = 0, panel_ = 0, row_ = 0, rows_ = 0, column_ = 0, columns_ = 0, vectors_ = 0, b_of_ = 0;
  bool is_whole_ = false;
  const float* a_ = nullptr;
  Block block_;
  float start_[kPanel];
};

void matmul_item(const MatmulParts& parts, const MatmulCall& call, int64_t item) {
  MatmulItem(parts, call, item).run();
}

MatmulTarget describe_matmul() { return {kVectors * lanes(), matmul_item}; }

}  // namespace gyrus::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::cpu {

HWY_EXPORT(describe_matmul);
MatmulTarget matmul_target() { return HWY_DYNAMIC_DISPATCH(describe_matmul)(); }

}  // namespace gyrus::cpu
#endif
