#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// gzip through libdeflate, the only file of src/volume that needs it.

namespace gyrus {

bool is_gzip(std::span<const std::byte> bytes);

// The first bytes (up to `count`) of what the file inflates to, without checking the rest of it. Only good enough to
// look at a header: what lies behind the first member is zeros. Throws Io where the start is damaged already.
std::vector<std::byte> gunzip_head(std::span<const std::byte> bytes, size_t count, const std::string& name);

// All members of the file inflated. Throws Io where it is damaged, cut off, or inflates to more than `limit` bytes.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, uint64_t limit, const std::string& name);

// One gzip member. `level` 1 (fast) … 12 (small).
std::vector<std::byte> gzip(std::span<const std::byte> bytes, int level = 4);

}  // namespace gyrus
