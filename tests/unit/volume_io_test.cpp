#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "unit/volume_support.h"
#include "volume/bytes.h"
#include "volume/gzip.h"
#include "volume/mgh.h"
#include "volume/nifti.h"

namespace gyrus {
namespace {

using Bytes = std::vector<std::byte>;
using test::counting_volume;
using test::expect_error;

constexpr VoxelType kAllTypes[] = {VoxelType::U8,  VoxelType::I8,  VoxelType::U16, VoxelType::I16, VoxelType::U32,
                                   VoxelType::I32, VoxelType::U64, VoxelType::I64, VoxelType::F32, VoxelType::F64};

template <class T>
Bytes with(Bytes file, size_t offset, T value) {
  store(file.data(), offset, value);
  return file;
}

void reverse(Bytes& file, size_t offset, size_t size, size_t count = 1) {
  for (size_t i = 0; i < count; ++i)
    std::reverse(file.begin() + static_cast<long>(offset + i * size),
                 file.begin() + static_cast<long>(offset + (i + 1) * size));
}

// A little-endian NIfTI-1 file turned into a big-endian one.
Bytes big_endian(Bytes file, size_t element) {
  reverse(file, 0, 4);
  reverse(file, 40, 2, 8);
  reverse(file, 68, 2, 4);
  reverse(file, 76, 4, 11);
  reverse(file, 252, 2, 2);
  reverse(file, 256, 4, 18);
  if (element > 1) reverse(file, 352, element, (file.size() - 352) / element);
  return file;
}

Bytes small_mgh(int type = 0, int frames = 1) {
  Bytes file(kMghHeaderBytes + static_cast<size_t>(frames) * 4 * 3 * 2 * (type == 0 ? 1 : type == 4 ? 2 : 4));
  const int32_t header[] = {1, 4, 3, 2, frames, type, 0};
  for (size_t i = 0; i < 7; ++i) {
    store(file.data(), 4 * i, header[i]);
    reverse(file, 4 * i, 4);
  }
  store(file.data(), 28, int16_t{1});
  reverse(file, 28, 2);
  const float geometry[] = {1, 2, 3, -1, 0, 0, 0, 0, -1, 0, 1, 0, 5, 6, 7};
  for (size_t i = 0; i < 15; ++i) {
    store(file.data(), 30 + 4 * i, geometry[i]);
    reverse(file, 30 + 4 * i, 4);
  }
  for (size_t i = kMghHeaderBytes; i < file.size(); ++i) file[i] = static_cast<std::byte>(i - kMghHeaderBytes);
  return file;
}

TEST(VolumeIo, EveryTypeSurvivesARoundTripInBothByteOrders) {
  for (VoxelType type : kAllTypes) {
    SCOPED_TRACE(to_string(type));
    Volume volume = counting_volume({5, 4, 3}, type);
    volume.slope = 2;
    volume.intercept = -1;
    const Bytes file = encode_nifti(volume);
    for (const Bytes& bytes : {file, gzip(file), big_endian(file, byte_size(type))}) {
      const Volume back = read_volume(bytes, "x.nii");
      EXPECT_EQ(back.dims, volume.dims);
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.data, volume.data);
      EXPECT_EQ(back.slope, 2);
      EXPECT_EQ(back.intercept, -1);
      EXPECT_EQ(back.affine, volume.affine);
      EXPECT_EQ(back.space.sform_code, 1);
      EXPECT_TRUE(back.notices.empty());
    }
  }
}

TEST(VolumeIo, LongAxesMakeNifti2) {
  const Volume volume = counting_volume({40000, 2, 2}, VoxelType::I16);
  const Bytes file = encode_nifti(volume);
  EXPECT_EQ(load<int32_t>(file.data(), 0, false), 540);
  const Volume back = read_volume(gzip(file), "x.nii.gz");
  EXPECT_EQ(back.data, volume.data);
  EXPECT_EQ(back.affine, volume.affine);
}

TEST(VolumeIo, QuadPrecision) {
  Bytes file = encode_nifti(counting_volume({2, 2, 2}, VoxelType::F64));
  file.resize(352 + 8 * 16);
  file = with(with(file, 70, int16_t{1536}), 72, int16_t{128});
  for (size_t i = 0; i < 8; ++i) {
    store(file.data(), 352 + 16 * i, uint64_t{0});
    store(file.data(), 360 + 16 * i, uint64_t{0});
  }
  store(file.data(), 352 + 8, uint64_t{0x3fff000000000000});  // 1
  store(file.data(), 368 + 8, uint64_t{0xc000800000000000});  // -3
  store(file.data(), 384 + 8, uint64_t{0x7fff000000000000});  // infinity
  const Volume volume = read_volume(file, "quad");
  EXPECT_EQ(value_at(volume, 0), 1);
  EXPECT_EQ(value_at(volume, 1), -3);
  EXPECT_TRUE(std::isinf(value_at(volume, 2)));
  EXPECT_EQ(value_at(volume, 3), 0);
}

TEST(VolumeIo, SformBeforeQformBeforeNeither) {
  Volume volume = counting_volume({4, 5, 6}, VoxelType::U8);
  Affine affine;
  affine.rows = {{{0, -2, 0, 7}, {0, 0, 3, -8}, {1, 0, 0, 9}}};
  set_affine(volume, affine);
  Bytes file = encode_nifti(volume);
  EXPECT_EQ(axis_codes(read_volume(file, "s").affine), "SLA");
  const Volume q = read_volume(with(file, 254, int16_t{0}), "q");
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) EXPECT_NEAR(q.affine(r, c), affine(r, c), 1e-5);
  const Volume neither = read_volume(with(with(file, 254, int16_t{0}), 252, int16_t{0}), "n");
  ASSERT_EQ(neither.notices.size(), 1u);
  EXPECT_EQ(axis_codes(neither.affine), "RAS");
  EXPECT_EQ(neither.space.sform_code, 0) << "an assumption must not become a claim";
  // A damaged sform falls back to the qform.
  const Volume damaged = read_volume(with(file, 280, std::numeric_limits<float>::quiet_NaN()), "d");
  EXPECT_EQ(damaged.notices.size(), 1u);
  EXPECT_EQ(axis_codes(damaged.affine), "SLA");
}

TEST(VolumeIo, QformRoundTripsForEveryDirection) {
  for (int axis = 0; axis < 3; ++axis) {
    for (int turn = 0; turn < 16; ++turn) {
      for (double flip : {1.0, -1.0}) {
        const double angle = turn * 0.4;
        Affine affine;
        affine((axis + 1) % 3, (axis + 1) % 3) = 0.7 * std::cos(angle);
        affine((axis + 1) % 3, (axis + 2) % 3) = -1.3 * std::sin(angle);
        affine((axis + 2) % 3, (axis + 1) % 3) = 0.7 * std::sin(angle);
        affine((axis + 2) % 3, (axis + 2) % 3) = 1.3 * std::cos(angle);
        affine(axis, axis) = flip * 2;
        Volume volume({2, 2, 2}, VoxelType::U8);
        set_affine(volume, affine);
        const Affine back = qform_affine(volume.space);
        for (int r = 0; r < 3; ++r)
          for (int c = 0; c < 4; ++c) EXPECT_NEAR(back(r, c), affine(r, c), 1e-9);
      }
    }
  }
}

TEST(VolumeIo, UnitsAreConvertedButKeptForOutput) {
  Volume volume = counting_volume({4, 4, 4}, VoxelType::U8);
  Affine microns;
  for (int i = 0; i < 3; ++i) microns(i, i) = 500;
  set_affine(volume, microns);
  volume.space.units = 3;
  const Volume back = read_volume(encode_nifti(volume), "m");
  EXPECT_DOUBLE_EQ(back.spacing()[0], 0.5);
  EXPECT_EQ(back.space.units, 3);
  EXPECT_EQ(back.space.srow, microns);
  // A voxel of a metre is a wrong units field.
  volume.space.units = 1;
  Affine one;
  set_affine(volume, one);
  volume.space.units = 1;
  const Volume odd = read_volume(encode_nifti(volume), "m");
  EXPECT_DOUBLE_EQ(odd.spacing()[0], 1);
  EXPECT_EQ(odd.notices.size(), 1u);
}

TEST(VolumeIo, FourDimensions) {
  Volume volume = counting_volume({3, 3, 6}, VoxelType::U8);
  Bytes file = encode_nifti(volume);
  file = with(with(with(file, 40, int16_t{4}), 46, int16_t{3}), 48, int16_t{2});
  const Volume first = read_volume(file, "4d");
  ASSERT_EQ(first.notices.size(), 1u);
  EXPECT_EQ(value_at(first, 1), 1);
  ReadOptions options;
  options.frame = 1;
  const Volume second = read_volume(file, "4d", options);
  EXPECT_TRUE(second.notices.empty());
  EXPECT_EQ(value_at(second, 0), 27);
  options.frame = 2;
  expect_error(ErrorCode::InvalidInput, "does not exist", [&] { read_volume(file, "4d", options); });
}

TEST(VolumeIo, Mgh) {
  const Volume volume = read_volume(gzip(small_mgh()), "x.mgz");
  EXPECT_EQ(volume.dims, (Dims{4, 3, 2}));
  EXPECT_EQ(axis_codes(volume.affine), "LIA");
  EXPECT_EQ(volume.spacing(), (Vec3d{1, 2, 3}));
  // The voxel at dims / 2 lies at the stated centre.
  const Vec3d centre = map_point(volume.affine, {2, 1.5, 1});
  EXPECT_NEAR(centre[0], 5, 1e-6);
  EXPECT_NEAR(centre[1], 6, 1e-6);
  EXPECT_NEAR(centre[2], 7, 1e-6);
  EXPECT_EQ(value_at(volume, 23), 23);
  EXPECT_EQ(value_at(read_volume(small_mgh(4), "x.mgh"), 1), 0x0203);
  EXPECT_EQ(read_volume(small_mgh(0, 3), "x.mgh").notices.size(), 1u);
  expect_error(ErrorCode::Unsupported, "type 2", [] { read_volume(small_mgh(2), "x.mgh"); });
}

// What is written as MGH reads as the same, whatever the type; what MGH cannot hold becomes float32.
TEST(VolumeIo, MghIsWritten) {
  Affine affine;
  affine.rows = {{{0, 0, 1.5, -20}, {-0.9, 0, 0, 30}, {0, 1.1, 0, 5}}};
  for (const VoxelType type : {VoxelType::U8, VoxelType::I8, VoxelType::U16, VoxelType::I16, VoxelType::U32,
                               VoxelType::I32, VoxelType::F32, VoxelType::F64}) {
    Volume volume = test::counting_volume({5, 4, 3}, type);
    set_affine(volume, affine);
    if (type == VoxelType::I16) volume.slope = 0.5;
    volume.comment = "what made it";
    const Volume back = read_volume(encode_mgh(volume), "x.mgh");
    for (int64_t i = 0; i < volume.voxels(); ++i) ASSERT_EQ(value_at(back, i), value_at(volume, i)) << to_string(type);
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 4; ++c) EXPECT_NEAR(back.affine(r, c), affine(r, c), 1e-5);
  }
}

TEST(VolumeIo, CommentsAreHeaderExtensions) {
  for (const int64_t side : {int64_t{4}, int64_t{40000}}) {  // NIfTI-1 and -2
    Volume volume({side, 2, 2}, VoxelType::U8);
    set_affine(volume, {});
    volume.as<uint8_t>()[3] = 7;
    for (const std::string& text : {std::string(), std::string("a"), std::string(1000, 'x')}) {
      volume.comment = text;
      const Volume back = read_volume(encode_nifti(volume), "x.nii");
      EXPECT_EQ(back.comment, text);
      EXPECT_EQ(back.data, volume.data);
    }
  }
  std::vector<std::byte> bytes = encode_nifti(test::counting_volume({4, 4, 4}, VoxelType::U8));
  bytes[348] = std::byte{1};  // extensions are promised, and there are none
  EXPECT_EQ(read_volume(bytes, "x.nii").comment, "");
}

// T-L14
TEST(VolumeIo, OddHeadersAreSaid) {
  const auto notices_with = [](const std::function<void(Volume&)>& change) {
    Volume volume = test::counting_volume({40, 40, 40}, VoxelType::U8);
    change(volume);
    std::string all;
    for (const std::string& notice : read_volume(encode_nifti(volume), "x.nii").notices) all += notice + "\n";
    return all;
  };
  EXPECT_EQ(notices_with([](Volume&) {}), "");
  EXPECT_NE(notices_with([](Volume& v) { v.space.quatern[2] = 0.15; }).find("sform and qform disagree"),
            std::string::npos);
  EXPECT_EQ(notices_with([](Volume& v) {
              v.space.quatern[2] = 0.15;
              v.space.sform_code = 4;
            }),
            "")
      << "a template's sform may differ from the scanner's qform";
  EXPECT_NE(notices_with([](Volume& v) { v.space.pixdim[1] = 0; }).find("voxel size"), std::string::npos);
  EXPECT_NE(notices_with([](Volume& v) { v.slope = HUGE_VAL; }).find("scaling"), std::string::npos);
}

TEST(VolumeIo, EveryTruncationIsAnErrorOfOneLine) {
  const Bytes nifti = encode_nifti(counting_volume({4, 3, 2}, VoxelType::I16));
  for (const Bytes& whole : {nifti, gzip(nifti), small_mgh(), gzip(small_mgh())}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      try {
        read_volume(std::span(whole).first(length), "cut");
        ADD_FAILURE() << "accepted " << length << " of " << whole.size() << " bytes";
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::InvalidInput || error.code() == ErrorCode::Io) << error.what();
      }
    }
  }
}

TEST(VolumeIo, DamagedHeaders) {
  const Bytes file = encode_nifti(counting_volume({4, 3, 2}, VoxelType::U8));
  const auto refuse = [&](ErrorCode code, const char* part, const Bytes& bytes) {
    expect_error(code, part, [&] { read_volume(bytes, "bad.nii"); });
    expect_error(code, part, [&] { read_volume(gzip(bytes), "bad.nii.gz"); });
  };
  refuse(ErrorCode::InvalidInput, "neither NIfTI nor MGH", Bytes(1000));
  refuse(ErrorCode::InvalidInput, "dimensions", with(file, 40, int16_t{0}));
  refuse(ErrorCode::InvalidInput, "dimensions", with(file, 40, int16_t{9}));
  refuse(ErrorCode::InvalidInput, "along axis 2", with(file, 44, int16_t{-3}));
  refuse(ErrorCode::InvalidInput, "2-D", with(file, 46, int16_t{1}));
  refuse(ErrorCode::InvalidInput, "2-D", with(file, 40, int16_t{2}));
  refuse(ErrorCode::Unsupported, "RGB", with(file, 70, int16_t{128}));
  refuse(ErrorCode::Unsupported, "complex", with(file, 70, int16_t{32}));
  refuse(ErrorCode::Unsupported, "unknown type", with(file, 70, int16_t{999}));
  refuse(ErrorCode::InvalidInput, "voxel offset", with(file, 108, -1e9f));
  refuse(ErrorCode::InvalidInput, "voxel offset", with(file, 108, std::numeric_limits<float>::quiet_NaN()));
  refuse(ErrorCode::InvalidInput, "pair", with(file, 345, 'i'));
  // Extents far beyond the file, up to products beyond 64 bits.
  Bytes huge = file;
  for (size_t i = 1; i <= 7; ++i) store(huge.data(), 40 + 2 * i, int16_t{32767});
  refuse(ErrorCode::InvalidInput, "MiB", with(huge, 40, int16_t{3}));
  refuse(ErrorCode::InvalidInput, "absurdly", with(huge, 40, int16_t{7}));
  refuse(ErrorCode::InvalidInput, "cut off", with(with(file, 42, int16_t{400}), 44, int16_t{400}));
}

TEST(VolumeIo, GzipBombsAndDamage) {
  const Bytes file = encode_nifti(counting_volume({4, 3, 2}, VoxelType::U8));
  Bytes bomb = file;
  bomb.resize(size_t{64} << 20);
  expect_error(ErrorCode::Io, "refused", [&] { read_volume(gzip(bomb), "bomb.nii.gz"); });
  Bytes flipped = gzip(file);
  flipped[flipped.size() - 6] ^= std::byte{1};  // in the checksum
  expect_error(ErrorCode::Io, "damaged", [&] { read_volume(flipped, "x.nii.gz"); });
  // Several members, and padding behind the last one.
  const Bytes front = gzip(std::span(file).first(100)), back = gzip(std::span(file).subspan(100));
  Bytes members = front;
  members.insert(members.end(), back.begin(), back.end());
  members.resize(members.size() + 100);
  EXPECT_EQ(read_volume(members, "x.nii.gz").data, read_volume(file, "x.nii").data);
}

TEST(VolumeIo, HeadOfAStoredGzipIsFound) {
  // Level 1 of random bytes gives stored blocks, which libdeflate writes whole or not at all.
  Volume volume({64, 64, 64}, VoxelType::U8);
  uint32_t state = 1;
  for (auto& byte : volume.data) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
  EXPECT_EQ(read_volume(gzip(encode_nifti(volume), 1), "x").data, volume.data);
}

TEST(VolumeIo, FilesAndPairs) {
  const test::TemporaryFolder folder;
  const Volume volume = counting_volume({6, 5, 4}, VoxelType::I16);
  for (const char* name : {"a.nii", "a.nii.gz"}) {
    write_volume(folder / name, volume);
    EXPECT_EQ(read_volume(folder / name).data, volume.data);
  }
  Bytes pair = encode_nifti(volume);
  pair = with(with(pair, 345, 'i'), 108, 0.0f);
  write_file(folder / "p.hdr", std::span(pair).first(348));
  expect_error(ErrorCode::Io, "p.img is not there", [&] { read_volume(folder / "p.hdr"); });
  write_file(folder / "p.img.gz", gzip(std::span(pair).subspan(352)));
  EXPECT_EQ(read_volume(folder / "p.hdr").data, volume.data);
  EXPECT_EQ(read_volume(folder / "p.img.gz").data, volume.data);
  expect_error(ErrorCode::Io, "cannot be opened", [&] { read_volume(folder / "none.nii"); });
  expect_error(ErrorCode::Io, "folder", [&] { read_volume(folder / "."); });
}

TEST(VolumeIo, AnalyzeIsTakenAsRadiological) {
  Bytes pair = encode_nifti(counting_volume({6, 5, 4}, VoxelType::I16));
  for (size_t i = 344; i < 348; ++i) pair[i] = std::byte{0};
  pair = with(pair, 108, 0.0f);
  const Volume volume = read_volume_pair(std::span(pair).first(348), std::span(pair).subspan(352), "a.hdr");
  EXPECT_EQ(axis_codes(volume.affine), "LAS");
  EXPECT_EQ(volume.notices.size(), 1u);
}

TEST(VolumeIo, AFailedWriteLeavesNothing) {
  const test::TemporaryFolder folder;
  const Volume volume = counting_volume({6, 5, 4}, VoxelType::U8);
  expect_error(ErrorCode::Io, "cannot be created", [&] { write_volume(folder / "missing/a.nii", volume); });
  std::filesystem::create_directories(folder / "taken.nii/x");
  expect_error(ErrorCode::Io, "cannot be", [&] { write_volume(folder / "taken.nii", volume); });
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / ".")) {
    EXPECT_EQ(entry.path().filename(), "taken.nii");
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

TEST(VolumeIo, PublicFilesRead) {
  GYRUS_NEED_DATA(data);
  struct Case {
    const char* name;
    Dims dims;
    VoxelType type;
    const char* codes;
  };
  for (const Case& c : {Case{"nifti/anatomical.nii", {33, 41, 25}, VoxelType::I16, "LAS"},
                        Case{"nifti/example4d.nii.gz", {128, 96, 24}, VoxelType::I16, "LAS"},
                        Case{"nifti/example_nifti2.nii.gz", {32, 20, 12}, VoxelType::I16, "LAS"},
                        Case{"nifti/test.mgz", {3, 4, 5}, VoxelType::F32, "SAR"},
                        Case{"volumes/chris_t1.nii.gz", {188, 256, 190}, VoxelType::U8, "RAS"},
                        Case{"volumes/t1_crop.nii.gz", {256, 256, 256}, VoxelType::U8, "LIA"}}) {
    SCOPED_TRACE(c.name);
    const Volume volume = read_volume(data + "/" + c.name);
    EXPECT_EQ(volume.dims, c.dims);
    EXPECT_EQ(volume.type, c.type);
    EXPECT_EQ(axis_codes(volume.affine), c.codes);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data + "/nifti")) {
    const std::string path = entry.path().string();
    if (path.find(".hdr") != std::string::npos || !entry.is_regular_file()) continue;
    SCOPED_TRACE(path);
    EXPECT_NO_THROW(read_volume(path));
  }
}

}  // namespace
}  // namespace gyrus
