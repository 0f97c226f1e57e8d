#pragma once
#include <cstdint>
#include <filesystem>

// What this process may use of the machine that it runs on.

namespace gyrus::cpu {

// How many threads may run at once: cores of the affinity mask, and no more than the cgroups (v1 or v2) of the process
// give time for; at least 1. `root` is where /proc and /sys/fs/cgroup are looked for.
int usable_threads(const std::filesystem::path& root = "/");

// Bytes that may still be allocated: what the system has available, and no more than the cgroups leave. ~0 where
// nothing says so.
uint64_t usable_memory(const std::filesystem::path& root = "/");

}  // namespace gyrus::cpu
