#include "volume/mgh.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "volume/bytes.h"

namespace gyrus {

namespace {

struct MghHeader {
  Dims dims{};
  int64_t frames = 1;
  VoxelType type = VoxelType::U8;
  bool has_directions = false;
  Vec3d spacing{1, 1, 1};
  // Without directions: coronal slices, x to the left, y down, z to the front.
  double directions[3][3] = {{-1, 0, 0}, {0, 0, -1}, {0, 1, 0}};  // [voxel axis][RAS]
  Vec3d centre{0, 0, 0};                                          // RAS of the voxel at dims / 2

  uint64_t frame_bytes() const { return static_cast<uint64_t>(voxel_count(dims)) * byte_size(type); }
};

VoxelType mgh_type(int32_t code, const std::string& name) {
  switch (code) {
    case 0: return VoxelType::U8;
    case 1: return VoxelType::I32;
    case 3: return VoxelType::F32;
    case 4: return VoxelType::I16;
    case 10: return VoxelType::U16;
    default: break;
  }
  fail(ErrorCode::Unsupported, name, "MGH data type ", code, " is not one of uchar, int, float, short, ushort");
}

// As MGH can hold it: unscaled and of one of its types.
Volume storable(const Volume& volume) {
  const bool fits = volume.type == VoxelType::U8 || volume.type == VoxelType::I32 || volume.type == VoxelType::F32 ||
                    volume.type == VoxelType::I16 || volume.type == VoxelType::U16;
  if (fits && !volume.is_scaled()) return volume;
  Volume out = like(volume, VoxelType::F32);
  const std::vector<float> values = to_floats(volume);
  std::memcpy(out.data.data(), values.data(), out.data.size());
  out.comment = volume.comment;
  return out;
}

int32_t mgh_code(VoxelType type) {
  switch (type) {
    case VoxelType::U8: return 0;
    case VoxelType::I32: return 1;
    case VoxelType::I16: return 4;
    case VoxelType::U16: return 10;
    default: return 3;
  }
}

template <class T>
void store_big(std::byte* out, size_t offset, T value) {
  std::memcpy(out + offset, &value, sizeof(T));
  if (!host_is_big_endian()) std::reverse(out + offset, out + offset + sizeof(T));
}

void write_mgh_header(std::byte* out, const Volume& volume) {
  store_big(out, 0, int32_t{1});
  for (size_t i = 0; i < 3; ++i) store_big(out, 4 + 4 * i, static_cast<int32_t>(volume.dims[i]));
  store_big(out, 16, int32_t{1});
  store_big(out, 20, mgh_code(volume.type));
  store_big(out, 28, int16_t{1});
  const Vec3d spacing = volume.spacing();
  Vec3d half{};
  for (size_t i = 0; i < 3; ++i) half[i] = static_cast<double>(volume.dims[i]) / 2;
  const Vec3d centre = map_point(volume.affine, half);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    store_big(out, 30 + 4 * at, static_cast<float>(spacing[at]));
    for (int r = 0; r < 3; ++r)
      store_big(out, 42 + 12 * at + 4 * static_cast<size_t>(r), static_cast<float>(volume.affine(r, i) / spacing[at]));
    store_big(out, 78 + 4 * at, static_cast<float>(centre[at]));
  }
}

MghHeader parse(std::span<const std::byte> bytes, const std::string& name) {
  if (!is_mgh(bytes)) fail(ErrorCode::InvalidInput, name, "is no MGH file of version 1, or its header is cut off");
  const bool swap = !host_is_big_endian();
  const auto i32 = [&](size_t offset) { return load<int32_t>(bytes.data(), offset, swap); };
  const auto f32 = [&](size_t offset) { return static_cast<double>(load<float>(bytes.data(), offset, swap)); };
  MghHeader header;
  header.type = mgh_type(i32(20), name);
  header.frames = i32(16);
  uint64_t total = byte_size(header.type);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t extent = i32(4 + 4 * i);
    if (extent <= 0 || total > (uint64_t{1} << 62) / static_cast<uint64_t>(extent))
      fail(ErrorCode::InvalidInput, name, "the header says ", extent, " along axis ", i + 1);
    total *= static_cast<uint64_t>(extent);
    if (i < 3) header.dims[i] = extent;
  }
  if (header.dims[2] == 1) fail(ErrorCode::InvalidInput, name, "is a single 2-D slice; a 3-D volume is needed");
  header.has_directions = load<int16_t>(bytes.data(), 28, swap) > 0;
  if (!header.has_directions) return header;
  for (size_t i = 0; i < 3; ++i) {
    header.spacing[i] = f32(30 + 4 * i);
    for (size_t r = 0; r < 3; ++r) header.directions[i][r] = f32(42 + 12 * i + 4 * r);
    header.centre[i] = f32(78 + 4 * i);
  }
  return header;
}

Affine affine_of(const MghHeader& header) {
  Affine out;
  for (int r = 0; r < 3; ++r) {
    double shift = 0;
    for (int c = 0; c < 3; ++c) {
      out(r, c) = header.directions[c][r] * header.spacing[c];
      shift += out(r, c) * static_cast<double>(header.dims[c]) / 2;
    }
    out(r, 3) = header.centre[r] - shift;
  }
  return out;
}

}  // namespace

bool is_mgh(std::span<const std::byte> bytes) {
  return bytes.size() >= kMghHeaderBytes && load<int32_t>(bytes.data(), 0, !host_is_big_endian()) == 1;
}

uint64_t mgh_bytes(std::span<const std::byte> bytes, const std::string& name) {
  const MghHeader header = parse(bytes, name);
  return kMghHeaderBytes + header.frame_bytes() * static_cast<uint64_t>(header.frames);
}

int64_t mgh_frames(std::span<const std::byte> bytes, const std::string& name) { return parse(bytes, name).frames; }

std::vector<std::byte> encode_mgh(const Volume& volume) {
  constexpr size_t kParameters = 5 * sizeof(float);  // TR, flip angle, TE, TI, field of view: not known
  constexpr int32_t kCommandLine = 3;
  const Volume plain = storable(volume);
  const size_t tag = plain.comment.empty() ? 0 : 12 + plain.comment.size() + 1;
  const size_t behind = kMghHeaderBytes + plain.data.size() + kParameters;
  std::vector<std::byte> out(behind + tag);
  write_mgh_header(out.data(), plain);
  const size_t size = byte_size(plain.type);
  if (size > 1 && !host_is_big_endian()) {
    copy_swapped(out.data() + kMghHeaderBytes, plain.data.data(), static_cast<size_t>(plain.voxels()), size);
  } else {
    std::memcpy(out.data() + kMghHeaderBytes, plain.data.data(), plain.data.size());
  }
  if (tag == 0) return out;
  store_big(out.data(), behind, kCommandLine);
  store_big(out.data(), behind + 4, static_cast<int64_t>(plain.comment.size() + 1));
  std::memcpy(out.data() + behind + 12, plain.comment.data(), plain.comment.size());
  return out;
}

Volume decode_mgh(std::span<const std::byte> bytes, int64_t frame, const std::string& name) {
  const MghHeader header = parse(bytes, name);
  if (frame < 0 || frame >= header.frames)
    fail(ErrorCode::InvalidInput, name, "has ", header.frames, " volumes; number ", frame,
         " does not exist (counted from 0)");
  const uint64_t skip = kMghHeaderBytes + header.frame_bytes() * static_cast<uint64_t>(frame);
  if (bytes.size() < skip || bytes.size() - skip < header.frame_bytes())
    fail(ErrorCode::InvalidInput, name, "is cut off: volume ", frame, " needs bytes up to ",
         skip + header.frame_bytes(), ", the file has ", bytes.size());
  Volume volume(header.dims, header.type);
  volume.name = name;
  const size_t size = byte_size(header.type);
  const auto count = static_cast<size_t>(volume.voxels());
  if (size > 1 && !host_is_big_endian()) {
    copy_swapped(volume.data.data(), bytes.data() + skip, count, size);
  } else {
    std::memcpy(volume.data.data(), bytes.data() + skip, volume.data.size());
  }
  Affine affine = affine_of(header);
  if (!is_usable(affine)) {
    affine = affine_of(MghHeader{header.dims});
    volume.notices.emplace_back("the directions in the header are singular; coronal slices of 1 mm assumed");
  } else if (!header.has_directions) {
    volume.notices.emplace_back("the file does not say how it lies in the head; coronal slices of 1 mm assumed");
  }
  set_affine(volume, affine);
  return volume;
}

}  // namespace gyrus
