// Language models: gyrus tokenize.
#include "e2e/e2e_support.h"
#include "support/gguf_writer.h"

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
  const auto refused = [&](int status, const std::string& part, const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  };
  refused(2, "there is no token 99", {"tokenize", model, "--decode", "99"});
  refused(2, "no number of a token: 'x'", {"tokenize", model, "--decode", "1 x"});
  refused(3, "cannot be opened", {"tokenize", "absent.gguf", "a"});
  refused(4, "neither a token for the byte", {"tokenize", model, "z"});
  std::ofstream(in_folder("wrong.gguf")) << "GGUFx";
  refused(4, "truncated or corrupted", {"tokenize", "wrong.gguf", "a"});
}

}  // namespace
}  // namespace gyrus::test
