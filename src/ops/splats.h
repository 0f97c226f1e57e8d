#pragma once
#include "graph/op.h"

// Blending of Gaussians that were projected and listed by tiles of 16 x 16 pixels (gyrus/splats.h).

namespace gyrus {

inline constexpr int64_t kSplatTile = 16;  // pixels along a side
inline constexpr int64_t kSplatWords =
    9;  // of a splat: its place x, y, the inverse of its covariance xx, xy, yy, opacity, colour

struct SplatGrid {
  int64_t width = 0, height = 0, across = 0, tiles = 0;
  int64_t listed = 0;  // places of the lists
  double threshold = 0;
};
SplatGrid splat_grid(const Node& node, const Shape& lists);

// Pictures [height, width, 4], colour and the share of light that is left, from splats f32 [N, 9] and lists i32
// [tiles + 1 + places]: where the list of each tile begins among the places, then the splats at the places, the nearest
// first. `ends` i32 [N] and `order` i32 [places] serve the gradient: places stood in the order of the splats, those of
// splat i from ends[i - 1] to ends[i], before they were brought into the order of the tiles; `order` says which one
// stands at each.
extern const OpDef kSplatBlend;
// From splats, lists and [height, width, 8], the picture and its gradient: the gradient of the splat at each place,
// f32 [places, 9].
extern const OpDef kSplatBlendBack;

}  // namespace gyrus
