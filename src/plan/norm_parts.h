#pragma once
#include <string>

#include "plan/lowering.h"

// Statistics of channels, gathered in parts by whoever has the values at hand and merged afterwards.

namespace gyrus {

inline constexpr uint64_t kVec4Bytes = 16;
// Workgroup memory that gathering or merging takes for each lane, in bytes: two vec4 and a count.
inline constexpr uint64_t kStatisticsBytes = 36;

// Where the statistics of one image, or of several, are gathered: rows of three vec4 (mean, squared deviations, count)
// for each image, quad of channels and part.
struct StatsTarget {
  uint32_t buffer = 0;
  uint64_t parts = 0;  // of each quad; 0: not gathered
  uint64_t bytes = 0;
};

// What statistics.wgsl needs of a kernel that gathers into `target`; the kernel's workgroup is set.
void bind_statistics(Kernel& kernel, const StatsTarget& target);
// The mean and variance [N,C,2] of a packed tensor in memory, as many images at once as a window holds.
void emit_norm_stats(Lowering& lowering, const Storage& x, int64_t images, int64_t channels, const Storage& out,
                     const std::string& label);
// Gathers the parts of one image, or of several that one window holds.
StatsTarget emit_norm_partials(Lowering& lowering, const Storage& x, const Interval& slabs, int64_t images,
                               int64_t channels, const std::string& label);
// Merges the parts of some images into their rows of the statistics [N,C,2].
void emit_norm_finalize(Lowering& lowering, const StatsTarget& target, const Interval& images, int64_t channels,
                        const Storage& out, const std::string& label);

}  // namespace gyrus
