#include "core/text.h"

#include <cstdio>

namespace gyrus {
namespace {

std::string number(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return number(value, kUnits[unit]);
}

std::string count_text(double count) {
  static constexpr const char* kUnits[] = {"k", "M", "G", "T", "P"};
  if (count < 1000) return std::to_string(static_cast<int64_t>(count)) + " ";
  double value = count / 1000;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return number(value, kUnits[unit]);
}

std::string extents_text(const Shape& extents) {
  std::string text;
  for (int64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

std::string seconds_text(double seconds) { return seconds < 1 ? number(seconds * 1e3, "ms") : number(seconds, "s"); }

}  // namespace gyrus
