#include "volume/series.h"

#include <cstring>

#include "core/error.h"
#include "core/files.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/nifti.h"

namespace gyrus {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 36;

NiftiHeader header_of(const std::vector<std::byte>& file, const Volume& mask, const std::string& scan) {
  if (!is_nifti_header(file))
    fail(ErrorCode::Unsupported, scan, "is no NIfTI file, so its volumes are not masked together");
  NiftiHeader header = parse_nifti_header(file, scan);
  if (header.kind != NiftiKind::Single || header.swapped)
    fail(ErrorCode::Unsupported, scan,
         "is a pair or of another byte order; bring it into one little-endian file first");
  if (header.slope != 0 && header.intercept != 0)
    fail(ErrorCode::Unsupported, scan, "is scaled with an intercept, so that no element need be zero");
  if (header.dim[0] != mask.dims[0] || header.dim[1] != mask.dims[1] || header.dim[2] != mask.dims[2])
    fail(ErrorCode::InvalidInput, scan, "has another grid than the mask, ", to_string(mask.dims));
  const auto offset = static_cast<uint64_t>(header.voxel_offset);
  if (offset > file.size() || file.size() - offset < header.data_bytes())
    fail(ErrorCode::InvalidInput, scan, "is cut off");
  return header;
}

}  // namespace

void write_masked_series(const std::string& path, const std::string& scan, const Volume& mask,
                         const std::string& description, const std::string& comment) {
  const VolumeFormat format = volume_format(path);
  if (format == VolumeFormat::Mgh || format == VolumeFormat::Mgz)
    fail(ErrorCode::InvalidInput, path, "a series is written as NIfTI; name it .nii or .nii.gz");
  std::vector<std::byte> file = read_file(scan);
  if (is_gzip(file)) file = gunzip(file, kMostBytes, scan);
  const NiftiHeader header = header_of(file, mask, scan);
  const auto frames = static_cast<uint64_t>(header.frames()), voxels = static_cast<uint64_t>(mask.voxels());
  const uint64_t bytes = header.data_bytes() / (frames * voxels);  // of a voxel
  for (uint64_t frame = 0; frame < frames; ++frame) {
    std::byte* at = file.data() + header.voxel_offset + frame * voxels * bytes;
    for (uint64_t i = 0; i < voxels; ++i)
      if (mask.as<uint8_t>()[i] == 0) std::memset(at + i * bytes, 0, bytes);
  }
  std::vector<std::byte> out = with_nifti_comment(header, file, description, comment);
  if (format == VolumeFormat::NiftiGz) out = gzip(out);
  write_file(path, out);
}

}  // namespace gyrus
