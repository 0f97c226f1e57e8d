#include "support/model_writer.h"

#include <cstring>

#include "core/tensor.h"
#include "import/zip.h"

namespace gyrus::test {

using nlohmann::json;

ByteVector to_bytes(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

ByteVector json_bytes(const json& document) { return to_bytes(document.dump()); }

ByteVector float_bytes(const std::vector<float>& values) {
  ByteVector out(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

ByteWriter& ByteWriter::number(uint64_t value, int count) {
  for (int i = 0; i < count; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  return *this;
}

ByteWriter& ByteWriter::text(std::string_view text) { return bytes(to_bytes(text)); }

ByteWriter& ByteWriter::bytes(const ByteVector& bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

ByteVector make_zip(std::vector<ZipItem> items, bool zip64) {
  ByteWriter out, directory;
  for (ZipItem& item : items) {
    if (item.method == 0 && item.size == 0) item.size = item.data.size();
    if (item.method == 0 && item.crc == 0) item.crc = crc32(bytes_of(item.data));
    const uint64_t offset = item.offset >= 0 ? static_cast<uint64_t>(item.offset) : out.size();
    out.u32(0x04034b50).u16(20).u16(item.flags).u16(item.method).u32(0).u32(item.crc);
    out.u32(item.data.size()).u32(item.size).u16(item.name.size()).u16(0).text(item.name).bytes(item.data);
    directory.u32(0x02014b50).u16(20).u16(20).u16(item.flags).u16(item.method).u32(0).u32(item.crc);
    directory.u32(zip64 ? 0xffffffff : item.data.size()).u32(zip64 ? 0xffffffff : item.size);
    directory.u16(item.name.size()).u16(zip64 ? 28 : 0).u16(0).u16(0).u16(0).u32(0);
    directory.u32(zip64 ? 0xffffffff : offset).text(item.name);
    if (zip64) directory.u16(1).u16(24).u64(item.size).u64(item.data.size()).u64(offset);
  }
  const size_t start = out.size();
  out.bytes(directory.out());
  const size_t end = out.size();
  if (zip64) {
    out.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(items.size()).u64(items.size());
    out.u64(end - start).u64(start);
    out.u32(0x07064b50).u32(0).u64(end).u32(1);
  }
  out.u32(0x06054b50).u32(0).u16(items.size()).u16(items.size()).u32(end - start).u32(start).u16(0);
  return out.out();
}

PickleWriter& PickleWriter::raw(std::string_view opcodes) {
  out_.text(opcodes);
  return *this;
}

PickleWriter& PickleWriter::byte(int value) {
  out_.u8(static_cast<uint64_t>(value));
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view value) {
  out_.text("X").u32(value.size()).text(value);
  return *this;
}

PickleWriter& PickleWriter::integer(int64_t value) {
  out_.u8(0x8a).u8(8).u64(static_cast<uint64_t>(value));
  return *this;
}

PickleWriter& PickleWriter::tuple(const std::vector<int64_t>& values) {
  raw("(");
  for (const int64_t value : values) integer(value);
  return raw("t");
}

PickleWriter& PickleWriter::global(const std::string& module, const std::string& name) {
  return raw("c" + module + "\n" + name + "\n");
}

PickleWriter& PickleWriter::tensor(const std::string& storage_type, const std::string& key, int64_t storage_size,
                                   int64_t offset, const std::vector<int64_t>& shape,
                                   const std::vector<int64_t>& strides) {
  global("torch._utils", "_rebuild_tensor_v2").raw("((").text("storage").global("torch", storage_type);
  text(key).text("cpu").integer(storage_size).raw("tQ").integer(offset).tuple(shape).tuple(strides);
  return byte(0x89).global("collections", "OrderedDict").raw(")RtR");
}

ByteVector PickleWriter::finish() {
  raw(".");
  return out_.out();
}

NamedFloats ramp(const std::string& name, const Shape& shape) {
  NamedFloats out{name, shape, {}};
  const double seed = static_cast<double>(name.size() % 7);
  for (int64_t i = 0; i < element_count(shape); ++i) {
    out.values.push_back(static_cast<float>((static_cast<double>(i * 5 % 17) - 8 + seed) / 16));
  }
  return out;
}

ByteVector make_torch_zip(const std::vector<NamedFloats>& tensors) {
  PickleWriter pickle;
  pickle.global("collections", "OrderedDict").raw(")R(");
  std::vector<ByteVector> storages;
  for (const NamedFloats& tensor : tensors) {
    const int64_t count = static_cast<int64_t>(tensor.values.size());
    pickle.text(tensor.name);
    pickle.tensor("FloatStorage", std::to_string(storages.size()), count, 0, tensor.shape, strides_of(tensor.shape));
    storages.push_back(float_bytes(tensor.values));
  }
  return make_torch_zip(pickle.raw("u").finish(), storages);
}

ByteVector make_torch_zip(const ByteVector& pickle, const std::vector<ByteVector>& storages,
                          const std::string& byte_order) {
  std::vector<ZipItem> items;
  items.push_back({"model/data.pkl", pickle});
  if (!byte_order.empty()) items.push_back({"model/byteorder", to_bytes(byte_order)});
  for (size_t i = 0; i < storages.size(); ++i) items.push_back({"model/data/" + std::to_string(i), storages[i]});
  items.push_back({"model/version", to_bytes("3\n")});
  return make_zip(std::move(items));
}

ByteVector make_safetensors(const std::string& header, const ByteVector& data) {
  return ByteWriter().u64(header.size()).text(header).bytes(data).out();
}

ByteVector make_safetensors(const std::vector<NamedFloats>& tensors) {
  json header = json::object();
  ByteWriter data;
  for (const NamedFloats& tensor : tensors) {
    const size_t begin = data.size();
    data.bytes(float_bytes(tensor.values));
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return make_safetensors(header.dump(), data.out());
}

ByteVector scaled_safetensors(ByteVector file, const std::vector<std::string>& names, float factor) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const size_t data = sizeof length + static_cast<size_t>(length);
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const json header = json::parse(text, text + length);
  for (const std::string& name : names) {
    const auto& offsets = header.at(name).at("data_offsets");
    for (size_t at = offsets.at(0); at < offsets.at(1).get<size_t>(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, file.data() + data + at, sizeof value);
      value *= factor;
      std::memcpy(file.data() + data + at, &value, sizeof value);
    }
  }
  return file;
}

json make_layer_list(size_t layers) {
  json list = {{"header", "test"}, {"bnorm", false}, {"bias", true}, {"dropout_p", 0}, {"layers", json::array()}};
  for (size_t i = 0; i < layers; ++i) {
    const bool last = i + 1 == layers;
    list["layers"].push_back({{"in_channels", i == 0 ? 1 : 2},
                              {"out_channels", last ? 3 : 2},
                              {"kernel_size", last ? 1 : 3},
                              {"padding", last ? 0 : i + 1},
                              {"stride", 1},
                              {"dilation", last ? 1 : i + 1}});
  }
  return list;
}

std::vector<NamedFloats> make_meshnet_weights(size_t layers) {
  std::vector<NamedFloats> out;
  for (size_t i = 0; i < layers; ++i) {
    const bool last = i + 1 == layers;
    const std::string name = "model." + std::to_string(2 * i);
    const int64_t k = last ? 1 : 3, outputs = last ? 3 : 2;
    out.push_back(ramp(name + ".weight", {outputs, i == 0 ? 1 : 2, k, k, k}));
    out.push_back(ramp(name + ".bias", {outputs}));
  }
  return out;
}

json keras_layer(const std::string& class_name, const std::string& name, json config,
                 const std::vector<std::string>& inputs) {
  config["name"] = name;
  json node = json::array();
  for (const std::string& input : inputs) node.push_back({input, 0, 0, json::object()});
  json nodes = json::array();
  if (!inputs.empty()) nodes.push_back(node);
  return {{"class_name", class_name}, {"name", name}, {"config", config}, {"inbound_nodes", nodes}};
}

TfjsModel make_tfjs(int channels, const std::vector<json>& layers, const std::vector<NamedFloats>& weights) {
  json all = json::array();
  all.push_back(keras_layer("InputLayer", "image", {{"batch_input_shape", {nullptr, 8, 8, 8, channels}}}, {}));
  for (const json& layer : layers) all.push_back(layer);
  json manifest = json::array();
  ByteWriter data;
  for (const NamedFloats& weight : weights) {
    manifest.push_back({{"name", weight.name}, {"shape", weight.shape}, {"dtype", "float32"}});
    data.bytes(float_bytes(weight.values));
  }
  const json config = {{"name", "model"},
                       {"layers", all},
                       {"input_layers", {{"image", 0, 0}}},
                       {"output_layers", {{layers.back()["name"], 0, 0}}}};
  TfjsModel out;
  out.json = {{"format", "layers-model"},
              {"modelTopology", {{"model_config", {{"class_name", "Functional"}, {"config", config}}}}},
              {"weightsManifest", {{{"paths", {"model.bin"}}, {"weights", manifest}}}}};
  out.weights = data.out();
  return out;
}

TfjsModel make_tfjs() {
  const std::vector<json> layers = {
      keras_layer("Conv3D", "c1",
                  {{"filters", 2}, {"kernel_size", {3, 3, 3}}, {"padding", "same"}, {"activation", "elu"}}, {"image"}),
      keras_layer("Conv3D", "c2", {{"filters", 3}, {"kernel_size", {1, 1, 1}}}, {"c1"})};
  return make_tfjs(1, layers,
                   {ramp("c1/kernel", {3, 3, 3, 1, 2}), ramp("c1/bias", {2}), ramp("c2/kernel", {1, 1, 1, 2, 3}),
                    ramp("c2/bias", {3})});
}

}  // namespace gyrus::test
