#include "volume/normalize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

struct Pair {
  double low = 0, high = 0;
};

// Element values at the two ranks around q * (count - 1), and how far it lies between them.
struct Rank {
  int64_t index = 0;
  double fraction = 0;
};

Rank rank_of(double q, int64_t count) {
  const double position = q * static_cast<double>(count - 1);
  const double whole = std::floor(position);
  return {static_cast<int64_t>(whole), position - whole};
}

double between(double a, double b, double fraction) { return fraction == 0 ? a : a + (b - a) * fraction; }

// 8- and 16-bit elements: a histogram holds all order statistics.
template <class T>
class Histogram {
 public:
  Histogram(const T* data, int64_t count) : counts_(size_t{1} << (8 * sizeof(T))) {
    // Neighbouring voxels are often equal; separate tables keep their increments from waiting for one another.
    std::vector<int64_t> second(counts_.size());
    int64_t i = 0;
    for (; i + 1 < count; i += 2) {
      ++counts_[slot(data[i])];
      ++second[slot(data[i + 1])];
    }
    if (i < count) ++counts_[slot(data[i])];
    for (size_t s = 0; s < second.size(); ++s) counts_[s] += second[s];
  }
  double at_rank(int64_t rank) const {
    size_t s = 0;
    for (int64_t seen = counts_[0]; seen <= rank; seen += counts_[s]) ++s;
    return static_cast<double>(s) + static_cast<double>(std::numeric_limits<T>::min());
  }

 private:
  static size_t slot(T v) { return static_cast<size_t>(static_cast<int64_t>(v) - std::numeric_limits<T>::min()); }
  std::vector<int64_t> counts_;
};

template <class T>
double interpolated(const Histogram<T>& histogram, double q, int64_t count) {
  const Rank rank = rank_of(q, count);
  const double a = histogram.at_rank(rank.index);
  return rank.fraction == 0 ? a : between(a, histogram.at_rank(rank.index + 1), rank.fraction);
}

// Wider elements: selection. A coarse histogram between the extremes first finds the few that can hold the ranks, so
// that only those are copied and partitioned.
template <class T>
double selected(const T* data, int64_t count, double q, double low, double high) {
  constexpr int64_t kBins = 4096;
  const Rank rank = rank_of(q, count);
  const double width = (high - low) / kBins;
  if (!(width > 0)) return low;
  const double per_bin = 1.0 / width;
  const auto bin_of = [&](T v) {
    const double bin = (static_cast<double>(v) - low) * per_bin;  // not a number where bins are too narrow
    return bin < kBins - 1 ? static_cast<int64_t>(bin) : kBins - 1;
  };
  std::vector<int64_t> counts(kBins);
  for (int64_t i = 0; i < count; ++i) ++counts[static_cast<size_t>(bin_of(data[i]))];
  int64_t first_bin = 0, before = 0;
  while (before + counts[static_cast<size_t>(first_bin)] <= rank.index)
    before += counts[static_cast<size_t>(first_bin++)];
  int64_t last_bin = first_bin, upto = before + counts[static_cast<size_t>(first_bin)];
  const int64_t last_rank = std::min(count - 1, rank.index + 1);
  while (upto <= last_rank) upto += counts[static_cast<size_t>(++last_bin)];
  std::vector<T> candidates;
  candidates.reserve(static_cast<size_t>(upto - before));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bin = bin_of(data[i]);
    if (bin >= first_bin && bin <= last_bin) candidates.push_back(data[i]);
  }
  const auto nth = candidates.begin() + (rank.index - before);
  std::nth_element(candidates.begin(), nth, candidates.end());
  const auto a = static_cast<double>(*nth);
  if (rank.fraction == 0 || nth + 1 == candidates.end()) return a;
  return between(a, static_cast<double>(*std::min_element(nth + 1, candidates.end())), rank.fraction);
}

[[noreturn]] void fail_not_finite(const Volume& volume, int64_t count) {
  fail(ErrorCode::InvalidInput, volume.name, "holds NaN or infinite values (", count, " of ", volume.voxels(),
       " voxels); replace them first, for instance with niimath IN -nan OUT");
}

// Smallest and largest element; throws where one is not finite.
template <class T>
Pair extremes(const Volume& volume, const T* data) {
  const int64_t count = volume.voxels();
  T low = data[0], high = data[0];
  int64_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      // Large enough for any slope to overflow counts as infinite too.
      bad += !(std::abs(data[i]) <= static_cast<T>(1e37));
    }
    low = data[i] < low ? data[i] : low;
    high = data[i] > high ? data[i] : high;
  }
  if (bad > 0) fail_not_finite(volume, bad);
  return {static_cast<double>(low), static_cast<double>(high)};
}

// The two quantiles of the elements, in the elements' own units.
template <class T>
Pair quantiles(const Volume& volume, const T* data, double low, double high) {
  const int64_t count = volume.voxels();
  if constexpr (sizeof(T) <= 2) {
    const Histogram<T> histogram(data, count);
    return {interpolated(histogram, low, count), interpolated(histogram, high, count)};
  } else {
    const Pair range = extremes(volume, data);
    Pair out;
    parallel_ranges(2, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        (i == 0 ? out.low : out.high) = selected(data, count, i == 0 ? low : high, range.low, range.high);
    });
    return out;
  }
}

Pair scaled(const Volume& volume, Pair p) {
  p = {volume.slope * p.low + volume.intercept, volume.slope * p.high + volume.intercept};
  if (volume.slope < 0) std::swap(p.low, p.high);
  return p;
}

Pair value_quantiles(const Volume& volume, double low, double high) {
  // A negative slope turns the order around.
  const bool flip = volume.slope < 0;
  const double a = flip ? 1 - high : low, b = flip ? 1 - low : high;
  return scaled(volume, visit_elements(volume, [&](const auto* data) { return quantiles(volume, data, a, b); }));
}

Pair value_extremes(const Volume& volume) {
  return scaled(volume, visit_elements(volume, [&](const auto* data) { return extremes(volume, data); }));
}

// Numbers with commas; nothing where one is none.
std::vector<double> parse_numbers(const std::string& text) {
  std::vector<double> out;
  const char* at = text.c_str();
  while (true) {
    char* end = nullptr;
    out.push_back(std::strtod(at, &end));
    if (end == at || !std::isfinite(out.back()) || (*end != ',' && *end != '\0')) return {};
    if (*end == '\0') return out;
    at = end + 1;
  }
}

[[noreturn]] void refuse_normalize(const std::string& text) {
  fail(ErrorCode::InvalidInput, "normalize", "\"", text,
       "\" is not none, minmax, quantile[:LOW,HIGH] with 0 <= LOW < HIGH <= 1, zscore[:nonzero], "
       "window:LOW,HIGH[,TO_LOW,TO_HIGH] or clip-zscore:LOW,HIGH,MEAN,DEVIATION");
}

struct Moments {
  double mean = 0, deviation = 0;
};

// Of values, of all voxels or of those that are not 0; the deviation is that of a population.
Moments moments_of(const Volume& volume, bool nonzero) {
  double sum = 0, squares = 0;
  int64_t count = 0;
  const std::vector<float> values = to_floats(volume);
  for (const float v : values)
    if (!nonzero || v != 0) sum += v, ++count;
  const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
  for (const float v : values)
    if (!nonzero || v != 0) squares += (v - mean) * (v - mean);
  return {mean, count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0};
}

// (value - mean) / deviation.
void set_zscore(const Volume& volume, const Moments& moments, Normalization& out) {
  if (!(moments.deviation > 1e-30))
    fail(ErrorCode::InvalidInput, volume.name, "its values do not differ; there is nothing to segment");
  out.scale = 1 / moments.deviation;
  out.shift = -moments.mean / moments.deviation;
  out.source_low = moments.mean;
  out.source_high = moments.mean + moments.deviation;
}

}  // namespace

NormalizeOptions parse_normalize(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const bool bare = colon == std::string::npos;
  const std::string rest = bare ? "" : text.substr(colon + 1);
  const std::vector<double> n = parse_numbers(rest);
  NormalizeOptions out;
  if (kind == "none" && bare) return {NormalizeKind::None};
  if (kind == "minmax" && bare) return {NormalizeKind::MinMax};
  if (kind == "quantile" && bare) return {NormalizeKind::Quantile};
  if (kind == "quantile" && n.size() == 2 && n[0] >= 0 && n[0] < n[1] && n[1] <= 1)
    return {NormalizeKind::Quantile, n[0], n[1]};
  if (kind == "zscore" && (bare || rest == "nonzero")) {
    out.kind = NormalizeKind::ZScore;
    out.nonzero = !bare;
    return out;
  }
  if (kind == "window" && (n.size() == 2 || n.size() == 4) && n[0] < n[1]) {
    out = {NormalizeKind::Window, n[0], n[1]};
    if (n.size() == 4) out.to_low = n[2], out.to_high = n[3];
    if (out.to_low < out.to_high) return out;
  }
  if (kind == "clip-zscore" && n.size() == 4 && n[0] < n[1] && n[3] > 0) {
    out = {NormalizeKind::ClipZScore, n[0], n[1]};
    out.mean = n[2];
    out.deviation = n[3];
    return out;
  }
  refuse_normalize(text);
}

std::string normalize_text(const NormalizeOptions& o) {
  switch (o.kind) {
    case NormalizeKind::None: return "none";
    case NormalizeKind::MinMax: return "minmax";
    case NormalizeKind::Quantile: return cat("quantile:", o.low, ",", o.high);
    case NormalizeKind::ZScore: return o.nonzero ? "zscore:nonzero" : "zscore";
    case NormalizeKind::Window: return cat("window:", o.low, ",", o.high, ",", o.to_low, ",", o.to_high);
    case NormalizeKind::ClipZScore: break;
  }
  return cat("clip-zscore:", o.low, ",", o.high, ",", o.mean, ",", o.deviation);
}

Normalization normalization_of(const Volume& volume, const NormalizeOptions& options) {
  if (volume.voxels() == 0) fail(ErrorCode::InvalidInput, volume.name, "has no voxels");
  const Pair range = value_extremes(volume);
  if (range.low == range.high)
    fail(ErrorCode::InvalidInput, volume.name, "has the value ", range.low,
         " in every voxel; there is nothing to segment: check that this is the right file");
  if (options.kind == NormalizeKind::None) return {};
  Normalization out;
  if (options.kind == NormalizeKind::ZScore) {
    set_zscore(volume, moments_of(volume, options.nonzero), out);
    out.keep_zeros = options.nonzero;
    return out;
  }
  if (options.kind == NormalizeKind::ClipZScore) {
    set_zscore(volume, {options.mean, options.deviation}, out);
    out.clamp_low = options.low * out.scale + out.shift;
    out.clamp_high = options.high * out.scale + out.shift;
    return out;
  }
  if (options.kind == NormalizeKind::Window) {
    out.source_low = options.low;
    out.source_high = options.high;
    out.scale = (options.to_high - options.to_low) / (options.high - options.low);
    out.shift = options.to_low - options.low * out.scale;
    out.clamp_low = options.to_low;
    out.clamp_high = options.to_high;
    return out;
  }
  Pair ends = range;
  if (options.kind == NormalizeKind::Quantile) {
    ends = value_quantiles(volume, options.low, options.high);
    if (!(ends.low < ends.high))
      fail(ErrorCode::InvalidInput, {Hint::MinMaxNormalize}, volume.name, "has the value ", ends.low,
           " at both quantiles ", options.low, " and ", options.high, ": nearly all voxels are the same");
    out.clamp_low = 0;
    out.clamp_high = 1;
  }
  out.source_low = ends.low;
  out.source_high = ends.high;
  out.scale = 1.0 / (ends.high - ends.low);
  if (!(out.scale < 1e37))
    fail(ErrorCode::InvalidInput, volume.name, "its values differ by ", ends.high - ends.low,
         " only, too little for 32-bit arithmetic; multiply them first");
  out.shift = -ends.low * out.scale;
  return out;
}

std::vector<float> normalized(const Volume& volume, const Normalization& n) {
  std::vector<float> values = to_floats(volume);
  parallel_ranges(static_cast<int64_t>(values.size()), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float& v = values[static_cast<size_t>(i)];
      if (n.keep_zeros && v == 0) continue;
      v = static_cast<float>(std::clamp(v * n.scale + n.shift, n.clamp_low, n.clamp_high));
    }
  });
  return values;
}

double quantile(const Volume& volume, double q) { return value_quantiles(volume, q, q).low; }

}  // namespace gyrus
