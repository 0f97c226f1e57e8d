#pragma once
#include "graph/graph.h"
#include "import/model.h"
#include "volume/normalize.h"
#include "volume/volume.h"

namespace gyrus {

enum class NetworkOutput {
  Labels,         // "labels": argmax over classes, u8 (u32 over 256 classes), [1, spatial…]
  Logits,         // "logits": f32 [1, classes, spatial…]
  Probabilities,  // "labels" as above, and "probabilities": softmax over classes, f32 [1, classes, spatial…]
};

struct NetworkOptions {
  DType input = DType::F32;  // of "image": F32 or U8
  bool clamp = true;         // limit the normalised input to [0, 1]
  NetworkOutput output = NetworkOutput::Labels;
};

// The graph that runs a model on a volume as it is stored: "image" [1,C,spatial…], normalised on the device as
// image * scale + shift with the inputs "scale" and "shift" (f32 [1]), so that one plan serves every scan of a size.
Graph network_graph(const Model& model, const Shape& spatial, const NetworkOptions& options);

// The network's ends for this volume: bytes go to the device as they are, everything else as floats.
NetworkOptions network_options(const Volume& volume, const NormalizeOptions& normalize,
                               NetworkOutput output = NetworkOutput::Labels);

// The extents of the volume as the network sees them. Throws Unsupported where a model of layers does not take volumes
// of one channel.
Shape spatial_shape(const Model& model, const Volume& volume);

}  // namespace gyrus
