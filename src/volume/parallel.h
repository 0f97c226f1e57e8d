#pragma once
#include <cstdint>
#include <functional>

namespace gyrus {

// How many threads loops use: the machine's cores, or 1 in a build without threads.
int worker_count();

// Cuts 0 … count into ranges of `grain` or more and calls body(begin, end) for each, on all cores where that pays.
// Rethrows the first exception. The result must not depend on how the range was cut.
void parallel_ranges(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace gyrus
