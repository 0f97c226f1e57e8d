#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/network.h"

// A MeshNet without a GPU: for browsers that have none, and networks small enough. Plain f32 on one thread with vector
// instructions; a chain of convolutions that keep the extents, each with an activation, and an argmax at the end.

namespace gyrus {

class CpuNetwork {
 public:
  // Throws Unsupported where the network is no such chain.
  CpuNetwork(const Model& model, const Shape& spatial, const NetworkOptions& options);

  double flops() const { return flops_; }
  uint64_t bytes() const;  // of feature maps that a run needs

  // Begins a run. `image` is [1,1,spatial…], of options.input, z fastest.
  void start(const std::byte* image, size_t bytes, double scale, double shift);
  // Works on for about so many flops, at least one plane of a layer; returns the fraction of the run that is done.
  double step(double flops);
  const std::string& label() const;  // of the layer at which step() is

  // [1, spatial…], u8 or, over 256 classes, u32; once step() returned 1. Hands them over.
  Tensor take_labels() { return std::move(labels_); }

 private:
  struct Layer {
    std::string label;
    int64_t in_channels = 0, out_channels = 0;
    Shape kernel, dilation, pads;  // pads: zeros before each axis
    std::vector<float> weights;    // blocks of output channels, each [in channel][tap][channel of the block]
    std::vector<float> bias;
    Node activation;  // op empty for none
    bool is_last = false;
    double flops = 0;
  };

  void add_layer(const Graph& graph, const Node& conv);
  void run_plane(const Layer& layer, int64_t x);
  void run_row(const Layer& layer, int64_t x, int64_t y, const std::vector<float*>& out);
  void activate(const Layer& layer, float* row) const;
  void write_labels(const Layer& layer, int64_t x, int64_t y);
  void commit(const Layer& layer, int64_t x);
  float* map_row(int64_t channel, int64_t x, int64_t y) {
    return map_.data() + gap_ + ((channel * nx_ + x) * ny_ + y) * stride_;
  }

  NetworkOptions options_;
  std::string name_;
  int64_t nx_ = 0, ny_ = 0, nz_ = 0;
  int64_t gap_ = 0;     // zeros between rows, so that taps along z need no bounds
  int64_t stride_ = 0;  // from row to row, elements
  int64_t channels_ = 1;
  std::vector<Layer> layers_;
  double flops_ = 0, done_ = 0;

  // One map for all layers. A layer's planes wait in `ring_` until no later plane needs the input that they replace.
  std::vector<float> map_;   // [channel][x][y][stride], `gap_` zeros in front
  std::vector<float> ring_;  // [slot][channel][y][stride]
  int64_t slots_ = 0;
  size_t layer_ = 0;
  int64_t plane_ = 0;
  Tensor labels_;
};

}  // namespace gyrus
