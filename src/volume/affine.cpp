#include "volume/affine.h"

#include <cmath>

#include "core/error.h"

namespace gyrus {

Vec3d map_point(const Affine& affine, const Vec3d& point) {
  Vec3d out{};
  for (int r = 0; r < 3; ++r)
    out[r] = affine(r, 0) * point[0] + affine(r, 1) * point[1] + affine(r, 2) * point[2] + affine(r, 3);
  return out;
}

Affine compose(const Affine& a, const Affine& b) {
  Affine out;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c)
      out(r, c) = a(r, 0) * b(0, c) + a(r, 1) * b(1, c) + a(r, 2) * b(2, c) + (c == 3 ? a(r, 3) : 0.0);
  return out;
}

double determinant(const Affine& m) {
  return m(0, 0) * (m(1, 1) * m(2, 2) - m(1, 2) * m(2, 1)) - m(0, 1) * (m(1, 0) * m(2, 2) - m(1, 2) * m(2, 0)) +
         m(0, 2) * (m(1, 0) * m(2, 1) - m(1, 1) * m(2, 0));
}

bool is_usable(const Affine& affine) {
  for (const auto& row : affine.rows)
    for (double v : row)
      if (!(std::abs(v) < 1e9)) return false;
  const Vec3d length = column_lengths(affine);
  for (double v : length)
    if (!(v > 1e-6 && v < 1e6)) return false;
  // A parallelepiped that has lost a thousand-fold of its volume to shear is a damaged header, not a scan.
  return std::abs(determinant(affine)) > 1e-3 * length[0] * length[1] * length[2];
}

Affine inverse(const Affine& m) {
  if (!is_usable(m)) fail(ErrorCode::InvalidInput, "affine", "the matrix is singular or not finite");
  const double s = 1.0 / determinant(m);
  Affine out;
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 3; ++c) {
      const int r1 = (c + 1) % 3, r2 = (c + 2) % 3, c1 = (r + 1) % 3, c2 = (r + 2) % 3;
      out(r, c) = s * (m(r1, c1) * m(r2, c2) - m(r1, c2) * m(r2, c1));
    }
  }
  for (int r = 0; r < 3; ++r) out(r, 3) = -(out(r, 0) * m(0, 3) + out(r, 1) * m(1, 3) + out(r, 2) * m(2, 3));
  return out;
}

Vec3d column_lengths(const Affine& m) {
  Vec3d out{};
  for (int c = 0; c < 3; ++c) out[c] = std::sqrt(m(0, c) * m(0, c) + m(1, c) * m(1, c) + m(2, c) * m(2, c));
  return out;
}

std::string axis_codes(const Affine& m) {
  // The assignment of the three voxel axes to the three directions with the largest product of direction cosines.
  static constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  const Vec3d length = column_lengths(m);
  const int* best = kOrders[0];
  double best_score = -1;
  for (const auto& order : kOrders) {
    double score = 1;
    for (int c = 0; c < 3; ++c) score *= std::abs(m(order[c], c)) / (length[c] > 0 ? length[c] : 1.0);
    if (score > best_score) {
      best_score = score;
      best = order;
    }
  }
  std::string codes;
  for (int c = 0; c < 3; ++c) codes += (m(best[c], c) < 0 ? "LPI" : "RAS")[best[c]];
  return codes;
}

}  // namespace gyrus
