#include "import/text_model_file.h"

#include <filesystem>
#include <optional>
#include <set>

#include "core/files.h"
#include "import/hugging_face.h"
#include "import/safetensors.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kRopeFactors = "rope_freqs.weight";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

Json read_json(const fs::path& folder, const char* name, bool needed) {
  const fs::path path = folder / name;
  if (!needed && !is_there(path)) return {};
  return parse_json(bytes_of(read_file(path.string())), path.string());
}

HuggingFaceFiles read_folder(const fs::path& folder) {
  HuggingFaceFiles files;
  files.subject = folder.string();
  files.config = read_json(folder, "config.json", true);
  files.tokenizer = read_json(folder, "tokenizer.json", true);
  files.tokenizer_config = read_json(folder, "tokenizer_config.json", false);
  files.generation = read_json(folder, "generation_config.json", false);
  const fs::path chat = folder / "chat_template.jinja";
  if (is_there(chat)) files.chat_template = std::string(text_of(bytes_of(read_file(chat.string()))));
  return files;
}

// The names of the files with weights: one, or those that an index lists. They lie in the folder itself.
std::set<std::string> weight_files(const fs::path& folder) {
  if (!is_there(folder / kIndex)) return {kWhole};
  const Json index = read_json(folder, kIndex, true);
  const JsonObject object(index, (folder / kIndex).string(), "");
  std::set<std::string> names;
  const JsonObject map = object.object("weight_map");
  for (const Json& name : map.json()) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text[0] == '.' || text.find('/') != std::string::npos || !is_good_name(text))
      fail(ErrorCode::InvalidModel, object.subject(), in_quotes(text), " is no name of a file in this folder");
    names.insert(text);
  }
  return names;
}

BlockType type_of(FileType type, const std::string& subject, const std::string& name) {
  if (type == FileType::F32) return BlockType::F32;
  if (type == FileType::F16) return BlockType::F16;
  if (type == FileType::BF16) return BlockType::BF16;
  fail(ErrorCode::Unsupported, subject, "tensor ", in_quotes(name), " has the type ", to_string(type),
       "; gyrus takes F32, F16 and BF16 for language models");
}

}  // namespace

TextModelFile::TextModelFile(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    open_folder(path);
    return;
  }
  files_.emplace_back(path);
  head_ = read_gguf(files_[0].bytes(), path);
  const auto [number, count] = gguf_part(head_);
  if (count > 1)
    fail(ErrorCode::Unsupported, path, "is part ", number + 1, " of ", count, "; merge the parts into one file first");
}

void TextModelFile::open_folder(const std::string& path) {
  const HuggingFaceFiles files = read_folder(path);
  Metadata metadata = hugging_face_shape(files, rope_factors_);
  metadata.merge(hugging_face_tokenizer(files));
  const fs::path named = fs::path(path).lexically_normal();
  metadata["general.name"] = (named.has_filename() ? named : named.parent_path()).filename().string();
  const bool tied = JsonObject(files.config, path, "config.json").boolean("tie_word_embeddings", false);
  std::vector<GgufTensor> tensors;
  const auto add = [&](const std::string& name, BlockType type, const Shape& shape, Bytes bytes) {
    if (!data_.emplace(name, bytes).second)
      fail(ErrorCode::InvalidModel, path, "has the tensor ", in_quotes(name), " twice");
    tensors.push_back({name, type, shape, 0, bytes.size()});
  };
  for (const std::string& file : weight_files(path)) {
    const std::string subject = (fs::path(path) / file).string();
    files_.emplace_back(subject);
    for (const SafetensorsView& tensor : view_safetensors(files_.back().bytes(), subject)) {
      const std::string name = hugging_face_tensor(tensor.name, subject);
      if (name.empty() || (tied && name == "output.weight")) continue;
      add(name, type_of(tensor.type, subject, tensor.name), tensor.shape, tensor.data);
    }
  }
  if (!rope_factors_.empty()) {
    add(kRopeFactors, BlockType::F32, {static_cast<int64_t>(rope_factors_.size())},
        std::as_bytes(std::span(rope_factors_)));
  }
  head_ = Gguf(path, std::move(metadata), std::move(tensors));
}

Bytes TextModelFile::bytes(const GgufTensor& tensor) const {
  if (const auto found = data_.find(tensor.name); found != data_.end()) return found->second;
  return files_[0].bytes().subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
}

bool is_text_model(const std::string& path) {
  if (fs::path(path).extension() == ".gguf") return true;
  return is_there(fs::path(path) / "config.json") && is_there(fs::path(path) / "tokenizer.json") &&
         (is_there(fs::path(path) / kWhole) || is_there(fs::path(path) / kIndex));
}

}  // namespace gyrus
