#pragma once
#include <cstdint>

#include "gyrus/ops.h"

// Random changes of training samples as nodes of the graph, so that they run where the network does. Every sample of a
// batch draws its own.

namespace gyrus {

// What is drawn, and how much; 0 or false: not at all.
struct AugmentOptions {
  bool flip[3] = {};             // mirrored along D, H, W in half of the samples
  double rotate = 0;             // degrees about each axis, uniform in ±
  double scale = 0;              // of each axis, uniform in 1 ±
  double shear = 0;              // of each pair of axes, uniform in ±
  double translate = 0;          // voxels along each axis, uniform in ±
  double elastic = 0;            // standard deviation in voxels of a smooth displacement
  int64_t elastic_spacing = 16;  // voxels between the points that it is drawn at
  double noise = 0;              // largest standard deviation of noise; that of a sample is uniform in 0…noise
  double bias = 0;               // largest standard deviation of the logarithm of a smooth factor; likewise
  int64_t bias_spacing = 64;
  double gamma = 0;       // image^exp(normal · gamma)
  double contrast = 0;    // differences from the mean, times 1 ±
  double brightness = 0;  // added, uniform in ±
  double blur = 0;        // largest sigma in voxels; likewise
  double resolution =
      0;  // largest distance in voxels of the slices that are left along a random axis; 1 and less: none
  bool synthesize = false;  // the image is made from the labels: mean and deviation drawn for each of them
  int64_t labels = 0;       // how many labels an image is made from, with 0
};

struct Augmented {
  Value image;   // [N,1,D,H,W] f32
  Value labels;  // [N,D,H,W] i32
};

// image [N,1,D,H,W] f32, scaled to 0…1, and labels [N,D,H,W] i32 move by one deformation, the image linearly, labels by
// the nearest voxel; what comes from outside is 0. Changes of intensity follow in the order of an acquisition: blur and
// resolution, bias, gamma, contrast and brightness, noise; their result lies within 0…1. Without options nothing
// changes.
//
// `key` as in gyrus/random.h; `stream` tells several calls apart. Where a network only runs (inference_graph,
// Trainer::run), it reads `image` as it is given. One that is synthesised needs none (a Value{}), but then the network
// does not run without labels.
Augmented augment(Value image, Value labels, Value key, int64_t stream, const AugmentOptions& options);

}  // namespace gyrus
