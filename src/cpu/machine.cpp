#include "cpu/machine.h"

#if defined(__EMSCRIPTEN__)  // a page knows nothing of the machine; who makes a pool says how many threads it has

namespace gyrus::cpu {

int usable_threads(const std::filesystem::path&) { return 1; }
uint64_t usable_memory(const std::filesystem::path&) { return ~uint64_t{0}; }

}  // namespace gyrus::cpu

#else

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace gyrus::cpu {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<double> number_in(const fs::path& file) {
  const auto line = first_line(file);
  if (!line) return std::nullopt;
  std::istringstream in(*line);
  double value = 0;
  if (!(in >> value)) return std::nullopt;  // "max"
  return value;
}

// Calls `visit` with the folder of every cgroup of this process that has a say over `controller`, from its own up to
// the root. In a container the path may be that of the host and not exist; its root then is the container's own.
void each_cgroup(const fs::path& root, const std::string& controller,
                 const std::function<void(const fs::path&)>& visit) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    fs::path base = root / "sys/fs/cgroup";
    if (!controllers.empty()) {
      if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
      const fs::path own = base / controller;
      base = fs::exists(own) ? own : base / controllers;
    }
    for (fs::path at = path;; at = at.parent_path()) {
      visit(base / at);
      if (at.empty()) break;
    }
  }
}

// Cores' worth of time that a cgroup gives; nothing where it sets no limit.
std::optional<double> cores_of(const fs::path& group) {
  if (const auto line = first_line(group / "cpu.max")) {
    std::istringstream in(*line);
    double quota = 0, period = 0;
    if (in >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
  }
  const auto quota = number_in(group / "cpu.cfs_quota_us");
  const auto period = number_in(group / "cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) return *quota / *period;
  return std::nullopt;
}

// Bytes of a line "NAME value" of a file of such lines.
std::optional<double> named_number(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    double value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

// Bytes that a cgroup leaves. Pages of files that nobody uses give way, so they do not count as used.
std::optional<double> bytes_left(const fs::path& group) {
  const bool second = fs::exists(group / "memory.max");
  const auto limit = number_in(group / (second ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit) return std::nullopt;
  const double used = number_in(group / (second ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  const fs::path stat = group / "memory.stat";
  const double idle = named_number(stat, second ? "inactive_file" : "total_inactive_file").value_or(0);
  return std::max(0.0, *limit - std::max(0.0, used - idle));
}

int masked_cores() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int usable_threads(const fs::path& root) {
  double cores = std::max(1, masked_cores());
  each_cgroup(root, "cpu", [&](const fs::path& group) {
    if (const auto own = cores_of(group)) cores = std::min(cores, *own);
  });
  return std::max(1, static_cast<int>(cores + 0.999));  // half a core still is a thread
}

uint64_t usable_memory(const fs::path& root) {
  double bytes = static_cast<double>(kUnlimited);
  if (const auto kib = named_number(root / "proc/meminfo", "MemAvailable:")) bytes = *kib * 1024;
  each_cgroup(root, "memory", [&](const fs::path& group) {
    if (const auto left = bytes_left(group)) bytes = std::min(bytes, *left);
  });
  return bytes >= static_cast<double>(kUnlimited) ? kUnlimited : static_cast<uint64_t>(bytes);
}

}  // namespace gyrus::cpu

#endif
