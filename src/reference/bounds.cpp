#include "reference/bounds.h"

#include <algorithm>
#include <cmath>

namespace gyrus::reference {

Difference difference(const Tensor& got, const RefTensor& want) {
  double error = 0, power = 0, off = 0, most = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = get(got, i);
    const double b = want.data[static_cast<size_t>(i)];
    if (std::isnan(b) && std::isnan(a)) continue;
    const double narrow = static_cast<double>(static_cast<float>(b));
    if (std::isinf(narrow) && narrow == a) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return {INFINITY, INFINITY};
    error += (a - b) * (a - b);
    power += b * b;
    off = std::max(off, std::abs(a - b));
    most = std::max(most, std::abs(b));
  }
  return {power > 0 ? error / power : error, most > 0 ? off / most : off};
}

}  // namespace gyrus::reference
