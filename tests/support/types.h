#pragma once
#include "graph/graph.h"

namespace gyrus {

inline TensorType f32(Shape shape) { return {DType::F32, std::move(shape), Layout::Plain}; }

}  // namespace gyrus
