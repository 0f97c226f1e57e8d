// Components by runs: rows are cut into runs of one label, runs of neighbouring rows that touch are joined in a
// union-find forest. There are far fewer runs than voxels, and slabs of slices are independent until their borders are
// joined at the end. Roots are the first runs of their components, so numbering follows the order of voxels.
#include "volume/components.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

struct Run {
  int32_t first, last;  // x, both included
  int32_t label;
};

// Runs of all rows with row r = y + Y*z in [start[r], start[r + 1]).
struct Rows {
  Dims dims{};
  std::vector<Run> runs;
  std::vector<uint32_t> start;
};

template <class T>
int64_t end_of_run(const T* row, int64_t x, int64_t nx) {
  const T value = row[x++];
  if constexpr (sizeof(T) == 1) {
    // Eight voxels at a time.
    uint64_t pattern, word;
    std::memset(&pattern, value, 8);
    while (x + 8 <= nx) {
      std::memcpy(&word, row + x, 8);
      if (word != pattern) break;
      x += 8;
    }
  }
  while (x < nx && row[x] == value) ++x;
  return x;
}

// Appends the runs of one row: of the background where `holes`, of everything else otherwise.
template <class T>
void cut_row(const T* row, int64_t nx, bool holes, std::vector<Run>& runs) {
  for (int64_t x = 0; x < nx;) {
    const int64_t end = end_of_run(row, x, nx);
    if ((row[x] == 0) == holes)
      runs.push_back({static_cast<int32_t>(x), static_cast<int32_t>(end - 1), static_cast<int32_t>(row[x])});
    x = end;
  }
}

// Slices are handled in slabs of this many, each on its own.
constexpr int64_t kSlab = 16;

template <class T>
Rows cut_rows(const T* data, const Dims& dims, bool holes) {
  const int64_t rows = dims[1] * dims[2], slabs = (dims[2] + kSlab - 1) / kSlab;
  std::vector<std::vector<Run>> parts(static_cast<size_t>(slabs));
  Rows out{dims, {}, std::vector<uint32_t>(static_cast<size_t>(rows + 1))};
  const auto rows_of = [&](int64_t slab) {
    return std::pair(slab * kSlab * dims[1], std::min(rows, (slab + 1) * kSlab * dims[1]));
  };
  parallel_ranges(slabs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slab = begin; slab < end; ++slab) {
      std::vector<Run>& runs = parts[static_cast<size_t>(slab)];
      const auto [first, last] = rows_of(slab);
      for (int64_t r = first; r < last; ++r) {
        cut_row(data + r * dims[0], dims[0], holes, runs);
        out.start[static_cast<size_t>(r + 1)] = static_cast<uint32_t>(runs.size());
      }
    }
  });
  size_t total = 0;
  for (int64_t slab = 0; slab < slabs; ++slab) {
    const auto [first, last] = rows_of(slab);
    for (int64_t r = first; r < last; ++r) out.start[static_cast<size_t>(r + 1)] += static_cast<uint32_t>(total);
    total += parts[static_cast<size_t>(slab)].size();
  }
  if (total >= INT32_MAX) fail(ErrorCode::InvalidInput, "components", "too many runs of labels: ", total);
  out.runs.reserve(total);
  for (auto& part : parts) out.runs.insert(out.runs.end(), part.begin(), part.end());
  return out;
}

class Forest {
 public:
  explicit Forest(size_t size) : parent_(size) {
    for (size_t i = 0; i < size; ++i) parent_[i] = static_cast<uint32_t>(i);
  }
  uint32_t find(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    if (a < b) {
      parent_[b] = a;
    } else {
      parent_[a] = b;
    }
  }
  // The root of every element, once all are joined.
  std::vector<uint32_t> roots() && {
    for (size_t i = 0; i < parent_.size(); ++i) parent_[i] = parent_[parent_[i]];
    return std::move(parent_);
  }

 private:
  std::vector<uint32_t> parent_;
};

// Joins the runs of two rows that share an x.
void join_rows(const Rows& rows, Forest& forest, int64_t row_a, int64_t row_b) {
  uint32_t a = rows.start[static_cast<size_t>(row_a)], b = rows.start[static_cast<size_t>(row_b)];
  const uint32_t a_end = rows.start[static_cast<size_t>(row_a + 1)], b_end = rows.start[static_cast<size_t>(row_b + 1)];
  while (a < a_end && b < b_end) {
    const Run &p = rows.runs[a], &q = rows.runs[b];
    if (p.first <= q.last && q.first <= p.last && p.label == q.label) forest.join(a, b);
    if (p.last < q.last) {
      ++a;
    } else {
      ++b;
    }
  }
}

// Joins the runs of two rows that share an x or come within one of it.
void join_rows_diagonal(const Rows& rows, Forest& forest, int64_t row_a, int64_t row_b) {
  uint32_t b_first = rows.start[static_cast<size_t>(row_b)];
  const uint32_t b_end = rows.start[static_cast<size_t>(row_b + 1)];
  for (uint32_t a = rows.start[static_cast<size_t>(row_a)]; a < rows.start[static_cast<size_t>(row_a + 1)]; ++a) {
    const Run& p = rows.runs[a];
    while (b_first < b_end && rows.runs[b_first].last + 1 < p.first) ++b_first;
    for (uint32_t b = b_first; b < b_end && rows.runs[b].first <= p.last + 1; ++b)
      if (rows.runs[b].label == p.label) forest.join(a, b);
  }
}

// Joins a row with its earlier neighbours in this slice (`within`) or the slice below.
void join_row(const Rows& rows, Forest& forest, int64_t y, int64_t z, bool within, Connectivity connectivity) {
  const int64_t ny = rows.dims[1], row = y + ny * z;
  const auto straight = [&](int64_t other) {
    if (connectivity == Connectivity::Faces) {
      join_rows(rows, forest, row, other);
    } else {
      join_rows_diagonal(rows, forest, row, other);
    }
  };
  const auto oblique = [&](int64_t other) {
    if (connectivity == Connectivity::Edges) {
      join_rows(rows, forest, row, other);
    } else {
      join_rows_diagonal(rows, forest, row, other);
    }
  };
  if (within) {
    if (y > 0) straight(row - 1);
    return;
  }
  straight(row - ny);
  if (connectivity == Connectivity::Faces) return;
  if (y > 0) oblique(row - ny - 1);
  if (y + 1 < ny) oblique(row - ny + 1);
}

// The root run of every run.
std::vector<uint32_t> join_all(const Rows& rows, Connectivity connectivity) {
  Forest forest(rows.runs.size());
  const int64_t ny = rows.dims[1], nz = rows.dims[2], slabs = (nz + kSlab - 1) / kSlab;
  const auto join_slice = [&](int64_t z, bool within) {
    for (int64_t y = 0; y < ny; ++y) join_row(rows, forest, y, z, within, connectivity);
  };
  // Inside a slab only its own runs are touched, so slabs need no locks.
  parallel_ranges(slabs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slab = begin; slab < end; ++slab)
      for (int64_t z = slab * kSlab; z < std::min(nz, (slab + 1) * kSlab); ++z) {
        join_slice(z, true);
        if (z > slab * kSlab) join_slice(z, false);
      }
  });
  for (int64_t z = kSlab; z < nz; z += kSlab) join_slice(z, false);
  return std::move(forest).roots();
}

std::vector<int64_t> sizes_of(const Rows& rows, const std::vector<uint32_t>& roots) {
  std::vector<int64_t> sizes(rows.runs.size());
  for (size_t i = 0; i < roots.size(); ++i) sizes[roots[i]] += rows.runs[i].last - rows.runs[i].first + 1;
  return sizes;
}

void check(const Volume& labels) {
  if ((labels.type != VoxelType::U8 && labels.type != VoxelType::I16) || labels.is_scaled())
    fail(ErrorCode::InvalidInput, labels.name, "labels must be plain uint8 or int16, not ", to_string(labels.type));
  for (int64_t n : labels.dims)
    if (n >= INT32_MAX) fail(ErrorCode::InvalidInput, labels.name, "an axis of ", n, " voxels is too long");
}

// Calls f(run index, pointer to the run's first voxel, length) for every run, on all cores.
template <class T, class F>
void for_each_run(T* data, const Rows& rows, F f) {
  parallel_ranges(rows.dims[1] * rows.dims[2], 4096, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (uint32_t i = rows.start[static_cast<size_t>(row)]; i < rows.start[static_cast<size_t>(row + 1)]; ++i)
        f(i, data + row * rows.dims[0] + rows.runs[i].first, rows.runs[i].last - rows.runs[i].first + 1);
  });
}

constexpr int64_t kTwinShare = 3, kTwinVoxels = 64;  // smaller parts are noise

template <class T>
void clear_others(T* data, const Rows& rows, const std::vector<uint32_t>& roots, const std::vector<uint8_t>& keep) {
  for_each_run(data, rows, [&](uint32_t i, T* voxels, int64_t length) {
    if (keep[roots[i]] == 0) std::fill(voxels, voxels + length, T{0});
  });
}

template <class T>
int64_t drop_islands_in(T* data, const Dims& dims, int64_t voxels, Connectivity connectivity) {
  const Rows rows = cut_rows<T>(data, dims, false);
  const std::vector<uint32_t> roots = join_all(rows, connectivity);
  const std::vector<int64_t> sizes = sizes_of(rows, roots);
  std::vector<uint8_t> keep(roots.size());
  int64_t dropped = 0;
  for (uint32_t i = 0; i < roots.size(); ++i) {
    keep[i] = sizes[i] >= voxels;
    if (roots[i] == i && !keep[i]) dropped += sizes[i];
  }
  if (dropped > 0) clear_others(data, rows, roots, keep);
  return dropped;
}

template <class T>
int64_t keep_largest_in(T* data, const Dims& dims, Connectivity connectivity, std::vector<int64_t>* twins) {
  const Rows rows = cut_rows<T>(data, dims, false);
  const std::vector<uint32_t> roots = join_all(rows, connectivity);
  const std::vector<int64_t> sizes = sizes_of(rows, roots);
  std::map<int32_t, uint32_t> largest;  // label → root
  int64_t kept = 0, all = 0;
  for (uint32_t i = 0; i < roots.size(); ++i) {
    if (roots[i] != i) continue;
    all += sizes[i];
    const auto [place, is_new] = largest.try_emplace(rows.runs[i].label, i);
    if (!is_new && sizes[i] > sizes[place->second]) place->second = i;
  }
  std::vector<uint8_t> keep(roots.size());
  for (const auto& [label, root] : largest) {
    keep[root] = 1;
    kept += sizes[root];
  }
  if (kept == all) return 0;
  std::set<int64_t> lost;
  for (uint32_t i = 0; i < roots.size(); ++i)
    if (roots[i] == i && keep[i] == 0 && sizes[i] >= kTwinVoxels &&
        sizes[i] * kTwinShare >= sizes[largest.at(rows.runs[i].label)])
      lost.insert(rows.runs[i].label);
  if (twins) twins->assign(lost.begin(), lost.end());
  clear_others(data, rows, roots, keep);
  return all - kept;
}

// For each enclosed region of background, by root: the label that most of its faces touch.
template <class T>
class HoleLabels {
 public:
  HoleLabels(const T* data, const Rows& rows, const std::vector<uint32_t>& roots, const std::vector<uint8_t>& open) {
    const int64_t ny = rows.dims[1], nx = rows.dims[0];
    for (int64_t row = 0; row < ny * rows.dims[2]; ++row)
      for (uint32_t i = rows.start[static_cast<size_t>(row)]; i < rows.start[static_cast<size_t>(row + 1)]; ++i) {
        if (open[roots[i]] != 0) continue;
        std::map<int32_t, int64_t>& votes = votes_[roots[i]];
        const Run& run = rows.runs[i];
        const T* line = data + row * nx;
        // An enclosed run never lies on the border, so all neighbours exist.
        ++votes[line[run.first - 1]];
        ++votes[line[run.last + 1]];
        for (int64_t offset : {-nx, nx, -nx * ny, nx * ny})
          for (int64_t x = run.first; x <= run.last; ++x)
            if (line[x + offset] != 0) ++votes[line[x + offset]];
      }
  }
  T label(uint32_t root) const {
    const auto& votes = votes_.at(root);
    return static_cast<T>(std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                            return a.second < b.second;
                          })->first);
  }

 private:
  std::map<uint32_t, std::map<int32_t, int64_t>> votes_;
};

// Which roots have a run on the border of the grid.
std::vector<uint8_t> open_roots(const Rows& rows, const std::vector<uint32_t>& roots) {
  std::vector<uint8_t> open(roots.size());
  for (int64_t z = 0; z < rows.dims[2]; ++z)
    for (int64_t y = 0; y < rows.dims[1]; ++y) {
      const bool border = y == 0 || z == 0 || y == rows.dims[1] - 1 || z == rows.dims[2] - 1;
      const auto row = static_cast<size_t>(y + rows.dims[1] * z);
      for (uint32_t i = rows.start[row]; i < rows.start[row + 1]; ++i)
        if (border || rows.runs[i].first == 0 || rows.runs[i].last == rows.dims[0] - 1) open[roots[i]] = 1;
    }
  return open;
}

template <class T>
int64_t fill_holes_in(T* data, const Dims& dims) {
  const Rows rows = cut_rows<T>(data, dims, true);
  const std::vector<uint32_t> roots = join_all(rows, Connectivity::Faces);
  const std::vector<uint8_t> open = open_roots(rows, roots);
  const HoleLabels<T> labels(data, rows, roots, open);
  int64_t filled = 0;
  for (size_t i = 0; i < roots.size(); ++i)
    if (open[roots[i]] == 0) filled += rows.runs[i].last - rows.runs[i].first + 1;
  if (filled == 0) return 0;
  for_each_run(data, rows, [&](uint32_t i, T* voxels, int64_t length) {
    if (open[roots[i]] == 0) std::fill(voxels, voxels + length, labels.label(roots[i]));
  });
  return filled;
}

template <class T>
Components find_in(const T* data, const Dims& dims, Connectivity connectivity) {
  const Rows rows = cut_rows<T>(data, dims, false);
  const std::vector<uint32_t> roots = join_all(rows, connectivity);
  const std::vector<int64_t> sizes = sizes_of(rows, roots);
  Components out;
  out.ids.resize(static_cast<size_t>(voxel_count(dims)));
  std::vector<int32_t> id(roots.size());
  for (uint32_t i = 0; i < roots.size(); ++i) {
    if (roots[i] != i) continue;
    out.list.push_back({rows.runs[i].label, sizes[i]});
    id[i] = static_cast<int32_t>(out.list.size());
  }
  for_each_run(out.ids.data(), rows,
               [&](uint32_t i, int32_t* voxels, int64_t length) { std::fill(voxels, voxels + length, id[roots[i]]); });
  return out;
}

}  // namespace

Components find_components(const Volume& labels, Connectivity connectivity) {
  check(labels);
  return labels.type == VoxelType::U8 ? find_in(labels.as<uint8_t>(), labels.dims, connectivity)
                                      : find_in(labels.as<int16_t>(), labels.dims, connectivity);
}

int64_t keep_largest(Volume& labels, Connectivity connectivity, std::vector<int64_t>* twins) {
  check(labels);
  return labels.type == VoxelType::U8 ? keep_largest_in(labels.as<uint8_t>(), labels.dims, connectivity, twins)
                                      : keep_largest_in(labels.as<int16_t>(), labels.dims, connectivity, twins);
}

int64_t drop_islands(Volume& labels, int64_t voxels, Connectivity connectivity) {
  check(labels);
  return labels.type == VoxelType::U8 ? drop_islands_in(labels.as<uint8_t>(), labels.dims, voxels, connectivity)
                                      : drop_islands_in(labels.as<int16_t>(), labels.dims, voxels, connectivity);
}

int64_t fill_holes(Volume& labels) {
  check(labels);
  return labels.type == VoxelType::U8 ? fill_holes_in(labels.as<uint8_t>(), labels.dims)
                                      : fill_holes_in(labels.as<int16_t>(), labels.dims);
}

}  // namespace gyrus
