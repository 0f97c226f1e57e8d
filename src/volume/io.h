#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files.h"
#include "volume/volume.h"

namespace gyrus {

struct ReadOptions {
  int64_t frame = -1;                      // which volume of a 4-D file, from 0; -1: the first, with a notice
  uint64_t max_bytes = uint64_t{1} << 34;  // refuse files whose voxels need more memory than this
};

// A volume from the bytes of a file, recognised by content: NIfTI-1/-2 (single file), MGH, each plain or gzipped.
// Throws Io, InvalidInput or Unsupported with one line that starts with "[name]".
Volume read_volume(std::span<const std::byte> bytes, const std::string& name, const ReadOptions& options = {});
// The same for a pair of header (.hdr) and image (.img); Analyze 7.5 too.
Volume read_volume_pair(std::span<const std::byte> header, std::span<const std::byte> image, const std::string& name,
                        const ReadOptions& options = {});
// From a file; "-" is standard input. Of a pair either name may be given, and either may be gzipped.
Volume read_volume(const std::string& path, const ReadOptions& options = {});

struct WriteOptions {
  int gzip_level = 4;   // 1 fast … 12 small
  bool labels = false;  // mark the file as a label map (NIfTI intent 1002)
};

// Writes NIfTI with the volume's header fields, gzipped where the path ends in .gz; "-" is standard output (gzipped).
// The file appears under its name only when it is complete.
void write_volume(const std::string& path, const Volume& volume, const WriteOptions& options = {});

}  // namespace gyrus
