#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "import/bytes.h"

namespace gyrus {

struct NamedTensor {
  std::string name;
  std::shared_ptr<const Tensor> tensor;
};

// The tensors of a weight file, in the file's order, each name once. Floats of any width are f32, signed integers i32,
// unsigned ones u32, bytes and booleans u8.
class StateDict {
 public:
  // Throws InvalidModel("[subject] …") where the name is there already, empty or not printable.
  void add(const std::string& name, Tensor tensor, const std::string& subject);
  const NamedTensor* find(const std::string& name) const;  // null where there is none
  const std::vector<NamedTensor>& entries() const { return entries_; }
  // Takes `prefix` from every name, if every name has it.
  void strip(const std::string& prefix);

 private:
  std::vector<NamedTensor> entries_;
  std::map<std::string, size_t> by_name_;
};

// Throws InvalidModel naming the first tensor that holds a NaN or an infinity.
void check_finite(const StateDict& weights, const std::string& subject);

// The element types of weight files.
enum class FileType { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool };

size_t byte_size(FileType type);
const char* to_string(FileType type);
// The nearest float; infinity beyond the range, where a plain cast is undefined.
float to_float(double value);
// A tensor of `shape` from little-endian elements, which `data` holds exactly, in a dtype as StateDict states. Throws
// Unsupported where an integer does not fit.
Tensor convert(Bytes data, FileType type, Shape shape, const std::string& subject, const std::string& name);
// As above, but the elements lie at `offset` and `strides`, in elements, all of them within `data`.
Tensor convert_strided(Bytes data, FileType type, Shape shape, uint64_t offset, const std::vector<int64_t>& strides,
                       const std::string& subject, const std::string& name);

}  // namespace gyrus
