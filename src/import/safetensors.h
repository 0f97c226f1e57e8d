#pragma once
#include <map>
#include <string>
#include <vector>

#include "import/state_dict.h"

namespace gyrus {

// Whether the bytes look like safetensors: a header length and the opening brace of the header.
bool is_safetensors(Bytes file);

// A tensor where it lies in its file.
struct SafetensorsView {
  std::string name;
  FileType type = FileType::F32;
  Shape shape;
  Bytes data;
};

// The tensors of a safetensors file, which the views point into. As strict as read_safetensors.
std::vector<SafetensorsView> view_safetensors(Bytes file, const std::string& subject);

// The tensors of a safetensors file. Strict: the header is valid JSON, every tensor's bytes are what dtype and shape
// ask for, and together they fill the data without gap or overlap. Throws InvalidModel or Unsupported.
StateDict read_safetensors(Bytes file, const std::string& subject);

// The same with the types of the file, which are those of tensors; throws Unsupported on another.
std::map<std::string, Tensor> read_safetensors_exactly(Bytes file, const std::string& subject);

// The tensors as a safetensors file, in the order of names.
std::vector<std::byte> write_safetensors(const std::map<std::string, Tensor>& tensors,
                                         const std::map<std::string, std::string>& metadata = {});

}  // namespace gyrus
