#include "plan/block_matrices.h"

#include <algorithm>

#include "core/error.h"
#include "plan/block_windows.h"
#include "plan/norm_parts.h"

namespace gyrus {
namespace {

constexpr int64_t kTileRow = 5;   // vec4 from row to row of a tile
constexpr uint32_t kLanes = 128;  // that make halves of a row

// The largest first.
constexpr BlockTile kTiles[] = {{64, 128, 2, 2}, {64, 64, 2, 2}, {32, 32, 2, 2}, {16, 16, 1, 1}};
constexpr int64_t kEnoughTiles = 128, kMostLaneSums = 128;

int64_t sum_row(const MatrixShape& shape) { return shape.n / 4 + 1; }  // vec4
int64_t sum_units(const BlockTile& tile) { return tile.down * tile.across * tile.shape.m * sum_row(tile.shape); }

bool suits(const BlockTile& tile, const Limits& limits) {
  const MatrixShape& s = tile.shape;
  const auto workgroup = static_cast<uint32_t>(tile.workgroup());
  return tile.sub_m() % s.m == 0 && tile.sub_n() % s.n == 0 && kBlockUnit % s.k == 0 &&
         tile.sub_m() * tile.sub_n() <= kMostLaneSums * tile.lanes && workgroup_size(limits, workgroup) == workgroup &&
         tile.bytes() <= static_cast<int64_t>(limits.max_compute_workgroup_storage_size);
}

Storage half_row_shape(int64_t rows, int64_t k) {
  return storage_shape({DType::U32, {rows, half_row_units(k) * 4}, Layout::Plain});
}

}  // namespace

int64_t BlockTile::bytes() const {
  return ((rows + columns) * kTileRow + sum_units(*this)) * static_cast<int64_t>(kVec4Bytes);
}

void BlockTile::declare(Kernel& k) const {
  k.constant("tile_m", rows).constant("tile_n", columns).constant("across", across).constant("lanes", lanes);
  k.constant("sub_m", sub_m()).constant("sub_n", sub_n());
  k.constant("m", shape.m).constant("n", shape.n).constant("k", shape.k).constant("sum_row", sum_row(shape));
  k.constant("matrices_m", sub_m() / shape.m).constant("matrices_n", sub_n() / shape.n);
  k.constant("loads_x", ceil_div(rows * kBlockUnit / 8, workgroup()))
      .constant("loads_w", ceil_div(columns, workgroup()));
  k.shared("x_tile", {Scalar::U32, 4}, static_cast<uint64_t>(rows * kTileRow));
  k.shared("w_tile", {Scalar::U32, 4}, static_cast<uint64_t>(columns * kTileRow));
  k.shared("sums", wgsl::vec4f, static_cast<uint64_t>(sum_units(*this)));
}

std::optional<BlockTile> block_tile_for(int64_t rows, int64_t columns, const Target& target) {
  const std::vector<MatrixShape> shapes = matrices_of_halves(target);
  std::optional<BlockTile> found;
  for (BlockTile tile : kTiles)
    for (const MatrixShape& shape : shapes) {
      tile.shape = shape;
      tile.lanes = target.subgroup_max_size;
      if (!suits(tile, target.limits)) continue;
      found = tile;
      if (tile.tiles(rows, columns) >= kEnoughTiles) return found;
      break;
    }
  return found;
}

int64_t half_row_units(int64_t k) { return ceil_div(k, kBlockUnit) * kBlockUnit / 8 + 1; }

bool fits_half_rows(int64_t rows, int64_t k, const Limits& limits) {
  return half_row_shape(rows, k).bytes() <= std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
}

StoragePtr emit_half_rows(Lowering& lowering, const Storage& x, int64_t rows, int64_t k, const std::string& label) {
  const TensorType type{DType::U32, {rows, half_row_units(k) * 4}, Layout::Plain};
  const StoragePtr made = lowering.make_scratch(type, label + ".halves");
  const Window result = whole_window(quad_view(*made), lowering.limits(), label);
  const bool quads = k % 4 == 0 && std::all_of(x.chunks.begin(), x.chunks.end(), [](const Chunk& c) {
                       return c.first % 4 == 0 && c.byte_offset % 16 == 0;
                     });
  const Storage read = quads ? quad_view(x) : x;
  const auto width = static_cast<uint64_t>(quads ? k / 4 : k);
  for (int64_t first = 0, count = 0; first < rows; first += count) {
    const auto from = static_cast<uint64_t>(first) * width;
    const auto fits = [&] { return fits_window(read, from, static_cast<uint64_t>(count) * width, lowering.limits()); };
    for (count = rows - first; count > 1 && !fits();) count = (count + 1) / 2;
    if (!fits()) fail(ErrorCode::OverLimits, label, "a row of ", k, " elements is larger than a binding may be");
    Kernel kernel(lowering, "half_rows", label);
    kernel.workgroup(kLanes);
    kernel.read("x", read, window(read, from, static_cast<uint64_t>(count) * width, lowering.limits()));
    kernel.write("result", result.range, {Scalar::U32, 4}).param("result_shift", result.skip);
    kernel.param("k", k).param("first_row", first).constant("eights", half_row_units(k) - 1).flag("quads", quads);
    kernel.shared("largest", wgsl::u32, kernel.workgroup());
    kernel.dispatch(static_cast<uint64_t>(count), {0, 6.0 * static_cast<double>(count) * static_cast<double>(k)});
  }
  return made;
}

void read_half_rows(Kernel& k, const Storage& halves, int64_t columns, const Limits& limits, const std::string& label) {
  const Window window = whole_window(quad_view(halves), limits, label);
  k.read("x", window.range, {Scalar::U32, 4}).param("x_shift", window.skip).param("x_row", half_row_units(columns));
}

}  // namespace gyrus
