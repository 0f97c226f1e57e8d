// The JSON form of a plan, for files, the browser and exported bundles: one object, one line for each entry of a list.
//
//   format      "gyrus-plan-1"
//   precision   "f32" | "f16"
//   needs       { maxBufferSize, … }: the limits, named as in the WebGPU specification
//   features    { shader-f16, subgroups, timestamp-query }: booleans
//   weights     bytes in the binary file
//   buffers     [ { label, size, kind: "storage" | "weights" | "params", dataOffset } ]
//   kernels     [ { name, entry, workgroupSize: [x,y,z], bindings: ["read" | "write" | "uniform"], wgsl } ]
//   steps       [ { op: "dispatch", label, kernel, groups: [x,y,z], bindings: [range], flops, bytes }
//               | { op: "copy", from: range, to: range } | { op: "clear", range } ]
//   inputs, outputs, captures
//               [ { name, dtype, shape: […], pieces: [ [hostOffset, buffer, offset, size] ] } ]
//
// A range is [buffer, offset, size], in bytes. Every key must be there and no other.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "plan/check.h"
#include "plan/plan.h"

namespace gyrus {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "gyrus-plan-1";

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// What the file says may end up in the message, which is to stay one line.
template <class... Args>
[[noreturn]] void invalid(const Args&... message) {
  std::string text = cat(message...);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  fail(ErrorCode::InvalidInput, "plan", text);
}

// ---- names, the same for writing and reading ----

template <class Enum>
struct Name {
  Enum value;
  const char* text;
};
constexpr Name<BufferKind> kBufferKinds[] = {
    {BufferKind::Storage, "storage"}, {BufferKind::Weights, "weights"}, {BufferKind::Params, "params"}};
constexpr Name<BindingKind> kBindingKinds[] = {
    {BindingKind::ReadStorage, "read"}, {BindingKind::ReadWriteStorage, "write"}, {BindingKind::Uniform, "uniform"}};
constexpr Name<DType> kDTypes[] = {
    {DType::F32, "f32"}, {DType::F16, "f16"}, {DType::I32, "i32"}, {DType::U32, "u32"}, {DType::U8, "u8"}};

template <class Enum, size_t N>
const char* text_of(const Name<Enum> (&names)[N], Enum value) {
  for (const auto& name : names)
    if (name.value == value) return name.text;
  invalid("a value without a name");
}

template <class F, class Visit>
void each_feature(F& features, Visit&& visit) {
  visit("shader-f16", features.shader_f16);
  visit("subgroups", features.subgroups);
  visit("timestamp-query", features.timestamp_query);
}

// ---- writing ----

Json to_json_value(const BufferRange& range) { return Json::array({range.buffer, range.offset, range.size}); }

Json to_json_value(const PlanBuffer& buffer) {
  return {{"label", buffer.label},
          {"size", buffer.size},
          {"kind", text_of(kBufferKinds, buffer.kind)},
          {"dataOffset", buffer.data_offset}};
}

Json to_json_value(const PlanKernel& kernel) {
  Json bindings = Json::array();
  for (BindingKind kind : kernel.bindings) bindings.push_back(text_of(kBindingKinds, kind));
  return {{"name", kernel.name},
          {"entry", kernel.entry},
          {"workgroupSize", kernel.workgroup_size},
          {"bindings", std::move(bindings)},
          {"wgsl", kernel.wgsl}};
}

double finite(double value, const std::string& label) {
  if (!std::isfinite(value)) invalid("step '", label, "': a cost that is no finite number");
  return value;
}

Json to_json_value(const Step& step) {
  if (const auto* dispatch = std::get_if<Dispatch>(&step)) {
    Json bindings = Json::array();
    for (const BufferRange& range : dispatch->bindings) bindings.push_back(to_json_value(range));
    return {{"op", "dispatch"},
            {"label", dispatch->label},
            {"kernel", dispatch->kernel},
            {"groups", dispatch->groups},
            {"bindings", std::move(bindings)},
            {"flops", finite(dispatch->flops, dispatch->label)},
            {"bytes", finite(dispatch->bytes, dispatch->label)}};
  }
  if (const auto* copy = std::get_if<Copy>(&step))
    return {{"op", "copy"}, {"from", to_json_value(copy->from)}, {"to", to_json_value(copy->to)}};
  return {{"op", "clear"}, {"range", to_json_value(std::get<Clear>(step).range)}};
}

Json to_json_value(const PlanPort& port) {
  Json pieces = Json::array();
  for (const Piece& piece : port.pieces)
    pieces.push_back(Json::array({piece.host_offset, piece.range.buffer, piece.range.offset, piece.range.size}));
  return {{"name", port.name},
          {"dtype", text_of(kDTypes, port.dtype)},
          {"shape", port.shape},
          {"pieces", std::move(pieces)}};
}

template <class T>
void write_list(std::string& text, const char* key, const std::vector<T>& items) {
  text += cat(",\n\"", key, "\": [");
  for (size_t i = 0; i < items.size(); ++i) text += (i ? ",\n" : "\n") + to_json_value(items[i]).dump();
  text += items.empty() ? "]" : "\n]";
}

// ---- reading ----

// An object of the file, of which every key must be asked for.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) invalid(where_, " is not an object");
  }
  const Json& at(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) invalid(where_, " has no '", key, "'");
    ++asked_;
    return *found;
  }
  void finish(const std::set<std::string>& keys) const {
    if (asked_ == json_.size()) return;
    for (const auto& [key, value] : json_.items())
      if (!keys.count(key)) invalid(where_, " has an unknown key '", key, "'");
  }
  std::string path(const char* key) const { return cat(where_, ".", key); }

 private:
  const Json& json_;
  std::string where_;
  size_t asked_ = 0;
};

void read(const Json& json, const std::string& where, std::string& value) {
  if (!json.is_string()) invalid(where, " is not a string");
  value = json.get<std::string>();
}

// A name or label: later messages show it, so it has no line ends.
void read_label(const Json& json, const std::string& where, std::string& value) {
  read(json, where, value);
  if (std::any_of(value.begin(), value.end(), is_control)) invalid(where, " has control characters");
}

void read(const Json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) invalid(where, " is not true or false");
  value = json.get<bool>();
}

void read(const Json& json, const std::string& where, uint64_t& value) {
  if (!json.is_number_unsigned()) invalid(where, " is not a whole number of at least 0");
  value = json.get<uint64_t>();
}

void read(const Json& json, const std::string& where, uint32_t& value) {
  uint64_t wide = 0;
  read(json, where, wide);
  if (wide > UINT32_MAX) invalid(where, " is over 2^32: ", wide);
  value = static_cast<uint32_t>(wide);
}

void read(const Json& json, const std::string& where, int64_t& value) {
  uint64_t wide = 0;
  read(json, where, wide);
  if (wide > INT64_MAX) invalid(where, " is over 2^63: ", wide);
  value = static_cast<int64_t>(wide);
}

void read(const Json& json, const std::string& where, double& value) {
  if (!json.is_number()) invalid(where, " is not a number");
  value = json.get<double>();
  if (!std::isfinite(value)) invalid(where, " is not finite");
}

template <class Enum, size_t N>
void read_name(const Json& json, const std::string& where, const Name<Enum> (&names)[N], Enum& value) {
  std::string text;
  read(json, where, text);
  for (const auto& name : names) {
    if (text != name.text) continue;
    value = name.value;
    return;
  }
  invalid(where, " is the unknown '", text, "'");
}

const Json& list(const Json& json, const std::string& where) {
  if (!json.is_array()) invalid(where, " is not a list");
  return json;
}

void read(const Json& json, const std::string& where, std::array<uint32_t, 3>& value) {
  if (list(json, where).size() != 3) invalid(where, " has ", json.size(), " entries in place of 3");
  for (size_t i = 0; i < 3; ++i) read(json[i], where, value[i]);
}

void read(const Json& json, const std::string& where, BufferRange& range) {
  if (list(json, where).size() != 3) invalid(where, " is not [buffer, offset, size]");
  read(json[0], where, range.buffer);
  read(json[1], where, range.offset);
  read(json[2], where, range.size);
}

void read(const Json& json, const std::string& where, Piece& piece) {
  if (list(json, where).size() != 4) invalid(where, " is not [hostOffset, buffer, offset, size]");
  read(json[0], where, piece.host_offset);
  read(json[1], where, piece.range.buffer);
  read(json[2], where, piece.range.offset);
  read(json[3], where, piece.range.size);
}

void read(const Json& json, const std::string& where, BindingKind& kind) {
  read_name(json, where, kBindingKinds, kind);
}

void read(const Json& json, const std::string& where, PlanBuffer& buffer);
void read(const Json& json, const std::string& where, PlanKernel& kernel);
void read(const Json& json, const std::string& where, Step& step);
void read(const Json& json, const std::string& where, PlanPort& port);

template <class T>
void read(const Json& json, const std::string& where, std::vector<T>& items) {
  for (const Json& item : list(json, where)) {
    items.emplace_back();
    read(item, cat(where, "[", items.size() - 1, "]"), items.back());
  }
}

void read(const Json& json, const std::string& where, Limits& limits) {
  Object object(json, where);
  std::set<std::string> keys;
  visit_limits(limits, [&](const char* key, auto& value) {
    keys.insert(key);
    read(object.at(key), object.path(key), value);
  });
  object.finish(keys);
}

void read(const Json& json, const std::string& where, Features& features) {
  Object object(json, where);
  std::set<std::string> keys;
  each_feature(features, [&](const char* key, bool& value) {
    keys.insert(key);
    read(object.at(key), object.path(key), value);
  });
  object.finish(keys);
}

void read(const Json& json, const std::string& where, PlanBuffer& buffer) {
  Object object(json, where);
  read_label(object.at("label"), object.path("label"), buffer.label);
  read(object.at("size"), object.path("size"), buffer.size);
  read_name(object.at("kind"), object.path("kind"), kBufferKinds, buffer.kind);
  read(object.at("dataOffset"), object.path("dataOffset"), buffer.data_offset);
  object.finish({"label", "size", "kind", "dataOffset"});
}

void read(const Json& json, const std::string& where, PlanKernel& kernel) {
  Object object(json, where);
  read_label(object.at("name"), object.path("name"), kernel.name);
  read_label(object.at("entry"), object.path("entry"), kernel.entry);
  read(object.at("workgroupSize"), object.path("workgroupSize"), kernel.workgroup_size);
  read(object.at("bindings"), object.path("bindings"), kernel.bindings);
  read(object.at("wgsl"), object.path("wgsl"), kernel.wgsl);
  object.finish({"name", "entry", "workgroupSize", "bindings", "wgsl"});
}

Dispatch read_dispatch(Object& object) {
  Dispatch dispatch;
  read_label(object.at("label"), object.path("label"), dispatch.label);
  read(object.at("kernel"), object.path("kernel"), dispatch.kernel);
  read(object.at("groups"), object.path("groups"), dispatch.groups);
  read(object.at("bindings"), object.path("bindings"), dispatch.bindings);
  read(object.at("flops"), object.path("flops"), dispatch.flops);
  read(object.at("bytes"), object.path("bytes"), dispatch.bytes);
  object.finish({"op", "label", "kernel", "groups", "bindings", "flops", "bytes"});
  return dispatch;
}

void read(const Json& json, const std::string& where, Step& step) {
  Object object(json, where);
  std::string op;
  read(object.at("op"), object.path("op"), op);
  if (op == "dispatch") {
    step = read_dispatch(object);
  } else if (op == "copy") {
    Copy copy;
    read(object.at("from"), object.path("from"), copy.from);
    read(object.at("to"), object.path("to"), copy.to);
    object.finish({"op", "from", "to"});
    step = copy;
  } else if (op == "clear") {
    Clear clear;
    read(object.at("range"), object.path("range"), clear.range);
    object.finish({"op", "range"});
    step = clear;
  } else {
    invalid(where, " has the unknown op '", op, "'");
  }
}

void read(const Json& json, const std::string& where, PlanPort& port) {
  Object object(json, where);
  read_label(object.at("name"), object.path("name"), port.name);
  read_name(object.at("dtype"), object.path("dtype"), kDTypes, port.dtype);
  read(object.at("shape"), object.path("shape"), port.shape);
  read(object.at("pieces"), object.path("pieces"), port.pieces);
  object.finish({"name", "dtype", "shape", "pieces"});
}

// Parses strictly: a key that comes twice would silently hide the first.
Json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) invalid("is not well-formed JSON");
  if (!twice.empty()) invalid("has the key '", twice, "' twice in one object");
  return json;
}

}  // namespace

std::string to_json(const Plan& plan) {
  try {
    Json needs, features;
    visit_limits(plan.needs, [&](const char* key, auto value) { needs[key] = value; });
    each_feature(plan.features, [&](const char* key, bool value) { features[key] = value; });
    std::string text = cat("{\n\"format\": \"", kFormat, "\"");
    text += ",\n\"precision\": " + Json(plan.precision).dump();
    text += ",\n\"needs\": " + needs.dump();
    text += ",\n\"features\": " + features.dump();
    text += ",\n\"weights\": " + std::to_string(plan.weights.size());
    write_list(text, "buffers", plan.buffers);
    write_list(text, "kernels", plan.kernels);
    write_list(text, "steps", plan.steps);
    write_list(text, "inputs", plan.inputs);
    write_list(text, "outputs", plan.outputs);
    write_list(text, "captures", plan.captures);
    return text + "\n}\n";
  } catch (const nlohmann::json::exception& error) {
    invalid("a name or kernel is not UTF-8: ", error.what());
  }
}

Plan parse_plan(const std::string& text, std::vector<std::byte> weights) {
  const Json json = parse_strictly(text);
  Object object(json, "plan");
  std::string format;
  read(object.at("format"), object.path("format"), format);
  if (format != kFormat) invalid("has the format '", format, "'; this version reads '", kFormat, "'");
  uint64_t weight_bytes = 0;
  read(object.at("weights"), object.path("weights"), weight_bytes);
  if (weight_bytes != weights.size())
    invalid("goes with a weights file of ", weight_bytes, " bytes; the one given has ", weights.size());
  Plan plan;
  read(object.at("precision"), object.path("precision"), plan.precision);
  if (plan.precision != "f32" && plan.precision != "f16") invalid("has the unknown precision '", plan.precision, "'");
  read(object.at("needs"), object.path("needs"), plan.needs);
  read(object.at("features"), object.path("features"), plan.features);
  read(object.at("buffers"), object.path("buffers"), plan.buffers);
  read(object.at("kernels"), object.path("kernels"), plan.kernels);
  read(object.at("steps"), object.path("steps"), plan.steps);
  read(object.at("inputs"), object.path("inputs"), plan.inputs);
  read(object.at("outputs"), object.path("outputs"), plan.outputs);
  read(object.at("captures"), object.path("captures"), plan.captures);
  object.finish({"format", "precision", "needs", "features", "weights", "buffers", "kernels", "steps", "inputs",
                 "outputs", "captures"});
  plan.weights = std::move(weights);
  check_consistent(plan);
  return plan;
}

}  // namespace gyrus
