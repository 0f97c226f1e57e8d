#include "import/gguf_file.h"

namespace gyrus {

GgufFile::GgufFile(const std::string& path) : file_(path), head_(read_gguf(file_.bytes(), path)) {
  const auto [number, count] = gguf_part(head_);
  if (count > 1) {
    fail(ErrorCode::Unsupported, path, "is part ", number + 1, " of ", count, "; merge the parts into one file first");
  }
}

Bytes GgufFile::bytes(const GgufTensor& tensor) const {
  return file_.bytes().subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
}

}  // namespace gyrus
