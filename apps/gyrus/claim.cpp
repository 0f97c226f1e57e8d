#include "claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "core/error.h"

namespace gyrus::cli {
namespace {

constexpr std::time_t kStale = std::time_t{6} * 3600;  // seconds; no scan takes that long

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

bool create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST) return false;
  if (file < 0) fail(ErrorCode::Io, path, "cannot be created: ", std::strerror(errno));
  const std::string text = cat(host_name(), " ", ::getpid(), "\n");
  const ssize_t written = ::write(file, text.data(), text.size());
  ::close(file);
  if (written != static_cast<ssize_t>(text.size())) fail(ErrorCode::Io, path, "cannot be written");
  return true;
}

bool is_stale(const std::string& path, const std::string& host, pid_t pid) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;  // just released: the next try creates it
  if (std::time(nullptr) - facts.st_mtime > kStale) return true;
  // This process asks because it does not hold it: one with its number is of an earlier process.
  return host == host_name() && pid > 0 && (pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH));
}

}  // namespace

Claim::Claim(const std::string& file) {
  const std::string path = file + ".claim";
  constexpr int kTries = 3;
  for (int i = 0; i < kTries && path_.empty(); ++i) {
    if (create(path)) {
      path_ = path;
      return;
    }
    std::string host = "another machine";
    pid_t pid = 0;
    std::ifstream(path) >> host >> pid;
    owner_ = cat(host, ", process ", pid);
    if (!is_stale(path, host, pid)) continue;
    // Only one of several that find it stale can rename it.
    const std::string aside = cat(path, ".", host_name(), ".", ::getpid());
    if (::rename(path.c_str(), aside.c_str()) == 0) ::unlink(aside.c_str());
  }
}

Claim::Claim(Claim&& other) noexcept { *this = std::move(other); }

Claim& Claim::operator=(Claim&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::exchange(other.path_, {});
  owner_ = std::move(other.owner_);
  return *this;
}

void Claim::release() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace gyrus::cli
