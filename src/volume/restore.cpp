#include "volume/restore.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

constexpr int64_t kBlock = 4;    // voxels of the label grid a side
constexpr int kMaxSamples = 6;   // a side, per voxel
constexpr int kMaxCells = 8;     // voxels of the label grid that a voxel may cover a side, to be weighed exactly
constexpr double kNudge = 1e-7;  // voxels; keeps samples that lie exactly between two voxels on one side of rounding

// Which blocks of the label grid hold a single label, they and all blocks within a voxel's reach: most voxels of a head
// lie in such, and need no votes.
template <class T>
class UniformBlocks {
 public:
  UniformBlocks(const T* labels, const Dims& dims, int64_t reach) : labels_(labels), dims_(dims) {
    for (size_t i = 0; i < 3; ++i) blocks_[i] = (dims[i] + kBlock - 1) / kBlock;
    own_ = marked([&](int64_t x, int64_t y, int64_t z) { return is_uniform(x, y, z); });
    const int64_t radius = (reach + kBlock - 1) / kBlock;
    around_ = marked([&](int64_t x, int64_t y, int64_t z) { return is_alone(x, y, z, radius); });
  }
  bool at(int64_t x, int64_t y, int64_t z) const { return around_[slot(x / kBlock, y / kBlock, z / kBlock)] != 0; }

 private:
  size_t slot(int64_t x, int64_t y, int64_t z) const {
    return static_cast<size_t>(x + blocks_[0] * (y + blocks_[1] * z));
  }
  T first_label(int64_t bx, int64_t by, int64_t bz) const {
    return labels_[kBlock * (bx + dims_[0] * (by + dims_[1] * bz))];
  }

  template <class F>
  std::vector<uint8_t> marked(F test) const {
    std::vector<uint8_t> flags(static_cast<size_t>(voxel_count(blocks_)));
    parallel_ranges(blocks_[2], 1, [&](int64_t begin, int64_t end) {
      for (int64_t z = begin; z < end; ++z)
        for (int64_t y = 0; y < blocks_[1]; ++y)
          for (int64_t x = 0; x < blocks_[0]; ++x) flags[slot(x, y, z)] = test(x, y, z) ? 1 : 0;
    });
    return flags;
  }

  bool is_uniform(int64_t bx, int64_t by, int64_t bz) const {
    const T value = first_label(bx, by, bz);
    const int64_t x1 = std::min(dims_[0], (bx + 1) * kBlock), y1 = std::min(dims_[1], (by + 1) * kBlock),
                  z1 = std::min(dims_[2], (bz + 1) * kBlock);
    for (int64_t z = bz * kBlock; z < z1; ++z)
      for (int64_t y = by * kBlock; y < y1; ++y) {
        const T* row = labels_ + dims_[0] * (y + dims_[1] * z);
        for (int64_t x = bx * kBlock; x < x1; ++x)
          if (row[x] != value) return false;
      }
    return true;
  }

  // Blocks whose surroundings leave the grid count as mixed: there the outside takes part in the vote.
  bool is_alone(int64_t bx, int64_t by, int64_t bz, int64_t radius) const {
    if (own_[slot(bx, by, bz)] == 0) return false;
    const T value = first_label(bx, by, bz);
    const int64_t b[3] = {bx, by, bz};
    for (size_t i = 0; i < 3; ++i)
      if (b[i] < radius || b[i] + radius >= blocks_[i]) return false;
    for (int64_t z = bz - radius; z <= bz + radius; ++z)
      for (int64_t y = by - radius; y <= by + radius; ++y)
        for (int64_t x = bx - radius; x <= bx + radius; ++x)
          if (own_[slot(x, y, z)] == 0 || first_label(x, y, z) != value) return false;
    return true;
  }

  const T* labels_;
  Dims dims_;
  Dims blocks_{};
  std::vector<uint8_t> own_, around_;
};

// Offsets of the samples within a voxel of the target, in voxels of the label grid.
std::vector<Vec3d> sample_offsets(const Affine& map) {
  const Vec3d length = column_lengths(map);  // voxels of the label grid per voxel of the target
  int n[3];
  for (size_t i = 0; i < 3; ++i) {
    const double wanted = std::ceil(2 * length[i] - 1e-6);
    n[i] = static_cast<int>(std::clamp(wanted, 3.0, static_cast<double>(kMaxSamples)));
  }
  std::vector<Vec3d> out;
  for (int k = 0; k < n[2]; ++k)
    for (int j = 0; j < n[1]; ++j)
      for (int i = 0; i < n[0]; ++i) {
        const double u[3] = {(i + 0.5) / n[0] - 0.5, (j + 0.5) / n[1] - 0.5, (k + 0.5) / n[2] - 0.5};
        Vec3d offset{};
        for (int r = 0; r < 3; ++r)
          offset[static_cast<size_t>(r)] = map(r, 0) * u[0] + map(r, 1) * u[1] + map(r, 2) * u[2];
        out.push_back(offset);
      }
  return out;
}

// The label at the nearest voxel; 0 outside.
template <class T>
T nearest(const T* labels, const Dims& dims, const Vec3d& p) {
  int64_t index[3];
  for (size_t i = 0; i < 3; ++i) {
    const double v = p[i] + 0.5 + kNudge;
    if (!(v >= 0 && v < static_cast<double>(dims[i]))) return 0;
    index[i] = static_cast<int64_t>(v);
  }
  return labels[index[0] + dims[0] * (index[1] + dims[1] * index[2])];
}

template <class T>
T vote(const T* labels, const Dims& dims, const Vec3d& centre, const std::vector<Vec3d>& offsets) {
  // Few labels meet in one voxel: a short list is faster than a table.
  constexpr size_t kCandidates = kMaxSamples * kMaxSamples * kMaxSamples;
  T label[kCandidates];
  int votes[kCandidates];
  size_t count = 0;
  for (const Vec3d& offset : offsets) {
    const T found = nearest(labels, dims, {centre[0] + offset[0], centre[1] + offset[1], centre[2] + offset[2]});
    size_t i = 0;
    while (i < count && label[i] != found) ++i;
    if (i == count) {
      label[count] = found;
      votes[count++] = 0;
    }
    ++votes[i];
  }
  const T own = nearest(labels, dims, centre);
  size_t best = 0;
  const auto better = [&](size_t a, size_t b) {
    if (votes[a] != votes[b]) return votes[a] > votes[b];
    if ((label[a] == own) != (label[b] == own)) return label[a] == own;
    return label[a] < label[b];
  };
  for (size_t i = 1; i < count; ++i)
    if (better(i, best)) best = i;
  return label[best];
}

// The label that fills most of a box whose sides lie along the label grid: its share of every voxel, exactly.
template <class T>
T heaviest(const T* labels, const Dims& dims, const Vec3d& centre, const Vec3d& half) {
  int64_t first[3];
  int cells[3];
  double share[3][kMaxCells];
  for (size_t a = 0; a < 3; ++a) {
    const double lo = centre[a] - half[a] + 0.5, hi = centre[a] + half[a] + 0.5;  // voxel i is [i, i+1)
    first[a] = static_cast<int64_t>(std::floor(lo + kNudge));
    cells[a] = std::clamp<int>(static_cast<int>(std::ceil(hi - kNudge) - static_cast<double>(first[a])), 1, kMaxCells);
    for (int i = 0; i < cells[a]; ++i) {
      const double begin = static_cast<double>(first[a] + i);
      share[a][i] = std::min(hi, begin + 1) - std::max(lo, begin);
    }
  }
  constexpr size_t kCandidates = kMaxCells * kMaxCells * kMaxCells;
  T label[kCandidates];
  double weight[kCandidates];
  size_t count = 0;
  for (int k = 0; k < cells[2]; ++k)
    for (int j = 0; j < cells[1]; ++j)
      for (int i = 0; i < cells[0]; ++i) {
        const int64_t x = first[0] + i, y = first[1] + j, z = first[2] + k;
        const bool inside = x >= 0 && y >= 0 && z >= 0 && x < dims[0] && y < dims[1] && z < dims[2];
        const T found = inside ? labels[x + dims[0] * (y + dims[1] * z)] : T{0};
        size_t c = 0;
        while (c < count && label[c] != found) ++c;
        if (c == count) {
          label[count] = found;
          weight[count++] = 0;
        }
        weight[c] += share[0][i] * share[1][j] * share[2][k];
      }
  const T own = nearest(labels, dims, centre);
  size_t best = 0;
  const auto better = [&](size_t a, size_t b) {
    if (std::abs(weight[a] - weight[b]) > kNudge) return weight[a] > weight[b];
    if ((label[a] == own) != (label[b] == own)) return label[a] == own;
    return label[a] < label[b];
  };
  for (size_t i = 1; i < count; ++i)
    if (better(i, best)) best = i;
  return label[best];
}

// Half the sides of a target voxel along the axes of the label grid; none where it is turned against that grid or
// covers too many of its voxels.
bool aligned_halves(const Affine& map, Vec3d& half) {
  for (int row = 0; row < 3; ++row) {
    double sum = 0, largest = 0;
    for (int column = 0; column < 3; ++column) {
      sum += std::abs(map(row, column));
      largest = std::max(largest, std::abs(map(row, column)));
    }
    if (sum - largest > 1e-4 * largest || largest > kMaxCells - 2) return false;
    half[static_cast<size_t>(row)] = largest / 2;
  }
  return true;
}

template <class T>
void restore_into(const Volume& labels, const Affine& map, Volume& out) {
  const T* in = labels.as<T>();
  const Dims dims = labels.dims;
  const std::vector<Vec3d> offsets = sample_offsets(map);
  Vec3d half{};
  const bool aligned = aligned_halves(map, half);
  double widest = std::max({half[0], half[1], half[2]});
  for (const Vec3d& offset : offsets)
    for (double v : offset) widest = std::max(widest, std::abs(v));
  const UniformBlocks<T> uniform(in, dims, static_cast<int64_t>(std::ceil(widest)) + 1);
  const Vec3d step{map(0, 0), map(1, 0), map(2, 0)};
  parallel_ranges(out.dims[1] * out.dims[2], 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Vec3d start =
          map_point(map, {0, static_cast<double>(row % out.dims[1]), static_cast<double>(row / out.dims[1])});
      T* to = out.as<T>() + row * out.dims[0];
      for (int64_t x = 0; x < out.dims[0]; ++x) {
        const auto dx = static_cast<double>(x);
        const Vec3d p{start[0] + dx * step[0], start[1] + dx * step[1], start[2] + dx * step[2]};
        bool inside = true;
        int64_t i[3];
        for (size_t a = 0; a < 3; ++a) {
          inside = inside && p[a] > -0.5 && p[a] < static_cast<double>(dims[a]) - 0.5 - 1e-6;
          i[a] = inside ? static_cast<int64_t>(p[a] + 0.5) : 0;
        }
        to[x] = inside && uniform.at(i[0], i[1], i[2]) ? in[i[0] + dims[0] * (i[1] + dims[1] * i[2])]
                : aligned                              ? heaviest(in, dims, p, half)
                                                       : vote(in, dims, p, offsets);
      }
    }
  });
}

float trilinear(const float* in, const Dims& dims, const Vec3d& p) {
  int64_t index[3];
  float w[3];
  for (size_t i = 0; i < 3; ++i) {
    const double high = static_cast<double>(dims[i] - 1);
    // Half a voxel beyond the last centres still belongs to the grid; there the border's value holds.
    if (!(p[i] >= -0.5 && p[i] <= high + 0.5)) return 0;
    const double v = std::clamp(p[i], 0.0, high);
    index[i] = std::clamp<int64_t>(static_cast<int64_t>(v), 0, std::max<int64_t>(0, dims[i] - 2));
    w[i] = static_cast<float>(v - static_cast<double>(index[i]));
  }
  const int64_t sx = dims[0] > 1 ? 1 : 0, sy = dims[1] > 1 ? dims[0] : 0, sz = dims[2] > 1 ? dims[0] * dims[1] : 0;
  const float* c = in + index[0] + dims[0] * (index[1] + dims[1] * index[2]);
  const auto along = [&](const float* q) { return q[0] + w[0] * (q[sx] - q[0]); };
  const float a = along(c), b = along(c + sy), d = along(c + sz), e = along(c + sz + sy);
  const float near = a + w[1] * (b - a), far = d + w[1] * (e - d);
  return near + w[2] * (far - near);
}

}  // namespace

Volume restore_labels(const Volume& labels, const Volume& grid) {
  if ((labels.type != VoxelType::U8 && labels.type != VoxelType::I16) || labels.is_scaled())
    fail(ErrorCode::InvalidInput, labels.name, "labels must be plain uint8 or int16, not ", to_string(labels.type));
  Volume out = like(grid, labels.type);
  const Affine map = compose(inverse(labels.affine), grid.affine);
  if (labels.type == VoxelType::U8) {
    restore_into<uint8_t>(labels, map, out);
  } else {
    restore_into<int16_t>(labels, map, out);
  }
  return out;
}

Volume restore_values(const Volume& values, const Volume& grid) {
  if (values.type != VoxelType::F32 || values.is_scaled())
    fail(ErrorCode::InvalidInput, values.name, "values must be plain float32, not ", to_string(values.type));
  Volume out = like(grid, VoxelType::F32);
  const Affine map = compose(inverse(values.affine), grid.affine);
  parallel_ranges(out.dims[1] * out.dims[2], 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto y = static_cast<double>(row % out.dims[1]), z = static_cast<double>(row / out.dims[1]);
      for (int64_t x = 0; x < out.dims[0]; ++x)
        out.as<float>()[row * out.dims[0] + x] =
            trilinear(values.as<float>(), values.dims, map_point(map, {static_cast<double>(x), y, z}));
    }
  });
  return out;
}

}  // namespace gyrus
