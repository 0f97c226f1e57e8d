#pragma once
#include <optional>

#include "plan/matrix_units.h"

// Products with weights in blocks by matrix units: what the lowering of block_matmul needs for them.

namespace gyrus {

// A workgroup of down × across subgroups makes rows × columns results, 32 steps of k at a time.
struct BlockTile {
  int64_t rows, columns, down, across;
  MatrixShape shape{};
  int64_t lanes = 0;  // of a subgroup

  int64_t sub_m() const { return rows / down; }  // results of a subgroup
  int64_t sub_n() const { return columns / across; }
  int64_t workgroup() const { return down * across * lanes; }
  int64_t tiles(int64_t of_rows, int64_t of_columns) const {
    return ceil_div(of_rows, rows) * ceil_div(of_columns, columns);
  }
  int64_t bytes() const;  // of workgroup memory
  // The constants and workgroup memory of block_matrices.wgsl.
  void declare(Kernel& k) const;
};

// The largest tile of which there are enough for a device, or else the smallest; none where the limits allow none.
std::optional<BlockTile> block_tile_for(int64_t rows, int64_t columns, const Target& target);

// Rows of k elements as halves with a factor each (half_rows.wgsl): vec4 of a row, and the kernel that makes them.
int64_t half_row_units(int64_t k);
// Whether one binding will hold them.
bool fits_half_rows(int64_t rows, int64_t k, const Limits& limits);
StoragePtr emit_half_rows(Lowering& lowering, const Storage& x, int64_t rows, int64_t k, const std::string& label);
// Binds them as `x`, with the parameters x_shift and x_row.
void read_half_rows(Kernel& k, const Storage& halves, int64_t columns, const Limits& limits, const std::string& label);

}  // namespace gyrus
