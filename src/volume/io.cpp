#include "volume/io.h"

#include <cstring>
#include <string_view>

#include "core/error.h"
#include "volume/gzip.h"
#include "volume/mgh.h"
#include "volume/nifti.h"

// Recognises formats and bounds what is read; no file is opened here, see files.cpp.

namespace gyrus {

namespace {

// Extensions, tags and padding that may stand in a file beside its header and voxels.
constexpr uint64_t kSlackBytes = uint64_t{16} << 20;
constexpr size_t kHeadBytes = 1024;

void check_size(uint64_t bytes, const std::string& name, const ReadOptions& options) {
  if (bytes > options.max_bytes)
    fail(ErrorCode::InvalidInput, name, "its header promises ", bytes >> 20, " MiB of voxels, more than the ",
         options.max_bytes >> 20, " MiB allowed");
}

bool starts_with(std::span<const std::byte> head, size_t offset, std::string_view text) {
  return head.size() >= offset + text.size() && std::memcmp(head.data() + offset, text.data(), text.size()) == 0;
}

// What to do with formats that others read.
std::string other_format(std::span<const std::byte> head) {
  if (starts_with(head, 128, "DICM")) return ": it is DICOM; convert the series with dcm2niix";
  if (starts_with(head, 0, "NRRD")) return ": it is NRRD; convert it with niimath or 3D Slicer";
  if (starts_with(head, 0, "mrtrix image")) return ": it is MRtrix's; convert it with mrconvert";
  if (starts_with(head, 0, "ObjectType") || starts_with(head, 0, "NDims"))
    return ": it is MetaImage; convert it with niimath or ITK-SNAP";
  if (starts_with(head, 0, "\ntype ") || starts_with(head, 0, "type  = "))
    return ": it is AFNI's; convert it with 3dAFNItoNIFTI";
  return {};
}

// How many bytes a single-file volume may have at most, from the first bytes of it.
uint64_t promised_bytes(std::span<const std::byte> head, const std::string& name, const ReadOptions& options) {
  if (is_nifti_header(head)) {
    const NiftiHeader header = parse_nifti_header(head, name);
    check_size(header.data_bytes(), name, options);
    const uint64_t voxels = header.kind == NiftiKind::Single ? header.data_bytes() : 0;
    return static_cast<uint64_t>(header.voxel_offset) + voxels;
  }
  if (is_mgh(head)) {
    const uint64_t bytes = mgh_bytes(head, name);
    check_size(bytes, name, options);
    return bytes;
  }
  fail(ErrorCode::InvalidInput, name, "is neither NIfTI nor MGH (nor one of them gzipped)", other_format(head));
}

// `bytes` or, where they are gzip, what they inflate to, kept alive in `storage`.
std::span<const std::byte> inflated(std::span<const std::byte> bytes, std::vector<std::byte>& storage, uint64_t limit,
                                    const std::string& name) {
  if (!is_gzip(bytes)) return bytes;
  storage = gunzip(bytes, limit, name);
  return storage;
}

int64_t choose_frame(int64_t frames, const ReadOptions& options, std::string& notice) {
  if (options.frames) *options.frames = frames;
  if (options.frame >= 0) return options.frame;
  if (frames > 1) notice = cat("has ", frames, " volumes; the first is used");
  return 0;
}

Volume decode_pair(const NiftiHeader& header, std::span<const std::byte> voxels, const std::string& name,
                   const ReadOptions& options) {
  std::string notice;
  const int64_t frame = choose_frame(header.frames(), options, notice);
  Volume volume = decode_nifti(header, voxels, frame, name);
  if (!notice.empty()) volume.notices.push_back(notice);
  return volume;
}

}  // namespace

Volume read_volume(std::span<const std::byte> bytes, const std::string& name, const ReadOptions& options) {
  if (bytes.empty()) fail(ErrorCode::InvalidInput, name, "is empty");
  std::vector<std::byte> storage;
  if (is_gzip(bytes)) {
    const std::vector<std::byte> head = gunzip_head(bytes, kHeadBytes, name);
    bytes = inflated(bytes, storage, promised_bytes(head, name, options) + kSlackBytes, name);
  }
  promised_bytes(bytes, name, options);
  if (is_nifti_header(bytes)) {
    const NiftiHeader header = parse_nifti_header(bytes, name);
    if (header.kind != NiftiKind::Single)
      fail(ErrorCode::InvalidInput, name,
           "is the header of a pair; its voxels are in the .img file beside it: make one .nii file of both");
    return decode_pair(header, bytes, name, options);
  }
  std::string notice;
  const int64_t frame = choose_frame(mgh_frames(bytes, name), options, notice);
  Volume volume = decode_mgh(bytes, frame, name);
  if (!notice.empty()) volume.notices.push_back(notice);
  return volume;
}

Volume read_volume_pair(std::span<const std::byte> header, std::span<const std::byte> image, const std::string& name,
                        const ReadOptions& options) {
  std::vector<std::byte> header_storage, image_storage;
  header = inflated(header, header_storage, kSlackBytes, name);
  const NiftiHeader parsed = parse_nifti_header(header, name);
  check_size(parsed.data_bytes(), name, options);
  if (parsed.kind == NiftiKind::Single) return read_volume(header, name, options);
  const uint64_t limit = static_cast<uint64_t>(parsed.voxel_offset) + parsed.data_bytes() + kSlackBytes;
  return decode_pair(parsed, inflated(image, image_storage, limit, name), name, options);
}

}  // namespace gyrus
