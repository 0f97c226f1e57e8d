#include "import/torch_zip.h"

#include <map>

#include "core/tensor.h"
#include "import/pickle.h"
#include "import/zip.h"

// A torch zip holds ROOT/data.pkl, which describes the tensors, ROOT/data/KEY with the bytes of each storage, and
// perhaps ROOT/byteorder. Views share storages, so a tensor is an offset, a shape and strides into one of them.

namespace gyrus {
namespace {

using Kind = PickleValue::Kind;

// What the tensors of a file may take together: half precision doubles, tied weights are there several times.
constexpr uint64_t kHarmlessSize = uint64_t{16} << 20;  // bytes
constexpr uint64_t kLargestRatio = 8;

// The folder inside the zip that holds everything, with its slash.
std::string find_root(const Zip& zip, const std::string& subject) {
  const std::string pickle = "data.pkl";
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name != pickle && !entry.name.ends_with("/" + pickle)) continue;
    if (found != nullptr) fail(ErrorCode::InvalidModel, subject, "zip with two files data.pkl");
    found = &entry;
  }
  if (found == nullptr) fail(ErrorCode::InvalidModel, subject, "zip without data.pkl: not written by torch.save");
  const std::string root = found->name.substr(0, found->name.size() - pickle.size());
  if (zip.find(root + "constants.pkl") != nullptr) {
    fail(ErrorCode::Unsupported, subject, "holds a TorchScript program, not a state dict; save model.state_dict()");
  }
  return root;
}

void check_byte_order(const Zip& zip, const std::string& root, const std::string& subject) {
  const ZipEntry* entry = zip.find(root + "byteorder");
  if (entry == nullptr) return;  // older files are little-endian
  const std::vector<std::byte> data = zip.read(*entry);
  if (text_of(bytes_of(data)) != "little") {
    fail(ErrorCode::Unsupported, subject, "byte order ", in_quotes(text_of(bytes_of(data))), "; only little is read");
  }
}

// The value under a key of a dict, or null. Of a repeated key the last counts, as in Python.
const PickleValue* member(const Pickle& pickle, const PickleValue& dict, const std::string& key) {
  const PickleValue* found = nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = pickle[dict.items[i]];
    if (name.kind == Kind::Text && name.text == key) found = &pickle[dict.items[i + 1]];
  }
  return found;
}

const PickleValue& find_state_dict(const Pickle& pickle, const std::string& subject) {
  const PickleValue* dict = &pickle[pickle.root];
  if (dict->kind != Kind::Dict) {
    fail(ErrorCode::InvalidModel, subject, "holds a ", to_string(dict->kind),
         ", not a state dict; save model.state_dict()");
  }
  for (const char* key : {"state_dict", "model_state_dict", "model"}) {
    const PickleValue* inner = member(pickle, *dict, key);
    if (inner != nullptr && inner->kind == Kind::Dict) return *inner;
  }
  return *dict;
}

class Storages {
 public:
  Storages(const Zip& zip, std::string root, const std::string& subject)
      : zip_(zip), root_(std::move(root)), subject_(subject) {}

  Bytes get(const PickleValue& storage) {
    const auto known = loaded_.find(storage.text);
    const std::vector<std::byte>& data = known != loaded_.end() ? known->second : load(storage.text);
    const uint64_t count = static_cast<uint64_t>(storage.integer);
    if (count != data.size() / byte_size(storage.type) || data.size() % byte_size(storage.type) != 0) {
      fail(ErrorCode::InvalidModel, subject_, "storage ", in_quotes(storage.text), " has ", data.size(), " bytes, not ",
           count, " elements of ", to_string(storage.type));
    }
    return bytes_of(data);
  }

 private:
  const std::vector<std::byte>& load(const std::string& key) {
    const ZipEntry* entry = zip_.find(root_ + "data/" + key);
    if (entry == nullptr) fail(ErrorCode::InvalidModel, subject_, "storage ", in_quotes(key), " is not in the zip");
    return loaded_.emplace(key, zip_.read(*entry)).first->second;
  }
  const Zip& zip_;
  std::string root_;
  const std::string& subject_;
  std::map<std::string, std::vector<std::byte>> loaded_;
};

// The number of elements; throws unless every element lies within the storage and none is there twice.
uint64_t check_tensor(const PickleValue& tensor, uint64_t available, const std::string& subject,
                      const std::string& name) {
  uint64_t count = 1;                                     // elements
  uint64_t last = static_cast<uint64_t>(tensor.integer);  // index of the last element
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const uint64_t extent = static_cast<uint64_t>(tensor.shape[axis]);
    const uint64_t stride = static_cast<uint64_t>(tensor.strides[axis]);
    if (extent == 0) fail(ErrorCode::Unsupported, subject, "tensor ", in_quotes(name), " is empty");
    count = count > available / extent ? available + 1 : count * extent;
    if (extent == 1 || stride == 0 || last >= available) continue;
    last = extent - 1 > (available - last) / stride ? available : last + (extent - 1) * stride;
  }
  if (last >= available) {
    fail(ErrorCode::InvalidModel, subject, "tensor ", in_quotes(name), " of shape ", to_string(Shape(tensor.shape)),
         " reaches beyond its storage of ", available, " elements");
  }
  if (count > available) {
    fail(ErrorCode::Unsupported, subject, "tensor ", in_quotes(name),
         " is an expanded view; save it with .contiguous()");
  }
  return count;
}

}  // namespace

bool is_torch_zip(Bytes file) { return text_of(file).substr(0, 4) == "PK\x03\x04"; }

bool is_legacy_torch(Bytes file) {
  // Protocol 2, then the magic number 0x1950a86a20f9469cfc6c as a 10-byte integer.
  return text_of(file).substr(0, 14) ==
         std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
}

StateDict read_torch_zip(Bytes file, const std::string& subject) {
  if (is_legacy_torch(file)) {
    fail(ErrorCode::Unsupported, subject,
         "written in torch's old format, which is not read; load it in torch >= 1.6 and save the state dict again");
  }
  const Zip zip(file, subject);
  const std::string root = find_root(zip, subject);
  check_byte_order(zip, root, subject);
  const std::vector<std::byte> pickled = zip.read(*zip.find(root + "data.pkl"));
  const Pickle pickle = read_pickle(bytes_of(pickled), subject);
  const PickleValue& dict = find_state_dict(pickle, subject);

  Storages storages(zip, root, subject);
  StateDict out;
  uint64_t total = 0;  // bytes
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = pickle[dict.items[i]];
    const PickleValue& value = pickle[dict.items[i + 1]];
    if (key.kind != Kind::Text) fail(ErrorCode::InvalidModel, subject, "state dict with a key that is no text");
    if (value.kind != Kind::Tensor) {
      fail(ErrorCode::InvalidModel, subject, in_quotes(key.text), " is a ", to_string(value.kind),
           ", not a tensor: this is no state dict; save model.state_dict()");
    }
    const PickleValue& storage = pickle[value.items[0]];
    const Bytes data = storages.get(storage);
    const uint64_t count = check_tensor(value, static_cast<uint64_t>(storage.integer), subject, key.text);
    total += count * sizeof(float);
    if (total > kHarmlessSize && total / kLargestRatio > file.size()) {
      fail(ErrorCode::InvalidModel, subject, "size bomb: ", file.size(), " bytes claim to hold more than ", total);
    }
    out.add(key.text,
            convert_strided(data, storage.type, value.shape, static_cast<uint64_t>(value.integer), value.strides,
                            subject, key.text),
            subject);
  }
  if (out.entries().empty()) fail(ErrorCode::InvalidModel, subject, "the state dict is empty");
  out.strip("module.");
  return out;
}

}  // namespace gyrus
