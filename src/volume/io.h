#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files.h"
#include "volume/volume.h"

namespace gyrus {

// A file as it was read, to be known again.
struct SourceFile {
  uint64_t bytes = 0;
  std::string sha256;  // of a pair: of header and image behind one another
};

struct ReadOptions {
  int64_t* frames = nullptr;                  // where to say how many there are
  int64_t frame = -1;                         // which volume of a 4-D file, from 0; -1: the first, with a notice
  uint64_t max_bytes = uint64_t{1} << 34;     // refuse files whose voxels need more memory than this
  SourceFile* source = nullptr;               // filled when a file is read
  const std::atomic<bool>* cancel = nullptr;  // set from elsewhere to stop waiting for a pipe
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

// Size and hash of a volume's file, or of both of a pair.
SourceFile source_file(const std::string& path);
// The comment in the header of a NIfTI file; empty where there is none, or no such file.
std::string volume_comment(const std::string& path);

enum class VolumeFormat : uint8_t { Nifti, NiftiGz, Mgh, Mgz };
// By the end of the path, in small or capital letters; "-" and what is no regular file (pipes, /dev/stdout) are
// NiftiGz. Throws InvalidInput on another.
VolumeFormat volume_format(const std::string& path);

// Writes the volume with its header fields in the format of the path; "-" is standard output. The file appears under
// its name only when it is complete.
void write_volume(const std::string& path, const Volume& volume, const WriteOptions& options = {});

}  // namespace gyrus
