#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "import/bytes.h"
#include "import/state_dict.h"

// A reader for the pickles that torch.save writes (protocols 2 to 5). A pickle is a program; this one runs only the
// part of the language that builds numbers, strings, tuples, lists, dicts and descriptions of tensors, and calls
// nothing.

namespace gyrus {

// Index of a value in Pickle::values.
using PickleRef = uint32_t;

struct PickleValue {
  enum class Kind : uint8_t { None, Bool, Int, Float, Text, Tuple, List, Dict, Global, Storage, Tensor };
  Kind kind = Kind::None;
  FileType type = FileType::F32;  // Storage: of its elements
  bool broken_int = false;        // Int: more than 64 bits, value unknown
  int64_t integer = 0;            // Bool, Int; Storage: number of elements; Tensor: offset in elements
  double number = 0;              // Float
  std::string text;               // Text; Global: "module.name"; Storage: key
  // Tuple, List: the items. Dict: key, value, key, value … in the order of insertion. Tensor: its storage.
  std::vector<PickleRef> items;
  std::vector<int64_t> shape, strides;  // Tensor; strides in elements
};

const char* to_string(PickleValue::Kind kind);

// The values that a pickle makes. They refer to each other by index, perhaps in circles.
struct Pickle {
  std::vector<PickleValue> values;
  PickleRef root = 0;
  const PickleValue& operator[](PickleRef ref) const { return values[ref]; }
};

// Reads a pickle. Throws InvalidModel where it is broken, over limits (16 MiB, 2^20 values, 2^12 open marks) or asks
// for any global that is not needed to describe tensors; Unsupported where it holds a whole pickled module.
Pickle read_pickle(Bytes data, const std::string& subject);

}  // namespace gyrus
