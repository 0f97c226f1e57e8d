#include "volume/head_labels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "volume/components.h"
#include "volume/grid.h"
#include "volume/mask.h"

namespace gyrus {
namespace {

constexpr int kBins = 1024;
constexpr int kRounds = 100;

// The largest part of where labels are, closed, grown and without holes.
Volume brain_mask(const Volume& segmentation, const HeadLabelOptions& options) {
  Volume brain = make_mask(segmentation);
  keep_largest(brain);
  const std::vector<float> away = squared_distances(brain, true);
  Volume wide = like(brain, VoxelType::U8);
  const auto reach = static_cast<float>(options.close_mm * options.close_mm);
  for (int64_t i = 0; i < wide.voxels(); ++i) wide.as<uint8_t>()[i] = away[static_cast<size_t>(i)] <= reach;
  const std::vector<float> inside = squared_distances(wide, false);
  const double back = std::max(0.0, options.close_mm - options.grow_mm);
  for (int64_t i = 0; i < brain.voxels(); ++i)
    if (inside[static_cast<size_t>(i)] > static_cast<float>(back * back)) brain.as<uint8_t>()[i] = 1;
  fill_holes(brain);
  return brain;
}

// Bounds between `count` clusters of the values, by k-means over their histogram; it starts from quantiles.
std::vector<double> cluster_bounds(const std::vector<float>& values, int64_t count) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double least = *low, width = std::max(1e-12, (static_cast<double>(*high) - least) / kBins);
  std::vector<double> histogram(kBins);
  for (const float v : values)
    ++histogram[static_cast<size_t>(std::min<double>(kBins - 1, (static_cast<double>(v) - least) / width))];
  std::vector<double> centres;
  for (int64_t c = 0; c < count; ++c)
    centres.push_back(kBins * (static_cast<double>(c) + 0.5) / static_cast<double>(count));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sums(centres.size()), weights(centres.size());
    size_t at = 0;
    for (int b = 0; b < kBins; ++b) {
      while (at + 1 < centres.size() && b + 0.5 > (centres[at] + centres[at + 1]) / 2) ++at;
      sums[at] += histogram[static_cast<size_t>(b)] * (b + 0.5);
      weights[at] += histogram[static_cast<size_t>(b)];
    }
    for (size_t c = 0; c < centres.size(); ++c)
      if (weights[c] > 0) centres[c] = sums[c] / weights[c];
  }
  std::vector<double> bounds;
  for (size_t c = 0; c + 1 < centres.size(); ++c) bounds.push_back(least + width * (centres[c] + centres[c + 1]) / 2);
  return bounds;
}

// 1 where the darkest cluster reaches the border of the volume through itself.
Volume air(const Volume& dark) {
  Volume others = like(dark, VoxelType::U8);
  for (int64_t i = 0; i < dark.voxels(); ++i) others.as<uint8_t>()[i] = dark.as<uint8_t>()[i] ? 0 : 1;
  fill_holes(others);  // dark regions that do not reach the border
  for (int64_t i = 0; i < dark.voxels(); ++i) others.as<uint8_t>()[i] = others.as<uint8_t>()[i] ? 0 : 1;
  return others;
}

// Joins labels whose means are alike; gives how many there are then. The darkest is 1.
int64_t join_tissues(Volume& labels, const Volume& brain, const std::vector<float>& values, int64_t tissues) {
  std::map<uint8_t, std::pair<double, int64_t>> sums;
  const auto each = [&](auto&& call) {
    for (int64_t i = 0; i < brain.voxels(); ++i)
      if (brain.as<uint8_t>()[i]) call(labels.as<uint8_t>()[i], static_cast<size_t>(i));
  };
  each([&](uint8_t label, size_t i) {
    sums[label].first += static_cast<double>(values[i]);
    ++sums[label].second;
  });
  const auto mean = [&](uint8_t label) { return sums[label].first / static_cast<double>(sums[label].second); };
  std::vector<float> means;
  each([&](uint8_t label, size_t) { means.push_back(static_cast<float>(mean(label))); });
  const std::vector<double> bounds = cluster_bounds(means, tissues);
  std::map<uint8_t, uint8_t> tissue;
  for (const auto& [label, sum] : sums)
    tissue[label] =
        static_cast<uint8_t>(1 + (std::upper_bound(bounds.begin(), bounds.end(), mean(label)) - bounds.begin()));
  each([&](uint8_t& label, size_t) { label = tissue[label]; });
  return tissues;
}

}  // namespace

HeadLabels head_labels(const Volume& scan, const Volume& segmentation, const HeadLabelOptions& options) {
  if (!same_grid(scan, segmentation))
    fail(ErrorCode::InvalidInput, segmentation.name, "lies on another grid than ", scan.name);
  std::set<int64_t> present;
  for (int64_t i = 0; i < segmentation.voxels(); ++i) present.insert(static_cast<int64_t>(value_at(segmentation, i)));
  present.erase(0);
  if (present.empty()) fail(ErrorCode::InvalidInput, segmentation.name, "holds no labels");
  const int64_t fluid = options.first > 0 ? options.first : *present.rbegin() + 1;
  if (fluid <= *present.rbegin())
    fail(ErrorCode::InvalidInput, segmentation.name, "holds label ", *present.rbegin(), "; new ones begin with ",
         fluid);
  const int64_t bone = options.tissues > 0 ? options.tissues + 1 : fluid + 1, first = bone + 1;
  if (*present.begin() < 0 || fluid + options.clusters + 1 > 255)
    fail(ErrorCode::InvalidInput, segmentation.name, "holds labels from ", *present.begin(), " to ", *present.rbegin(),
         "; there is room for 1 to ", 255 - options.clusters - 1);

  HeadLabels made;
  made.labels = like(segmentation, VoxelType::U8);
  made.labels.slope = 1;
  made.labels.intercept = 0;
  const Volume brain = brain_mask(segmentation, options);
  const std::vector<float> values = to_floats(scan);
  std::vector<float> outside;
  for (int64_t i = 0; i < brain.voxels(); ++i)
    if (!brain.as<uint8_t>()[i]) outside.push_back(values[static_cast<size_t>(i)]);
  if (outside.empty()) fail(ErrorCode::InvalidInput, segmentation.name, "leaves nothing outside of the brain");
  const std::vector<double> bounds = cluster_bounds(outside, options.clusters + 1);

  Volume dark = like(brain, VoxelType::U8);
  for (int64_t i = 0; i < brain.voxels(); ++i)
    dark.as<uint8_t>()[i] = !brain.as<uint8_t>()[i] && static_cast<double>(values[static_cast<size_t>(i)]) <= bounds[0];
  const Volume around = air(dark);
  uint8_t* const made_labels = made.labels.as<uint8_t>();
  for (int64_t i = 0; i < brain.voxels(); ++i) {
    const auto label = static_cast<int64_t>(value_at(segmentation, i));
    if (brain.as<uint8_t>()[i]) made_labels[i] = static_cast<uint8_t>(label > 0 ? label : fluid);
  }
  made.brain.assign(present.begin(), present.end());
  made.brain.push_back(fluid);
  if (options.tissues > 0) {
    made.brain.clear();
    for (int64_t t = 1; t <= join_tissues(made.labels, brain, values, options.tissues); ++t) made.brain.push_back(t);
  }
  for (int64_t i = 0; i < brain.voxels(); ++i) {
    if (brain.as<uint8_t>()[i]) continue;
    const double value = static_cast<double>(values[static_cast<size_t>(i)]);
    const auto cluster = std::upper_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
    if (!dark.as<uint8_t>()[i])
      made_labels[i] = static_cast<uint8_t>(first + cluster - 1);
    else
      made_labels[i] = static_cast<uint8_t>(around.as<uint8_t>()[i] ? 0 : bone);
  }
  made.outside = {0, bone};
  for (int64_t c = 0; c < options.clusters; ++c) made.outside.push_back(first + c);
  return made;
}

}  // namespace gyrus
