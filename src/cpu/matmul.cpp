#include "cpu/matmul.h"

#include <algorithm>

#include "cpu/matmul_parts.h"

namespace gyrus::cpu {
namespace {

constexpr int64_t kMostRows = 384;  // of an item: its part of the result stays in the cache
constexpr int64_t kFewRows = 12;    // so few do not pay for a copy of b

int64_t parts_of(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

int64_t matrices_of(const std::vector<int64_t>& which, int64_t batch) {
  return which.empty() ? batch : *std::max_element(which.begin(), which.end()) + 1;
}

}  // namespace

void pack_panel(const MatmulShape& shape, const float* b, int64_t column, int64_t panel, int64_t begin, int64_t end,
                float* to) {
  const int64_t columns = std::min(panel, shape.n - column);
  for (int64_t l = begin; l < end; ++l) {
    float* row = to + (l - begin) * panel;
    if (!shape.transpose_b) std::copy_n(b + l * shape.n + column, columns, row);
    std::fill(row + columns, row + panel, 0.0f);
  }
  // Squares of 16 × 16, so that neither side leaves the first cache.
  constexpr int64_t kSquare = 16;
  for (int64_t l = begin; shape.transpose_b && l < end; l += kSquare)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = l; i < std::min(end, l + kSquare); ++i)
        to[(i - begin) * panel + j] = b[(column + j) * shape.k + i];
}

MatmulPlan::MatmulPlan() = default;
MatmulPlan::~MatmulPlan() = default;
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;
MatmulPlan& MatmulPlan::operator=(MatmulPlan&&) noexcept = default;

const MatmulShape& MatmulPlan::shape() const { return parts_->shape; }
int64_t MatmulPlan::bytes() const { return static_cast<int64_t>(parts_->b.size() * sizeof(float)); }

MatmulPlan prepare_matmul(const MatmulShape& shape, const float* constant_b) {
  MatmulPlan plan;
  plan.parts_ = std::make_unique<MatmulParts>();
  MatmulParts& p = *plan.parts_;
  p.shape = shape;
  p.target = matmul_target();
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0) return plan;
  p.panels = parts_of(shape.n, p.target.panel);
  p.row_parts = parts_of(shape.m, kMostRows);
  const int64_t items = shape.batch * p.panels, most_parts = parts_of(shape.m, 8 * kMatmulRows);
  p.row_parts = std::max(p.row_parts, std::min(most_parts, parts_of(shape.shares, items)));
  p.rows = parts_of(shape.m, p.row_parts);
  p.row_parts = parts_of(shape.m, p.rows);
  p.in_place = !constant_b && !shape.transpose_b && shape.m <= kFewRows;
  if (!constant_b) return plan;
  const int64_t matrices = matrices_of(shape.b_of, shape.batch), panel = p.target.panel;
  p.b.resize(static_cast<size_t>(matrices * p.panels * panel * shape.k));
  for (int64_t i = 0; i < matrices * p.panels; ++i)
    pack_panel(shape, constant_b + i / p.panels * shape.n * shape.k, i % p.panels * panel, panel, 0, shape.k,
               p.b.data() + i * panel * shape.k);
  return plan;
}

void run_matmul(const MatmulPlan& plan, const float* a, const float* b, const float* bias, float* out, ThreadPool& pool,
                const MatmulEpilogue& epilogue) {
  const MatmulParts& p = *plan.parts_;
  const MatmulCall call{a, b, bias, out, &epilogue};
  pool.parallel_for(p.shape.batch * p.panels * p.row_parts, [&](int64_t item) { p.target.item(p, call, item); });
}

}  // namespace gyrus::cpu
