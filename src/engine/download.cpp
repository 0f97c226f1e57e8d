#include "engine/download.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/error.h"
#include "core/files.h"

// libcurl is loaded when a download needs it, so that the program runs where it is not installed. What is used of it is
// declared here: numbers and signatures are libcurl's stable ABI (soname 4, since 2006).

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr int kRetries = 3;
constexpr std::chrono::milliseconds kFirstPause{500};  // doubled each time

enum Option : int {
  WriteData = 10001,
  Url = 10002,
  ErrorBuffer = 10010,
  UserAgent = 10018,
  LowSpeedLimit = 19,
  LowSpeedTime = 20,
  NoProgress = 43,
  FailOnError = 45,
  FollowLocation = 52,
  ProgressData = 10057,
  MaxRedirects = 68,
  ConnectTimeout = 78,
  NoSignal = 99,
  Protocols = 181,
  RedirectProtocols = 182,
  WriteFunction = 20011,
  ProgressFunction = 20219,
  ResumeFrom = 30116,
};
constexpr int kResponseCode = 0x200002;
constexpr long kHttpAndHttps = 1 | 2;

enum Result : int {
  Ok = 0,
  UnresolvedHost = 6,
  CannotConnect = 7,
  PartialFile = 18,
  HttpError = 22,
  Timeout = 28,
  RangeError = 33,
  EmptyReply = 52,
  SendError = 55,
  ReceiveError = 56,
};

using Handle = void;

struct Curl {
  Handle* (*init)() = nullptr;
  void (*cleanup)(Handle*) = nullptr;
  int (*setopt)(Handle*, int, ...) = nullptr;
  int (*getinfo)(Handle*, int, ...) = nullptr;
  int (*perform)(Handle*) = nullptr;
  const char* (*text)(int) = nullptr;
};

Curl load_curl() {
  const std::string own = environment_variable("GYRUS_CURL");
  void* library = nullptr;
  for (const char* name : {own.c_str(), "libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (*name && !library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!own.empty()) break;
  }
  if (!library)
    fail(ErrorCode::Io, {Hint::FetchFromFolder}, "libcurl",
         "is needed to download and is not here: install it (Debian: apt install libcurl4)");
  Curl curl;
  const auto find = [library](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) fail(ErrorCode::Io, "libcurl", "has no function ", name, ": it is not the library expected");
  };
  find("curl_easy_init", curl.init);
  find("curl_easy_cleanup", curl.cleanup);
  find("curl_easy_setopt", curl.setopt);
  find("curl_easy_getinfo", curl.getinfo);
  find("curl_easy_perform", curl.perform);
  find("curl_easy_strerror", curl.text);
  return curl;
}

struct Receiver {
  std::FILE* file = nullptr;
  uint64_t bytes = 0, limit = 0;
  const std::function<void(uint64_t)>* progress = nullptr;
  bool too_long = false;
};

size_t on_bytes(const char* data, size_t size, size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  const size_t n = size * count;
  receiver.too_long = receiver.bytes + n > receiver.limit;
  if (receiver.too_long || std::fwrite(data, 1, n, receiver.file) != n) return 0;
  receiver.bytes += n;
  if (*receiver.progress) (*receiver.progress)(receiver.bytes);
  return n;
}

bool is_cancelled(const Download& wanted) { return wanted.cancel && wanted.cancel->load(); }

void check_cancelled(const Download& wanted) {
  if (is_cancelled(wanted)) fail(ErrorCode::Cancelled, wanted.url, "stopped; what came is kept for the next time");
}

int on_progress(void* wanted, int64_t, int64_t, int64_t, int64_t) {
  return is_cancelled(*static_cast<const Download*>(wanted)) ? 1 : 0;
}

// How one try ended.
struct Try {
  int result = Ok;
  long status = 0;  // of HTTP
  bool too_long = false, disk_failed = false;
  std::string what;
};

Try attempt(const Curl& curl, const Download& wanted) {
  const uint64_t have = fs::exists(wanted.path) ? fs::file_size(wanted.path) : 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(wanted.path.c_str(), "ab"), &std::fclose);
  const std::unique_ptr<Handle, void (*)(Handle*)> easy(curl.init(), curl.cleanup);
  if (!file) fail(ErrorCode::Io, wanted.path, "cannot be written");
  if (!easy) fail(ErrorCode::Io, "libcurl", "does not start");
  Receiver receiver{file.get(), have, wanted.bytes, &wanted.progress};
  char message[256] = "";  // the size that libcurl wants
  const auto set = [&](int option, auto value) { curl.setopt(easy.get(), option, value); };
  set(Url, wanted.url.c_str());
  set(UserAgent, "gyrus");
  set(ErrorBuffer, static_cast<char*>(message));
  set(WriteFunction, &on_bytes);
  set(WriteData, &receiver);
  set(ProgressFunction, &on_progress);
  set(ProgressData, static_cast<const void*>(&wanted));
  set(NoProgress, 0L);
  set(NoSignal, 1L);
  set(FailOnError, 1L);
  set(FollowLocation, 1L);
  set(MaxRedirects, 10L);
  set(Protocols, kHttpAndHttps);
  set(RedirectProtocols, kHttpAndHttps);
  set(ConnectTimeout, 20L);  // seconds
  set(LowSpeedLimit, 1L);    // bytes a second …
  set(LowSpeedTime, 30L);    // … for so long count as a cut connection
  if (have > 0) set(ResumeFrom, static_cast<int64_t>(have));
  Try done;
  done.result = curl.perform(easy.get());
  curl.getinfo(easy.get(), kResponseCode, &done.status);
  done.too_long = receiver.too_long;
  done.disk_failed = std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0;
  done.what = message[0] ? message : curl.text(done.result);
  if (done.result == Ok && receiver.bytes < wanted.bytes) {
    done.result = PartialFile;
    done.what = cat("ends after ", receiver.bytes, " of ", wanted.bytes, " bytes");
  }
  return done;
}

bool may_pass(const Try& done) {
  switch (done.result) {
    case CannotConnect:
    case PartialFile:
    case Timeout:
    case RangeError:
    case EmptyReply:
    case SendError:
    case ReceiveError: return true;
    case HttpError: return done.status == 408 || done.status == 429 || done.status >= 500;
    default: return false;
  }
}

void pause(std::chrono::milliseconds time, const Download& wanted) {
  constexpr std::chrono::milliseconds kStep{50};
  for (; time.count() > 0; time -= kStep) {
    check_cancelled(wanted);
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace

void download(const Download& wanted) {
  const Curl curl = load_curl();
  std::chrono::milliseconds wait = kFirstPause;
  for (int tries = 1;; ++tries, wait *= 2) {
    const Try done = attempt(curl, wanted);
    check_cancelled(wanted);
    if (done.disk_failed) fail(ErrorCode::Io, wanted.path, "cannot be written: is the disk full?");
    if (done.too_long) {
      fs::remove(wanted.path);
      fail(ErrorCode::InvalidModel, wanted.url, "is longer than the ", wanted.bytes,
           " bytes that gyrus knows: it is not the file expected, and was not kept");
    }
    if (done.result == Ok) return;
    // A server that cannot send the rest alone sends all of it.
    if (done.result == RangeError) fs::remove(wanted.path);
    if (!may_pass(done) || tries > kRetries)
      fail(ErrorCode::Io, wanted.url, "cannot be downloaded (", tries, tries == 1 ? " try): " : " tries): ", done.what);
    if (wanted.detail) wanted.detail(cat("[", wanted.url, "] ", done.what, "; trying again in ", wait.count(), " ms"));
    pause(wait, wanted);
  }
}

}  // namespace gyrus
