#pragma once
#include <map>
#include <string>
#include <vector>

#include "import/gguf.h"
#include "import/json.h"

// Folders as transformers writes them: config.json, tokenizer.json, safetensors. What they say in the words of GGUF
// files, so that everything behind the importer knows one kind of model.

namespace gyrus {

// The JSON documents of a folder; null where there is no such file.
struct HuggingFaceFiles {
  std::string subject;    // of messages: the folder
  Json config;            // config.json
  Json tokenizer;         // tokenizer.json
  Json tokenizer_config;  // tokenizer_config.json
  Json generation;        // generation_config.json
  std::string chat_template{};
};

using Metadata = std::map<std::string, GgufValue>;

// Keys "general.…" and "llama.…" (or qwen2, qwen3, qwen3moe); throws Unsupported on other architectures and on settings
// that gyrus does not have. `factors`: of the frequencies of rotary embedding, where they are stretched one by one.
Metadata hugging_face_shape(const HuggingFaceFiles& files, std::vector<float>& factors);
// Keys "tokenizer.…".
Metadata hugging_face_tokenizer(const HuggingFaceFiles& files);
// The name of a tensor in GGUF files; empty for one that means nothing. Throws Unsupported where there is none.
std::string hugging_face_tensor(const std::string& name, const std::string& subject);

}  // namespace gyrus
