#pragma once
#include <cstdint>

#include "gyrus/graph.h"

// Gaussian splats after Kerbl, Kopanas, Leimkuehler and Drettakis, "3D Gaussian splatting for real-time radiance field
// rendering" (2023): 3-D Gaussians, projected, sorted by tile and depth, and blended from front to back, as nodes of
// one graph, with gradients.

namespace gyrus {

// N Gaussians, f32.
struct Splats {
  Value means;      // [N,3]
  Value scales;     // [N,3]: standard deviations along their own axes
  Value rotations;  // [N,4]: quaternions w, x, y, z of any length but 0
  Value opacities;  // [N], from 0 to 1
  Value colours;    // [N,K,3]: coefficients of spherical harmonics, K = 1, 4, 9 or 16 for degree 0 to 3
};

// Where a picture is taken from, f32.
struct SplatCamera {
  Value view;  // [3,4]: from the world to the camera, which looks along z, with x to the right and y down
  Value lens;  // [4]: focal lengths along x and y and the point that z goes through, in pixels
};

struct SplatOptions {
  int64_t width = 0, height = 0;
  // Places for a Gaussian in a tile of 16 x 16 pixels. Where more are needed the run is stopped with InvalidInput and
  // the number.
  int64_t capacity = 0;
  double nearest = 0.2;     // Gaussians that are not farther than this along z are left out
  double blur = 0.3;        // added to the variances on the picture, in square pixels
  double threshold = 1e-4;  // a pixel is done before less than this of the light would be left
};

// A Gaussian covers a pixel, whose centre lies at a half, with min(0.99, opacity · exp(-distance)), left out below
// 1/255. Colours are 0.5 + the harmonics along the way from the camera, at least 0. Gradients go to all of the splats
// and to the camera; none through the order, the choice of tiles and the two thresholds.
struct SplatPicture {
  Value colour;  // [height,width,3], over black
  Value light;   // [height,width]: the share that passes through; colour + light · background is the picture
};
SplatPicture render(const Splats& splats, const SplatCamera& camera, const SplatOptions& options);

}  // namespace gyrus
