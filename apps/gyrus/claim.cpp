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

struct Holder {
  std::string host = "another machine";
  pid_t pid = 0;
};

Holder read_holder(const std::string& path) {
  Holder holder;
  std::ifstream(path) >> holder.host >> holder.pid;
  return holder;
}

bool is_stale(const std::string& path, const Holder& holder) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;  // just released: the next try creates it
  if (std::time(nullptr) - facts.st_mtime > kStale) return true;
  // This process asks because it does not hold it: one with its number is of an earlier process.
  return holder.host == host_name() && holder.pid > 0 &&
         (holder.pid == ::getpid() || (::kill(holder.pid, 0) != 0 && errno == ESRCH));
}

std::string claim_of(const std::string& file) { return file + ".claim"; }

// Takes a stale claim away; false where it is held, with its holder. Several may find it stale, and one of them may
// hold it anew before another renames it: that one is put back. A kill in between leaves a temporary file of `file`.
bool remove_stale(const std::string& file, Holder& holder) {
  const std::string path = claim_of(file);
  holder = read_holder(path);
  if (!is_stale(path, holder)) return false;
  const std::string aside = cat(file, ".", ::getpid(), ".part");
  if (::rename(path.c_str(), aside.c_str()) != 0) return true;
  const Holder taken = read_holder(aside);
  const bool is_other = taken.pid != holder.pid || taken.host != holder.host;
  const bool back = is_other && ::link(aside.c_str(), path.c_str()) == 0;
  ::unlink(aside.c_str());
  if (back) holder = taken;
  return !back;
}

}  // namespace

Claim::Claim(const std::string& file) {
  const std::string path = claim_of(file);
  constexpr int kTries = 3;
  for (int i = 0; i < kTries && path_.empty(); ++i) {
    if (create(path)) {
      path_ = path;
      return;
    }
    Holder holder;
    remove_stale(file, holder);
    owner_ = cat(holder.host, ", process ", holder.pid);
  }
}

bool Claim::is_held(const std::string& file) {
  Holder holder;
  return ::access(claim_of(file).c_str(), F_OK) == 0 && !remove_stale(file, holder);
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
