#include "volume/freesurfer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "core/error.h"

namespace gyrus {
namespace {

struct Structure {
  const char* name;
  int64_t left, right;
};

// FreeSurferColorLUT.txt, of aseg.
constexpr Structure kStructures[] = {
    {"Cerebral-White-Matter", 2, 41},
    {"Cerebral-Cortex", 3, 42},
    {"Lateral-Ventricle", 4, 43},
    {"Inf-Lat-Vent", 5, 44},
    {"Inferior-Lateral-Ventricle", 5, 44},
    {"Cerebellum-White-Matter", 7, 46},
    {"Cerebellum-Cortex", 8, 47},
    {"Thalamus", 10, 49},
    {"Thalamus-Proper", 10, 49},
    {"Caudate", 11, 50},
    {"Putamen", 12, 51},
    {"Pallidum", 13, 52},
    {"3rd-Ventricle", 14, 14},
    {"4th-Ventricle", 15, 15},
    {"Brain-Stem", 16, 16},
    {"Hippocampus", 17, 53},
    {"Amygdala", 18, 54},
    {"CSF", 24, 24},
    {"Accumbens-area", 26, 58},
    {"VentralDC", 28, 60},
    {"CC_Posterior", 251, 251},
    {"CC_Mid_Posterior", 252, 252},
    {"CC_Central", 253, 253},
    {"CC_Mid_Anterior", 254, 254},
    {"CC_Anterior", 255, 255},
};

// The regions of aparc, ctx-lh-… from 1001 and ctx-rh-… from 2001; the fourth is none of the cortex.
constexpr const char* kCortex[] = {
    "bankssts",
    "caudalanteriorcingulate",
    "caudalmiddlefrontal",
    "",
    "cuneus",
    "entorhinal",
    "fusiform",
    "inferiorparietal",
    "inferiortemporal",
    "isthmuscingulate",
    "lateraloccipital",
    "lateralorbitofrontal",
    "lingual",
    "medialorbitofrontal",
    "middletemporal",
    "parahippocampal",
    "paracentral",
    "parsopercularis",
    "parsorbitalis",
    "parstriangularis",
    "pericalcarine",
    "postcentral",
    "posteriorcingulate",
    "precentral",
    "precuneus",
    "rostralanteriorcingulate",
    "rostralmiddlefrontal",
    "superiorfrontal",
    "superiorparietal",
    "superiortemporal",
    "supramarginal",
    "frontalpole",
    "temporalpole",
    "transversetemporal",
    "insula",
};

std::string small(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

// Zero where there is none.
FreeSurferLabels::Sides sides_of(const std::string& name) {
  std::string word = small(name);
  if (!word.empty() && word.back() == '*') word.pop_back();  // FreeSurfer marks names that it gave up
  for (const auto& [prefix, first] : {std::pair("ctx-lh-", 1001), std::pair("ctx-rh-", 2001)})
    if (starts(word, prefix))
      for (size_t i = 0; i < std::size(kCortex); ++i)
        if (word.substr(7) == kCortex[i]) return {first + static_cast<int64_t>(i), first + static_cast<int64_t>(i)};
  const bool left = starts(word, "left-"), right = starts(word, "right-");
  if (left || right) word = word.substr(left ? 5 : 6);
  for (const Structure& s : kStructures)
    if (word == small(s.name)) return {right ? s.right : s.left, left ? s.left : s.right};
  return {};
}

double determinant(const std::array<std::array<double, 3>, 3>& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

}  // namespace

FreeSurferLabels freesurfer_labels(const LabelTable& labels, const std::string& model) {
  FreeSurferLabels out;
  for (const LabelEntry& entry : labels.entries) {
    const auto at = static_cast<size_t>(entry.value);
    if (out.numbers.size() <= at) out.numbers.resize(at + 1);
    if (entry.value == 0) {
      out.table.entries.push_back({0, "Unknown", entry.colour});
      continue;
    }
    const FreeSurferLabels::Sides sides = sides_of(entry.name);
    if (sides.left == 0)
      fail(ErrorCode::Unsupported, model, "FreeSurfer has no number for its label \"", entry.name, "\"");
    out.numbers[at] = sides;
    if (sides.left == sides.right) {
      out.table.entries.push_back({sides.left, entry.name, entry.colour});
      continue;
    }
    out.splits = true;
    out.table.entries.push_back({sides.left, "Left-" + entry.name, entry.colour});
    out.table.entries.push_back({sides.right, "Right-" + entry.name, entry.colour});
  }
  std::sort(out.table.entries.begin(), out.table.entries.end(),
            [](const LabelEntry& a, const LabelEntry& b) { return a.value < b.value; });
  return out;
}

// Least squares of x over y and z: where the labels are symmetric, the mean of x for any y and z lies on the plane.
Midline midline_of(const Volume& labels) {
  std::array<std::array<double, 3>, 3> m{};
  std::array<double, 3> v{};
  const Vec3d middle = map_point(
      labels.affine, {static_cast<double>(labels.dims[0] - 1) / 2, static_cast<double>(labels.dims[1] - 1) / 2,
                      static_cast<double>(labels.dims[2] - 1) / 2});
  for (int64_t z = 0, i = 0; z < labels.dims[2]; ++z)
    for (int64_t y = 0; y < labels.dims[1]; ++y)
      for (int64_t x = 0; x < labels.dims[0]; ++x, ++i) {
        if (value_at(labels, i) == 0) continue;
        const Vec3d p =
            map_point(labels.affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        const std::array<double, 3> row = {1, p[1] - middle[1], p[2] - middle[2]};
        for (size_t r = 0; r < 3; ++r) {
          for (size_t c = 0; c < 3; ++c) m[r][c] += row[r] * row[c];
          v[r] += row[r] * p[0];
        }
      }
  if (m[0][0] == 0) return {middle[0], 0, 0};
  const double d = determinant(m);
  if (!(std::abs(d) > 1e-9 * m[0][0] * m[1][1] * m[2][2])) return {v[0] / m[0][0], 0, 0};
  std::array<double, 3> solution{};
  for (size_t c = 0; c < 3; ++c) {
    auto replaced = m;
    for (size_t r = 0; r < 3; ++r) replaced[r][c] = v[r];
    solution[c] = determinant(replaced) / d;
  }
  return {solution[0] - solution[1] * middle[1] - solution[2] * middle[2], solution[1], solution[2]};
}

Volume to_freesurfer(const Volume& labels, const FreeSurferLabels& numbers) {
  Volume out = like(labels, VoxelType::I32);
  const Midline midline = numbers.splits ? midline_of(labels) : Midline{};
  for (int64_t z = 0, i = 0; z < labels.dims[2]; ++z)
    for (int64_t y = 0; y < labels.dims[1]; ++y)
      for (int64_t x = 0; x < labels.dims[0]; ++x, ++i) {
        const auto label = static_cast<size_t>(value_at(labels, i));
        if (label == 0 || label >= numbers.numbers.size()) continue;
        const FreeSurferLabels::Sides& sides = numbers.numbers[label];
        const Vec3d p =
            map_point(labels.affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        const bool right = p[0] > midline.at + midline.along_y * p[1] + midline.along_z * p[2];
        out.as<int32_t>()[i] = static_cast<int32_t>(right ? sides.right : sides.left);
      }
  return out;
}

}  // namespace gyrus
