#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "unit/volume_support.h"
#include "volume/components.h"
#include "volume/random.h"

namespace gyrus {
namespace {

constexpr Connectivity kAll[] = {Connectivity::Faces, Connectivity::Edges, Connectivity::Corners};

template <class T>
Volume random_labels(Dims dims, int labels, double density, uint64_t seed) {
  Volume volume(dims, sizeof(T) == 1 ? VoxelType::U8 : VoxelType::I16);
  for (int64_t i = 0; i < volume.voxels(); ++i) {
    const double u = uniform_at(seed, static_cast<uint64_t>(i));
    volume.as<T>()[i] = u < density ? static_cast<T>(1 + static_cast<int>(u / density * labels)) : T{0};
  }
  return volume;
}

// Flood fill, the plain definition. `wanted` picks the voxels; neighbours must be equal.
template <class T>
std::vector<int32_t> flooded(const Volume& volume, Connectivity connectivity, bool background, int32_t& count) {
  const Dims& n = volume.dims;
  const T* data = volume.as<T>();
  const int64_t reach = connectivity == Connectivity::Faces ? 1 : connectivity == Connectivity::Edges ? 2 : 3;
  std::vector<int32_t> ids(static_cast<size_t>(volume.voxels()));
  count = 0;
  for (int64_t seed = 0; seed < volume.voxels(); ++seed) {
    if (ids[static_cast<size_t>(seed)] != 0 || (data[seed] == 0) != background) continue;
    ids[static_cast<size_t>(seed)] = ++count;
    std::deque<int64_t> queue{seed};
    while (!queue.empty()) {
      const int64_t at = queue.front();
      queue.pop_front();
      const int64_t x = at % n[0], y = at / n[0] % n[1], z = at / (n[0] * n[1]);
      for (int64_t dz = -1; dz <= 1; ++dz)
        for (int64_t dy = -1; dy <= 1; ++dy)
          for (int64_t dx = -1; dx <= 1; ++dx) {
            const int64_t qx = x + dx, qy = y + dy, qz = z + dz;
            if (dx * dx + dy * dy + dz * dz > reach || qx < 0 || qy < 0 || qz < 0 || qx >= n[0] || qy >= n[1] ||
                qz >= n[2])
              continue;
            const int64_t to = volume.index(qx, qy, qz);
            if (ids[static_cast<size_t>(to)] != 0 || data[to] != data[at]) continue;
            ids[static_cast<size_t>(to)] = count;
            queue.push_back(to);
          }
    }
  }
  return ids;
}

TEST(Components, EqualFloodFill) {
  uint64_t seed = 0;
  for (Dims dims : {Dims{9, 8, 7}, Dims{1, 1, 1}, Dims{30, 1, 3}, Dims{2, 3, 40}, Dims{17, 33, 35}})
    for (int labels : {1, 3})
      for (double density : {0.05, 0.3, 0.6, 0.95})
        for (Connectivity connectivity : kAll) {
          SCOPED_TRACE(
              cat(to_string(dims), " ", labels, " labels, density ", density, ", ", static_cast<int>(connectivity)));
          const Volume volume = random_labels<uint8_t>(dims, labels, density, ++seed);
          int32_t count = 0;
          const std::vector<int32_t> want = flooded<uint8_t>(volume, connectivity, false, count);
          const Components got = find_components(volume, connectivity);
          ASSERT_EQ(got.list.size(), static_cast<size_t>(count));
          ASSERT_EQ(got.ids, want);
          for (size_t i = 0; i < got.list.size(); ++i)
            ASSERT_EQ(got.list[i].voxels, std::count(want.begin(), want.end(), static_cast<int32_t>(i + 1)));
        }
}

TEST(Components, KeepLargestPerLabel) {
  for (Connectivity connectivity : kAll) {
    Volume volume = random_labels<int16_t>({20, 21, 40}, 3, 0.4, 5 + static_cast<uint64_t>(connectivity));
    const Components before = find_components(volume, connectivity);
    std::map<int64_t, size_t> largest;
    for (size_t i = 0; i < before.list.size(); ++i) {
      const auto [place, is_new] = largest.try_emplace(before.list[i].label, i);
      if (!is_new && before.list[i].voxels > before.list[place->second].voxels) place->second = i;
    }
    Volume want = volume;
    int64_t cleared = 0;
    for (int64_t i = 0; i < want.voxels(); ++i) {
      int16_t& v = want.as<int16_t>()[i];
      if (v == 0 || largest.at(v) + 1 == static_cast<size_t>(before.ids[static_cast<size_t>(i)])) continue;
      v = 0;
      ++cleared;
    }
    EXPECT_EQ(keep_largest(volume, connectivity), cleared);
    EXPECT_EQ(volume.data, want.data);
    EXPECT_EQ(keep_largest(volume, connectivity), 0);
  }
}

TEST(Components, HolesFillWithTheLabelAroundThem) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Volume volume = random_labels<uint8_t>({18, 19, 35}, 1, 0.75, seed);
    int32_t count = 0;
    const std::vector<int32_t> ids = flooded<uint8_t>(volume, Connectivity::Faces, true, count);
    std::vector<uint8_t> open(static_cast<size_t>(count + 1));
    const Dims& n = volume.dims;
    for (int64_t i = 0; i < volume.voxels(); ++i) {
      const int64_t x = i % n[0], y = i / n[0] % n[1], z = i / (n[0] * n[1]);
      if (x == 0 || y == 0 || z == 0 || x == n[0] - 1 || y == n[1] - 1 || z == n[2] - 1)
        open[static_cast<size_t>(ids[static_cast<size_t>(i)])] = 1;
    }
    Volume want = volume;
    int64_t filled = 0;
    for (int64_t i = 0; i < volume.voxels(); ++i)
      if (ids[static_cast<size_t>(i)] != 0 && open[static_cast<size_t>(ids[static_cast<size_t>(i)])] == 0) {
        want.as<uint8_t>()[i] = 1;
        ++filled;
      }
    EXPECT_GT(filled, 0);
    EXPECT_EQ(fill_holes(volume), filled);
    EXPECT_EQ(volume.data, want.data);
  }
  // Five faces touch label 4, one touches label 2.
  Volume cube({5, 5, 5}, VoxelType::U8);
  for (int64_t z = 1; z < 4; ++z)
    for (int64_t y = 1; y < 4; ++y)
      for (int64_t x = 1; x < 4; ++x) cube.as<uint8_t>()[cube.index(x, y, z)] = x == 1 ? 2 : 4;
  cube.as<uint8_t>()[cube.index(2, 2, 2)] = 0;
  EXPECT_EQ(fill_holes(cube), 1);
  EXPECT_EQ(cube.as<uint8_t>()[cube.index(2, 2, 2)], 4);
}

TEST(Components, RefuseOtherTypes) {
  Volume floats({3, 3, 3}, VoxelType::F32);
  test::expect_error(ErrorCode::InvalidInput, "plain uint8 or int16", [&] { keep_largest(floats); });
}

// The same against scipy.ndimage, where that is installed.
TEST(Components, EqualScipy) {
  const char* python = "/usr/bin/python3";
  if (std::system(cat(python, " -c 'import scipy.ndimage' 2> /dev/null").c_str()) != 0)
    GTEST_SKIP() << "python3-scipy is not installed";
  const test::TemporaryFolder folder;
  write_file(folder / "check.py", std::string(R"(
import sys, numpy, scipy.ndimage as n
folder, sx, sy, sz = sys.argv[1], *map(int, sys.argv[2:5])
read = lambda name, t: numpy.fromfile(folder + '/' + name, t).reshape(sz, sy, sx)
a = read('in', 'u1')
for rank, name in ((1, '6'), (2, '18'), (3, '26')):
    ids, count = n.label(a, n.generate_binary_structure(3, rank))
    assert (ids == read('ids' + name, 'i4')).all(), name
assert (n.binary_fill_holes(a) == read('filled', 'u1')).all()
)"));
  for (double density : {0.2, 0.55, 0.8}) {
    Volume volume = random_labels<uint8_t>({64, 50, 70}, 1, density, 11);
    const auto dump = [&](const char* name, const void* data, size_t bytes) {
      write_file(folder / name, std::span(static_cast<const std::byte*>(data), bytes));
    };
    dump("in", volume.data.data(), volume.data.size());
    for (Connectivity connectivity : kAll) {
      const Components found = find_components(volume, connectivity);
      dump(cat("ids", static_cast<int>(connectivity)).c_str(), found.ids.data(), 4 * found.ids.size());
    }
    fill_holes(volume);
    dump("filled", volume.data.data(), volume.data.size());
    EXPECT_EQ(std::system(cat(python, " ", folder / "check.py", " ", folder / ".", " 64 50 70").c_str()), 0);
  }
}

// T-M5: a label of both hemispheres loses one; that is told. Small parts are noise.
TEST(Components, LabelsThatLoseATwinAreTold) {
  Volume labels({40, 10, 10}, VoxelType::U8);
  const auto block = [&](int64_t from, int64_t to, uint8_t label) {
    for (int64_t z = 2; z < 8; ++z)
      for (int64_t y = 2; y < 8; ++y)
        for (int64_t x = from; x < to; ++x) labels.as<uint8_t>()[labels.index(x, y, z)] = label;
  };
  block(2, 8, 1);
  block(12, 16, 1);  // more than a third
  block(20, 30, 2);
  block(34, 36, 2);  // less
  std::vector<int64_t> twins;
  EXPECT_EQ(keep_largest(labels, Connectivity::Corners, &twins), 6 * 36);
  EXPECT_EQ(twins, std::vector<int64_t>{1});
}

TEST(Components, IslandsBelowASizeGo) {
  Volume labels({20, 4, 4}, VoxelType::I16);
  for (const int64_t x : {1, 2, 3, 6, 7, 10}) labels.as<int16_t>()[labels.index(x, 1, 1)] = 5;
  EXPECT_EQ(drop_islands(labels, 3), 3);
  for (const int64_t x : {1, 2, 3}) EXPECT_EQ(labels.as<int16_t>()[labels.index(x, 1, 1)], 5);
  for (const int64_t x : {6, 7, 10}) EXPECT_EQ(labels.as<int16_t>()[labels.index(x, 1, 1)], 0);
}

}  // namespace
}  // namespace gyrus
