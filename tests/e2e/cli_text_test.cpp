// Language models: gyrus tokenize, generate and plan.
#include "e2e/e2e_support.h"
#include "support/gguf_writer.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

class TextProgram : public Program {
 protected:
  // Byte pairs over a, b, c and spaces.
  std::string small_model() const {
    GgufWriter writer;
    writer.text("general.architecture", "gpt2")
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2");
    writer.texts("tokenizer.ggml.tokens", {"a", "b", "c", "\u0120", "ab", "\u0120a", "<|end|>", "\u010a"});
    writer.i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 3, 1});
    writer.texts("tokenizer.ggml.merges", {"a b", "\u0120 a"});
    const ByteVector bytes = writer.out();
    std::ofstream(in_folder("m.gguf"), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return "m.gguf";
  }

  // One line on standard error with this in it, and nothing on standard output.
  void refused(int status, const std::string& part, const std::vector<std::string>& arguments) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

TEST_F(TextProgram, TokenizesThereAndBack) {
  const std::string model = small_model();
  EXPECT_EQ(run_well({"tokenize", model, "abc a"}).out, "4 2 5\n");
  std::ofstream(in_folder("text")) << "abc a\n";
  EXPECT_EQ(run_well({"tokenize", model, "--file", "text"}).out, "4 2 5 7\n");
  EXPECT_EQ(run_well({"tokenize", model, "--decode", "4 2\n5,7"}).out, "abc a\n");
  EXPECT_EQ(run_well({"tokenize", model, "--special", "ab<|end|>"}).out, "4 6\n");
  EXPECT_EQ(run_well({"tokenize", model, ""}).out, "\n");
}

TEST_F(TextProgram, SaysWhatIsWrongInOneLine) {
  const std::string model = small_model();
  refused(2, "there is no token 99", {"tokenize", model, "--decode", "99"});
  refused(2, "no number of a token: 'x'", {"tokenize", model, "--decode", "1 x"});
  refused(3, "cannot be opened", {"tokenize", "absent.gguf", "a"});
  refused(4, "neither a token for the byte", {"tokenize", model, "z"});
  std::ofstream(in_folder("wrong.gguf")) << "GGUFx";
  refused(4, "truncated or corrupted", {"tokenize", "wrong.gguf", "a"});
}

TEST_F(TextProgram, GoesOnWithATextAndSaysWhatItTakes) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const std::filesystem::path folder = test_data() / "llm/stories260K";
  const std::string model = (folder / "stories260K-f32.gguf").string();
  std::ifstream file(folder / "expected.txt", std::ios::binary);
  const std::string story((std::istreambuf_iterator<char>(file)), {});
  const std::string begin = story.substr(0, story.find(' ', 20));
  const std::string made = run_well({"generate", model, begin, "--tokens", "30", "--context", "64"}).out;
  EXPECT_GT(made.size(), begin.size() + 30);
  EXPECT_EQ(made, story.substr(0, made.size()));
  const std::string plan = run_well({"plan", model, "--context", "64"}).out;
  for (const char* const part : {"llama, 260032 parameters", "1040128 bytes", "83972 bytes", "in all", "what to try"})
    EXPECT_NE(plan.find(part), std::string::npos) << plan;
  refused(2, "[top_p] is 0", {"generate", model, "Once", "--top-p", "0"});
  refused(2, "has 62 tokens, the context 32", {"generate", model, std::string(60, 'x'), "--context", "32"});
  refused(2, "a context of 1 tokens", {"generate", model, "Once", "--context", "1"});
  refused(4, "has no chat template", {"chat", model});
  refused(3, "config.json", {"generate", folder.string(), "Once"});
}

}  // namespace
}  // namespace gyrus::test
