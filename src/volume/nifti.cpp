#include "volume/nifti.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "volume/bytes.h"

namespace gyrus {

namespace {

constexpr size_t kHeader1Bytes = 348;
constexpr size_t kHeader2Bytes = 540;
constexpr int kFloat128 = 1536;
constexpr int kCommentCode = 6;  // of an extension: plain text

struct DatatypeRow {
  int code;
  VoxelType type;
};
constexpr DatatypeRow kDatatypes[] = {
    {2, VoxelType::U8},  {256, VoxelType::I8},   {512, VoxelType::U16},  {4, VoxelType::I16},  {768, VoxelType::U32},
    {8, VoxelType::I32}, {1280, VoxelType::U64}, {1024, VoxelType::I64}, {16, VoxelType::F32}, {64, VoxelType::F64},
};

std::optional<VoxelType> voxel_type_of(int datatype) {
  for (const auto& row : kDatatypes)
    if (row.code == datatype) return row.type;
  return std::nullopt;
}

int datatype_of(VoxelType type) {
  for (const auto& row : kDatatypes)
    if (row.type == type) return row.code;
  return 0;
}

// Bytes a voxel takes in the file; 0 where gyrus does not read the type.
uint64_t bytes_per_voxel(int datatype) {
  if (datatype == kFloat128) return 16;
  const auto type = voxel_type_of(datatype);
  return type ? byte_size(*type) : 0;
}

const char* refused_datatype_name(int datatype) {
  switch (datatype) {
    case 1: return "one bit a voxel";
    case 32:
    case 1792:
    case 2048: return "complex numbers";
    case 128:
    case 2304: return "RGB colours";
    default: return "an unknown type";
  }
}

// One file's header fields, read in its own byte order.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, bool swapped) : bytes_(bytes), swapped_(swapped) {}
  template <class T>
  T at(size_t offset) const {
    return load<T>(bytes_.data(), offset, swapped_);
  }
  Vec3d floats3(size_t offset) const { return {at<float>(offset), at<float>(offset + 4), at<float>(offset + 8)}; }
  Vec3d doubles3(size_t offset) const { return {at<double>(offset), at<double>(offset + 8), at<double>(offset + 16)}; }
  std::string text(size_t offset, size_t length) const {
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    return {begin, std::find(begin, begin + length, '\0')};
  }

 private:
  std::span<const std::byte> bytes_;
  bool swapped_;
};

bool has_bytes(std::span<const std::byte> bytes, size_t offset, const char* text, size_t length) {
  return bytes.size() >= offset + length && std::memcmp(bytes.data() + offset, text, length) == 0;
}

struct Sniffed {
  int version = 0;  // 0: not NIfTI
  bool swapped = false;
};

Sniffed sniff(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeader1Bytes) return {};
  for (bool swapped : {false, true}) {
    const auto size = load<int32_t>(bytes.data(), 0, swapped);
    if (size == 348) return {1, swapped};
    if (size == 540 && bytes.size() >= kHeader2Bytes) return {2, swapped};
  }
  return {};
}

void check_magic2(std::span<const std::byte> bytes, NiftiHeader& header, const std::string& name) {
  // The bytes behind the name detect transfers that changed line ends.
  if (!has_bytes(bytes, 8, "\r\n\032\n", 4))
    fail(ErrorCode::InvalidInput, name, "the NIfTI-2 signature is damaged, as by a text-mode transfer; copy it again");
  if (has_bytes(bytes, 4, "n+2", 4)) {
    header.kind = NiftiKind::Single;
  } else if (has_bytes(bytes, 4, "ni2", 4)) {
    header.kind = NiftiKind::Pair;
  } else {
    fail(ErrorCode::InvalidInput, name, "header size 540 but no NIfTI-2 signature");
  }
}

void read_fields1(std::span<const std::byte> bytes, NiftiHeader& header, int64_t (&dim)[8], double& offset) {
  const Fields f(bytes, header.swapped);
  header.kind = has_bytes(bytes, 344, "n+1", 4)   ? NiftiKind::Single
                : has_bytes(bytes, 344, "ni1", 4) ? NiftiKind::Pair
                                                  : NiftiKind::Analyze;
  for (size_t i = 0; i < 8; ++i) dim[i] = f.at<int16_t>(40 + 2 * i);
  header.datatype = f.at<int16_t>(70);
  NiftiSpace& space = header.space;
  space.pixdim = f.floats3(80);
  space.qfac = f.at<float>(76);
  offset = static_cast<double>(f.at<float>(108));
  if (header.kind == NiftiKind::Analyze) return;  // what follows means something else there
  header.slope = static_cast<double>(f.at<float>(112));
  header.intercept = static_cast<double>(f.at<float>(116));
  space.units = f.at<uint8_t>(123);
  header.description = f.text(148, 80);
  space.qform_code = f.at<int16_t>(252);
  space.sform_code = f.at<int16_t>(254);
  space.quatern = f.floats3(256);
  space.qoffset = f.floats3(268);
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 4; ++c) space.srow.rows[r][c] = static_cast<double>(f.at<float>(280 + 16 * r + 4 * c));
}

void read_fields2(std::span<const std::byte> bytes, NiftiHeader& header, int64_t (&dim)[8], double& offset) {
  const Fields f(bytes, header.swapped);
  for (size_t i = 0; i < 8; ++i) dim[i] = f.at<int64_t>(16 + 8 * i);
  header.datatype = f.at<int16_t>(12);
  NiftiSpace& space = header.space;
  space.qfac = f.at<double>(104);
  space.pixdim = f.doubles3(112);
  offset = static_cast<double>(f.at<int64_t>(168));
  header.slope = f.at<double>(176);
  header.intercept = f.at<double>(184);
  header.description = f.text(240, 80);
  space.qform_code = f.at<int32_t>(344);
  space.sform_code = f.at<int32_t>(348);
  space.quatern = f.doubles3(352);
  space.qoffset = f.doubles3(376);
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 4; ++c) space.srow.rows[r][c] = f.at<double>(400 + 32 * r + 8 * c);
  space.units = f.at<int32_t>(500);
}

void set_extents(NiftiHeader& header, const int64_t (&dim)[8], const std::string& name) {
  if (dim[0] < 1 || dim[0] > 7)
    fail(ErrorCode::InvalidInput, name, "the header says ", dim[0], " dimensions; 3 to 7 are possible");
  uint64_t bytes = bytes_per_voxel(header.datatype);
  for (int64_t i = 1; i <= dim[0]; ++i) {
    const int64_t extent = dim[i];
    // Some writers leave the unused last extents at 0.
    if (extent <= 0 && i > 3) {
      header.dim.push_back(1);
      continue;
    }
    if (extent <= 0) fail(ErrorCode::InvalidInput, name, "the header says ", extent, " voxels along axis ", i);
    if (static_cast<uint64_t>(extent) > (uint64_t{1} << 62) / bytes)
      fail(ErrorCode::InvalidInput, name, "the header's extents are absurdly large (axis ", i, ": ", extent, ")");
    bytes *= static_cast<uint64_t>(extent);
    header.dim.push_back(extent);
  }
  if (header.dim.size() < 3 || header.dim[2] == 1)
    fail(ErrorCode::InvalidInput, name, "is a single 2-D slice (", header.dim[0], "x",
         header.dim.size() > 1 ? header.dim[1] : 1, "); a 3-D volume is needed");
}

void tidy(NiftiHeader& header) {
  if (!std::isfinite(header.slope) || !std::isfinite(header.intercept))
    header.notices.emplace_back("the scaling in the header is not finite and was ignored");
  if (!std::isfinite(header.slope) || header.slope == 0) {
    header.slope = 1;
    header.intercept = 0;
  }
  if (!std::isfinite(header.intercept)) header.intercept = 0;
  NiftiSpace& space = header.space;
  const bool odd = std::any_of(space.pixdim.begin(), space.pixdim.end(),
                               [](double size) { return !std::isfinite(size) || size == 0; });
  if (odd) header.notices.emplace_back("a voxel size in the header is 0 or not finite; 1 is taken for it");
  space.qfac = space.qfac < 0 ? -1 : 1;
  for (double& size : space.pixdim) size = std::isfinite(size) && size != 0 ? std::abs(size) : 1.0;
  for (double& v : space.quatern) v = std::isfinite(v) ? v : 0.0;
  space.units &= 7;
}

Affine scaled(Affine affine, double factor) {
  for (auto& row : affine.rows)
    for (double& v : row) v *= factor;
  return affine;
}

// Neither form given: the grid's axes, centred on the origin. Analyze files have x from right to left by convention.
Affine plain_affine(const Volume& volume, bool flip_x) {
  Affine out;
  for (int i = 0; i < 3; ++i) {
    const double size = volume.space.pixdim[i] * (i == 0 && flip_x ? -1 : 1);
    out(i, i) = size;
    out(i, 3) = -0.5 * static_cast<double>(volume.dims[i] - 1) * size;
  }
  return out;
}

// Largest distance in mm between where the two forms put a corner of the grid.
double disagreement(const Volume& volume, const Affine& a, const Affine& b) {
  double worst = 0;
  for (int corner = 0; corner < 8; ++corner) {
    Vec3d voxel{};
    for (size_t i = 0; i < 3; ++i) voxel[i] = (corner >> i & 1) != 0 ? static_cast<double>(volume.dims[i] - 1) : 0.0;
    const Vec3d p = map_point(a, voxel), q = map_point(b, voxel);
    worst = std::max(worst, std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]));
  }
  return worst;
}

void compare_forms(Volume& volume) {
  constexpr double kFar = 2;  // mm; templates and rounding stay below
  const NiftiSpace& space = volume.space;
  if (space.sform_code <= 0 || space.qform_code <= 0) return;
  const Affine q = qform_affine(space);
  if (!is_usable(space.srow) || !is_usable(q)) return;
  // Codes of different spaces (a scanner's, a template's) may well differ.
  if (space.sform_code != space.qform_code) return;
  const double distance = disagreement(volume, space.srow, q);
  if (distance > kFar)
    volume.notices.push_back(cat("sform and qform disagree by up to ", std::round(distance),
                                 " (in units of the header); the sform is used: check left and right, and the size"));
}

void place(Volume& volume, NiftiKind kind) {
  const NiftiSpace& space = volume.space;
  compare_forms(volume);
  bool found = false;
  if (space.sform_code > 0) {
    volume.affine = space.srow;
    found = is_usable(volume.affine);
    if (!found) volume.notices.emplace_back("the sform is singular or not finite and was ignored");
  }
  if (!found && space.qform_code > 0) {
    volume.affine = qform_affine(space);
    found = is_usable(volume.affine);
    if (!found) volume.notices.emplace_back("the qform is not finite and was ignored");
  }
  if (!found) {
    const bool flip = kind == NiftiKind::Analyze;
    const Affine affine = plain_affine(volume, flip);
    volume.notices.push_back(cat("the file does not say how it lies in the head; its axes are taken as ",
                                 flip ? "left-anterior-superior" : "right-anterior-superior",
                                 ": check left and right"));
    // Writing the assumption down would turn it into a claim: the codes of the output stay as they were.
    const int sform_code = space.sform_code, qform_code = space.qform_code;
    if (sform_code <= 0 && qform_code <= 0) {
      volume.affine = affine;
    } else {
      set_affine(volume, affine);
    }
  }
  const double unit = space.units == 1 ? 1000.0 : space.units == 3 ? 0.001 : 1.0;
  if (unit == 1.0) return;
  const Vec3d size = volume.spacing();
  const double largest = unit * std::max({size[0], size[1], size[2]});
  const char* unit_name = unit > 1 ? "metres" : "microns";
  // A scan with voxels of a metre is one in millimetres whose units field is wrong.
  if (largest > 50 || largest < 0.005) {
    volume.notices.push_back(
        cat("the header gives its sizes in ", unit_name, ", which cannot be; millimetres assumed"));
    return;
  }
  volume.affine = scaled(volume.affine, unit);
  volume.notices.push_back(cat("sizes converted from ", unit_name));
}

// IEEE binary128 in the host's byte order, to double.
double quad_to_double(const std::byte* quad) {
  const bool big = host_is_big_endian();
  const auto high = load<uint64_t>(quad, big ? 0 : 8, false);
  const auto low = load<uint64_t>(quad, big ? 8 : 0, false);
  const int exponent = static_cast<int>((high >> 48) & 0x7fff);
  const double sign = (high >> 63) != 0 ? -1.0 : 1.0;
  const uint64_t top = high & 0xffffffffffffull;
  if (exponent == 0x7fff)
    return (top | low) != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double mantissa = std::ldexp(static_cast<double>(top), -48) + std::ldexp(static_cast<double>(low), -112);
  return exponent == 0 ? sign * 0.0 : sign * std::ldexp(1.0 + mantissa, exponent - 16383);
}

void decode_voxels(Volume& volume, const std::byte* in, int datatype, bool swapped) {
  const auto count = static_cast<size_t>(volume.voxels());
  if (datatype == kFloat128) {
    std::byte quad[16];
    for (size_t i = 0; i < count; ++i) {
      if (swapped) {
        copy_swapped(quad, in + 16 * i, 1, 16);
      } else {
        std::memcpy(quad, in + 16 * i, 16);
      }
      volume.as<double>()[i] = quad_to_double(quad);
    }
    return;
  }
  const size_t size = byte_size(volume.type);
  if (swapped && size > 1) {
    copy_swapped(volume.data.data(), in, count, size);
  } else {
    std::memcpy(volume.data.data(), in, count * size);
  }
}

void store_text(std::byte* out, size_t offset, size_t room, const std::string& text) {
  std::memcpy(out + offset, text.data(), std::min(text.size(), room - 1));
}

// An extension is its size (a multiple of 16), its code and its bytes.
size_t extension_bytes(const std::string& comment) {
  return comment.empty() ? 0 : (8 + comment.size() + 1 + 15) / 16 * 16;
}

void write_extension(std::byte* out, size_t header, const std::string& comment) {
  if (comment.empty()) return;
  out[header] = std::byte{1};
  store(out, header + 4, static_cast<int32_t>(extension_bytes(comment)));
  store(out, header + 8, int32_t{kCommentCode});
  std::memcpy(out + header + 12, comment.data(), comment.size());
}

void write_header1(std::byte* out, const Volume& volume, int intent_code, size_t voxel_offset) {
  const NiftiSpace& space = volume.space;
  const auto f32 = [&](size_t offset, double value) { store(out, offset, to_float(value)); };
  const auto i16 = [&](size_t offset, int64_t value) { store(out, offset, static_cast<int16_t>(value)); };
  store(out, 0, int32_t{348});
  out[38] = std::byte{'r'};
  i16(40, 3);
  for (size_t i = 0; i < 3; ++i) i16(42 + 2 * i, volume.dims[i]);
  for (size_t i = 3; i < 7; ++i) i16(42 + 2 * i, 1);
  i16(68, intent_code);
  i16(70, datatype_of(volume.type));
  i16(72, static_cast<int64_t>(8 * byte_size(volume.type)));
  f32(76, space.qfac);
  for (size_t i = 0; i < 3; ++i) f32(80 + 4 * i, space.pixdim[i]);
  f32(108, static_cast<double>(voxel_offset));
  f32(112, volume.slope);
  f32(116, volume.intercept);
  store(out, 123, static_cast<uint8_t>(space.units));
  store_text(out, 148, 80, volume.description);
  i16(252, space.qform_code);
  i16(254, space.sform_code);
  for (size_t i = 0; i < 3; ++i) {
    f32(256 + 4 * i, space.quatern[i]);
    f32(268 + 4 * i, space.qoffset[i]);
    for (size_t c = 0; c < 4; ++c) f32(280 + 16 * i + 4 * c, space.srow.rows[i][c]);
  }
  std::memcpy(out + 344, "n+1", 4);
}

void write_header2(std::byte* out, const Volume& volume, int intent_code, size_t voxel_offset) {
  const NiftiSpace& space = volume.space;
  store(out, 0, int32_t{540});
  std::memcpy(out + 4, "n+2\0\r\n\032\n", 8);
  store(out, 12, static_cast<int16_t>(datatype_of(volume.type)));
  store(out, 14, static_cast<int16_t>(8 * byte_size(volume.type)));
  store(out, 16, int64_t{3});
  for (size_t i = 0; i < 7; ++i) store(out, 24 + 8 * i, i < 3 ? volume.dims[i] : int64_t{1});
  store(out, 104, space.qfac);
  for (size_t i = 0; i < 3; ++i) store(out, 112 + 8 * i, space.pixdim[i]);
  store(out, 168, static_cast<int64_t>(voxel_offset));
  store(out, 176, volume.slope);
  store(out, 184, volume.intercept);
  store_text(out, 240, 80, volume.description);
  store(out, 344, int32_t{space.qform_code});
  store(out, 348, int32_t{space.sform_code});
  for (size_t i = 0; i < 3; ++i) {
    store(out, 352 + 8 * i, space.quatern[i]);
    store(out, 376 + 8 * i, space.qoffset[i]);
    for (size_t c = 0; c < 4; ++c) store(out, 400 + 32 * i + 8 * c, space.srow.rows[i][c]);
  }
  store(out, 500, int32_t{space.units});
  store(out, 504, int32_t{intent_code});
}

}  // namespace

int64_t NiftiHeader::frames() const {
  int64_t count = 1;
  for (size_t i = 3; i < dim.size(); ++i) count *= dim[i];
  return count;
}

uint64_t NiftiHeader::data_bytes() const {
  uint64_t bytes = bytes_per_voxel(datatype);
  for (int64_t extent : dim) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

bool is_nifti_header(std::span<const std::byte> bytes) { return sniff(bytes).version != 0; }

NiftiHeader parse_nifti_header(std::span<const std::byte> bytes, const std::string& name) {
  const Sniffed found = sniff(bytes);
  if (found.version == 0) fail(ErrorCode::InvalidInput, name, "is no NIfTI file: neither header size 348 nor 540");
  NiftiHeader header;
  header.version = found.version;
  header.swapped = found.swapped;
  int64_t dim[8] = {};
  double offset = 0;
  if (found.version == 1) {
    read_fields1(bytes, header, dim, offset);
  } else {
    check_magic2(bytes, header, name);
    read_fields2(bytes, header, dim, offset);
  }
  if (bytes_per_voxel(header.datatype) == 0)
    fail(ErrorCode::Unsupported, name, "holds ", refused_datatype_name(header.datatype), " (datatype ", header.datatype,
         "); a volume of real numbers is needed");
  set_extents(header, dim, name);
  tidy(header);
  if (!(offset >= 0 && offset < 9e15)) fail(ErrorCode::InvalidInput, name, "the header's voxel offset is ", offset);
  header.voxel_offset = static_cast<int64_t>(offset);
  const int64_t behind_header = found.version == 1 ? 352 : 544;
  if (header.kind == NiftiKind::Single && header.voxel_offset < behind_header) header.voxel_offset = behind_header;
  return header;
}

std::string nifti_comment(const NiftiHeader& header, std::span<const std::byte> bytes) {
  const size_t start = header.version == 1 ? kHeader1Bytes : kHeader2Bytes;
  const auto end = std::min<uint64_t>(bytes.size(), static_cast<uint64_t>(header.voxel_offset));
  if (header.kind != NiftiKind::Single || end < start + 4 || bytes[start] == std::byte{0}) return {};
  for (uint64_t at = start + 4; at + 8 <= end;) {
    const auto size = load<int32_t>(bytes.data(), at, header.swapped);
    if (size < 8 || static_cast<uint64_t>(size) > end - at) break;
    if (load<int32_t>(bytes.data(), at + 4, header.swapped) == kCommentCode) {
      const char* const text = reinterpret_cast<const char*>(bytes.data()) + at + 8;
      return {text, std::find(text, text + size - 8, '\0')};
    }
    at += static_cast<uint64_t>(size);
  }
  return {};
}

Volume decode_nifti(const NiftiHeader& header, std::span<const std::byte> bytes, int64_t frame,
                    const std::string& name) {
  const int64_t frames = header.frames();
  if (frame < 0 || frame >= frames)
    fail(ErrorCode::InvalidInput, name, "has ", frames, frames == 1 ? " volume" : " volumes", "; number ", frame,
         " does not exist (counted from 0)");
  const auto offset = static_cast<uint64_t>(header.voxel_offset);
  const uint64_t frame_bytes = header.data_bytes() / static_cast<uint64_t>(frames);
  const uint64_t skip = frame_bytes * static_cast<uint64_t>(frame);
  if (offset > bytes.size() || bytes.size() - offset < skip + frame_bytes)
    fail(ErrorCode::InvalidInput, name, "is cut off: its header promises ", header.data_bytes(),
         " bytes of voxels at offset ", offset, ", the file has ", bytes.size(), " bytes in all");
  Volume volume({header.dim[0], header.dim[1], header.dim[2]}, voxel_type_of(header.datatype).value_or(VoxelType::F64));
  volume.name = name;
  volume.slope = header.slope;
  volume.intercept = header.intercept;
  volume.space = header.space;
  volume.notices = header.notices;
  volume.description = header.description;
  volume.comment = nifti_comment(header, bytes);
  decode_voxels(volume, bytes.data() + offset + skip, header.datatype, header.swapped);
  place(volume, header.kind);
  return volume;
}

std::vector<std::byte> with_nifti_comment(const NiftiHeader& header, std::span<const std::byte> file,
                                          const std::string& description, const std::string& comment) {
  const size_t start = header.version == 1 ? kHeader1Bytes : kHeader2Bytes;
  const size_t offset = start + 4 + extension_bytes(comment);
  const std::span<const std::byte> voxels = file.subspan(static_cast<size_t>(header.voxel_offset));
  std::vector<std::byte> out(offset + voxels.size());
  std::memcpy(out.data(), file.data(), start);
  write_extension(out.data(), start, comment);
  std::memset(out.data() + (header.version == 1 ? 148 : 240), 0, 80);
  store_text(out.data(), header.version == 1 ? 148 : 240, 80, description);
  if (header.version == 1)
    store(out.data(), 108, static_cast<float>(offset));
  else
    store(out.data(), 168, static_cast<int64_t>(offset));
  std::memcpy(out.data() + offset, voxels.data(), voxels.size());
  return out;
}

std::vector<std::byte> encode_nifti(const Volume& volume, int intent_code) {
  if (host_is_big_endian()) fail(ErrorCode::Unsupported, "nifti", "writing from a big-endian machine");
  const bool large = std::any_of(volume.dims.begin(), volume.dims.end(), [](int64_t n) { return n > 32767; });
  const size_t header = large ? kHeader2Bytes : kHeader1Bytes;
  const size_t offset = header + 4 + extension_bytes(volume.comment);
  std::vector<std::byte> out(offset + volume.data.size());
  if (large) {
    write_header2(out.data(), volume, intent_code, offset);
  } else {
    write_header1(out.data(), volume, intent_code, offset);
  }
  write_extension(out.data(), header, volume.comment);
  std::memcpy(out.data() + offset, volume.data.data(), volume.data.size());
  return out;
}

}  // namespace gyrus
