#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace gyrus {

class Network;
struct OnnxVolumes;

// One layer as `gyrus info` shows it: a convolution with the norm and activation behind it, or any other step.
struct LayerInfo {
  std::string name, kind;  // kind: "conv3d", "add", …
  Shape weight_shape;      // [O, C/groups, k…]; empty without weights
  int64_t parameters = 0;  // weights and biases, running statistics not counted
  std::vector<int64_t> kernel, dilation, stride,
      pads;                      // each spatial axis; pads empty where they depend on the extents
  std::string activation, norm;  // ops; empty for none
};

// A network read from its files, ready to become a graph for any extents.
struct Model {
  std::string name;    // of its folder
  std::string format;  // "layer list + torch zip", "layer list + safetensors", "tfjs layers model", "ONNX"
  std::string path;
  std::vector<LayerInfo> layers;
  int64_t input_channels = 0, classes = 0, parameters = 0;
  int spatial_rank = 0;
  // Voxels of the input, along the axis where they are most, that the convolutions give an output voxel. Norms over the
  // whole volume are not counted.
  int64_t receptive_field = 1;
  std::shared_ptr<const Network> network;   // null for ONNX
  std::shared_ptr<const OnnxVolumes> onnx;  // null for all others

  // Input "image" f32 [1,C,spatial…], output "logits" f32 [1,classes,spatial…]; a softmax at the end of the model stays
  // (the argmax is the same). Throws InvalidInput or InvalidGraph where the model cannot take the extents.
  Graph build(const Shape& spatial) const;
};

// A model's files in memory.
struct ModelFiles {
  std::string name;  // the model's
  std::string path;  // for error messages; empty: the name
  std::map<std::string, std::vector<std::byte>> files;
  std::string main;  // the one that the user named, if it was a file and not a folder
};

// Reads a model; formats are recognised by content, never by suffix. docs/models.md says which of several files counts.
// Throws InvalidModel, Unsupported or Io with "[path] …".
Model load_model(const ModelFiles& files);
// The same from a folder, or from a file with what lies beside it. Not part of the WASM build.
Model load_model(const std::string& path);

}  // namespace gyrus
