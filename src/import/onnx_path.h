#pragma once
#include <optional>
#include <string>

#include "import/onnx_import.h"

namespace gyrus::onnx {

// An ONNX file with what it refers to. `model` refers to `bytes`.
struct ModelFile {
  std::string path;
  std::vector<std::byte> bytes;
  ModelProto model;
  ExternalData external;
};

// The file, or model.onnx of the folder, or its only .onnx file; nothing where that is no ONNX file. Not part of the
// WASM build.
std::optional<ModelFile> open_model(const std::string& path);

}  // namespace gyrus::onnx
