#include "volume/volume_tensor.h"

#include <algorithm>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

// Both directions are, for every y, the transpose of an X×Z matrix. A tile goes through a small buffer, read and
// written by rows: rows of a cube lie a power of two apart, and reading down a column would evict them from the cache.
constexpr int64_t kTile = 64;

// out[(x*Y + y)*Z + z] = convert(in[x + X*(y + Y*z)])
template <class In, class Out, class F>
void files_to_networks(const In* in, Out* out, const Dims& dims, F convert) {
  const int64_t nx = dims[0], ny = dims[1], nz = dims[2];
  parallel_ranges(ny, 4, [&](int64_t begin, int64_t end) {
    Out tile[kTile][kTile + 1];  // [x][z]
    for (int64_t y = begin; y < end; ++y)
      for (int64_t x0 = 0; x0 < nx; x0 += kTile)
        for (int64_t z0 = 0; z0 < nz; z0 += kTile) {
          const int64_t width = std::min(kTile, nx - x0), depth = std::min(kTile, nz - z0);
          for (int64_t z = 0; z < depth; ++z) {
            const In* from = in + x0 + nx * (y + ny * (z0 + z));
            for (int64_t x = 0; x < width; ++x) tile[x][z] = convert(from[x]);
          }
          for (int64_t x = 0; x < width; ++x) std::copy(tile[x], tile[x] + depth, out + ((x0 + x) * ny + y) * nz + z0);
        }
  });
}

// out[x + X*(y + Y*z)] = convert(in[(x*Y + y)*Z + z])
template <class In, class Out, class F>
void networks_to_files(const In* in, Out* out, const Dims& dims, F convert) {
  const int64_t nx = dims[0], ny = dims[1], nz = dims[2];
  // The same transpose seen from the other side: the roles of x and z are exchanged.
  files_to_networks(in, out, {nz, ny, nx}, convert);
}

// The elements of a tensor in files' order.
template <class In, class Out, class F>
void in_order(AxisOrder order, const In* in, Out* out, const Dims& dims, F convert) {
  if (order == AxisOrder::Zyx) {
    std::transform(in, in + voxel_count(dims), out, convert);
  } else {
    networks_to_files(in, out, dims, convert);
  }
}

template <class In>
Volume smallest_integers(const Tensor& tensor, const Volume& grid, AxisOrder order) {
  const In* in = tensor.as<In>();
  const int64_t count = tensor.size();
  const auto [low, high] = std::minmax_element(in, in + count);
  const auto smallest = static_cast<int64_t>(*low), largest = static_cast<int64_t>(*high);
  const VoxelType type = smallest >= 0 && largest <= 255          ? VoxelType::U8
                         : smallest >= -32768 && largest <= 32767 ? VoxelType::I16
                                                                  : VoxelType::I32;
  if (largest > INT32_MAX) fail(ErrorCode::InvalidInput, "labels", "value ", largest, " does not fit 32 bits");
  Volume out = like(grid, type);
  if (type == VoxelType::U8) {
    in_order(order, in, out.as<uint8_t>(), out.dims, [](In v) { return static_cast<uint8_t>(v); });
  } else if (type == VoxelType::I16) {
    in_order(order, in, out.as<int16_t>(), out.dims, [](In v) { return static_cast<int16_t>(v); });
  } else {
    in_order(order, in, out.as<int32_t>(), out.dims, [](In v) { return static_cast<int32_t>(v); });
  }
  return out;
}

}  // namespace

Tensor to_tensor(const Volume& volume, DType dtype) {
  const Shape shape{1, 1, volume.dims[0], volume.dims[1], volume.dims[2]};
  if (dtype == DType::U8) {
    if (volume.type != VoxelType::U8 || volume.is_scaled())
      fail(ErrorCode::InvalidInput, volume.name, "is ", to_string(volume.type), ", not plain uint8");
    Tensor out(DType::U8, shape);
    files_to_networks(volume.as<uint8_t>(), out.as<uint8_t>(), volume.dims, [](uint8_t v) { return v; });
    return out;
  }
  if (dtype != DType::F32) fail(ErrorCode::InvalidInput, volume.name, "tensors of volumes are f32 or u8");
  Tensor out(DType::F32, shape);
  visit_elements(volume, [&](const auto* data) {
    using Element = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
    if (volume.is_scaled()) {
      const double slope = volume.slope, intercept = volume.intercept;
      files_to_networks(data, out.as<float>(), volume.dims,
                        [slope, intercept](Element v) { return to_float(slope * static_cast<double>(v) + intercept); });
    } else {
      files_to_networks(data, out.as<float>(), volume.dims, [](Element v) {
        if constexpr (sizeof(Element) == sizeof(double)) return to_float(static_cast<double>(v));
        return static_cast<float>(v);
      });
    }
  });
  return out;
}

Volume to_volume(const Tensor& tensor, const Volume& grid, AxisOrder order) {
  if (tensor.size() != grid.voxels())
    fail(ErrorCode::InvalidInput, grid.name, "a tensor ", to_string(tensor.shape), " does not fill a grid of ",
         to_string(grid.dims));
  if (tensor.dtype == DType::I32) return smallest_integers<int32_t>(tensor, grid, order);
  if (tensor.dtype == DType::U32) return smallest_integers<uint32_t>(tensor, grid, order);
  Volume out = like(grid, tensor.dtype == DType::U8 ? VoxelType::U8 : VoxelType::F32);
  if (tensor.dtype == DType::U8) {
    in_order(order, tensor.as<uint8_t>(), out.as<uint8_t>(), out.dims, [](uint8_t v) { return v; });
  } else if (tensor.dtype == DType::F32) {
    in_order(order, tensor.as<float>(), out.as<float>(), out.dims, [](float v) { return v; });
  } else {
    in_order(order, tensor.as<uint16_t>(), out.as<float>(), out.dims, half_to_float);
  }
  return out;
}

void put_voxels(const std::vector<float>& voxels, const Dims& dims, AxisOrder order,
                const std::array<int64_t, 3>& before, const Shape& padded, float* out) {
  const float* in = voxels.data();
  for (int64_t z = 0; z < dims[2]; ++z)
    for (int64_t y = 0; y < dims[1]; ++y)
      for (int64_t x = 0; x < dims[0]; ++x) {
        const int64_t a = order == AxisOrder::Zyx ? z : x, c = order == AxisOrder::Zyx ? x : z;
        out[((a + before[0]) * padded[1] + y + before[1]) * padded[2] + c + before[2]] = *in++;
      }
}

}  // namespace gyrus
