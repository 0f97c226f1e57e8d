#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/blocks.h"
#include "gyrus/tensor.h"
#include "import/bytes.h"

// GGUF, versions 2 and 3: typed metadata and a directory of tensors, whose data are ranges of the file.

namespace gyrus {

// A value of the metadata; integers of every width are one type, floats too. Lists are flat.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<bool>, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  BlockType type = BlockType::F32;
  Shape shape;          // slowest axis first, as everywhere in gyrus (the file has them the other way round)
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;
};

// The head of a GGUF file: everything but the data. Accessors throw InvalidModel with the file and the key where a key
// is absent and there is no fallback, or where it has another type.
class Gguf {
 public:
  // A head that no GGUF file has: what another kind of file says in the same words.
  Gguf(std::string subject, std::map<std::string, GgufValue> metadata, std::vector<GgufTensor> tensors);
  Gguf() = default;

  const std::string& subject() const { return subject_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const { return data_offset_; }  // bytes; where the first tensor may start
  uint64_t file_bytes() const { return file_bytes_; }

  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }
  bool has(const std::string& key) const { return metadata_.count(key) != 0; }
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  double number(const std::string& key) const;  // an integer will do
  double number(const std::string& key, double fallback) const;
  bool boolean(const std::string& key) const;
  bool boolean(const std::string& key, bool fallback) const;
  const std::string& text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  const std::vector<std::string>& texts(const std::string& key) const;
  const std::vector<int64_t>& integers(const std::string& key) const;
  const std::vector<double>& numbers(const std::string& key) const;
  // `count` integers: a list of that many, or one number that stands for all (head counts of layers).
  std::vector<int64_t> integers(const std::string& key, size_t count) const;

  // "general.architecture"; and the key of that architecture: key("block_count") is "llama.block_count".
  const std::string& architecture() const { return text("general.architecture"); }
  std::string key(const std::string& name) const { return architecture() + "." + name; }

  const std::vector<GgufTensor>& tensors() const { return tensors_; }        // in the order of the file
  const GgufTensor* find(const std::string& name) const;                     // null where absent
  const GgufTensor& tensor(const std::string& name) const;                   // throws where absent
  const GgufTensor& tensor(const std::string& name, const Shape& is) const;  // also where it has another shape

 private:
  friend class GgufReader;
  const GgufValue& at(const std::string& key) const;
  template <class T>
  const T& get(const std::string& key, const char* expected) const;

  std::string subject_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32, data_offset_ = 0, file_bytes_ = 0;
  std::map<std::string, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t> by_name_;
};

// Whether the bytes start as GGUF files do.
bool is_gguf(Bytes file);

// The head of a whole file in memory, or mapped. Strict: counts, sizes, offsets and alignment must agree with the file,
// tensors must not overlap. Throws InvalidModel or Unsupported.
Gguf read_gguf(Bytes file, const std::string& subject);

// The head from the first bytes of a file of `file_bytes` bytes; nothing where these end before the head does. Then
// `wanted` is more than was given, and at least as many bytes as are needed to go on.
struct GgufHead {
  std::optional<Gguf> gguf;
  uint64_t wanted = 0;  // bytes from the start of the file
};
GgufHead read_gguf_head(Bytes prefix, uint64_t file_bytes, const std::string& subject);

// Whether the file is one of several that hold a model together ("split.count"), and which: number (from 0) and count.
std::pair<int64_t, int64_t> gguf_part(const Gguf& gguf);

// The elements of a tensor as f32, from the bytes of its range.
Tensor dequantized(const GgufTensor& tensor, Bytes data);

}  // namespace gyrus
