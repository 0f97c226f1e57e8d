#include "volume/gzip.h"

#include <array>

#include "core/error.h"
#include "import/inflate.h"

// gzip for the module, which has no libdeflate. Pages inflate files with the browser's own streams, which are fast but
// refuse files of several members or with padding behind them; those, and damaged ones, come here. Format: RFC 1952.

namespace gyrus {

namespace {

constexpr size_t kMinMember = 18;    // bytes: header and trailer
constexpr size_t kFixedHeader = 10;  // bytes
constexpr size_t kTrailer = 8;       // bytes: CRC and size
enum Flag : uint8_t { kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16 };

[[noreturn]] void fail_damaged(const std::string& name) {
  fail(ErrorCode::Io, name, "the gzip data are damaged or cut off; get the file again");
}

uint8_t byte_at(Bytes bytes, size_t at) { return at < bytes.size() ? static_cast<uint8_t>(bytes[at]) : 0; }

uint32_t u32_at(Bytes bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(byte_at(bytes, at + i)) << (8 * i);
  return value;
}

// Bytes of a member's header; past the end where it is cut off.
size_t header_size(Bytes member) {
  const uint8_t flags = byte_at(member, 3);
  size_t at = kFixedHeader;
  if (flags & kExtra) at += 2 + byte_at(member, at) + size_t{256} * byte_at(member, at + 1);
  for (const uint8_t text : {kName, kComment}) {
    if (!(flags & text)) continue;
    while (at < member.size() && member[at] != std::byte{0}) ++at;
    ++at;
  }
  return flags & kHeaderCrc ? at + 2 : at;
}

uint32_t crc_of(Bytes bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = out[i] >> 1 ^ (out[i] & 1 ? 0xedb88320u : 0u);
    }
    return out;
  }();
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint32_t>(b)) & 255];
  return ~crc;
}

Inflated inflate_member(Bytes member, uint64_t most, const std::string& name) {
  const size_t header = header_size(member);
  if (header >= member.size()) fail_damaged(name);
  try {
    Inflated out = inflate_start(member.subspan(header), most, name);
    out.used += header;
    return out;
  } catch (const Error&) {
    fail_damaged(name);
  }
}

// Padding or rubbish behind the last member, as the gzip program accepts too.
bool is_trailing_rubbish(Bytes rest) { return rest.size() < kMinMember || !is_gzip(rest); }

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip_head(std::span<const std::byte> bytes, size_t count, const std::string& name) {
  std::vector<std::byte> out = inflate_member(bytes, count, name).bytes;
  out.resize(count);
  return out;
}

std::vector<std::byte> gunzip(std::span<const std::byte> bytes, uint64_t limit, const std::string& name) {
  std::vector<std::byte> out;
  do {
    Inflated member = inflate_member(bytes, limit - out.size(), name);
    if (!member.complete)
      fail(ErrorCode::Io, name, "inflates to more than the ", limit, " bytes that its header promises; refused");
    const bool is_whole = member.used + kTrailer <= bytes.size() &&
                          u32_at(bytes, member.used) == crc_of(member.bytes) &&
                          u32_at(bytes, member.used + 4) == static_cast<uint32_t>(member.bytes.size());
    if (!is_whole) fail_damaged(name);
    bytes = bytes.subspan(member.used + kTrailer);
    if (out.empty())
      out = std::move(member.bytes);
    else
      out.insert(out.end(), member.bytes.begin(), member.bytes.end());
  } while (!is_trailing_rubbish(bytes));
  return out;
}

}  // namespace gyrus
