#include "text/algorithm.h"

// The patterns of the models, as their own tokenizers define them.

namespace gyrus {
namespace {

#define GYRUS_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define GYRUS_SHORTENED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GYRUS_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GYRUS_LETTERS_TO(digits) \
  GYRUS_SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" GYRUS_SPACES
#define GYRUS_BIG "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define GYRUS_SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GYRUS_CASED(shortened, digits)                                                                                 \
  "[^\\r\\n\\p{L}\\p{N}]?" GYRUS_BIG "*" GYRUS_SMALL "+" shortened "|[^\\r\\n\\p{L}\\p{N}]?" GYRUS_BIG "+" GYRUS_SMALL \
  "*" shortened "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" GYRUS_SPACES

struct Row {
  const char* names;  // between spaces
  std::vector<const char*> patterns;
  bool whole_words, adds_begin;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {" gpt-2 phi-2 mpt olmo jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe "
       "granite-docling ",
       {GYRUS_WORDS},
       false,
       false},
      {" default ", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GYRUS_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
      {" llama-bpe llama3 llama-v3 falcon3 ", {GYRUS_LETTERS_TO("\\p{N}{1,3}")}, true, true},
      {" dbrx smaug-bpe glm4 chatglm-bpe ", {GYRUS_LETTERS_TO("\\p{N}{1,3}")}, false, false},
      {" qwen2 stablelm2 deepseek-r1-qwen megrez ", {GYRUS_LETTERS_TO("\\p{N}")}, false, false},
      {" smollm starcoder refact command-r codeshell exaone ", {"\\p{N}", GYRUS_WORDS}, false, false},
      {" falcon ", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GYRUS_WORDS, "[0-9][0-9][0-9]"}, false, false},
      {" deepseek-coder ",
       {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}"},
       false,
       false},
      {" deepseek-v3 ",
       {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]\\^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\\r\\n]*" GYRUS_SPACES},
       false,
       false},
      {" tekken ", {GYRUS_CASED("", "\\p{N}")}, true, false},
      {" gpt-4o llama4 ", {GYRUS_CASED(GYRUS_SHORTENED "?", "\\p{N}{1,3}")}, false, false},
  };
  return table;
}

}  // namespace

PreTokenizer pre_tokenizer(const std::string& name, const std::string& subject) {
  for (const Row& row : rows()) {
    if (std::string_view(row.names).find(" " + name + " ") != std::string_view::npos)
      return {row.patterns, row.whole_words, row.adds_begin};
  }
  fail(ErrorCode::Unsupported, subject, "has the pre-tokenizer ", in_quotes(name),
       ", which gyrus does not know; docs/text.md lists those that it knows");
}

std::vector<std::string> pre_tokenizer_names() {
  std::vector<std::string> out;
  for (const Row& row : rows()) {
    std::string_view names(row.names);
    while (names.size() > 1) {
      const size_t end = names.find(' ', 1);
      out.emplace_back(names.substr(1, end - 1));
      names.remove_prefix(end);
    }
  }
  return out;
}

}  // namespace gyrus
