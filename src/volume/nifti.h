#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volume/volume.h"

// NIfTI-1, NIfTI-2 and Analyze 7.5 in memory, uncompressed. Format: https://nifti.nimh.nih.gov/nifti-1 and nifti-2.

namespace gyrus {

enum class NiftiKind : uint8_t { Single, Pair, Analyze };  // header and voxels in one file, in two, two without magic

// What a header says, in the host's byte order and independent of the version.
struct NiftiHeader {
  NiftiKind kind = NiftiKind::Single;
  int version = 1;
  bool swapped = false;      // the file's byte order is not the host's
  std::vector<int64_t> dim;  // extents of all axes, at least 3 of them
  int datatype = 0;
  int64_t voxel_offset = 0;  // bytes from the start of the file that holds the voxels
  double slope = 1;
  double intercept = 0;
  NiftiSpace space;
  std::string description;
  std::vector<std::string> notices;  // what had to be assumed

  int64_t frames() const;       // volumes in a 4-D … 7-D file
  uint64_t data_bytes() const;  // of all frames
};

inline constexpr size_t kNiftiHeaderBytes = 540;  // enough of a file's start for parse_nifti_header

bool is_nifti_header(std::span<const std::byte> bytes);
// Throws InvalidInput or Unsupported where the header contradicts itself or holds something that is no scalar volume.
NiftiHeader parse_nifti_header(std::span<const std::byte> bytes, const std::string& name);
// One frame out of `bytes`, the file that holds the voxels.
Volume decode_nifti(const NiftiHeader& header, std::span<const std::byte> bytes, int64_t frame,
                    const std::string& name);
// The plain text (extension code 6) between header and voxels of a single file; empty where there is none.
std::string nifti_comment(const NiftiHeader& header, std::span<const std::byte> bytes);
// A single little-endian file with another description and comment; its other extensions go, all else stays.
std::vector<std::byte> with_nifti_comment(const NiftiHeader& header, std::span<const std::byte> file,
                                          const std::string& description, const std::string& comment);
// The whole file, little-endian: NIfTI-1, or NIfTI-2 where an extent passes 32767. The volume's comment becomes an
// extension.
std::vector<std::byte> encode_nifti(const Volume& volume, int intent_code = 0);

}  // namespace gyrus
