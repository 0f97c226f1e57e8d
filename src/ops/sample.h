#pragma once
#include "graph/op.h"

namespace gyrus {

// x [N,C,spatial…] of one to three axes read between its elements: for each of those axes an operand [N,out…] says
// where, in elements; the result is [N,C,out…]. mode "linear" (the default, of floats) weighs the neighbours, "nearest"
// takes the nearest element, at halves the even one. What lies outside x is 0.
extern const OpDef kSample;

struct SampleAttrs {
  bool nearest = false;
  int64_t images = 1, channels = 1, points = 1, places = 1;  // points of the result, places of x, for each channel
  Shape extents;                                             // of x
  std::vector<int64_t> strides;                              // of the places, in elements
};
SampleAttrs sample_attrs(const Node& node, const Shape& x, const Shape& result);

}  // namespace gyrus
