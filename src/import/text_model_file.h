#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "import/gguf.h"

namespace gyrus {

// A language model on disk, mapped into memory: a GGUF file, or a folder as transformers writes it (config.json,
// tokenizer.json, safetensors), which then says the same in the words of GGUF. Not part of the WASM build.
class TextModelFile {
 public:
  // Throws Io, InvalidModel or Unsupported; a GGUF file that is one part of several is refused.
  explicit TextModelFile(const std::string& path);

  const Gguf& head() const { return head_; }
  Bytes bytes(const GgufTensor& tensor) const;
  Tensor dequantized(const GgufTensor& tensor) const { return gyrus::dequantized(tensor, bytes(tensor)); }

 private:
  void open_folder(const std::string& path);

  std::vector<MappedFile> files_;
  Gguf head_;
  std::map<std::string, Bytes> data_;  // of a folder: of each tensor
  std::vector<float> rope_factors_;    // a tensor that no file holds
};

// Whether the path is a GGUF file by its name, or a folder with config.json, tokenizer.json and safetensors.
bool is_text_model(const std::string& path);

}  // namespace gyrus
