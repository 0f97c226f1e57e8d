#pragma once
#include <optional>

#include "ops/matmul.h"
#include "plan/lowering.h"

// How products of matrices are cut into tiles.

namespace gyrus {

// Lanes along each side of a workgroup, results of a lane along each side, steps of k in workgroup memory.
struct MatmulTile {
  uint32_t threads, rows, depth;
  uint32_t side() const { return threads * rows; }
  uint32_t lanes() const { return threads * threads; }
  // Of what the lanes of a row or column read: of transposed columns a quad more, which keeps lanes off each other.
  uint64_t lane_bytes(bool apart) const { return (uint64_t{rows} * depth + (apart ? 4 : 0)) * 4; }
  uint64_t step_bytes() const { return uint64_t{side()} * 4; }
  uint64_t bytes(const Matmul& matmul) const {
    const uint64_t by_lane = threads * lane_bytes(matmul.transpose_b), by_step = depth * step_bytes();
    return (matmul.transpose_a ? by_step : by_lane) + (matmul.transpose_b ? by_lane : by_step);
  }
};

int64_t tiles_of(const Matmul& matmul, const MatmulTile& tile);
// Into how many parts to cut k, where quads are read.
int64_t matmul_parts_for(const Matmul& matmul, const MatmulTile& tile);
MatmulTile matmul_tile_for(const Matmul& matmul, bool quads, const Limits& limits);

// A workgroup of down × across subgroups with matrix units, `depth` steps of k in workgroup memory.
struct MatmulMatrixTile {
  int64_t side, depth, down, across;
  MatrixShape shape{};
  int64_t sub_m() const { return side / down; }  // results of a subgroup
  int64_t sub_n() const { return side / across; }
  int64_t subgroups() const { return down * across; }
  // vec4 of eight halves from row to row, one more than needed: neighbouring rows meet other banks.
  static int64_t row(int64_t halves) { return halves / 8 + 1; }
  int64_t a_units(const Matmul& p) const { return p.transpose_a ? depth * row(side) : side * row(depth); }
  int64_t b_units(const Matmul& p) const { return p.transpose_b ? side * row(depth) : depth * row(side); }
  int64_t sum_row() const { return shape.n / 4 + 1; }  // vec4
  int64_t sum_units() const { return subgroups() * shape.m * sum_row(); }
  int64_t tiles(const Matmul& p) const { return element_count(p.batch) * ceil_div(p.m, side) * ceil_div(p.n, side); }
};

// The largest of which there are enough for a device, or else the smallest; none where the limits allow none.
std::optional<MatmulMatrixTile> matmul_matrix_tile_for(const Matmul& matmul, const Target& target);

}  // namespace gyrus
