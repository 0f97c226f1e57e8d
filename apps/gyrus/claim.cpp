// A claim is made complete under a name of its own and linked to its place, so that it never stands there empty; where
// a file system has no links it is created in place. While it is held its time is set anew again and again.
#include "claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/files.h"

namespace gyrus::cli {
namespace {

constexpr double kBeat = 60;         // seconds
constexpr double kSilentBeats = 10;  // after which a holder is gone: shared folders show times late

double beat_seconds() {
  const double seconds = std::strtod(environment_variable("GYRUS_CLAIM_SECONDS").c_str(), nullptr);
  return seconds > 0 ? seconds : kBeat;
}

// A process, and where its number means something: on one machine containers count their own. `space` is empty in
// claims that do not say it.
struct Holder {
  std::string host = "another machine";
  pid_t pid = 0;
  std::string space;

  bool operator==(const Holder&) const = default;
};

Holder this_process() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::error_code unknown;
  return {name, ::getpid(), std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string()};
}

Holder read_holder(const std::string& path) {
  Holder holder;
  std::ifstream(path) >> holder.host >> holder.pid >> holder.space;
  return holder;
}

double seconds_since(const timespec& then) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - then.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - then.tv_nsec);
}

bool is_stale(const std::string& path, const Holder& holder) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;  // just released: the next try creates it
  if (seconds_since(facts.st_mtim) > kSilentBeats * beat_seconds()) return true;
  const Holder here = this_process();
  const bool same_place = holder.host == here.host && (holder.space.empty() || holder.space == here.space);
  // This process asks because it does not hold it: one with its number is of an earlier process.
  return same_place && holder.pid > 0 && (holder.pid == here.pid || (::kill(holder.pid, 0) != 0 && errno == ESRCH));
}

std::string claim_of(const std::string& file) { return file + ".claim"; }

// False where somebody else has it.
bool create_in_place(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST) return false;
  if (file < 0) fail(ErrorCode::Io, path, "cannot be created: ", std::strerror(errno));
  const ssize_t written = ::write(file, text.data(), text.size());
  if (::close(file) == 0 && written == static_cast<ssize_t>(text.size())) return true;
  ::unlink(path.c_str());
  fail(ErrorCode::Io, path, "cannot be written");
}

bool create(const std::string& file) {
  const std::string path = claim_of(file);
  const Holder here = this_process();
  const std::string text = cat(here.host, " ", here.pid, " ", here.space, "\n");
  const TemporaryFile whole(file, text);
  if (::link(whole.path().c_str(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  return create_in_place(path, text);
}

// Takes a stale claim away; false where it is held, with its holder. Several may find it stale, and one of them may
// hold it anew before another renames it: that one is put back. A kill in between leaves a temporary file of `file`.
bool remove_stale(const std::string& file, Holder& holder) {
  const std::string path = claim_of(file);
  holder = read_holder(path);
  if (!is_stale(path, holder)) return false;
  const TemporaryFile aside(file, "");
  if (::rename(path.c_str(), aside.path().c_str()) != 0) return true;
  const Holder taken = read_holder(aside.path());
  if (taken == holder || ::link(aside.path().c_str(), path.c_str()) != 0) return true;
  holder = taken;
  return false;
}

// Sets the times of the claims that this process has.
class Beats {
 public:
  static Beats& instance() {
    static Beats beats;
    return beats;
  }
  ~Beats() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  void add(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.insert(path);
    if (!thread_.joinable()) thread_ = std::thread([this] { beat(); });
  }
  void remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.erase(path);
  }

 private:
  void beat() {
    const std::chrono::duration<double> pause(beat_seconds());
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, pause, [this] { return ending_; }))
      for (const std::string& path : paths_) ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> paths_;
  std::thread thread_;
  bool ending_ = false;
};

}  // namespace

Claim::Claim(const std::string& file) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (create(file)) {
      path_ = claim_of(file);
      Beats::instance().add(path_);
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
  if (path_.empty()) return;
  Beats::instance().remove(path_);
  // Another process may have taken it over, where this one was stopped for long.
  if (read_holder(path_) == this_process()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace gyrus::cli
