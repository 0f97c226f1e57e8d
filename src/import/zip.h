#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "import/bytes.h"

namespace gyrus {

// The file that a zip's central directory names.
struct ZipEntry {
  std::string name;
  uint64_t data_offset = 0;      // bytes from the start of the zip
  uint64_t compressed_size = 0;  // bytes
  uint64_t size = 0;             // bytes, inflated
  uint32_t crc = 0;
  bool deflated = false;
};

// A zip in memory, as torch writes them: stored or deflated entries, Zip64 or not. Refused at once: overlapping
// entries, sizes beyond the file, absurd ratios, encryption, several disks, names twice.
class Zip {
 public:
  Zip(Bytes file, std::string subject);  // `file` must outlive the Zip

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;  // null where there is none
  // The entry's bytes, inflated, their size and CRC-32 checked.
  std::vector<std::byte> read(const ZipEntry& entry) const;

 private:
  struct Directory {
    uint64_t offset = 0, size = 0, count = 0;
  };
  Directory find_directory() const;
  void read_directory64(uint64_t& end, Directory& directory) const;
  ZipEntry read_entry(ByteReader& directory, std::vector<std::pair<uint64_t, uint64_t>>& ranges) const;
  void check_ranges(std::vector<std::pair<uint64_t, uint64_t>> ranges, uint64_t directory_offset) const;
  void check_ratio() const;

  Bytes file_;
  std::string subject_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, size_t> by_name_;  // index into entries_
};

// CRC-32 as zip and gzip use it.
uint32_t crc32(Bytes bytes);

}  // namespace gyrus
