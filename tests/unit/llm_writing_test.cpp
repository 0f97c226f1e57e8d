// Texts in the making, on a device that only keeps books: steps that are given to it before the tokens they stand on
// are known lead to the same texts.
#include <gtest/gtest.h>

#include <map>

#include "core/tensor.h"
#include "llm/write_ahead.h"
#include "support/gguf_writer.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

constexpr int32_t kVocabulary = 40, kByte = 6;  // the first byte of a character

Tokenizer letters() {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds = {2, 3, 3};
  for (int32_t i = 3; i < kVocabulary; ++i) {
    texts.push_back(i == kByte ? "<0xC3>" : std::string(1, static_cast<char>('A' + i)));
    kinds.push_back(i == kByte ? 6 : 1);
  }
  GgufWriter writer;
  writer.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama");
  writer.texts("tokenizer.ggml.tokens", texts).i32s("tokenizer.ggml.token_type", kinds);
  writer.f32s("tokenizer.ggml.scores", std::vector<float>(texts.size()));
  writer.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  const ByteVector file = writer.out();
  return Tokenizer(read_gguf(bytes_of(file), "m.gguf"));
}

struct Result {
  std::vector<int32_t> tokens;
  Tensor logits;
};

struct Pending {
  Result result;
  Result finish() { return result; }
};

// The token that it chooses is a hash of all that its cache holds up to the row, and of the number of the draw.
class Device {
 public:
  int64_t steps = 0;

  Pending start(const llm::WantedStep& step) {
    ++steps;
    std::vector<int32_t> made;
    for (size_t i = 0; i < step.rows.size(); ++i) {
      const llm::StepRow& row = step.rows[i];
      std::vector<int32_t>& cache = caches_[row.sequence];
      cache.resize(std::max(cache.size(), static_cast<size_t>(row.position) + 1), -1);
      cache[static_cast<size_t>(row.position)] =
          row.token < 0 ? chosen_.at(static_cast<size_t>(-1 - row.token)) : row.token;
      const bool last = i + 1 == step.rows.size();
      if (step.kind == llm::StepKind::Last && !last) continue;
      const llm::Choice& choice = step.choices.at(step.kind == llm::StepKind::Last ? 0 : i);
      uint64_t hash = choice.step * 977 + choice.sampling.seed;
      for (int64_t p = 0; p <= row.position; ++p)
        hash = (hash ^ static_cast<uint64_t>(cache[static_cast<size_t>(p)])) * 0x9e3779b97f4a7c15ull + 11;
      made.push_back(static_cast<int32_t>(2 + (hash >> 33) % (kVocabulary - 2)));
    }
    std::copy(made.begin(), made.end(), chosen_.begin());
    return {{made, {}}};
  }

 private:
  std::map<int64_t, std::vector<int32_t>> caches_;
  std::vector<int32_t> chosen_ = std::vector<int32_t>(8, -1);
};

struct Written {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::string> texts;
  std::vector<Finish> finishes;
  int64_t wanted = 0, foretold = 0, steps = 0;
};

struct Given {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<GenerateOptions> options;
};

Written run(const std::vector<Given>& calls, int64_t context, bool ahead) {
  TextOptions options;
  options.context = context;
  options.chunk = 4;
  options.sequences = 3;
  llm::Writing writing(letters(), kVocabulary, options);
  Device device;
  Written made;
  for (const Given& given : calls) {
    writing.begin(given.prompts, given.options);
    if (ahead) {
      write_ahead(
          writing, [&](const llm::WantedStep& step) { return device.start(step); },
          [&](const llm::WantedStep&, bool right) {
            ++made.wanted;
            made.foretold += right;
          });
    } else {
      while (const auto step = writing.next()) writing.take(device.start(*step).result.tokens, nullptr);
    }
    for (size_t i = 0; i < writing.texts(); ++i) {
      std::vector<int32_t>& tokens = made.tokens.emplace_back();
      for (const GeneratedToken& token : writing.result(i).tokens) tokens.push_back(token.token);
      made.texts.push_back(writing.result(i).text);
      made.finishes.push_back(writing.result(i).finish);
    }
  }
  made.steps = device.steps;
  return made;
}

// The same texts, and how often a step was known before.
Written expect_same(const std::vector<Given>& calls, int64_t context) {
  const Written plain = run(calls, context, false), ahead = run(calls, context, true);
  EXPECT_EQ(ahead.tokens, plain.tokens);
  EXPECT_EQ(ahead.texts, plain.texts);
  EXPECT_EQ(ahead.finishes, plain.finishes);
  EXPECT_EQ(ahead.wanted, plain.steps);
  return ahead;
}

GenerateOptions of(int64_t tokens, uint32_t seed, bool ignore_end = true) {
  GenerateOptions options;
  options.tokens = tokens;
  options.sampling.seed = seed;
  options.ignore_end = ignore_end;
  return options;
}

TEST(Writing, AllStepsButTheFirstAreForetold) {
  const Written one = expect_same({{{{1, 5, 6, 7, 8, 9, 10, 11, 12}}, {of(20, 3)}}}, 64);
  EXPECT_EQ(one.foretold, one.wanted - 1);  // the chunks of the prompt, too
  EXPECT_EQ(one.steps, one.wanted);         // none in vain: the length was known
}

TEST(Writing, TextsThatEndEarlyWasteAStepAtMost) {
  int64_t ends = 0, wasted = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Given given = {{{1, 9, 4}}, {of(30, seed, false)}};
    const Written one = expect_same({given, given}, 64);  // the second finds what the first left in the cache
    for (const Finish finish : one.finishes) ends += finish == Finish::End;
    wasted += one.steps - one.wanted;
  }
  EXPECT_GT(ends, 20);
  EXPECT_EQ(wasted, ends);
}

TEST(Writing, SequencesThatEndAtDifferentTimesAndFullContexts) {
  int64_t foretold = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Given batch = {{{1, 9}, {1, 8, 7, 6, 5, 4}, {1}}, {of(40, seed, false), of(9, seed + 1, false), of(40, seed + 2)}};
    for (size_t i = 0; i < 3; ++i) batch.options[i].sequence = static_cast<int64_t>(i);
    batch.options[1].stop = {"Z"};
    batch.options[2].keep = 2;
    batch.options[0].on_token = [count = 0](const GeneratedToken&) mutable { return ++count < 30; };
    Given again = batch;
    again.options[0].on_token = nullptr;
    again.options[0].shift = false;
    foretold += expect_same({batch, again}, 16).foretold;
  }
  EXPECT_GT(foretold, 40 * 40);
}

struct Streamed {
  Generated result;
  std::string streamed;
};

Streamed write(std::vector<int32_t> coming, int64_t context, GenerateOptions options) {
  TextOptions text;
  text.context = context;
  llm::Writing writing(letters(), kVocabulary, text);
  Streamed out;
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
  options.stop = {"EF"};
  for (const auto& [last, text] : {std::pair{4, "DDE"}, std::pair{6, "DD\ufffd"}, std::pair{3, "DDD"}}) {
    const Streamed made = write({3, 3, last}, 5, options);
    EXPECT_EQ(made.result.finish, Finish::Length);
    EXPECT_EQ(made.result.tokens.size(), 3u);
    EXPECT_EQ(made.result.text, text);
    EXPECT_EQ(made.streamed, text);
  }
  options.tokens = 3;  // the same where the number of tokens ends it
  EXPECT_EQ(write({3, 3, 4}, 50, options).streamed, "DDE");
  const Streamed stopped = write({3, 4, 5}, 50, options);
  EXPECT_EQ(stopped.streamed, "D");
  EXPECT_EQ(stopped.result.finish, Finish::Stop);
}

}  // namespace
}  // namespace gyrus::test
