#include "plan/storage.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {

Storage storage_shape(const TensorType& type) {
  Storage s;
  s.dtype = type.dtype;
  const bool packed = type.layout == Layout::Packed;
  s.lanes = packed ? 4 : 1;
  const Shape& shape = type.shape;
  if (shape.size() < 3) {
    s.units = static_cast<uint64_t>(packed ? shape[0] * ceil_div(shape[1], 4) : element_count(shape));
    s.slab_units = packed ? static_cast<uint64_t>(ceil_div(shape[1], 4)) : s.units;
    s.plane_units = 1;
    return s;
  }
  const int64_t channels = packed ? ceil_div(shape[1], 4) : shape[1];
  const int64_t spatial = element_count(Shape(shape.begin() + 2, shape.end()));
  s.units = static_cast<uint64_t>(checked_mul(checked_mul(shape[0], channels, "shape"), spatial, "shape"));
  s.plane_units = shape[2] > 0 ? static_cast<uint64_t>(spatial / shape[2]) : 1;
  s.slab_units = packed ? static_cast<uint64_t>(channels) * s.plane_units : static_cast<uint64_t>(spatial);
  return s;
}

Storage laid_out(const TensorType& type, const Limits& limits, const std::string& what) {
  Storage storage = storage_shape(type);
  uint64_t first = 0;
  for (uint64_t count : chunk_sizes(storage, limits, what)) {
    storage.chunks.push_back({0, 0, first, count});
    first += count;
  }
  return storage;
}

Storage quad_view(const Storage& s) {
  Storage view = s;
  view.lanes = 4;
  view.units /= 4;
  view.slab_units = view.units;
  view.plane_units = 1;
  for (Chunk& chunk : view.chunks) {
    chunk.first /= 4;
    chunk.count /= 4;
  }
  return view;
}

Storage word_view(const Storage& s) {
  Storage view = s;
  const uint64_t unit = s.unit_bytes();
  view.dtype = DType::U32;
  view.lanes = 1;
  view.units = s.bytes() / 4;
  for (Chunk& chunk : view.chunks) {
    chunk.first = chunk.first * unit / 4;
    chunk.count = chunk.count * unit / 4;
  }
  return view;
}

std::vector<uint64_t> chunk_sizes(const Storage& s, const Limits& limits, const std::string& what) {
  const uint64_t limit = limits.max_buffer_size;
  const uint64_t unit = s.unit_bytes();
  if (s.bytes() <= limit) return {s.units};
  std::vector<uint64_t> sizes;
  const auto cut = [&sizes](uint64_t total, uint64_t piece) {
    for (uint64_t at = 0; at < total; at += piece) sizes.push_back(std::min(piece, total - at));
  };
  const uint64_t slab_bytes = s.slab_units * unit;
  // Four bytes of slack keep every chunk of a narrow type a whole number of words.
  if (slab_bytes <= limit && slab_bytes % 4 == 0) {
    cut(s.units, limit / slab_bytes * s.slab_units);
    return sizes;
  }
  const uint64_t plane_bytes = s.plane_units * unit;
  uint64_t planes = plane_bytes ? limit / plane_bytes : 0;
  while (planes > 0 && planes * plane_bytes % 4 != 0) --planes;
  if (planes == 0)
    fail(ErrorCode::OverLimits, what, "planes of ", plane_bytes, " bytes do not fit a buffer of ", limit,
         " bytes in whole words: make the last two axes smaller");
  if (s.slab_units * unit % 4 != 0) {
    cut(s.units, planes * s.plane_units);
    return sizes;
  }
  for (uint64_t slab = 0; slab < s.slabs(); ++slab) cut(s.slab_units, planes * s.plane_units);
  return sizes;
}

const Chunk& chunk_of(const Storage& s, uint64_t unit) {
  const auto after = std::upper_bound(s.chunks.begin(), s.chunks.end(), unit,
                                      [](uint64_t u, const Chunk& chunk) { return u < chunk.first; });
  return *(after - 1);
}

Window window(const Storage& s, uint64_t first, uint64_t count, const Limits& limits) {
  const Chunk& chunk = chunk_of(s, first);
  const uint64_t unit = s.unit_bytes();
  const uint64_t begin = chunk.byte_offset + (first - chunk.first) * unit;
  uint64_t aligned = round_down(begin, limits.min_storage_buffer_offset_alignment);
  // The distance must be whole units; alignments are powers of two, and so are unit sizes.
  Window w;
  w.skip = (begin - aligned) / unit;
  w.first = first;
  w.count = count;
  w.range = {chunk.buffer, aligned, round_up(begin - aligned + count * unit, 4)};
  return w;
}

bool fits_window(const Storage& s, uint64_t first, uint64_t count, const Limits& limits) {
  const Chunk& chunk = chunk_of(s, first);
  if (first + count > chunk.first + chunk.count) return false;
  return window(s, first, count, limits).range.size <= limits.max_storage_buffer_binding_size;
}

Window whole_window(const Storage& s, const Limits& limits, const std::string& what) {
  if (!fits_window(s, 0, s.units, limits))
    fail(ErrorCode::OverLimits, what, "a table of ", s.bytes(), " bytes does not fit a binding of ",
         limits.max_storage_buffer_binding_size);
  return window(s, 0, s.units, limits);
}

UnitRange packed_range(const Storage& s, const Interval& slabs, const Interval& quads) {
  return {static_cast<uint64_t>(slabs.begin) * s.slab_units + static_cast<uint64_t>(quads.begin) * s.plane_units,
          static_cast<uint64_t>(slabs.size() - 1) * s.slab_units + static_cast<uint64_t>(quads.size()) * s.plane_units};
}

std::vector<QuadPlanes> cut_packed(const Storage& s, const Interval& slabs, const Limits& limits,
                                   const std::string& what) {
  const auto fits = [&](const QuadPlanes& part) {
    const UnitRange units = packed_range(s, part.slabs, part.quads);
    return fits_window(s, units.first, units.count, limits);
  };
  // The largest end for which the part fits, of those from `begin` on; `begin` where none does.
  const auto longest = [](int64_t begin, int64_t end, const auto& good) {
    int64_t most = begin;
    for (int64_t bad = end + 1; bad - most > 1;) {
      const int64_t middle = most + (bad - most) / 2;
      (good(middle) ? most : bad) = middle;
    }
    return most;
  };
  const auto all = static_cast<int64_t>(s.slab_units / s.plane_units);
  std::vector<QuadPlanes> parts;
  for (int64_t at = slabs.begin; at < slabs.end;) {
    const int64_t end = longest(at, slabs.end, [&](int64_t e) { return fits({{at, e}, {0, all}}); });
    if (end > at) {
      parts.push_back({{at, end}, {0, all}});
      at = end;
      continue;
    }
    for (int64_t quad = 0; quad < all;) {
      const int64_t last = longest(quad, all, [&](int64_t e) { return fits({{at, at + 1}, {quad, e}}); });
      if (last == quad)
        fail(ErrorCode::OverLimits, what, "one plane of the volume does not fit a binding of ",
             limits.max_storage_buffer_binding_size, " bytes: make the last two axes smaller");
      parts.push_back({{at, at + 1}, {quad, last}});
      quad = last;
    }
    ++at;
  }
  return parts;
}

std::vector<Window> windows(const Storage& s, uint64_t first, uint64_t count, const Limits& limits) {
  std::vector<Window> result;
  const uint64_t unit = s.unit_bytes();
  // Windows inside a chunk start on aligned bytes after the first, so their units are a multiple of this.
  const uint64_t step = std::max<uint64_t>(1, limits.min_storage_buffer_offset_alignment / unit);
  for (uint64_t at = first; at < first + count;) {
    const Chunk& chunk = chunk_of(s, at);
    uint64_t size = std::min(first + count, chunk.first + chunk.count) - at;
    if (!fits_window(s, at, size, limits)) {
      const uint64_t binding = limits.max_storage_buffer_binding_size;
      const uint64_t slack = limits.min_storage_buffer_offset_alignment;
      const uint64_t most = binding > slack ? round_down((binding - slack) / unit, step) : 0;
      if (most == 0)
        fail(ErrorCode::OverLimits, "plan", "bindings of ", binding, " bytes at multiples of ", slack,
             " are too small to cut a tensor");
      size = std::min(size, most);
    }
    result.push_back(window(s, at, size, limits));
    at += size;
  }
  return result;
}

}  // namespace gyrus
