#include <cmath>
#include <sstream>

#include "unit/volume_support.h"

namespace gyrus {
namespace {

// What nibabel makes of our files and we of its files, where it is installed.
constexpr const char* kPython = "/usr/bin/python3";

bool has_nibabel() { return std::system(cat(kPython, " -c 'import nibabel' 2> /dev/null").c_str()) == 0; }

#define GYRUS_NEED_NIBABEL \
  if (!has_nibabel()) GTEST_SKIP() << "python3-nibabel is not installed"

int run_python(const test::TemporaryFolder& folder, const std::string& script) {
  write_file(folder / "script.py", script);
  return std::system(cat("cd ", folder / ".", " && ", kPython, " script.py").c_str());
}

TEST(Nibabel, ReadsWhatWeWrite) {
  GYRUS_NEED_NIBABEL;
  const test::TemporaryFolder folder;
  Affine affine;
  const double c = std::cos(0.3), s = std::sin(0.3);
  affine.rows = {{{-0.9 * c, -1.1 * s, 0, 90.5}, {-0.9 * s, 1.1 * c, 0, -120.25}, {0, 0, 1.7, -70}}};
  for (VoxelType type : {VoxelType::U8, VoxelType::I16, VoxelType::F32, VoxelType::U64}) {
    Volume volume = test::counting_volume({7, 6, 5}, type);
    set_affine(volume, affine);
    volume.slope = type == VoxelType::I16 ? 0.5 : 1;
    volume.space.sform_code = 4;
    volume.space.qform_code = 2;
    WriteOptions options;
    options.labels = type == VoxelType::U8;
    write_volume(folder / cat(to_string(type), ".nii.gz"), volume, options);
  }
  EXPECT_EQ(run_python(folder, R"(
import nibabel, numpy
c, s = numpy.cos(0.3), numpy.sin(0.3)
affine = numpy.array([[-0.9*c, -1.1*s, 0, 90.5], [-0.9*s, 1.1*c, 0, -120.25], [0, 0, 1.7, -70], [0, 0, 0, 1]])
want = (numpy.arange(210) % 100).reshape(5, 6, 7).T
for name in 'uint8', 'int16', 'float32', 'uint64':
    image = nibabel.load(name + '.nii.gz')
    assert image.get_data_dtype() == numpy.dtype(name)
    assert numpy.allclose(image.affine, affine, atol=1e-4), image.affine
    assert numpy.allclose(image.get_qform(), affine, atol=1e-4), image.get_qform()
    assert int(image.header['sform_code']) == 4 and int(image.header['qform_code']) == 2
    assert image.header.get_xyzt_units()[0] == 'mm'
    assert (image.get_fdata() == want * (0.5 if name == 'int16' else 1)).all()
    assert int(image.header['intent_code']) == (1002 if name == 'uint8' else 0)
)"),
            0);
}

TEST(Nibabel, WeReadWhatItWrites) {
  GYRUS_NEED_NIBABEL;
  const test::TemporaryFolder folder;
  ASSERT_EQ(run_python(folder, R"(
import nibabel, numpy
data = (numpy.arange(210) % 100).reshape(5, 6, 7).T
affine = numpy.array([[0, 0, -1.5, 30], [2, 0, 0, -40], [0, 0.5, 0, 50], [0, 0, 0, 1]])
for kind, name in ((nibabel.Nifti1Image, 'a.nii'), (nibabel.Nifti2Image, 'b.nii.gz'), (nibabel.Nifti1Pair, 'c.img'),
                   (nibabel.Nifti2Pair, 'd.hdr'), (nibabel.MGHImage, 'e.mgz'), (nibabel.MGHImage, 'f.mgh')):
    nibabel.save(kind(data.astype('f4'), affine), name)
big = nibabel.Nifti1Image(data.astype('>i2'), affine, nibabel.Nifti1Header(endianness='>'))
big.header.set_data_dtype('>i2')
nibabel.save(big, 'g.nii.gz')
)"),
            0);
  Affine affine;
  affine.rows = {{{0, 0, -1.5, 30}, {2, 0, 0, -40}, {0, 0.5, 0, 50}}};
  for (const char* name : {"a.nii", "b.nii.gz", "c.img", "d.hdr", "e.mgz", "f.mgh", "g.nii.gz"}) {
    SCOPED_TRACE(name);
    const Volume volume = read_volume(folder / name);
    ASSERT_EQ(volume.dims, (Dims{7, 6, 5}));
    for (int r = 0; r < 3; ++r)
      for (int k = 0; k < 4; ++k) EXPECT_NEAR(volume.affine(r, k), affine(r, k), 1e-4);
    for (int64_t i = 0; i < volume.voxels(); ++i) ASSERT_EQ(value_at(volume, i), i % 100);
    EXPECT_TRUE(volume.notices.empty());
  }
}

// Affine and values of the public files, by nibabel.
TEST(Nibabel, AgreesOnPublicFiles) {
  GYRUS_NEED_NIBABEL;
  GYRUS_NEED_DATA(data);
  const test::TemporaryFolder folder;
  const char* names[] = {"anatomical.nii",  "example4d.nii.gz", "example_nifti2.nii.gz",    "FLAIR.nii.gz",
                         "functional.nii",  "norm.mgz",         "resampled_anat_moved.nii", "shear.nii.gz",
                         "standard.nii.gz", "test.mgz"};
  std::string list;
  for (const char* name : names) list += cat("'", name, "', ");
  ASSERT_EQ(run_python(folder, cat("import nibabel, numpy\nfor name in (", list, "):\n    image = nibabel.load('", data,
                                   "/nifti/' + name)\n", R"(
    values = numpy.nan_to_num(image.get_fdata())
    values = values.reshape(values.shape[:3] + (-1,))[..., 0]
    with open(name + '.txt', 'w') as out:
        print(*image.affine[:3].ravel(), values.sum(), (values ** 2).sum(), file=out)
)")),
            0);
  for (const char* name : names) {
    SCOPED_TRACE(name);
    Volume volume = read_volume(data + "/nifti/" + name);
    zero_nonfinite(volume);
    const auto bytes = read_file(folder / cat(name, ".txt"));
    std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 4; ++c) {
        double want = 0;
        text >> want;
        EXPECT_NEAR(volume.affine(r, c), want, 1e-4 * (1 + std::abs(want)));
      }
    double sum = 0, squares = 0, got_sum = 0, got_squares = 0;
    text >> sum >> squares;
    for (int64_t i = 0; i < volume.voxels(); ++i) {
      const double v = value_at(volume, i);
      got_sum += v;
      got_squares += v * v;
    }
    EXPECT_NEAR(got_squares, squares, 1e-7 * squares);
    EXPECT_NEAR(got_sum, sum, 1e-7 * (std::abs(sum) + std::sqrt(squares)));
  }
}

}  // namespace
}  // namespace gyrus
