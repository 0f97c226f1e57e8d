#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "volume/volume.h"

// FreeSurfer's MGH format in memory, uncompressed (an .mgz is its gzip). Always big-endian.

namespace gyrus {

inline constexpr size_t kMghHeaderBytes = 284;

bool is_mgh(std::span<const std::byte> bytes);
// Bytes of header and voxels, without the tags that may follow. `bytes` needs to hold the header only.
uint64_t mgh_bytes(std::span<const std::byte> bytes, const std::string& name);
int64_t mgh_frames(std::span<const std::byte> bytes, const std::string& name);
// The whole file. MGH knows uint8, int16, uint16, int32 and float32 without scaling: other values become float32. The
// volume's comment is kept as a command line (tag 3).
std::vector<std::byte> encode_mgh(const Volume& volume);
Volume decode_mgh(std::span<const std::byte> bytes, int64_t frame, const std::string& name);

}  // namespace gyrus
