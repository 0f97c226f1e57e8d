#include "import/zip.h"

#include <algorithm>
#include <array>

#include "import/inflate.h"

// The zip format after PKWARE's APPNOTE: the end record at the end of the file points to the central directory, which
// points to each entry's local header, right behind which lie the data. The central directory alone is believed.

namespace gyrus {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryHeader = 0x02014b50;
constexpr uint32_t kEndRecord = 0x06054b50;
constexpr uint32_t kEndRecord64 = 0x06064b50;
constexpr uint32_t kEndLocator64 = 0x07064b50;
constexpr uint64_t kEndRecordSize = 22;
constexpr uint64_t kEndLocator64Size = 20;
constexpr uint32_t kIn64 = 0xffffffff;  // the real value is in the Zip64 field
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 0x2041;  // plain, strong, masked headers

// What a zip may inflate to: torch stores its entries, so even a hundredfold is suspicious.
constexpr uint64_t kHarmlessSize = uint64_t{16} << 20;  // bytes
constexpr uint64_t kLargestRatio = 100;

// Replaces those of the values that stand for "see Zip64 field", which holds them in this order.
void read_zip64(Bytes extra, const std::string& subject, uint64_t& size, uint64_t& compressed, uint64_t& offset) {
  if (size != kIn64 && compressed != kIn64 && offset != kIn64) return;
  ByteReader fields(extra, subject);
  while (fields.left() >= 4) {
    const uint16_t id = fields.u16();
    ByteReader field(fields.take(fields.u16()), subject);
    if (id != kZip64Field) continue;
    for (uint64_t* value : {&size, &compressed, &offset}) {
      if (*value == kIn64) *value = field.u64();
    }
    return;
  }
}

}  // namespace

uint32_t crc32(Bytes bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0u);
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = 0xffffffff;
  for (const std::byte b : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(b)) & 0xff];
  return ~crc;
}

Zip::Zip(Bytes file, std::string subject) : file_(file), subject_(std::move(subject)) {
  const Directory directory = find_directory();
  ByteReader reader(file_.subspan(static_cast<size_t>(directory.offset), static_cast<size_t>(directory.size)),
                    subject_);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // of each entry's header and data, in bytes
  for (uint64_t i = 0; i < directory.count; ++i) {
    entries_.push_back(read_entry(reader, ranges));
    if (!by_name_.emplace(entries_.back().name, entries_.size() - 1).second) {
      fail(ErrorCode::InvalidModel, subject_, "zip entry ", in_quotes(entries_.back().name), " is there twice");
    }
  }
  if (reader.left() != 0) fail(ErrorCode::InvalidModel, subject_, "zip directory is longer than its entries");
  check_ranges(std::move(ranges), directory.offset);
  check_ratio();
}

Zip::Directory Zip::find_directory() const {
  constexpr uint64_t kLongestComment = 0xffff;
  const uint64_t size = file_.size();
  ByteReader reader(file_, subject_);
  for (uint64_t back = kEndRecordSize; back <= size && back <= kEndRecordSize + kLongestComment; ++back) {
    reader.seek(size - back);
    if (reader.u32() != kEndRecord) continue;
    const uint64_t disks = reader.u32();
    const uint16_t count_here = reader.u16();
    Directory directory;
    directory.count = reader.u16();
    directory.size = reader.u32();
    directory.offset = reader.u32();
    if (reader.u16() != back - kEndRecordSize) continue;  // a signature inside the comment
    if (disks != 0 || count_here != directory.count) fail(ErrorCode::Unsupported, subject_, "zip over several disks");
    uint64_t end = size - back;  // where the directory must stop
    read_directory64(end, directory);
    if (directory.offset > end || directory.size != end - directory.offset) {
      fail(ErrorCode::InvalidModel, subject_, "zip directory is not where its end record says");
    }
    return directory;
  }
  fail(ErrorCode::InvalidModel, subject_, "zip without end record: truncated or corrupted");
}

// torch always writes the Zip64 record, needed or not; where it is there, the directory stops at it.
void Zip::read_directory64(uint64_t& end, Directory& directory) const {
  ByteReader reader(file_, subject_);
  reader.seek(end < kEndLocator64Size ? 0 : end - kEndLocator64Size);
  if (end < kEndLocator64Size || reader.u32() != kEndLocator64) return;
  reader.skip(4);  // disk
  end = reader.u64();
  reader.seek(end);
  if (reader.u32() != kEndRecord64) fail(ErrorCode::InvalidModel, subject_, "zip without its Zip64 record");
  reader.skip(8 + 2 + 2 + 4 + 4 + 8);  // size, versions, disks, entries on this disk
  directory.count = reader.u64();
  directory.size = reader.u64();
  directory.offset = reader.u64();
}

ZipEntry Zip::read_entry(ByteReader& directory, std::vector<std::pair<uint64_t, uint64_t>>& ranges) const {
  if (directory.u32() != kDirectoryHeader) fail(ErrorCode::InvalidModel, subject_, "zip directory is corrupted");
  ZipEntry entry;
  directory.skip(4);  // versions
  const uint16_t flags = directory.u16();
  const uint16_t method = directory.u16();
  directory.skip(4);  // time
  entry.crc = directory.u32();
  entry.compressed_size = directory.u32();
  entry.size = directory.u32();
  const uint16_t name_size = directory.u16();
  const uint16_t extra_size = directory.u16();
  const uint16_t comment_size = directory.u16();
  directory.skip(2 + 2 + 4);  // disk, attributes
  uint64_t offset = directory.u32();
  entry.name = directory.text(name_size);
  read_zip64(directory.take(extra_size), subject_, entry.size, entry.compressed_size, offset);
  directory.skip(comment_size);

  if (flags & kEncrypted) fail(ErrorCode::Unsupported, subject_, "zip entry ", in_quotes(entry.name), " is encrypted");
  if (method != 0 && method != 8) {
    fail(ErrorCode::Unsupported, subject_, "zip entry ", in_quotes(entry.name), " uses compression method ", method,
         "; stored (0) and deflate (8) are read");
  }
  entry.deflated = method == 8;
  if (!entry.deflated && entry.size != entry.compressed_size) {
    fail(ErrorCode::InvalidModel, subject_, "zip entry ", in_quotes(entry.name), " is stored, but with two sizes");
  }

  ByteReader local(file_, subject_);
  local.seek(offset);
  if (local.u32() != kLocalHeader) {
    fail(ErrorCode::InvalidModel, subject_, "zip entry ", in_quotes(entry.name), " has no header where one should be");
  }
  local.skip(22);
  const uint16_t local_name_size = local.u16();
  const uint16_t local_extra_size = local.u16();
  if (local.text(local_name_size) != entry.name) {
    fail(ErrorCode::InvalidModel, subject_, "zip entry ", in_quotes(entry.name), " has another name in its own header");
  }
  local.skip(local_extra_size);
  entry.data_offset = local.position();
  local.skip(entry.compressed_size);
  ranges.emplace_back(offset, local.position());
  return entry;
}

void Zip::check_ranges(std::vector<std::pair<uint64_t, uint64_t>> ranges, uint64_t directory_offset) const {
  std::sort(ranges.begin(), ranges.end());
  ranges.emplace_back(directory_offset, file_.size());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) fail(ErrorCode::InvalidModel, subject_, "zip entries overlap");
  }
}

void Zip::check_ratio() const {
  uint64_t total = 0;
  for (const ZipEntry& entry : entries_) {
    if (entry.size > UINT64_MAX - total) fail(ErrorCode::InvalidModel, subject_, "zip sizes overflow");
    total += entry.size;
  }
  if (total > kHarmlessSize && total / kLargestRatio > file_.size()) {
    fail(ErrorCode::InvalidModel, subject_, "zip bomb: ", file_.size(), " bytes claim to hold ", total);
  }
}

const ZipEntry* Zip::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::vector<std::byte> Zip::read(const ZipEntry& entry) const {
  const Bytes data = file_.subspan(static_cast<size_t>(entry.data_offset), static_cast<size_t>(entry.compressed_size));
  std::vector<std::byte> out =
      entry.deflated ? inflate(data, entry.size, subject_) : std::vector<std::byte>(data.begin(), data.end());
  if (crc32(bytes_of(out)) != entry.crc) {
    fail(ErrorCode::InvalidModel, subject_, "zip entry ", in_quotes(entry.name), " is corrupted (CRC-32 differs)");
  }
  return out;
}

}  // namespace gyrus
