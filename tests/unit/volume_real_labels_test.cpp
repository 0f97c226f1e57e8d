// Components and holes of label maps that networks made, 256³, against scipy.ndimage.
#include <chrono>
#include <cstdio>

#include "unit/volume_support.h"
#include "volume/components.h"
#include "volume/gzip.h"

namespace gyrus {
namespace {

constexpr const char* kPython = "/usr/bin/python3";
constexpr int64_t kSide = 256;

// The components of each label are found in the box around it, which changes nothing but the time.
constexpr const char* kCheck = R"(
import sys, numpy, scipy.ndimage as n
folder = sys.argv[1]
read = lambda name: numpy.fromfile(folder + '/' + name, 'u1').reshape(256, 256, 256)
a = read('in')
for rank, name in ((1, '6'), (3, '26')):
    want, count = numpy.zeros_like(a), 0
    for value, box in enumerate(n.find_objects(a), 1):
        if box is None: continue
        ids, parts = n.label(a[box] == value, n.generate_binary_structure(3, rank))
        sizes = numpy.bincount(ids.ravel())
        sizes[0] = 0
        want[box][ids == sizes.argmax()] = value
        count += parts
    assert count == int(open(folder + '/count' + name).read()), (name, count)
    assert (want == read('largest' + name)).all(), name
filled = read('filled')
assert ((filled != 0) == n.binary_fill_holes(a != 0)).all()
assert (filled[a != 0] == a[a != 0]).all()
)";

Volume read_labels(const std::string& path) {
  Volume volume({kSide, kSide, kSide}, VoxelType::U8);
  volume.data = gunzip(read_file(path), volume.data.size(), path);
  return volume;
}

double milliseconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class RealLabels : public testing::TestWithParam<const char*> {};

TEST_P(RealLabels, EqualScipy) {
  GYRUS_NEED_DATA(data);
  const std::string path = cat(data, "/reference/full/labels_", GetParam(), ".u8.gz");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  if (std::system(cat(kPython, " -c 'import scipy.ndimage' 2> /dev/null").c_str()) != 0)
    GTEST_SKIP() << "python3-scipy is not installed";
  const test::TemporaryFolder folder;
  const Volume labels = read_labels(path);
  ASSERT_EQ(labels.data.size(), static_cast<size_t>(labels.voxels()));
  write_file(folder / "in", labels.data);
  for (const Connectivity connectivity : {Connectivity::Faces, Connectivity::Corners}) {
    const std::string name = std::to_string(static_cast<int>(connectivity));
    write_file(folder / ("count" + name), std::to_string(find_components(labels, connectivity).list.size()));
    Volume largest = labels;
    int64_t cleared = 0;
    const double time = milliseconds_of([&] { cleared = keep_largest(largest, connectivity); });
    std::printf("%s neighbours: %lld voxels cleared in %.0f ms\n", name.c_str(), static_cast<long long>(cleared), time);
    write_file(folder / ("largest" + name), largest.data);
  }
  Volume filled = labels;
  int64_t holes = 0;
  const double time = milliseconds_of([&] { holes = fill_holes(filled); });
  std::printf("%lld voxels filled in %.0f ms\n", static_cast<long long>(holes), time);
  write_file(folder / "filled", filled.data);
  write_file(folder / "check.py", std::string(kCheck));
  EXPECT_EQ(std::system(cat(kPython, " ", folder / "check.py", " ", folder / "").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, RealLabels,
                         testing::Values("mindgrab_pth", "model5_gw_ae_pth", "model18cls_pth", "model21_104class_pth"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace gyrus
