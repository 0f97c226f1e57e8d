#include "generator_service.h"

#include <filesystem>

#include "common.h"
#include "import/text_model_file.h"
#include "text/tokenizer.h"

namespace gyrus::cli {
namespace {

// The texts of the tokens that begin and end a text: templates write them.
std::pair<std::string, std::string> ends_of(const std::string& path) {
  const Tokenizer tokenizer{TextModelFile(path).head()};
  const auto text = [&](int32_t token) { return token < 0 ? std::string() : tokenizer.raw(token); };
  return {text(tokenizer.begin_token()), text(tokenizer.end_token())};
}

// Of a file without its suffix, of a folder as it is.
std::string name_of(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path named = fs::path(path).lexically_normal();
  if (!fs::is_directory(named)) return named.stem().string();
  return (named.has_filename() ? named : named.parent_path()).filename().string();
}

class GeneratorService : public TextService {
 public:
  GeneratorService(TextGenerator generator, const std::string& path)
      : generator_(std::move(generator)), name_(name_of(path)), ends_(ends_of(path)) {}

  std::string name() const override { return name_; }
  int64_t context() const override { return generator_.options().context; }
  std::string chat_template() const override { return generator_.chat_template(); }
  std::pair<std::string, std::string> begin_and_end() const override { return ends_; }
  std::vector<int32_t> tokenize(const std::string& text, bool special, bool begin) const override {
    return generator_.tokenize(text, special, begin);
  }
  std::string text_of(const std::vector<int32_t>& tokens) const override { return generator_.text_of(tokens); }

  CompletionEnd complete(const std::vector<int32_t>& prompt, const CompletionOptions& options,
                         const std::function<bool(const CompletionToken&)>& on_token) override {
    GenerateOptions generate;
    const int64_t room = context() - static_cast<int64_t>(prompt.size());
    generate.tokens = options.tokens > 0 ? std::min(options.tokens, room) : room;
    generate.shift = false;
    generate.sampling = {.temperature = options.temperature,
                         .top_k = options.top_k,
                         .top_p = options.top_p,
                         .min_p = options.min_p,
                         .repetition_penalty = options.repetition_penalty,
                         .seed = options.seed};
    generate.candidates = options.candidates;
    generate.cancel = &interrupted();
    bool stopped = false;
    generate.on_token = [&](const GeneratedToken& token) {
      CompletionToken out{token.token, token.text};
      for (const TokenScore& score : token.candidates) out.candidates.emplace_back(score.token, score.log_probability);
      stopped = !on_token(out);
      return !stopped;
    };
    const Generated made = generator_.generate(prompt, generate);
    const bool ended = stopped || made.finish != Finish::Length;
    return {ended, static_cast<int64_t>(made.tokens.size()), made.prompt_seconds, made.generate_seconds};
  }
  std::vector<float> embed(const std::vector<int32_t>& tokens) override { return generator_.embed(tokens); }

 private:
  TextGenerator generator_;
  std::string name_;
  std::pair<std::string, std::string> ends_;
};

}  // namespace

std::unique_ptr<TextService> make_service(TextGenerator generator, const std::string& path) {
  return std::make_unique<GeneratorService>(std::move(generator), path);
}

}  // namespace gyrus::cli
