#pragma once
#include "core/tensor.h"
#include "volume/volume.h"

// Between files' voxel order (x fastest) and networks' (z fastest, for most).

namespace gyrus {

// [1, 1, X, Y, Z] with z fastest. F32: values with slope and intercept applied; U8: the elements of an unscaled U8
// volume as they are (throws InvalidInput for any other).
Tensor to_tensor(const Volume& volume, DType dtype = DType::F32);

// The axes of a network's tensor.
enum class AxisOrder : uint8_t { Xyz, Zyx };

// A tensor of X*Y*Z elements, its last axis fastest, on the grid of `grid`. F32 and F16 make F32; U8 makes U8; I32 and
// U32 make the smallest of U8, I16, I32 that holds them. Throws InvalidInput where the number of elements differs.
Volume to_volume(const Tensor& tensor, const Volume& grid, AxisOrder order = AxisOrder::Xyz);
// Voxels in the files' order put into a tensor of extents `padded`, the volume's first voxel at `before` (both in the
// tensor's order); what lies around stays as it is.
void put_voxels(const std::vector<float>& voxels, const Dims& dims, AxisOrder order,
                const std::array<int64_t, 3>& before, const Shape& padded, float* out);

}  // namespace gyrus
