#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/network.h"
#include "volume/labels.h"
#include "volume/normalize.h"

// The model of `make demo`: a small network that tells the phantom's tissues apart. Its filters are written down, its
// last two layers are fitted to a phantom of another seed, here and now, in about two seconds.

namespace gyrus {

// One convolution with cubic kernel, dilation and zero padding to keep the extents.
struct DemoLayer {
  std::string label;
  int64_t in = 0, out = 0;
  int64_t kernel = 1;  // 1 or 3
  int64_t dilation = 1;
  bool relu = true;
  std::vector<float> weight;  // [out][in][kernel³]
  std::vector<float> bias;    // [out]
};

// The layers for heads that fill a grid of `size` voxels a side (the dilations grow with it).
std::vector<DemoLayer> demo_layers(int64_t size);
// The same as a network: image → logits of six tissues (volume/phantom.h).
Network demo_network(int64_t size);

inline NormalizeOptions demo_normalize() { return {NormalizeKind::Quantile, 0.02, 0.98}; }

// The layers applied on the CPU to a tensor [in][X][Y][Z], z fastest; for fitting and tests, not for speed.
std::vector<float> run_demo_layers(const std::vector<DemoLayer>& layers, std::vector<float> image, int64_t nx,
                                   int64_t ny, int64_t nz);

}  // namespace gyrus
