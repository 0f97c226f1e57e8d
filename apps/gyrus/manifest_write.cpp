#include "manifest_write.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common.h"
#include "core/error.h"
#include "core/files.h"
#include "engine/known_models.h"
#include "engine/model_store.h"
#include "import/onnx_path.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

fs::path manifest_path(const Model& model) {
  const fs::path path(model.path);
  std::error_code failed;
  return (fs::is_directory(path, failed) ? path : path.parent_path()) / kManifestName;
}

std::string write_new(const fs::path& path, const Json& json) {
  std::error_code failed;
  if (fs::exists(path, failed)) fail(ErrorCode::InvalidInput, path.string(), "is there already; change it by hand");
  write_file(path.string(), json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return path.string();
}

// What the file says of itself, the defaults of docs/models.md, and a question mark where only who trained it knows:
// it is refused until that is filled in.
Json onnx_manifest(const onnx::ModelFile& file) {
  const std::vector<onnx::DeclaredInput> inputs = onnx::declared_inputs(file.model);
  const std::vector<onnx::ValueProto>& outputs = file.model.graph.outputs;
  if (inputs.size() != 1 || inputs[0].shape.size() != 5 || outputs.empty())
    fail(ErrorCode::Unsupported, file.path, "has ", inputs.size(), " inputs",
         inputs.empty() ? std::string() : cat(" (the first takes ", inputs[0].text, ")"),
         "; segmentation needs one of volumes: [1, channels, and three extents]");
  const Shape& shape = inputs[0].shape;
  Json out = {{"title", ""}, {"description", ""}, {"channels", Json::array()}, {"normalize", "?"}};
  for (int64_t i = 0; i < std::max<int64_t>(shape[1], 1); ++i) out["channels"].push_back(cat("scan ", i + 1));
  out["axes"] = "xyz";
  if (shape[2] > 0 && shape[3] > 0 && shape[4] > 0) {
    out["patch"] = Json::array({shape[2], shape[3], shape[4]});
    out["overlap"] = 0.25;
    out["blend"] = "constant";
  } else {
    out["patch"] = "whole";
  }
  if (outputs.size() > 1) out["output"] = outputs[0].name;
  const int64_t scores = outputs[0].dims.size() == 5 ? outputs[0].dims[1].extent : -1;
  out["scores"] = scores == 1 ? "sigmoid" : "logits";
  if (scores > 0) {
    out["labels"] = Json::array({"background"});
    for (int64_t i = 1; i < std::max<int64_t>(scores, 2); ++i) out["labels"].push_back(cat("label ", i));
  }
  out["licence"] = "";
  out["citation"] = "";
  return out;
}

}  // namespace

bool lacks_manifest(const DescribedModel& described) {
  std::error_code failed;
  return described.model.network && !fs::exists(manifest_path(described.model), failed) && !recognise(described.model);
}

void say_lacking(const DescribedModel& described, const std::string& as_given) {
  say(cat("[", as_given, "] is not known, and no ", kManifestName,
          " says how scans are prepared for it: intensities are ", "normalised by ",
          normalize_text(described.manifest.normalize), "; gyrus models describe ", as_given,
          " --write writes one to fill in"));
}

std::string write_manifest(const std::string& text) {
  const std::string path = resolve_model(text);
  if (const auto file = onnx::open_model(path)) {
    const std::string written = write_new(fs::path(file->path).parent_path() / kManifestName, onnx_manifest(*file));
    say(cat("[", written, "] \"normalize\" is to be filled in: only who trained the model knows how intensities were ",
            "prepared; docs/models.md lists the ways and the other entries"));
    return written;
  }
  const DescribedModel described = open_model(text);
  const Manifest& manifest = described.manifest;
  Json out = {{"title", manifest.title},
              {"description", manifest.description},
              {"normalize", normalize_text(manifest.normalize)},
              {"labels", Json::array()},
              {"components", manifest.largest_component ? "largest" : "keep"},
              {"fill_holes", manifest.fill_holes},
              {"allow_empty", manifest.allow_empty},
              {"licence", manifest.licence},
              {"citation", manifest.citation}};
  for (const LabelEntry& entry : manifest.labels.entries) out["labels"].push_back(entry.name);
  return write_new(manifest_path(described.model), out);
}

}  // namespace gyrus::cli
