#pragma once
#include "import/onnx_ops.h"

// Windows that slide over spatial axes, as convolutions and pools have them.

namespace gyrus::onnx {

struct Window {
  Ints kernel, stride, dilation;
  Ints lo, hi;  // elements added before and after each axis; `hi` reaches as far as the last window
  Ints pad_hi;  // what the file says of the end, where it is less than `hi` (ceil_mode)
  Ints out;     // windows along each axis
};

// From the attributes of the node for an input of these spatial extents. `ceil` counts windows that begin inside and
// reach beyond the end.
Window window_of(Ctx& c, const Ints& kernel, const Ints& spatial, bool ceil);

inline Ints spatial_of(const Shape& shape) { return shape.size() < 2 ? Ints{} : Ints(shape.begin() + 2, shape.end()); }
inline Ints both(const Ints& lo, const Ints& hi) {
  Ints pads = lo;
  pads.insert(pads.end(), hi.begin(), hi.end());
  return pads;
}
// The means of the windows of a node of average pools over x.
Val average_pooled(Ctx& c, Val x);
// Pads of the spatial axes as those of all axes.
Ints full_pads(const Ints& lo, const Ints& hi);

}  // namespace gyrus::onnx
