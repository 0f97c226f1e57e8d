#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

// Writers of small model files in memory, right ones and wrong ones, for the tests and the fuzzers' seeds. They share
// no code with the readers, except for the CRC.

namespace gyrus::test {

using ByteVector = std::vector<std::byte>;

ByteVector to_bytes(std::string_view text);
ByteVector json_bytes(const nlohmann::json& document);
ByteVector float_bytes(const std::vector<float>& values);

class ByteWriter {
 public:
  ByteWriter& u8(uint64_t value) { return number(value, 1); }
  ByteWriter& u16(uint64_t value) { return number(value, 2); }
  ByteWriter& u32(uint64_t value) { return number(value, 4); }
  ByteWriter& u64(uint64_t value) { return number(value, 8); }
  ByteWriter& text(std::string_view text);
  ByteWriter& bytes(const ByteVector& bytes);
  size_t size() const { return out_.size(); }
  const ByteVector& out() const { return out_; }

 private:
  ByteWriter& number(uint64_t value, int count);
  ByteVector out_;
};

// One entry as its headers are to state it; `data` are the bytes as they lie in the file.
struct ZipItem {
  std::string name;
  ByteVector data;
  uint16_t method = 0;  // 8: deflate
  uint64_t size = 0;    // inflated; set to data.size() by make_zip where method is 0 and this 0
  uint32_t crc = 0;     // likewise
  uint16_t flags = 0;
  int64_t offset = -1;  // what the directory says instead of the truth
};

ByteVector make_zip(std::vector<ZipItem> items, bool zip64 = false);

// Writes the pickle opcodes that torch uses.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol = 2) { raw("\x80").byte(protocol); }
  PickleWriter& raw(std::string_view opcodes);
  PickleWriter& byte(int value);
  PickleWriter& text(std::string_view value);
  PickleWriter& integer(int64_t value);
  PickleWriter& tuple(const std::vector<int64_t>& values);
  PickleWriter& global(const std::string& module, const std::string& name);
  // A call of torch._utils._rebuild_tensor_v2 over storage `key`; strides and offset in elements.
  PickleWriter& tensor(const std::string& storage_type, const std::string& key, int64_t storage_size, int64_t offset,
                       const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);
  ByteVector finish();

 private:
  ByteWriter out_;
};

struct NamedFloats {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// Values that differ from each other, from the name and the index.
NamedFloats ramp(const std::string& name, const Shape& shape);

// As torch.save(OrderedDict) writes it, every tensor with a storage of its own.
ByteVector make_torch_zip(const std::vector<NamedFloats>& tensors);
// A torch zip around any pickle; storages "0", "1" …
ByteVector make_torch_zip(const ByteVector& pickle, const std::vector<ByteVector>& storages,
                          const std::string& byte_order = "little");

// A safetensors file with this header, whatever it says.
ByteVector make_safetensors(const std::string& header, const ByteVector& data);
ByteVector make_safetensors(const std::vector<NamedFloats>& tensors);

// The same file with the values of these tensors (f32) multiplied.
ByteVector scaled_safetensors(ByteVector file, const std::vector<std::string>& names, float factor);

// A MeshNet layer list for a tiny network of `layers` 3-D layers, 1 → 2 → … → 2 → 3 channels.
nlohmann::json make_layer_list(size_t layers);
// The state dict for it, named model.0, model.2 … with biases.
std::vector<NamedFloats> make_meshnet_weights(size_t layers);

// A tfjs layers model: conv (3×3×3, 1 → 2, "same", elu) and conv (1×1×1, 2 → 3); `weights` are its model.bin.
struct TfjsModel {
  nlohmann::json json;
  ByteVector weights;
};
TfjsModel make_tfjs();
// One entry of model_config.config.layers.
nlohmann::json keras_layer(const std::string& class_name, const std::string& name, nlohmann::json config,
                           const std::vector<std::string>& inputs);
// A Functional model of these layers, the last being the output, over an image of `channels` in [8, 8, 8], whose layer
// is named "image"; the weights are written in order.
TfjsModel make_tfjs(int channels, const std::vector<nlohmann::json>& layers, const std::vector<NamedFloats>& weights);

}  // namespace gyrus::test
