#include "runtime/blob_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "core/files.h"
#include "core/hash.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostCacheBytes = uint64_t{64} << 20;
constexpr char kMagic[8] = {'g', 'y', 'r', 'u', 's', 'B', '0', '1'};
constexpr const char* kSuffix = ".blob";

// In front of the key and the blob.
struct Header {
  char magic[8];
  uint64_t key_size;
  uint64_t blob_size;
  uint64_t checksum;  // of key and blob
};

Header header_of(const std::string& key, const void* data, size_t size) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.blob_size = size;
  header.checksum = fnv1a({static_cast<const char*>(data), size}, fnv1a(key));
  return header;
}

// The blob in a file; empty where the file is not exactly what was stored for the key.
std::vector<char> read_blob(const std::string& path, const std::string& key) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto length = static_cast<uint64_t>(in.tellg());
  const uint64_t front = sizeof(Header) + key.size();
  if (length <= front || length > kMostCacheBytes) return {};
  std::vector<char> bytes(static_cast<size_t>(length));
  in.seekg(0);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return {};
  const char* blob = bytes.data() + front;
  const Header want = header_of(key, blob, static_cast<size_t>(length - front));
  if (std::memcmp(&want, bytes.data(), sizeof want) != 0) return {};
  if (std::memcmp(key.data(), bytes.data() + sizeof(Header), key.size()) != 0) return {};
  return {blob, blob + (length - front)};
}

// A file under a name of its own, then moved to `path`: readers see all of it or nothing.
bool write_blob(const std::string& path, const std::string& key, const void* data, size_t size) {
  static std::atomic<uint64_t> number{0};
  const std::string part = path + "." + std::to_string(getpid()) + "." + std::to_string(number++) + ".part";
  const Header header = header_of(key, data, size);
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(key.data(), static_cast<std::streamsize>(key.size()));
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  out.close();
  std::error_code failed;
  if (out) fs::rename(part, path, failed);
  if (out && !failed) return true;
  fs::remove(part, failed);
  return false;
}

struct CacheFile {
  fs::path path;
  fs::file_time_type used;
  uint64_t bytes = 0;
};

std::vector<CacheFile> files_in(const std::string& folder) {
  std::vector<CacheFile> files;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code gone;
    CacheFile file{it->path(), it->last_write_time(gone), it->file_size(gone)};
    const std::string suffix = file.path.extension().string();
    if (!gone && (suffix == kSuffix || suffix == ".part")) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

BlobCache::BlobCache(std::string folder, uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

std::string BlobCache::path_of(const std::string& key) const {
  char name[40];
  const uint64_t first = fnv1a(key);
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(fnv1a(key, first)));
  return (fs::path(folder_) / name).string() + kSuffix;
}

size_t BlobCache::load(const std::string& key, void* out, size_t size) {
  const std::lock_guard lock(mutex_);
  auto held = held_.find(key);
  if (held == held_.end()) {
    const std::string path = path_of(key);
    std::vector<char> blob = read_blob(path, key);
    std::error_code ignored;
    if (blob.empty()) {
      fs::remove(path, ignored);  // damaged, or not there
      return 0;
    }
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // the least recently used go first
    held = held_.emplace(key, Held{std::move(blob), 0}).first;
  }
  Held& entry = held->second;
  const size_t found = entry.blob.size();
  if (!out) {
    ++entry.askers;
    return found;
  }
  const bool fits = size == found;
  if (fits) std::memcpy(out, entry.blob.data(), size);
  hits_ += fits;
  if (entry.askers <= 1)
    held_.erase(held);
  else
    --entry.askers;
  return fits ? found : 0;
}

void BlobCache::store(const std::string& key, const void* data, size_t size) {
  const std::lock_guard lock(mutex_);
  const uint64_t bytes = sizeof(Header) + key.size() + size;
  if (size == 0 || bytes > most_bytes_) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (!counted_) {
    fs::permissions(folder_, fs::perms::owner_all, failed);  // what is in it gets run
    for (const CacheFile& file : files_in(folder_)) bytes_ += file.bytes;
    counted_ = true;
  }
  if (bytes_ + bytes > most_bytes_) keep_below(most_bytes_ - bytes);
  if (!write_blob(path_of(key), key, data, size)) return;
  bytes_ += bytes;
  ++stores_;
}

// Removes the least recently used files until a quarter of `most` is free, so that not every store has to.
void BlobCache::keep_below(uint64_t most) {
  std::vector<CacheFile> files = files_in(folder_);
  std::sort(files.begin(), files.end(), [](const CacheFile& a, const CacheFile& b) { return a.used < b.used; });
  bytes_ = 0;
  for (const CacheFile& file : files) bytes_ += file.bytes;
  for (const CacheFile& file : files) {
    if (bytes_ <= most / 4 * 3) break;
    std::error_code failed;
    if (fs::remove(file.path, failed)) bytes_ -= file.bytes;
  }
}

uint64_t BlobCache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

uint64_t BlobCache::stores() const {
  const std::lock_guard lock(mutex_);
  return stores_;
}

std::string cache_folder(const std::string& name) {
  const std::string off = environment_variable("GYRUS_NO_CACHE");
  return off.empty() || off == "0" ? user_cache_folder(name) : std::string();
}

BlobCache& blob_cache(const std::string& folder) {
  static std::mutex mutex;
  static auto& caches = *new std::map<std::string, std::unique_ptr<BlobCache>>;  // outlives every device
  const std::lock_guard lock(mutex);
  auto& cache = caches[folder];
  if (!cache) cache = std::make_unique<BlobCache>(folder, kMostCacheBytes);
  return *cache;
}

}  // namespace gyrus
