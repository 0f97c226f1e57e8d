#include "leftovers.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>

#include "claim.h"
#include "core/error.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

// "NAME.PID.part" or "NAME.PID-N.part", as write_file calls it; pid 0 where it is something else.
struct Leftover {
  std::string name;
  pid_t pid = 0;
};

Leftover parse(const std::string& file) {
  if (!file.ends_with(".part")) return {};
  const std::string stem = file.substr(0, file.rfind('.'));
  const size_t dot = stem.rfind('.');
  if (dot == std::string::npos) return {};
  constexpr size_t kMostDigits = 9;
  const std::string number = stem.substr(dot + 1), digits = number.substr(0, number.find('-'));
  if (digits.empty() || digits.size() > kMostDigits || number.find_first_not_of("0123456789-") != std::string::npos)
    return {};
  return {stem.substr(0, dot), static_cast<pid_t>(std::stol(digits))};
}

// This process has written nothing yet: a file with its number is of an earlier one.
bool is_alive(pid_t pid) { return pid != ::getpid() && (::kill(pid, 0) == 0 || errno != ESRCH); }

}  // namespace

void remove_leftovers(const std::vector<Job>& jobs, const LabelTable& classes, const std::vector<std::string>& others) {
  std::map<fs::path, std::set<std::string>> ours;  // by folder
  const auto add = [&](const std::string& path) {
    if (path != "-") ours[fs::path(path).parent_path()].insert(fs::path(path).filename().string());
  };
  for (const std::string& path : others) add(path);
  for (const Job& job : jobs) {
    if (job.outputs.labels != "-" && Claim::is_held(job.outputs.labels)) continue;
    for (const std::string& path : job.outputs.files(classes)) add(path);
  }
  for (const auto& [folder, names] : ours) {
    std::vector<fs::path> stale;
    std::error_code failed;
    for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      const Leftover found = parse(entry->path().filename().string());
      if (found.pid > 0 && names.count(found.name) && !is_alive(found.pid)) stale.push_back(entry->path());
    }
    for (const fs::path& path : stale) fs::remove(path, failed);
  }
}

}  // namespace gyrus::cli
