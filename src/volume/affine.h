#pragma once
#include <array>
#include <string>

namespace gyrus {

using Vec3d = std::array<double, 3>;

// A map of points: rows of a 3×4 matrix, the last column the translation; the fourth row (0 0 0 1) is understood.
struct Affine {
  std::array<std::array<double, 4>, 3> rows{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

  double& operator()(int row, int column) { return rows[static_cast<size_t>(row)][static_cast<size_t>(column)]; }
  double operator()(int row, int column) const { return rows[static_cast<size_t>(row)][static_cast<size_t>(column)]; }
  bool operator==(const Affine&) const = default;
};

Vec3d map_point(const Affine& affine, const Vec3d& point);
// First b, then a.
Affine compose(const Affine& a, const Affine& b);
double determinant(const Affine& affine);
// Throws InvalidInput where the matrix is singular or not finite.
Affine inverse(const Affine& affine);
// All entries finite and sane, the columns of lengths a voxel may have, and not in one plane.
bool is_usable(const Affine& affine);

// Length of each column: the voxel size in mm of a voxel → mm affine.
Vec3d column_lengths(const Affine& affine);
// For each voxel axis the letter of the direction it points to, e.g. "RAS", "LIA"; the nearest one where oblique.
std::string axis_codes(const Affine& affine);

}  // namespace gyrus
