// Texts in the making without a device: the test says which tokens come.
#include "llm/writing.h"

#include <gtest/gtest.h>

namespace gyrus::test {
namespace {

// "a", "b" and "c" are 3, 4 and 5; 6 is the first byte of a character.
Tokenizer letters() {
  const std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "a", "b", "c", "<0xC3>"};
  const std::map<std::string, GgufValue> metadata = {
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens", tokens},
      {"tokenizer.ggml.scores", std::vector<double>(tokens.size())},
      {"tokenizer.ggml.token_type", std::vector<int64_t>{2, 3, 3, 1, 1, 1, 6}},
      {"tokenizer.ggml.bos_token_id", int64_t{1}},
      {"tokenizer.ggml.eos_token_id", int64_t{2}},
      {"tokenizer.ggml.unknown_token_id", int64_t{0}}};
  return Tokenizer(Gguf("m.gguf", metadata, {}));
}

struct Written {
  Generated result;
  std::string streamed;
};

Written write(std::vector<int32_t> coming, int64_t context, GenerateOptions options) {
  TextOptions text;
  text.context = context;
  llm::Writing writing(letters(), 7, text);
  Written out;
  options.on_token = [&](const GeneratedToken& token) {
    out.streamed += token.text;
    return true;
  };
  writing.begin({{1, 3}}, {options});
  size_t at = 0;
  while (writing.next()) writing.take({coming.at(at++)}, nullptr);
  out.result = writing.result(0);
  return out;
}

// What may still become a stop text, or a character, is part of the text where the context ends it.
TEST(Writing, WhatIsHeldBackComesWhereTheContextEnds) {
  GenerateOptions options;
  options.shift = false;
  options.tokens = 100;
  options.stop = {"bc"};
  for (const auto& [last, text] : {std::pair{4, "aab"}, std::pair{6, "aa\ufffd"}, std::pair{3, "aaa"}}) {
    const Written made = write({3, 3, last}, 5, options);
    EXPECT_EQ(made.result.finish, Finish::Length);
    EXPECT_EQ(made.result.tokens.size(), 3u);
    EXPECT_EQ(made.result.text, text);
    EXPECT_EQ(made.streamed, text);
  }
  options.tokens = 3;  // the same where the number of tokens ends it
  EXPECT_EQ(write({3, 3, 4}, 50, options).streamed, "aab");
  const Written stopped = write({3, 4, 5}, 50, options);
  EXPECT_EQ(stopped.streamed, "a");
  EXPECT_EQ(stopped.result.finish, Finish::Stop);
}

}  // namespace
}  // namespace gyrus::test
