// ONNX networks for volumes: what their gyrus.json says, checked against the file.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "engine/manifest_file.h"
#include "engine/windows.h"

namespace gyrus {
namespace {

constexpr double kMostVoxels = 1024;  // along an axis of a patch
constexpr int64_t kProbe = 64;        // extents with which a network of any size is looked at

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The one input that a scan goes to.
onnx::DeclaredInput input_of(const onnx::ModelFile& file, const ManifestFile& json) {
  const std::string wanted = json.text("input");
  const std::vector<onnx::DeclaredInput> inputs = onnx::declared_inputs(file.model);
  std::string names;
  for (const onnx::DeclaredInput& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == wanted; });
  if (!wanted.empty() && found == inputs.end())
    json.refuse(cat("\"input\": the model has no \"", wanted, "\"; it has ", names));
  if (inputs.size() != 1)
    fail(ErrorCode::Unsupported, file.path, "has ", inputs.size(), " inputs (", names,
         "); segmentation needs one, with the scans of a subject as its channels");
  const onnx::DeclaredInput& input = inputs[0];
  if (input.elem != onnx::Elem::F32 && input.elem != onnx::Elem::F16)
    fail(ErrorCode::Unsupported, file.path, "takes ", input.text, "; segmentation needs an input of floats");
  if (!input.shape.empty() && (input.shape.size() != 5 || (input.shape[0] != 1 && input.shape[0] != -1)))
    fail(ErrorCode::Unsupported, file.path, "takes ", input.text,
         "; segmentation needs volumes, one at a time: [1, channels, and three extents]");
  return input;
}

std::string output_of(const onnx::ModelFile& file, const ManifestFile& json) {
  const std::string wanted = json.text("output");
  std::string names;
  for (const onnx::ValueProto& output : file.model.graph.outputs) {
    if (output.name == wanted) return wanted;
    names += (names.empty() ? "" : ", ") + output.name;
  }
  if (!wanted.empty()) json.refuse(cat("\"output\": the model has no \"", wanted, "\"; it has ", names));
  if (file.model.graph.outputs.size() != 1)
    json.refuse(cat("the model has several outputs: \"output\" must say which of ", names, " has the scores"));
  return names;
}

void read_channels(const ManifestFile& json, const onnx::DeclaredInput& input, Manifest& manifest) {
  const int64_t declared = input.shape.size() == 5 ? input.shape[1] : -1;
  std::vector<std::string> names;
  if (json.has("channels") && json["channels"].is_number())
    names.resize(static_cast<size_t>(json.number("channels", 1, 1, 64)));
  else
    names = json.texts("channels");
  if (names.empty()) names.resize(declared > 0 ? static_cast<size_t>(declared) : 1);
  const auto count = static_cast<int64_t>(names.size());
  if (declared > 0 && count != declared)
    json.refuse(cat("\"channels\" are ", count, ", but the model takes ", input.text));
  std::vector<std::string> normalize = json.texts("normalize");
  if (normalize.empty())
    json.refuse("\"normalize\" is missing: only who trained the model knows how intensities were prepared");
  if (normalize.size() == 1) normalize.resize(names.size(), normalize[0]);
  if (normalize.size() != names.size())
    json.refuse(cat("\"normalize\" has ", normalize.size(), " texts for ", count, " channels"));
  for (size_t i = 0; i < names.size(); ++i) {
    try {
      manifest.channels.push_back({names[i], parse_normalize(normalize[i])});
    } catch (const Error& error) {
      json.refuse(error.what());
    }
  }
  manifest.normalize = manifest.channels[0].normalize;
}

void read_grid(const ManifestFile& json, Manifest& manifest) {
  manifest.conform = json.flag("conform");
  manifest.grid.orientation = json.text("orientation");
  if (json.has("orientation") && !is_orientation(manifest.grid.orientation))
    json.refuse(cat("\"orientation\": \"", manifest.grid.orientation,
                    "\" is not three letters, one of each of R and L, A and P, S and I; \"RAS\", say"));
  if (const auto spacing = json.three("spacing", 0.01, 100))
    std::copy(spacing->begin(), spacing->end(), manifest.grid.spacing.begin());
  if (manifest.conform && (json.has("orientation") || json.has("spacing")))
    json.refuse("\"conform\" says the grid: \"orientation\" and \"spacing\" cannot be there too");
}

// As the manifest says it, else as the file does. A file that was exported with some extents often takes others too;
// where it does not, importing it says so.
Shape patch_of(const ManifestFile& json, const onnx::DeclaredInput& input) {
  if (json.has("patch") && json["patch"] == "whole") return {};
  Shape patch;
  if (const auto given = json.three("patch", 1, kMostVoxels))
    for (const double extent : *given) {
      if (extent != std::floor(extent)) json.refuse("\"patch\" is not in whole voxels");
      patch.push_back(static_cast<int64_t>(extent));
    }
  if (!patch.empty() || input.shape.size() != 5) return patch;
  const Shape declared(input.shape.begin() + 2, input.shape.end());
  const bool known = std::all_of(declared.begin(), declared.end(), [](int64_t n) { return n > 0; });
  return known ? declared : patch;
}

void read_windows(const ManifestFile& json, const onnx::DeclaredInput& input, OnnxVolumes& out) {
  out.patch = patch_of(json, input);
  out.multiple = static_cast<int64_t>(json.number("multiple", 1, 1, 1024));
  if (const auto overlap = json.three("overlap", 0, 0.95)) {
    std::copy(overlap->begin(), overlap->end(), out.overlap.begin());
  } else {
    out.overlap = {0.25, 0.25, 0.25};
  }
  out.style = json.word("windows", {"monai", "nnunet"}) == 0 ? WindowStyle::Monai : WindowStyle::NnUnet;
  out.blend = json.word("blend", {"constant", "gaussian"}) == 0 ? Blend::Constant : Blend::Gaussian;
  out.sigma = json.number("sigma", 0.125, 0.01, 10);
  out.scores = static_cast<Scores>(json.word("scores", {"logits", "probabilities", "sigmoid", "sigmoided", "labels"}));
  out.threshold = json.number("threshold", 0.5, 0, 1);
  out.reversed = json.word("axes", {"xyz", "zyx"}) == 1;
  if (!out.patch.empty() && json.has("multiple"))
    json.refuse("\"multiple\" is for networks that take the whole volume; this one has a patch");
  if (out.patch.empty())
    for (const char* key : {"overlap", "windows", "blend", "sigma"})
      if (json.has(key)) json.refuse(cat("\"", key, "\" is for windows, and there is no \"patch\""));
}

int64_t classes_of(const ManifestFile& json, Scores scores, int64_t channels) {
  if (scores == Scores::Sigmoid || scores == Scores::Sigmoided) return channels + 1;
  if (scores == Scores::Labels) {
    if (channels != 1) json.refuse(cat("\"scores\": \"labels\", but the model gives ", channels, " numbers a voxel"));
    const auto labels = json.labels();
    if (!labels) json.refuse("\"scores\": \"labels\" needs \"labels\": the model does not tell how many there are");
    return static_cast<int64_t>(labels->size());
  }
  if (channels < 2)
    json.refuse("the model gives one number a voxel: \"scores\" must be \"sigmoid\", \"sigmoided\" or \"labels\"");
  return channels;
}

int64_t count_parameters(const onnx::ModelProto& model) {
  int64_t count = 0;
  for (const onnx::TensorProto& tensor : model.graph.initializers)
    if (tensor.type == onnx::Elem::F32 || tensor.type == onnx::Elem::F16) count += element_count(tensor.dims);
  return count;
}

}  // namespace

DescribedModel describe_onnx(onnx::ModelFile file, const std::string& name, const SideFiles& files) {
  const auto own = files.find(kManifestName);
  if (own == files.end())
    fail(ErrorCode::InvalidModel, file.path, "an ONNX file does not say how scans are prepared for it: write a ",
         kManifestName, " beside it (gyrus models describe ", file.path,
         " --write begins one; docs/models.md has examples for MONAI and nnU-Net)");
  const std::string folder = file.path.substr(0, file.path.find_last_of('/') + 1);
  const ManifestFile json(text_of(own->second), folder + kManifestName);
  json.check_keys(/*onnx=*/true);
  DescribedModel out;
  out.manifest.name = name;
  const onnx::DeclaredInput input = input_of(file, json);
  OnnxVolumes onnx;
  onnx.input = input.name;
  onnx.input_type = input.elem == onnx::Elem::F16 ? DType::F16 : DType::F32;
  onnx.output = output_of(file, json);
  read_channels(json, input, out.manifest);
  read_grid(json, out.manifest);
  read_windows(json, input, onnx);
  Model& model = out.model;
  model.name = name;
  model.format = "ONNX";
  model.path = file.path;
  model.input_channels = static_cast<int64_t>(out.manifest.channels.size());
  model.parameters = count_parameters(file.model);
  model.spatial_rank = 3;
  onnx.file = std::move(file);
  const int64_t side = (kProbe + onnx.multiple - 1) / onnx.multiple * onnx.multiple;
  const Shape extents = onnx.patch.empty() ? Shape{side, side, side} : onnx.patch;
  model.classes = classes_of(json, onnx.scores, patch_network(onnx, name, model.input_channels, extents).channels);
  model.onnx = std::make_shared<const OnnxVolumes>(std::move(onnx));
  out.manifest.labels = labels_of(model, files);
  json.read_common(out.manifest);
  return out;
}

}  // namespace gyrus
