#include "import/safetensors.h"

#include <algorithm>

#include "import/json.h"

// safetensors: the header's length (u64), the header (JSON: name → dtype, shape, data_offsets [begin, end) in bytes
// from the end of the header), the data.

namespace gyrus {
namespace {

constexpr uint64_t kLongestHeader = uint64_t{32} << 20;  // bytes
constexpr const char* kMetadata = "__metadata__";

struct Entry {
  std::string name;
  FileType type = FileType::F32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the data
};

FileType type_of(const std::string& name, const JsonObject& entry) {
  for (int i = 0; i <= static_cast<int>(FileType::Bool); ++i) {
    if (name == to_string(static_cast<FileType>(i))) return static_cast<FileType>(i);
  }
  fail(ErrorCode::Unsupported, entry.subject(), entry.where(), ": unknown dtype ", in_quotes(name));
}

Entry read_entry(const std::string& name, const Json& json, const std::string& subject) {
  const JsonObject object(json, subject, "tensor " + in_quotes(name));
  if (json.size() != 3)
    fail(ErrorCode::InvalidModel, subject, object.where(), " has other keys than the three it needs");
  Entry entry;
  entry.name = name;
  entry.type = type_of(object.text("dtype"), object);
  entry.shape = read_shape(object.array("shape"), subject, object.where());
  const std::vector<int64_t> offsets =
      object.array("data_offsets").size() == 2 ? object.integers("data_offsets", 2, 0) : std::vector<int64_t>{};
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) object.bad("data_offsets", "[begin, end]");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  const uint64_t wanted = static_cast<uint64_t>(element_count(entry.shape)) * byte_size(entry.type);
  if (entry.end - entry.begin != wanted) {
    fail(ErrorCode::InvalidModel, subject, object.where(), " has ", entry.end - entry.begin, " bytes, but ",
         to_string(entry.type), " ", to_string(entry.shape), " needs ", wanted);
  }
  return entry;
}

// Sorted by offset, the tensors must follow each other from the first byte of the data to the last.
void check_layout(std::vector<Entry>& entries, uint64_t data_size, const std::string& subject) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      fail(ErrorCode::InvalidModel, subject, "tensor ", in_quotes(entry.name), " starts at byte ", entry.begin,
           ", not at ", at, ": a gap or an overlap");
    }
    at = entry.end;
  }
  if (at != data_size) {
    fail(ErrorCode::InvalidModel, subject, "the tensors take ", at, " bytes, the file holds ", data_size,
         ": truncated or corrupted");
  }
}

void check_metadata(const Json& json, const std::string& subject) {
  bool good = json.is_object();
  for (auto it = json.begin(); good && it != json.end(); ++it) good = it->is_string();
  if (!good) fail(ErrorCode::InvalidModel, subject, kMetadata, " is no map of strings");
}

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::F32: return "F32";
    case DType::F16: return "F16";
    case DType::I32: return "I32";
    case DType::U32: return "U32";
    case DType::U8: return "U8";
    case DType::I64: return "I64";
    case DType::Bool: return "BOOL";
  }
  return "";
}

struct Contents {
  std::vector<Entry> entries;
  Bytes data;
  Bytes of(const Entry& entry) const {
    return data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
  }
};

Contents read_contents(Bytes file, const std::string& subject) {
  ByteReader reader(file, subject);
  const uint64_t header_size = reader.u64();
  if (header_size > kLongestHeader) fail(ErrorCode::InvalidModel, subject, "header of ", header_size, " bytes");
  const Json header = parse_json(reader.take(header_size), subject);
  if (!header.is_object()) fail(ErrorCode::InvalidModel, subject, "the header is no JSON object");
  Contents contents;
  contents.data = reader.take(reader.left());
  for (auto it = header.begin(); it != header.end(); ++it) {
    if (it.key() == kMetadata) {
      check_metadata(it.value(), subject);
    } else {
      contents.entries.push_back(read_entry(it.key(), it.value(), subject));
    }
  }
  check_layout(contents.entries, contents.data.size(), subject);
  return contents;
}

}  // namespace

bool is_safetensors(Bytes file) {
  if (file.size() < 9 || file[8] != std::byte{'{'}) return false;
  return ByteReader(file, "").u64() <= kLongestHeader;
}

std::vector<SafetensorsView> view_safetensors(Bytes file, const std::string& subject) {
  const Contents contents = read_contents(file, subject);
  std::vector<SafetensorsView> out;
  for (const Entry& entry : contents.entries) out.push_back({entry.name, entry.type, entry.shape, contents.of(entry)});
  return out;
}

StateDict read_safetensors(Bytes file, const std::string& subject) {
  const Contents contents = read_contents(file, subject);
  StateDict out;
  for (const Entry& entry : contents.entries)
    out.add(entry.name, convert(contents.of(entry), entry.type, entry.shape, subject, entry.name), subject);
  return out;
}

std::map<std::string, Tensor> read_safetensors_exactly(Bytes file, const std::string& subject) {
  const Contents contents = read_contents(file, subject);
  std::map<std::string, Tensor> out;
  for (const Entry& entry : contents.entries) {
    Tensor tensor;
    tensor.shape = entry.shape;
    const std::string type = to_string(entry.type);
    for (DType dtype : {DType::F32, DType::F16, DType::I32, DType::U32, DType::U8}) {
      if (type != safetensors_name(dtype)) continue;
      tensor.dtype = dtype;
      tensor.data.assign(contents.of(entry).begin(), contents.of(entry).end());
      out[entry.name] = std::move(tensor);
      break;
    }
    if (!out.count(entry.name))
      fail(ErrorCode::Unsupported, subject, "tensor ", in_quotes(entry.name), " has the type ", type);
  }
  return out;
}

std::vector<std::byte> write_safetensors(const std::map<std::string, Tensor>& tensors,
                                         const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t size = 0;  // bytes of data
  for (const auto& [name, tensor] : tensors) {
    const uint64_t end = size + tensor.data.size();
    header[name] = {{"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {size, end}}};
    size = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned

  std::vector<std::byte> out;
  out.reserve(8 + text.size() + static_cast<size_t>(size));
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(static_cast<uint64_t>(text.size()) >> (8 * i)));
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  for (const auto& [name, tensor] : tensors) out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  return out;
}

}  // namespace gyrus
