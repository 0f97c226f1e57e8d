#pragma once
#include <array>
#include <string>

#include "import/onnx_path.h"

// An ONNX network that labels volumes, and how it is moved over them.

namespace gyrus {

// How windows that overlap share a voxel: as equals, or each the more the nearer the voxel lies to its centre.
enum class Blend : uint8_t { Constant, Gaussian };

// What the network gives for each voxel.
enum class Scores : uint8_t {
  Logits,         // one number for each class; the largest wins
  Probabilities,  // the same after a softmax
  Sigmoid,        // one logit for each label but the background; those over a threshold are there
  Sigmoided,      // the same after the sigmoid
  Labels,         // the label itself
};

// As manifests name them.
constexpr const char* to_string(Scores scores) {
  constexpr const char* kNames[] = {"logits", "probabilities", "sigmoid", "sigmoided", "labels"};
  return kNames[static_cast<size_t>(scores)];
}

struct OnnxVolumes {
  onnx::ModelFile file;
  std::string input, output;        // names in the file
  DType input_type = DType::F32;    // or F16
  Shape patch{};                    // extents of a window in the order of the tensor's axes; empty: the whole volume
  int64_t multiple = 1;             // without a patch: volumes are padded to multiples of it
  std::array<double, 3> overlap{};  // part of a window that the next one covers, 0 to below 1
  Blend blend = Blend::Constant;
  double sigma = 0.125;  // of the Gaussian, in extents of the patch
  Scores scores = Scores::Logits;
  double threshold = 0.5;  // of sigmoids
  bool reversed = false;   // the tensor's axes are z, y, x and not x, y, z
};

}  // namespace gyrus
