#pragma once
#include <array>
#include <vector>

#include "engine/network.h"
#include "import/onnx_volume.h"

// Networks of a fixed window on volumes of any size, in MONAI's way (sliding_window_inference): windows in rows that
// overlap, the scores of each weighted and summed on the device, and divided by the sum of the weights where that
// matters. Three states are kept there: the image, and the weighted scores with the weights as one more channel.

namespace gyrus {

using Start = std::array<int64_t, 3>;

// Where windows start along an axis: every (1 - overlap) of the patch, the last one moved back to end with the volume.
std::vector<int64_t> window_starts(int64_t extent, int64_t patch, double overlap);
// The starts of all windows, the last axis fastest.
std::vector<Start> all_windows(const Shape& extents, const Shape& patch, const std::array<double, 3>& overlap);

// The weight of each voxel of a window, f32 [1, 1, patch…]: ones, or the product of Gaussians around the centre, but
// nowhere below 1/1000.
Tensor window_weights(const Shape& patch, Blend blend, double sigma);

// A volume's extents with the zeros that are put around it, half of them before: to a window, or to the multiple.
struct Padded {
  Shape extents;
  Start before;
};
Padded padded_extents(const OnnxVolumes& onnx, const Shape& spatial);

// The graphs of a model on a volume of these extents (without padding). Where one window holds all of it there is only
// `window`: input "image" f32 [1, C, padded…] to "labels" and, where asked for, "probabilities", as network_graph() has
// them. Else `window` adds the scores of one window, whose start are the arguments "at0", "at1", "at2", to the state
// "scores"; the image is the state "image". `finish` makes the outputs from these.
struct WindowGraphs {
  Graph window;
  std::optional<Graph> finish;
  std::vector<Start> starts;
};
WindowGraphs window_graphs(const Model& model, const Shape& spatial, NetworkOutput output);

// The network alone on an input of [1, channels, spatial…]; the name and shape of each port are checked. Throws
// InvalidModel where the file is no network that gives scores for each voxel.
struct PatchScores {
  Graph graph;
  int64_t channels = 0;  // of the result
};
PatchScores patch_network(const OnnxVolumes& onnx, const std::string& subject, int64_t channels, const Shape& spatial);

}  // namespace gyrus
