#include "volume/gzip.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace gyrus {

namespace {

// deflate's densest code turns one bit into up to 258 bytes, less its overhead: no honest stream passes this ratio.
constexpr uint64_t kMaxRatio = 1032;
constexpr size_t kMinMember = 18;  // bytes: header and trailer

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};
using Compressor = std::unique_ptr<libdeflate_compressor, FreeCompressor>;

Decompressor make_decompressor(const std::string& name) {
  Decompressor out(libdeflate_alloc_decompressor());
  if (!out) fail(ErrorCode::Io, name, "no memory to decompress");
  return out;
}

[[noreturn]] void fail_damaged(const std::string& name, size_t good) {
  fail(ErrorCode::Io, name, "the gzip data are damaged or cut off (", good,
       " good bytes before); get the file again or check it with gzip -t");
}

// Padding (tapes, block devices) or rubbish behind the last member, as the gzip program accepts too.
bool is_trailing_rubbish(std::span<const std::byte> rest) { return rest.size() < kMinMember || !is_gzip(rest); }

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip_head(std::span<const std::byte> bytes, size_t count, const std::string& name) {
  // libdeflate has no streaming form. Given too little room it stops with "insufficient space" after writing what
  // fitted; a stored block (at most 64 KiB) it writes whole or not at all, hence the room for one more.
  const Decompressor decompressor = make_decompressor(name);
  std::vector<std::byte> out(count + (size_t{1} << 17));
  size_t used = 0, written = 0;
  const auto result = libdeflate_gzip_decompress_ex(decompressor.get(), bytes.data(), bytes.size(), out.data(),
                                                    out.size(), &used, &written);
  if (result == LIBDEFLATE_BAD_DATA) fail_damaged(name, 0);
  out.resize(count);
  return out;
}

std::vector<std::byte> gunzip(std::span<const std::byte> bytes, uint64_t limit, const std::string& name) {
  const Decompressor decompressor = make_decompressor(name);
  limit = std::min<uint64_t>(limit, bytes.size() * kMaxRatio + 1);
  std::vector<std::byte> out(limit);
  size_t in_offset = 0, out_offset = 0;  // bytes
  do {
    size_t used = 0, written = 0;
    const auto result =
        libdeflate_gzip_decompress_ex(decompressor.get(), bytes.data() + in_offset, bytes.size() - in_offset,
                                      out.data() + out_offset, out.size() - out_offset, &used, &written);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
      fail(ErrorCode::Io, name, "inflates to more than the ", limit, " bytes that its header promises; refused");
    if (result != LIBDEFLATE_SUCCESS) fail_damaged(name, out_offset);
    in_offset += used;
    out_offset += written;
  } while (!is_trailing_rubbish(bytes.subspan(in_offset)));
  out.resize(out_offset);
  return out;
}

std::vector<std::byte> gzip(std::span<const std::byte> bytes, int level) {
  // A single member: browsers' DecompressionStream and other readers refuse or ignore further ones.
  const Compressor compressor(libdeflate_alloc_compressor(level));
  if (!compressor) fail(ErrorCode::Io, "gzip", "no memory to compress");
  std::vector<std::byte> out(libdeflate_gzip_compress_bound(compressor.get(), bytes.size()));
  out.resize(libdeflate_gzip_compress(compressor.get(), bytes.data(), bytes.size(), out.data(), out.size()));
  if (out.empty()) fail(ErrorCode::Io, "gzip", "compression failed");
  return out;
}

}  // namespace gyrus
