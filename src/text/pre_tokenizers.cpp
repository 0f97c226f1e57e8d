#include "text/algorithm.h"

// The patterns of the models, as their own tokenizers define them.

namespace gyrus {
namespace {

#define GYRUS_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define GYRUS_SHORTENED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GYRUS_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GYRUS_LETTERS_TO(digits) \
  GYRUS_SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" GYRUS_SPACES
#define GYRUS_SENTENCES " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
// Letters that have a small and a large form.
#define GYRUS_CASED_LETTERS                                                                                       \
  "[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"      \
  "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"  \
  "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"      \
  "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d" \
  "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-"      \
  "\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134"   \
  "\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-"  \
  "\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"      \
  "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"       \
  "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]"
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
       "granite-docling gigachat jais trillion exaone4 a.x-4.0 mellum ",
       {GYRUS_WORDS},
       false,
       false},
      {" default ", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GYRUS_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
      {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ",
       {GYRUS_LETTERS_TO("\\p{N}{1,3}")},
       true,
       true},
      {" dbrx smaug-bpe glm4 chatglm-bpe ", {GYRUS_LETTERS_TO("\\p{N}{1,3}")}, false, false},
      {" qwen2 stablelm2 deepseek-r1-qwen megrez kormo hunyuan grok-2 ", {GYRUS_LETTERS_TO("\\p{N}")}, false, false},
      {" smollm starcoder refact command-r codeshell exaone minerva-7b ", {"\\p{N}", GYRUS_WORDS}, false, false},
      {" falcon ", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GYRUS_WORDS, "[0-9][0-9][0-9]"}, false, false},
      {" deepseek-coder ",
       {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}"},
       false,
       false},
      {" deepseek-v3 hunyuan-dense ",
       {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]\\^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\\r\\n]*" GYRUS_SPACES},
       false,
       false},
      {" deepseek-llm ",
       {"[\\r\\n]", "\\s?" GYRUS_CASED_LETTERS "+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        "\\s+$", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}+"},
       false,
       false},
      {" poro-chat bloom gpt3-finnish ", {GYRUS_SENTENCES}, false, false},
      {" viking ", {GYRUS_SENTENCES, "\\p{N}"}, false, false},
      {" chameleon ",
       {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GYRUS_WORDS},
       false,
       true},
      {" bailingmoe bailingmoe2 llada-moe ",
       {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|"
        "\\s+(?!\\S)|\\s+"},
       false,
       false},
      {" seed-coder ",
       {GYRUS_SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" GYRUS_SPACES},
       false,
       false},
      {" qwen35 ",
       {GYRUS_SHORTENED
        "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" GYRUS_SPACES},
       false,
       false},
      {" tekken ", {GYRUS_CASED("", "\\p{N}")}, true, false},
      {" gpt-4o llama4 minimax-m2 ", {GYRUS_CASED(GYRUS_SHORTENED "?", "\\p{N}{1,3}")}, false, false},
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
