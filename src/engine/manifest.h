#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/model.h"
#include "import/onnx_path.h"
#include "volume/grid.h"
#include "volume/labels.h"
#include "volume/normalize.h"

namespace gyrus {

// One scan of several that a network looks at together.
struct ScanChannel {
  std::string name;  // "T1w"; may be empty
  NormalizeOptions normalize;
};

// What a model needs beside its weights: how scans are prepared for it and what its classes mean.
struct Manifest {
  std::string name, title, description;
  NormalizeOptions normalize;
  std::vector<ScanChannel> channels;  // of ONNX models, at least one; the first has the normalisation above
  bool conform = true;                // to 256³ voxels of 1 mm (conform.h); else to `grid`
  GridOptions grid{};
  LabelTable labels;
  bool largest_component = false;  // of each class; the rest is noise
  bool fill_holes = false;
  bool allow_empty = false;  // a result without any label is one
  std::string licence, citation;
  std::vector<std::string> notices;  // what had to be assumed; one line each
};

// A model and what it needs.
struct DescribedModel {
  Model model;
  Manifest manifest;
};

// Files of the model's folder by name.
using SideFiles = std::map<std::string, std::vector<std::byte>>;

inline constexpr const char* kManifestName = "gyrus.json";
// Whether manifest_of reads a file of that name: gyrus.json and colormap*.json.
bool is_side_file(const std::string& name);

// From gyrus.json (docs/models.md), else what is known of the model by its weights (known_models.h), else min–max.
// Labels without names or colours there come from a colour map. Throws InvalidModel.
Manifest manifest_of(const Model& model, const SideFiles& files);
// The same with what lies in the model's folder. Not part of the WASM build.
Manifest manifest_of(const Model& model);

// Of the folder's colour map, else names and colours that tell the classes apart.
LabelTable labels_of(const Model& model, const SideFiles& files);

// An ONNX model as its gyrus.json describes it; without one, or with one that does not fit the file, InvalidModel. The
// network is imported once, for the extents of a window, so that what cannot run is refused here.
DescribedModel describe_onnx(onnx::ModelFile file, const std::string& name, const SideFiles& files);

// The volume that the network is given: the scan on the grid that the manifest wants; nothing where it lies so already.
std::optional<Volume> network_volume(const Volume& scan, const Manifest& manifest);

}  // namespace gyrus
