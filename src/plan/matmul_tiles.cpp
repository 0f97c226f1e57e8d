#include "plan/matmul_tiles.h"

#include <algorithm>

#include "plan/matrix_units.h"
#include "plan/norm_parts.h"

namespace gyrus {
namespace {

// In order of preference. The large ones are for results that have enough of their tiles to fill a device, the middle
// ones for those that are read in quads and not narrow. Rows are hardly asked: lengths that come and go should share
// their kernels.
constexpr MatmulTile kTiles[] = {{16, 8, 32}, {16, 8, 16}, {16, 8, 8}, {16, 4, 32}, {16, 4, 16},
                                 {8, 4, 8},   {4, 4, 8},   {2, 4, 8},  {1, 4, 4}};
constexpr uint32_t kLargeSide = 128, kMiddleSide = 64;
constexpr int64_t kFewRows = 4;
// Measured on one card (docs/performance.md): workgroups of large and of smaller tiles that fill it, and how long the
// parts of a cut k should be at least, since their sums are written and read once more.
constexpr int64_t kEnoughLarge = 256, kEnough = 384, kLeastPart = 512;

constexpr MatmulMatrixTile kMatrixTiles[] = {{128, 16, 2, 2}, {64, 32, 2, 2}, {32, 32, 2, 2}, {16, 16, 1, 1}};
constexpr int64_t kEnoughMatrixTiles = 128, kMostLaneSums = 128;

}  // namespace

int64_t tiles_of(const Matmul& matmul, const MatmulTile& tile) {
  return element_count(matmul.batch) * ceil_div(matmul.m, tile.side()) * ceil_div(matmul.n, tile.side());
}

int64_t matmul_parts_for(const Matmul& matmul, const MatmulTile& tile) {
  return std::max<int64_t>(std::min(kEnough / tiles_of(matmul, tile), matmul.k / kLeastPart), 1);
}

MatmulTile matmul_tile_for(const Matmul& matmul, bool quads, const Limits& limits) {
  const auto suits = [&](const MatmulTile& tile) {
    if (workgroup_size(limits, tile.lanes()) != tile.lanes() ||
        tile.bytes(matmul) > limits.max_compute_workgroup_storage_size)
      return false;
    if (tile.side() == kLargeSide)
      return tiles_of(matmul, tile) * (quads ? matmul_parts_for(matmul, tile) : 1) >= kEnoughLarge;
    return tile.side() < kMiddleSide || (quads && matmul.n * 2 > kMiddleSide && matmul.m > kFewRows);
  };
  const MatmulTile* found = std::find_if(std::begin(kTiles), std::end(kTiles), suits);
  return found == std::end(kTiles) ? kTiles[std::size(kTiles) - 1] : *found;
}

std::optional<MatmulMatrixTile> matmul_matrix_tile_for(const Matmul& p, const Target& target) {
  const int64_t lanes = target.subgroup_max_size;
  const std::vector<MatrixShape> shapes = matrices_of_halves(target);
  std::optional<MatmulMatrixTile> found;
  for (MatmulMatrixTile tile : kMatrixTiles)
    for (const MatrixShape& shape : shapes) {
      tile.shape = shape;
      const bool divides = tile.sub_m() % shape.m == 0 && tile.sub_n() % shape.n == 0 && tile.depth % shape.k == 0 &&
                           lanes % (shape.n / 4) == 0;
      const int64_t workgroup = tile.subgroups() * lanes;
      const int64_t bytes = (tile.a_units(p) + tile.b_units(p) + tile.sum_units()) * int64_t{kVec4Bytes};
      if (!divides || tile.side * tile.depth / 8 % workgroup != 0 ||
          tile.sub_m() * tile.sub_n() > kMostLaneSums * lanes ||
          workgroup_size(target.limits, static_cast<uint32_t>(workgroup)) != workgroup ||
          bytes > static_cast<int64_t>(target.limits.max_compute_workgroup_storage_size))
        continue;
      found = tile;
      if (tile.tiles(p) >= kEnoughMatrixTiles) return found;
      break;
    }
  return found;
}

}  // namespace gyrus
