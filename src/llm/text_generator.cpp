#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>

#include "core/error.h"
#include "gyrus/text.h"
#include "import/gguf_file.h"
#include "llm/runner.h"
#include "text/tokenizer.h"

namespace gyrus {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

llm::Sources sources_of(std::shared_ptr<const GgufFile> file) {
  return [file = std::move(file)](const std::string& name) -> std::optional<llm::Source> {
    const GgufTensor* tensor = file->head().find(name);
    if (!tensor) return std::nullopt;
    return llm::Source{tensor->type, tensor->shape, file->bytes(*tensor)};
  };
}

std::shared_ptr<const llm::Model> model_of(const std::shared_ptr<const GgufFile>& file, const TextOptions& options) {
  const llm::Config config = llm::read_config(file->head());
  const std::string& subject = file->head().subject();
  return std::make_shared<llm::Model>(config, sources_of(file), llm::with_context(options, config, subject), subject);
}

TextModelInfo info_of(const llm::Model& model) {
  const llm::Config& c = model.config();
  TextModelInfo info;
  info.architecture = c.architecture;
  info.name = c.name;
  info.layers = c.layers;
  info.width = c.width;
  info.heads = c.heads;
  info.kv_heads = c.kv_heads;
  info.head_width = c.depth;
  info.vocabulary = c.vocabulary;
  info.context = c.context;
  info.parameters = model.parameters();
  info.formats = model.formats();
  return info;
}

// The chosen token and the best ones with the logarithms of their probabilities.
std::vector<TokenScore> scores_of(const float* logits, int64_t width, int32_t token, int64_t count) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < width; ++i) most = std::max(most, static_cast<double>(logits[i]));
  for (int64_t i = 0; i < width; ++i) sum += std::exp(logits[i] - most);
  const double all = most + std::log(sum);
  std::vector<int32_t> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  const auto best = order.begin() + std::min(count, width);
  std::partial_sort(order.begin(), best, order.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  std::vector<TokenScore> scores = {{token, static_cast<float>(logits[token] - all)}};
  for (auto it = order.begin(); it != best; ++it) scores.push_back({*it, static_cast<float>(logits[*it] - all)});
  return scores;
}

// The longest end of the text that may be the beginning of one of the stops.
size_t begun_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops)
    for (size_t n = std::min(stop.size(), text.size()); n > longest; --n)
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) longest = n;
  return longest;
}

void check_sampling(const Sampling& s) {
  const auto require = [](bool good, const char* name, double value, const char* expected) {
    if (!good) fail(ErrorCode::InvalidInput, name, "is ", value, ", expected ", expected);
  };
  require(s.temperature >= 0 && s.temperature <= 1000, "temperature", s.temperature, "0 to 1000");
  require(s.top_k >= 0, "top_k", static_cast<double>(s.top_k), "0 or more");
  require(s.top_p > 0 && s.top_p <= 1, "top_p", s.top_p, "more than 0, at most 1");
  require(s.min_p >= 0 && s.min_p <= 1, "min_p", s.min_p, "0 to 1");
  require(s.repetition_penalty > 0 && s.repetition_penalty <= 1000, "repetition_penalty", s.repetition_penalty,
          "more than 0, at most 1000");
}

// One text in the making.
struct Writing {
  const GenerateOptions* options = nullptr;
  int64_t sequence = 0;
  std::vector<int32_t> tokens;  // of the sequence so far, the prompt included
  std::optional<TextDecoder> decoder;
  std::string held;  // text that may be the beginning of a stop
  Generated result;
  bool done = false;
};

}  // namespace

struct TextGeneratorImpl {
  std::shared_ptr<const GgufFile> file;
  std::shared_ptr<const llm::Model> model;
  Tokenizer tokenizer;
  llm::Runner runner;
  TextModelInfo info;
  std::string chat_template;
  std::vector<std::vector<int32_t>> cached;  // tokens that each sequence holds
  std::mutex mutex{};

  TextGeneratorImpl(const Device& device, const std::string& path, const TextOptions& options)
      : file(std::make_shared<GgufFile>(path)),
        model(model_of(file, options)),
        tokenizer(file->head()),
        runner(device, model),
        info(info_of(*model)),
        chat_template(file->head().text("tokenizer.chat_template", "")),
        cached(static_cast<size_t>(model->options().sequences)) {}

  int64_t context() const { return model->options().context; }

  std::vector<int32_t>& held(int64_t sequence) {
    if (sequence < 0 || sequence >= model->options().sequences)
      fail(ErrorCode::InvalidInput, "sequence", "is ", sequence, ", expected 0 to ", model->options().sequences - 1);
    return cached[static_cast<size_t>(sequence)];
  }

  void check_tokens(const std::vector<int32_t>& tokens) const {
    if (tokens.empty()) fail(ErrorCode::InvalidInput, "prompt", "has no token");
    for (const int32_t token : tokens)
      if (token < 0 || token >= info.vocabulary)
        fail(ErrorCode::InvalidInput, "prompt", "token ", token, " is none of the ", info.vocabulary, " of the model");
  }

  // Brings the tokens of a text into the cache and chooses the next one.
  llm::StepResult read(Writing& w, bool logits) {
    std::vector<int32_t>& have = held(w.sequence);
    size_t same = 0;
    while (same < have.size() && same + 1 < w.tokens.size() && have[same] == w.tokens[same]) ++same;
    have.resize(same);
    if (w.options->sampling.repetition_penalty != 1) runner.set_seen(w.sequence, w.tokens);
    w.result.reused_tokens = static_cast<int64_t>(same);
    llm::StepResult step;
    const auto chunk = static_cast<size_t>(model->options().chunk);
    while (have.size() < w.tokens.size()) {
      if (w.options->cancel && w.options->cancel->load())
        fail(ErrorCode::Cancelled, "generate", "cancelled in the prompt");
      const size_t begin = have.size(), end = std::min(w.tokens.size(), begin + chunk);
      std::vector<llm::StepRow> rows;
      for (size_t i = begin; i < end; ++i) rows.push_back({w.tokens[i], w.sequence, static_cast<int64_t>(i)});
      step = runner.prefill(rows, choice(w), logits && end == w.tokens.size());
      have.insert(have.end(), w.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                  w.tokens.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return step;
  }

  static llm::Choice choice(const Writing& w) {
    return {w.options->sampling, static_cast<uint32_t>(w.tokens.size()), w.sequence};
  }

  void start(Writing& w, const std::vector<int32_t>& prompt, const GenerateOptions& options, int64_t sequence) {
    check_tokens(prompt);
    check_sampling(options.sampling);
    if (static_cast<int64_t>(prompt.size()) >= context())
      fail(ErrorCode::InvalidInput, "prompt", "has ", prompt.size(), " tokens, the context ", context(),
           ": take a longer context or a shorter prompt");
    w.options = &options;
    w.sequence = sequence;
    w.tokens = prompt;
    const bool starts =
        std::all_of(prompt.begin(), prompt.end(), [&](int32_t token) { return tokenizer.is_control(token); });
    w.decoder.emplace(tokenizer, starts);
    w.result.prompt_tokens = static_cast<int64_t>(prompt.size());
    w.done = options.tokens <= 0;
  }

  // Takes the next token of a text; what became certain is given to the caller.
  void take(Writing& w, int32_t token, const float* logits) {
    if (!w.options->ignore_end && tokenizer.ends_text(token)) return end(w, Finish::End);
    GeneratedToken made{token, {}, {}};
    if (logits) made.candidates = scores_of(logits, info.vocabulary, token, w.options->candidates);
    w.tokens.push_back(token);
    w.held += w.decoder->push(token);
    size_t at = std::string::npos;
    for (const std::string& stop : w.options->stop)
      if (!stop.empty()) at = std::min(at, w.held.find(stop));
    const bool stopped = at != std::string::npos;
    const bool last = static_cast<int64_t>(w.result.tokens.size()) + 1 >= w.options->tokens;
    if (last && !stopped) w.held += w.decoder->finish();
    const size_t whole = stopped ? at : last ? w.held.size() : w.held.size() - begun_stop(w.held, w.options->stop);
    made.text = w.held.substr(0, whole);
    w.held.erase(0, whole);
    w.result.text += made.text;
    w.result.tokens.push_back(made);
    const bool goes_on = !w.options->on_token || w.options->on_token(made);
    if (stopped) return end(w, Finish::Stop);
    if (!goes_on || (w.options->cancel && w.options->cancel->load())) return end(w, Finish::Cancelled);
    if (last) end(w, Finish::Length);
  }

  void end(Writing& w, Finish finish) {
    w.done = true;
    w.result.finish = finish;
    if (finish == Finish::End) {
      const std::string rest = w.held + w.decoder->finish();
      w.result.text += rest;
      if (!w.result.tokens.empty()) w.result.tokens.back().text += rest;
      if (!rest.empty() && w.options->on_token) w.options->on_token({-1, rest, {}});
      w.held.clear();
    }
  }

  // Where the context is full, the older half of what is not to be kept goes.
  void make_room(Writing& w) {
    if (static_cast<int64_t>(w.tokens.size()) < context() || w.done) return;
    if (!w.options->shift) return end(w, Finish::Length);
    const int64_t keep = std::clamp<int64_t>(w.options->keep, 0, context() - 2);
    const int64_t drop = std::max<int64_t>(1, (static_cast<int64_t>(w.tokens.size()) - keep) / 2);
    w.tokens.erase(w.tokens.begin() + keep, w.tokens.begin() + keep + drop);
  }

  // A token for each text that is not done. Those whose cache does not hold all but the last token are read again.
  void step(std::vector<Writing*> texts) {
    std::vector<Writing*> together;
    for (Writing* w : texts) {
      make_room(*w);
      if (w->done) continue;
      const std::vector<int32_t>& have = held(w->sequence);
      const bool one_more =
          have.size() + 1 == w->tokens.size() && std::equal(have.begin(), have.end(), w->tokens.begin());
      if (one_more) {
        together.push_back(w);
        continue;
      }
      const llm::StepResult made = read(*w, w->options->candidates >= 0);
      take(*w, made.tokens.at(0), w->options->candidates >= 0 ? made.logits.as<float>() : nullptr);
    }
    if (together.empty()) return;
    std::vector<llm::StepRow> rows;
    std::vector<llm::Choice> choices;
    bool logits = false;
    for (const Writing* w : together) {
      rows.push_back({w->tokens.back(), w->sequence, static_cast<int64_t>(w->tokens.size()) - 1});
      choices.push_back(choice(*w));
      logits = logits || w->options->candidates >= 0;
    }
    const llm::StepResult made = runner.decode(rows, choices, logits);
    for (size_t i = 0; i < together.size(); ++i) {
      Writing& w = *together[i];
      held(w.sequence).push_back(w.tokens.back());
      take(w, made.tokens.at(i),
           w.options->candidates >= 0 ? made.logits.as<float>() + static_cast<int64_t>(i) * info.vocabulary : nullptr);
    }
  }

  std::vector<Generated> write(std::vector<Writing>& texts) {
    const auto start = Clock::now();
    std::vector<Writing*> all;
    for (Writing& w : texts) {
      if (!w.done) {
        // A first token always comes from the prompt, also where the cache holds it whole.
        const llm::StepResult made = read(w, w.options->candidates >= 0);
        take(w, made.tokens.at(0), w.options->candidates >= 0 ? made.logits.as<float>() : nullptr);
      }
      all.push_back(&w);
    }
    const double prompt_seconds = seconds_since(start);
    const auto begun = Clock::now();
    while (std::any_of(all.begin(), all.end(), [](const Writing* w) { return !w->done; })) {
      std::vector<Writing*> going;
      for (Writing* w : all)
        if (!w->done) going.push_back(w);
      step(going);
    }
    std::vector<Generated> results;
    for (Writing& w : texts) {
      w.result.prompt_seconds = prompt_seconds;
      w.result.generate_seconds = seconds_since(begun);
      results.push_back(std::move(w.result));
    }
    return results;
  }

  // Calls visit(rows) for stretches of tokens, all of which the sequence then holds.
  template <class Visit>
  void visit_rows(const std::vector<int32_t>& tokens, int64_t sequence, const Visit& visit) {
    check_tokens(tokens);
    if (static_cast<int64_t>(tokens.size()) > context())
      fail(ErrorCode::InvalidInput, "text", "has ", tokens.size(), " tokens, the context ", context());
    held(sequence).clear();
    const auto most = static_cast<size_t>(runner.rows_of_values());
    for (size_t begin = 0; begin < tokens.size(); begin += most) {
      std::vector<llm::StepRow> rows;
      for (size_t i = begin; i < std::min(tokens.size(), begin + most); ++i)
        rows.push_back({tokens[i], sequence, static_cast<int64_t>(i)});
      visit(rows);
    }
    held(sequence) = tokens;
  }
};

const char* to_string(CacheFormat format) {
  return format == CacheFormat::F32 ? "f32" : format == CacheFormat::F16 ? "f16" : "q8";
}

const char* to_string(Finish finish) {
  switch (finish) {
    case Finish::Length: return "length";
    case Finish::Stop: return "stop";
    case Finish::End: return "end";
    case Finish::Cancelled: return "cancelled";
  }
  return "";
}

TextModelInfo describe_text_model(const std::string& path) {
  return info_of(*model_of(std::make_shared<GgufFile>(path), {}));
}

TextMemory plan_text_model(const std::string& path, const Target& target, const TextOptions& options) {
  return llm::planned_memory(*model_of(std::make_shared<GgufFile>(path), options), target);
}

TextGenerator::TextGenerator(const Device& device, const std::string& path, const TextOptions& options)
    : impl_(std::make_shared<TextGeneratorImpl>(device, path, options)) {}

const TextModelInfo& TextGenerator::info() const { return impl_->info; }
const TextOptions& TextGenerator::options() const { return impl_->model->options(); }
const std::string& TextGenerator::chat_template() const { return impl_->chat_template; }
TextMemory TextGenerator::memory() const { return impl_->runner.allocated(); }

std::vector<int32_t> TextGenerator::tokenize(const std::string& text, bool special, bool begin) const {
  return impl_->tokenizer.encode(text, special, begin);
}
std::string TextGenerator::text_of(const std::vector<int32_t>& tokens, bool special) const {
  return impl_->tokenizer.decode(tokens, special);
}
bool TextGenerator::ends_text(int32_t token) const { return impl_->tokenizer.ends_text(token); }

Generated TextGenerator::generate(const std::string& prompt, const GenerateOptions& options) {
  return generate(tokenize(prompt), options);
}

Generated TextGenerator::generate(const std::vector<int32_t>& prompt, const GenerateOptions& options) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Writing> texts(1);
  impl_->start(texts[0], prompt, options, options.sequence);
  return impl_->write(texts)[0];
}

std::vector<Generated> TextGenerator::generate_batch(const std::vector<std::vector<int32_t>>& prompts,
                                                     const std::vector<GenerateOptions>& options) {
  const std::lock_guard lock(impl_->mutex);
  if (prompts.size() != options.size() || static_cast<int64_t>(prompts.size()) > impl_->model->options().sequences)
    fail(ErrorCode::InvalidInput, "generate", prompts.size(), " prompts and ", options.size(),
         " sets of options for a cache of ", impl_->model->options().sequences, " sequences");
  std::vector<Writing> texts(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) impl_->start(texts[i], prompts[i], options[i], static_cast<int64_t>(i));
  return impl_->write(texts);
}

Tensor TextGenerator::logits(const std::vector<int32_t>& tokens, int64_t sequence) {
  const std::lock_guard lock(impl_->mutex);
  Tensor all(DType::F32, {static_cast<int64_t>(tokens.size()), impl_->info.vocabulary});
  size_t at = 0;
  impl_->visit_rows(tokens, sequence, [&](const std::vector<llm::StepRow>& rows) {
    const Tensor some = impl_->runner.logits(rows);
    std::copy(some.data.begin(), some.data.end(), all.data.begin() + static_cast<std::ptrdiff_t>(at));
    at += some.data.size();
  });
  return all;
}

std::vector<float> TextGenerator::embed(const std::vector<int32_t>& tokens, int64_t sequence) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<double> sums(static_cast<size_t>(impl_->info.width));
  impl_->visit_rows(tokens, sequence, [&](const std::vector<llm::StepRow>& rows) {
    const Tensor some = impl_->runner.normed(rows);
    for (int64_t i = 0; i < some.size(); ++i) sums[static_cast<size_t>(i) % sums.size()] += some.as<float>()[i];
  });
  double length = 0;
  for (const double x : sums) length += x * x;
  std::vector<float> result;
  for (const double x : sums) result.push_back(static_cast<float>(length > 0 ? x / std::sqrt(length) : 0));
  return result;
}

void TextGenerator::forget(int64_t sequence) {
  const std::lock_guard lock(impl_->mutex);
  impl_->held(sequence).clear();
}

}  // namespace gyrus
