#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gyrus/tensor.h"
#include "import/bytes.h"

namespace gyrus {

using Json = nlohmann::json;

// The JSON document in `text`. Throws InvalidModel with the position where it breaks, and on a key that an object has
// twice, on nesting deeper than 64 and on documents over 32 MiB.
Json parse_json(Bytes text, const std::string& subject);

// An object of a document with its place in it ("layers[3]"), for reading members with checked types: InvalidModel
// names file and place. A null counts as absent where there is a fallback. The document must outlive it.
class JsonObject {
 public:
  JsonObject(const Json& json, std::string subject, std::string where);

  const std::string& subject() const { return subject_; }
  const std::string& where() const { return where_; }
  const Json& json() const { return *json_; }
  bool has(const std::string& key) const;           // present and not null
  const Json* find(const std::string& key) const;   // null where absent
  const Json& at(const std::string& key) const;     // throws where absent
  JsonObject object(const std::string& key) const;  // throws where absent or of another type
  const Json& array(const std::string& key) const;  // likewise
  std::string text(const std::string& key) const;   // likewise
  std::string text(const std::string& key, const std::string& fallback) const;
  bool boolean(const std::string& key, bool fallback) const;
  double number(const std::string& key, double fallback) const;
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  // `count` integers: a list of that many, or one number that stands for all.
  std::vector<int64_t> integers(const std::string& key, size_t count, int64_t fallback) const;

  [[noreturn]] void bad(const std::string& key, const std::string& expected) const;

 private:
  const Json* json_;
  std::string subject_, where_;
};

// The extents in a JSON list of non-negative integers; throws InvalidModel where one is not, or their product is
// beyond 2^48.
std::vector<int64_t> read_shape(const Json& json, const std::string& subject, const std::string& where);

// The element type of that name; throws InvalidInput where there is none.
DType read_dtype(const std::string& name, const std::string& subject);

}  // namespace gyrus
