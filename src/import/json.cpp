#include "import/json.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/tensor.h"

namespace gyrus {
namespace {

constexpr size_t kLargestDocument = size_t{32} << 20;  // bytes
constexpr size_t kDeepest = 64;

// Builds the document from the parser's events. nlohmann's own builder lets a repeated key win silently and has no
// bound on depth; this one also never throws through a catch, which the WASM build could not do.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(Json& root, const std::string& subject) : root_(root), subject_(subject) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      fail(ErrorCode::InvalidModel, subject_, "JSON object has the key ", in_quotes(name), " twice");
    }
    slot_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ErrorCode::InvalidModel, subject_, "not valid JSON: it breaks at byte ", position);
  }

 private:
  // Where the next value goes: the root, behind the last element, or under the key just read.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kDeepest) fail(ErrorCode::InvalidModel, subject_, "JSON nested deeper than ", kDeepest);
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  const std::string& subject_;
  std::vector<Json*> open_;  // objects and lists not yet closed; an open list's elements do not move before it closes
  Json* slot_ = nullptr;
};

bool is_integer(const Json& json) {
  return json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
}

}  // namespace

Json parse_json(Bytes text, const std::string& subject) {
  if (text.size() > kLargestDocument) fail(ErrorCode::InvalidModel, subject, "JSON of ", text.size(), " bytes");
  Json root;
  Builder builder(root, subject);
  const std::string_view view = text_of(text);
  Json::sax_parse(view.begin(), view.end(), &builder);
  return root;
}

JsonObject::JsonObject(const Json& json, std::string subject, std::string where)
    : json_(&json), subject_(std::move(subject)), where_(std::move(where)) {
  if (!json.is_object()) fail(ErrorCode::InvalidModel, subject_, where_, " is no JSON object");
}

void JsonObject::bad(const std::string& key, const std::string& expected) const {
  fail(ErrorCode::InvalidModel, subject_, where_, where_.empty() ? "" : ": ", in_quotes(key), " is ",
       json_->contains(key) ? "not " : "missing: wanted ", expected);
}

const Json* JsonObject::find(const std::string& key) const {
  const auto found = json_->find(key);
  return found == json_->end() ? nullptr : &*found;
}

bool JsonObject::has(const std::string& key) const {
  const Json* found = find(key);
  return found != nullptr && !found->is_null();
}

const Json& JsonObject::at(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) bad(key, "a value");
  return *found;
}

JsonObject JsonObject::object(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_object()) bad(key, "an object");
  return JsonObject(*found, subject_, where_.empty() ? key : where_ + "." + key);
}

const Json& JsonObject::array(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_array()) bad(key, "a list");
  return *found;
}

std::string JsonObject::text(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_string()) bad(key, "a string");
  return found->get<std::string>();
}

std::string JsonObject::text(const std::string& key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}

bool JsonObject::boolean(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean()) bad(key, "true or false");
  return at(key).get<bool>();
}

double JsonObject::number(const std::string& key, double fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_number() || !std::isfinite(at(key).get<double>())) bad(key, "a number");
  return at(key).get<double>();
}

int64_t JsonObject::integer(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr || !is_integer(*found)) bad(key, "an integer");
  return found->get<int64_t>();
}

int64_t JsonObject::integer(const std::string& key, int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

std::vector<int64_t> JsonObject::integers(const std::string& key, size_t count, int64_t fallback) const {
  if (!has(key)) return std::vector<int64_t>(count, fallback);
  const Json& value = at(key);
  if (is_integer(value)) return std::vector<int64_t>(count, value.get<int64_t>());
  if (!value.is_array() || value.size() != count) bad(key, cat("an integer or ", count, " of them"));
  std::vector<int64_t> out;
  for (const Json& element : value) {
    if (!is_integer(element)) bad(key, cat("an integer or ", count, " of them"));
    out.push_back(element.get<int64_t>());
  }
  return out;
}

std::vector<int64_t> read_shape(const Json& json, const std::string& subject, const std::string& where) {
  constexpr int64_t kMost = int64_t{1} << 48;  // elements
  constexpr size_t kHighestRank = 8;
  if (!json.is_array() || json.size() > kHighestRank) {
    fail(ErrorCode::InvalidModel, subject, where, ": the shape is no list of at most ", kHighestRank, " integers");
  }
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const Json& extent : json) {
    if (!is_integer(extent) || extent.get<int64_t>() < 0) {
      fail(ErrorCode::InvalidModel, subject, where, ": the shape holds something that is no extent");
    }
    shape.push_back(extent.get<int64_t>());
    const int64_t factor = std::max<int64_t>(shape.back(), 1);
    if (count > kMost / factor) fail(ErrorCode::InvalidModel, subject, where, ": the shape's product is beyond 2^48");
    count *= factor;
  }
  return shape;
}

DType read_dtype(const std::string& name, const std::string& subject) {
  for (const DType dtype : {DType::F32, DType::F16, DType::I32, DType::U32, DType::U8, DType::I64, DType::Bool})
    if (name == to_string(dtype)) return dtype;
  fail(ErrorCode::InvalidInput, subject, "'", name, "' is no element type");
}

}  // namespace gyrus
