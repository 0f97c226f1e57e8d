#include "import/tfjs_weights.h"

#include <algorithm>

namespace gyrus {
namespace {

struct Weight {
  std::string name;
  Shape shape;
  FileType type = FileType::F32;  // as stored
  bool affine = false;            // value = stored * scale + min
  double scale = 1, min = 0;
  uint64_t bytes = 0;
};

struct Group {
  std::vector<std::string> paths;
  std::vector<Weight> weights;
  uint64_t bytes = 0;
};

FileType stored_type(const std::string& dtype, const JsonObject& object) {
  static const std::map<std::string, FileType> types = {{"float32", FileType::F32}, {"float16", FileType::F16},
                                                        {"int32", FileType::I32},   {"uint8", FileType::U8},
                                                        {"uint16", FileType::U16},  {"bool", FileType::Bool}};
  const auto found = types.find(dtype);
  if (found != types.end()) return found->second;
  fail(ErrorCode::Unsupported, object.subject(), object.where(), ": dtype ", in_quotes(dtype), " is not read");
}

Weight read_weight(const Json& json, const std::string& subject, const std::string& where) {
  const JsonObject object(json, subject, where);
  Weight weight;
  weight.name = object.text("name");
  weight.shape = read_shape(object.array("shape"), subject, "weight " + in_quotes(weight.name));
  weight.type = stored_type(object.text("dtype"), object);
  if (object.has("quantization")) {
    const JsonObject quantization = object.object("quantization");
    if (weight.type != FileType::F32) {
      fail(ErrorCode::Unsupported, subject, "weight ", in_quotes(weight.name), " is quantised, but not from float32");
    }
    weight.type = stored_type(quantization.text("dtype"), quantization);
    weight.affine = weight.type == FileType::U8 || weight.type == FileType::U16;
    if (!weight.affine && weight.type != FileType::F16) quantization.bad("dtype", "uint8, uint16 or float16");
    if (weight.affine) {
      quantization.at("scale");
      quantization.at("min");
      weight.scale = quantization.number("scale", 1);
      weight.min = quantization.number("min", 0);
    }
  }
  weight.bytes = static_cast<uint64_t>(element_count(weight.shape)) * byte_size(weight.type);
  return weight;
}

std::vector<Group> read_manifest(const Json& json, const std::string& subject) {
  if (!json.is_array() || json.empty()) fail(ErrorCode::InvalidModel, subject, "weightsManifest is no list of groups");
  std::vector<Group> groups;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string where = cat("weightsManifest[", i, "]");
    const JsonObject object(json[i], subject, where);
    Group group;
    for (const Json& path : object.array("paths")) {
      if (!path.is_string()) object.bad("paths", "a list of names");
      group.paths.push_back(path.get<std::string>());
    }
    const Json& weights = object.array("weights");
    for (size_t w = 0; w < weights.size(); ++w) {
      group.weights.push_back(read_weight(weights[w], subject, cat(where, ".weights[", w, "]")));
      group.bytes += group.weights.back().bytes;
      if (group.bytes > (uint64_t{1} << 60)) fail(ErrorCode::InvalidModel, subject, where, " is absurdly large");
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

Tensor dequantise(const Weight& weight, const Tensor& stored) {
  Tensor out(DType::F32, weight.shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    out.as<float>()[i] = to_float(get(stored, i) * weight.scale + weight.min);
  }
  return out;
}

// Adds the group's weights from exactly its bytes.
void read_group(const Group& group, Bytes bytes, const std::string& subject, StateDict& out) {
  ByteReader reader(bytes, subject);
  for (const Weight& weight : group.weights) {
    Tensor tensor = convert(reader.take(weight.bytes), weight.type, weight.shape, subject, weight.name);
    out.add(weight.name, weight.affine ? dequantise(weight, tensor) : std::move(tensor), subject);
  }
}

std::vector<std::byte> join_shards(const Group& group, const FileMap& files, const std::string& subject) {
  std::vector<std::byte> bytes;
  for (const std::string& path : group.paths) {
    const auto found = files.find(path);
    if (found == files.end()) {
      fail(ErrorCode::InvalidModel, subject, "weight file ", in_quotes(path), " is missing beside it");
    }
    // A manifest may name one shard many times; stop as soon as that gives more than the weights ask for.
    if (found->second.size() > group.bytes - bytes.size()) {
      fail(ErrorCode::InvalidModel, subject, "the weight files hold more than the ", group.bytes,
           " bytes of their weights");
    }
    bytes.insert(bytes.end(), found->second.begin(), found->second.end());
  }
  if (bytes.size() != group.bytes) {
    fail(ErrorCode::InvalidModel, subject, "the weight files hold ", bytes.size(), " bytes, their weights need ",
         group.bytes, ": truncated or corrupted");
  }
  return bytes;
}

bool any_shard(const std::vector<Group>& groups, const FileMap& files) {
  for (const Group& group : groups) {
    for (const std::string& path : group.paths) {
      if (files.count(path) != 0) return true;
    }
  }
  return false;
}

}  // namespace

StateDict read_tfjs_weights(const Json& manifest, const FileMap& files, const std::string& fallback,
                            const std::string& subject) {
  const std::vector<Group> groups = read_manifest(manifest, subject);
  StateDict out;
  const auto whole = files.find(fallback);
  if (whole == files.end() || any_shard(groups, files)) {
    for (const Group& group : groups) read_group(group, bytes_of(join_shards(group, files, subject)), subject, out);
    return out;
  }
  ByteReader reader(bytes_of(whole->second), subject);
  uint64_t total = 0;
  for (const Group& group : groups) total += std::min(group.bytes, uint64_t{1} << 40);
  if (total != reader.left()) {
    fail(ErrorCode::InvalidModel, subject, in_quotes(fallback), " holds ", reader.left(), " bytes, the weights need ",
         total, ": truncated or corrupted");
  }
  for (const Group& group : groups) read_group(group, reader.take(group.bytes), subject, out);
  return out;
}

}  // namespace gyrus
