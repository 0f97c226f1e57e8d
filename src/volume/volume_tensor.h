#pragma once
#include "core/tensor.h"
#include "volume/volume.h"

// Between files' voxel order (x fastest) and networks' (z fastest).

namespace gyrus {

// [1, 1, X, Y, Z] with z fastest. F32: values with slope and intercept applied; U8: the elements of an unscaled U8
// volume as they are (throws InvalidInput for any other).
Tensor to_tensor(const Volume& volume, DType dtype = DType::F32);

// A tensor of X*Y*Z elements, z fastest, on the grid of `grid`. F32 and F16 make F32; U8 makes U8; I32 and U32 make the
// smallest of U8, I16, I32 that holds them. Throws InvalidInput where the number of elements differs.
Volume to_volume(const Tensor& tensor, const Volume& grid);

}  // namespace gyrus
