#include "core/lifetimes.h"

#include <algorithm>

namespace gyrus {

MemoryAssignment assign_memory(const std::vector<MemoryRequest>& requests) {
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  MemoryAssignment result;
  result.slot.resize(requests.size());
  std::vector<std::vector<size_t>> tenants;
  for (size_t i : order) {
    const MemoryRequest& wanted = requests[i];
    const auto is_free = [&](const std::vector<size_t>& slot) {
      return std::all_of(slot.begin(), slot.end(), [&](size_t other) {
        return requests[other].last < wanted.first || wanted.last < requests[other].first;
      });
    };
    const auto free = std::find_if(tenants.begin(), tenants.end(), is_free);
    const size_t slot = static_cast<size_t>(free - tenants.begin());
    if (free == tenants.end()) {
      tenants.emplace_back();
      result.slot_bytes.push_back(wanted.bytes);
    }
    tenants[slot].push_back(i);
    result.slot[i] = static_cast<uint32_t>(slot);
  }
  return result;
}

}  // namespace gyrus
