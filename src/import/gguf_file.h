#pragma once
#include <string>

#include "core/mapped_file.h"
#include "import/gguf.h"

namespace gyrus {

// A GGUF file on disk, mapped into memory: tensors are views of the mapping. Not part of the WASM build.
class GgufFile {
 public:
  // Throws Io, InvalidModel or Unsupported; a file that is one part of several is refused.
  explicit GgufFile(const std::string& path);

  const Gguf& head() const { return head_; }
  Bytes bytes(const GgufTensor& tensor) const;
  Tensor dequantized(const GgufTensor& tensor) const { return gyrus::dequantized(tensor, bytes(tensor)); }

 private:
  MappedFile file_;
  Gguf head_;
};

}  // namespace gyrus
