#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

// What labels are called and what colour they have.

namespace gyrus {

using Rgb = std::array<uint8_t, 3>;

struct LabelEntry {
  int64_t value = 0;
  std::string name;
  Rgb colour{0, 0, 0};
};

struct LabelTable {
  std::vector<LabelEntry> entries;  // in the order of values; 0 is the background

  const LabelEntry* find(int64_t value) const;
};

// Colours that tell neighbours apart, names "label 1" …, for `count` labels with the background.
LabelTable default_labels(int64_t count);
// The tissues of a phantom.
LabelTable phantom_labels();
// A brainchop colormap.json: arrays R, G, B and, optionally, A, I (values) and labels. Throws InvalidModel.
LabelTable parse_colormap(const std::string& json, const std::string& name);

// ITK-SNAP's label description file.
std::string itksnap_table(const LabelTable& labels);
// FreeSurfer's colour lookup table.
std::string freesurfer_table(const LabelTable& labels);
// The sidecar of a label map: {"labels": [{"value", "name", "colour": "#rrggbb"}]}.
std::string sidecar_json(const LabelTable& labels);

}  // namespace gyrus
