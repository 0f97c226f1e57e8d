// Where values lie: units, chunks and windows, over random shapes and limits.
#include "plan/storage.h"

#include "plan_support.h"

namespace gyrus::test {
namespace {

TensorType random_type(Rng& rng) {
  const DType dtypes[] = {DType::F32, DType::F16, DType::U8, DType::I32};
  TensorType type;
  const bool packed = rng.integer(0, 1) == 1;
  type.dtype = dtypes[rng.integer(0, packed ? 1 : 3)];
  type.layout = packed ? Layout::Packed : Layout::Plain;
  const int64_t rank = rng.integer(packed ? 3 : 0, 5);
  for (int64_t a = 0; a < rank; ++a) type.shape.push_back(rng.integer(1, a < 2 ? 9 : 40));
  return type;
}

// A storage with its chunks, each in a buffer of its own; nothing where the limits are too small for one plane.
bool place(const TensorType& type, const Limits& limits, Storage& s) {
  s = storage_shape(type);
  try {
    uint64_t first = 0;
    for (uint64_t count : chunk_sizes(s, limits, "value")) {
      s.chunks.push_back({static_cast<uint32_t>(s.chunks.size()), 0, first, count});
      first += count;
    }
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OverLimits);
    // Four planes are a whole number of words, whatever the type.
    EXPECT_GT(s.plane_units * s.unit_bytes() * (s.unit_bytes() < 4 ? 4 : 1), limits.max_buffer_size);
    return false;
  }
}

TEST(Storage, CountsUnits) {
  const Storage plain = storage_shape({DType::U8, {2, 5, 3, 4, 6}, Layout::Plain});
  EXPECT_EQ(plain.units, 2u * 5 * 3 * 4 * 6);
  EXPECT_EQ(plain.slab_units, 3u * 4 * 6);
  EXPECT_EQ(plain.plane_units, 4u * 6);
  EXPECT_EQ(plain.bytes(), plain.units);
  const Storage packed = storage_shape({DType::F16, {2, 5, 3, 4, 6}, Layout::Packed});
  EXPECT_EQ(packed.units, 2u * 2 * 3 * 4 * 6);
  EXPECT_EQ(packed.slab_units, 2u * 4 * 6);  // both quads of a plane
  EXPECT_EQ(packed.plane_units, 4u * 6);
  EXPECT_EQ(packed.unit_bytes(), 8u);
  EXPECT_EQ(storage_shape({DType::F32, {}, Layout::Plain}).units, 1u);
}

TEST(Storage, ChunksHoldEveryUnitOnceAndKeepTheLimit) {
  Rng rng(1);
  int cut = 0;
  for (int i = 0; i < 3000; ++i) {
    const TensorType type = random_type(rng);
    const Limits limits = random_limits(rng);
    Storage s;
    if (!place(type, limits, s)) continue;
    SCOPED_TRACE(cat(to_string(type.dtype), to_string(type.shape), " ", to_text(limits)));
    cut += s.chunks.size() > 1;
    uint64_t next = 0;
    for (const Chunk& chunk : s.chunks) {
      ASSERT_EQ(chunk.first, next);
      ASSERT_GT(chunk.count, 0u);
      ASSERT_LE(round_up(chunk.count * s.unit_bytes(), 4), limits.max_buffer_size);
      next += chunk.count;
      ASSERT_EQ(next % s.plane_units, 0u) << "a plane is split";
      if (next != s.units) {
        ASSERT_EQ(chunk.first * s.unit_bytes() % 4, 0u) << "a chunk starts within a word";
      }
      ASSERT_EQ(&chunk_of(s, chunk.first), &chunk);
      ASSERT_EQ(&chunk_of(s, next - 1), &chunk);
    }
    ASSERT_EQ(next, s.units);
  }
  EXPECT_GT(cut, 300);
}

// What norms and convolutions rely on: every quad of every plane lies in one part, whose window keeps the limits.
TEST(Storage, PackedPartsHoldEveryQuadOnce) {
  Rng rng(2);
  int several = 0;
  int split = 0;
  for (int i = 0; i < 3000; ++i) {
    TensorType type = random_type(rng);
    const Limits limits = random_limits(rng);
    Storage s;
    if (type.layout != Layout::Packed || !place(type, limits, s)) continue;
    SCOPED_TRACE(cat(to_string(type.shape), " ", to_text(limits)));
    const int64_t quads = ceil_div(type.shape[1], 4);
    const int64_t image = rng.integer(0, type.shape[0] - 1);
    const Interval slabs{image * type.shape[2], (image + 1) * type.shape[2]};
    std::vector<QuadPlanes> parts;
    try {
      parts = cut_packed(s, slabs, limits, "value");
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::OverLimits);
      // A plane whose window begins up to one alignment before it.
      ASSERT_GT(s.plane_units * s.unit_bytes() + limits.min_storage_buffer_offset_alignment,
                limits.max_storage_buffer_binding_size);
      continue;
    }
    std::vector<int> seen(static_cast<size_t>(slabs.size() * quads), 0);
    for (const QuadPlanes& part : parts) {
      const UnitRange units = packed_range(s, part.slabs, part.quads);
      ASSERT_TRUE(fits_window(s, units.first, units.count, limits));
      for (int64_t slab = part.slabs.begin; slab < part.slabs.end; ++slab)
        for (int64_t quad = part.quads.begin; quad < part.quads.end; ++quad)
          ++seen[static_cast<size_t>((slab - slabs.begin) * quads + quad)];
      split += part.quads.size() < quads;
    }
    several += parts.size() > 1;
    for (int count : seen) ASSERT_EQ(count, 1);
  }
  EXPECT_GT(several, 300);
  EXPECT_GT(split, 100);
}

TEST(Storage, WindowsCoverARangeExactlyAndKeepTheLimits) {
  Rng rng(4);
  int several = 0;
  for (int i = 0; i < 3000; ++i) {
    const TensorType type = random_type(rng);
    const Limits limits = random_limits(rng);
    Storage s;
    if (!place(type, limits, s)) continue;
    const uint64_t first = static_cast<uint64_t>(rng.integer(0, static_cast<int64_t>(s.units) - 1));
    const uint64_t count = static_cast<uint64_t>(rng.integer(1, static_cast<int64_t>(s.units - first)));
    SCOPED_TRACE(cat(to_string(type.dtype), to_string(type.shape), " [", first, ", +", count, ") ", to_text(limits)));
    std::vector<Window> list;
    try {
      list = windows(s, first, count, limits);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::OverLimits);
      ASSERT_LT(limits.max_storage_buffer_binding_size, 2048u);
      continue;
    }
    several += list.size() > 1;
    uint64_t next = first;
    for (const Window& w : list) {
      ASSERT_EQ(w.first, next);
      ASSERT_GT(w.count, 0u);
      ASSERT_EQ(w.range.offset % limits.min_storage_buffer_offset_alignment, 0u);
      ASSERT_LE(w.range.size, limits.max_storage_buffer_binding_size);
      ASSERT_EQ(w.range.size % 4, 0u);
      const Chunk& chunk = chunk_of(s, w.first);
      ASSERT_EQ(w.range.buffer, chunk.buffer);
      ASSERT_LE(w.first + w.count, chunk.first + chunk.count);
      // The binding's unit `skip` is the range's first.
      ASSERT_EQ(w.range.offset + w.skip * s.unit_bytes(), chunk.byte_offset + (w.first - chunk.first) * s.unit_bytes());
      ASSERT_GE(w.range.size, (w.skip + w.count) * s.unit_bytes());
      ASSERT_LE(w.range.offset + w.range.size, round_up(chunk.count * s.unit_bytes(), 4));
      next += w.count;
    }
    ASSERT_EQ(next, first + count);
  }
  EXPECT_GT(several, 300);
}

TEST(Storage, BindingsBelowTheAlignmentAreRefused) {
  Limits limits;
  limits.max_storage_buffer_binding_size = 256;
  Storage s;
  ASSERT_TRUE(place({DType::F32, {1000}, Layout::Plain}, limits, s));
  EXPECT_THROW(windows(s, 0, 1000, limits), Error);
}

}  // namespace
}  // namespace gyrus::test
