#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/limits.h"
#include "graph/graph.h"
#include "plan/plan.h"

// Where a value lies: a flat sequence of units, cut into chunks that each live in one buffer.
//
// A unit is one element of a plain tensor or one quad of channels of a packed one. Units make up planes of
// `plane_units`, planes make up slabs of `slab_units`:
//   plain   [N][C][planes][rest]: a slab is a channel
//   packed  [N][planes][quads of C][rest]: a slab is a plane of the slowest spatial axis with all its channels, so that
//           one window holds all channels of a range of planes
// Cuts never split a plane, and a chunk that does not hold whole slabs lies inside one (except where slabs of narrow
// types are no whole words).

namespace gyrus {

struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

struct Chunk {
  uint32_t buffer = 0;       // of the plan in the making
  uint64_t byte_offset = 0;  // of the chunk's first unit in the buffer
  uint64_t first = 0;        // unit
  uint64_t count = 0;        // units
};

struct Storage {
  DType dtype = DType::F32;
  uint32_t lanes = 1;  // elements in a unit
  uint64_t units = 0;
  uint64_t slab_units = 0;
  uint64_t plane_units = 0;
  std::vector<Chunk> chunks;

  uint64_t unit_bytes() const { return lanes * byte_size(dtype); }
  uint64_t slabs() const { return slab_units ? units / slab_units : 0; }
  uint64_t bytes() const { return units * unit_bytes(); }
  bool is_whole() const { return chunks.size() == 1; }
};

// The geometry of a value of that type; chunks are still empty.
Storage storage_shape(const TensorType& type);

// The same with its chunks as they will lie in buffers, which are not there yet; throws OverLimits as below.
Storage laid_out(const TensorType& type, const Limits& limits, const std::string& what);
// Plain elements seen as quads of four that follow each other.
Storage quad_view(const Storage& storage);
// All bytes of a storage seen as 32-bit words.
Storage word_view(const Storage& storage);

// Units in each chunk such that no chunk is over the buffer limit; throws OverLimits where a single plane is.
std::vector<uint64_t> chunk_sizes(const Storage& storage, const Limits& limits, const std::string& what);

// A range of a storage as a binding: the buffer's range starts aligned, `skip` units before the range asked for.
struct Window {
  BufferRange range;
  uint64_t skip = 0;   // units from the start of the binding to `first`
  uint64_t first = 0;  // unit of the storage
  uint64_t count = 0;
};

// The chunk that holds a unit.
const Chunk& chunk_of(const Storage& storage, uint64_t unit);
// Whether [first, first+count) lies in one chunk and its binding keeps the limits.
bool fits_window(const Storage& storage, uint64_t first, uint64_t count, const Limits& limits);
// That binding; the caller has asked fits_window.
Window window(const Storage& storage, uint64_t first, uint64_t count, const Limits& limits);
// The binding of a whole storage; throws OverLimits, naming `what`, where it does not fit.
Window whole_window(const Storage& storage, const Limits& limits, const std::string& what);
// The shortest range of units that holds some quads of some slabs of a packed value.
struct UnitRange {
  uint64_t first = 0, count = 0;
};
UnitRange packed_range(const Storage& storage, const Interval& slabs, const Interval& quads);
// Some quads of some slabs.
struct QuadPlanes {
  Interval slabs, quads;
};
// Cuts slabs of a packed value into parts that each fit a window: whole slabs, or else quads of one slab after another.
// Throws OverLimits where a single quad of a plane does not fit.
std::vector<QuadPlanes> cut_packed(const Storage& storage, const Interval& slabs, const Limits& limits,
                                   const std::string& what);
// Cuts [first, first+count) into ranges that each fit a window.
std::vector<Window> windows(const Storage& storage, uint64_t first, uint64_t count, const Limits& limits);

}  // namespace gyrus
