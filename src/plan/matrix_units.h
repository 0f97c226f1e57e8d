#pragma once
#include <algorithm>
#include <vector>

#include "ops/common.h"
#include "plan/lowering.h"

// Which products go to a target's matrix units.

namespace gyrus {

// Whether the target has them, with subgroups of one known size, and plans may use them.
inline bool has_matrix_units(const Target& target, const PlanOptions& options) {
  return options.matrix != MatrixUse::Off && target.features.subgroup_matrix && target.subgroup_min_size != 0 &&
         target.subgroup_min_size == target.subgroup_max_size;
}

// The same, where they pay or are asked for. On a CPU they are only imitated.
inline bool wants_matrix_units(const Target& target, const PlanOptions& options, bool pays) {
  if (!has_matrix_units(target, options)) return false;
  return options.matrix == MatrixUse::On || (options.conv.stage_weights && pays);
}

// Whether the precision lets the node round its operands (passes/precision.cpp).
inline bool may_round(const Node& node) { return flag(node, "halves"); }

// The target's matrices of halves with sums in singles whose rows and columns are whole eights, the largest first.
inline std::vector<MatrixShape> matrices_of_halves(const Target& target) {
  std::vector<MatrixShape> shapes;
  for (const MatrixShape& s : target.matrices)
    if (s.input == DType::F16 && s.result == DType::F32 && s.m > 0 && s.k > 0 && s.n > 0 && s.k % 8 == 0 &&
        s.n % 8 == 0)
      shapes.push_back(s);
  std::stable_sort(shapes.begin(), shapes.end(), [](const MatrixShape& a, const MatrixShape& b) {
    return uint64_t{a.m} * a.n * a.k > uint64_t{b.m} * b.n * b.k;
  });
  return shapes;
}

// The error word tells of values that halves do not hold; with check_finite it tells of those that are stored too.
inline void checks_rounded(Kernel& k, const PlanOptions& options) {
  if (options.check_finite)
    k.checks_stored();
  else
    k.reports(ReportKind::Finite);
}

}  // namespace gyrus
