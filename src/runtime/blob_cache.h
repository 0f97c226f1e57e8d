#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// What Dawn compiled, kept on disk for the next process.

namespace gyrus {

// Blobs by key, a file each. Never throws: what cannot be read or written counts as absent. Every file carries its key
// and a checksum, so that a damaged or foreign one is never handed out. Threads and processes may share a folder.
class BlobCache {
 public:
  BlobCache(std::string folder, uint64_t most_bytes);

  // The size of the blob, 0 where there is none; copied to `out` where that has exactly this size. A blob whose size
  // was asked for is held until it is taken, so that both answers agree.
  size_t load(const std::string& key, void* out, size_t size);
  void store(const std::string& key, const void* data, size_t size);

  uint64_t hits() const;    // blobs handed out
  uint64_t stores() const;  // blobs written

 private:
  // A blob that was asked for and not yet taken.
  struct Held {
    std::vector<char> blob;
    uint32_t askers = 0;
  };

  std::string path_of(const std::string& key) const;
  void keep_below(uint64_t most);

  std::string folder_;
  uint64_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, Held> held_;
  uint64_t bytes_ = 0;  // in the folder, as far as known
  bool counted_ = false;
  uint64_t hits_ = 0, stores_ = 0;
};

// $XDG_CACHE_HOME/gyrus/NAME, or ~/.cache/gyrus/NAME; empty where GYRUS_NO_CACHE is set or there is no home.
std::string cache_folder(const std::string& name);

// The cache of that folder, which lives as long as the process: devices may call it until the very end.
BlobCache& blob_cache(const std::string& folder);

}  // namespace gyrus
