#pragma once
#include <cstdint>
#include <vector>

// Memory for values that live from one step to another: which of them share it.

namespace gyrus {

struct MemoryRequest {
  uint64_t bytes = 0;
  int64_t first = 0;  // step
  int64_t last = 0;   // step, included
};
struct MemoryAssignment {
  std::vector<uint32_t> slot;        // for each request
  std::vector<uint64_t> slot_bytes;  // for each slot
};
// Requests with disjoint lifetimes share slots; the largest are placed first, so a slot never has to grow.
MemoryAssignment assign_memory(const std::vector<MemoryRequest>& requests);

}  // namespace gyrus
