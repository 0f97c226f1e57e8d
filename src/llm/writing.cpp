#include "llm/writing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace gyrus::llm {
namespace {

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

}  // namespace

Writing::Writing(Tokenizer tokenizer, int64_t vocabulary, const TextOptions& options)
    : tokenizer_(std::move(tokenizer)),
      vocabulary_(vocabulary),
      context_(options.context),
      chunk_(options.chunk),
      cached_(static_cast<size_t>(options.sequences)) {}

std::vector<int32_t>& Writing::held(int64_t sequence) {
  if (sequence < 0 || sequence >= static_cast<int64_t>(cached_.size()))
    fail(ErrorCode::InvalidInput, "sequence", "is ", sequence, ", expected 0 to ", cached_.size() - 1);
  return cached_[static_cast<size_t>(sequence)];
}

void Writing::check_tokens(const std::vector<int32_t>& tokens) const {
  if (tokens.empty()) fail(ErrorCode::InvalidInput, "prompt", "has no token");
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      fail(ErrorCode::InvalidInput, "prompt", "token ", token, " is none of the ", vocabulary_, " of the model");
}

void Writing::begin(std::vector<std::vector<int32_t>> prompts, std::vector<GenerateOptions> options) {
  texts_.clear();
  asked_.clear();
  rows_.clear();
  reading_.reset();
  seen_.reset();
  if (prompts.size() != options.size() || prompts.size() > cached_.size())
    fail(ErrorCode::InvalidInput, "generate", prompts.size(), " prompts and ", options.size(),
         " sets of options for a cache of ", cached_.size(), " sequences");
  for (size_t i = 0; i < prompts.size(); ++i) add(std::move(prompts[i]), options[i]);
}

void Writing::add(std::vector<int32_t> prompt, const GenerateOptions& options) {
  check_tokens(prompt);
  check_sampling(options.sampling);
  held(options.sequence);
  if (static_cast<int64_t>(prompt.size()) >= context_)
    fail(ErrorCode::InvalidInput, "prompt", "has ", prompt.size(), " tokens, the context ", context_,
         ": take a longer context or a shorter prompt");
  Text& text = texts_.emplace_back();
  text.options = options;
  text.sequence = options.sequence;
  text.tokens = std::move(prompt);
  const bool starts =
      std::all_of(text.tokens.begin(), text.tokens.end(), [&](int32_t token) { return tokenizer_.is_control(token); });
  text.decoder.emplace(tokenizer_, starts);
  text.stops.emplace(options.stop);
  text.result.prompt_tokens = static_cast<int64_t>(text.tokens.size());
  text.done = options.tokens <= 0;
}

bool Writing::started() const {
  return std::all_of(texts_.begin(), texts_.end(), [](const Text& text) { return text.started || text.done; });
}

bool Writing::has_all_but_one(const Text& text) const {
  const std::vector<int32_t>& have = cached_[static_cast<size_t>(text.sequence)];
  return have.size() + 1 == text.tokens.size() && std::equal(have.begin(), have.end(), text.tokens.begin());
}

std::optional<WantedStep> Writing::next() {
  if (reading_) return chunk();
  // A first token always comes from the prompt, also where the cache holds all but the last of its tokens; texts whose
  // context was full are read again, too.
  for (size_t i = 0; i < texts_.size(); ++i) {
    Text& text = texts_[i];
    if (text.started && !text.done) make_room(text);
    if (text.done || (text.started && has_all_but_one(text))) continue;
    if (!text.started || started()) {
      read(i);
      return chunk();
    }
  }
  WantedStep step;
  step.kind = StepKind::Each;
  asked_.clear();
  for (size_t i = 0; i < texts_.size(); ++i) {
    const Text& text = texts_[i];
    if (text.done) continue;
    asked_.push_back(i);
    step.rows.push_back({text.tokens.back(), text.sequence, static_cast<int64_t>(text.tokens.size()) - 1});
    step.choices.push_back(choice(text));
    step.logits = step.logits || text.options.candidates >= 0;
  }
  if (asked_.empty()) return std::nullopt;
  rows_ = step.rows;
  return step;
}

// Begins to bring the tokens of a text into the cache.
void Writing::read(size_t index) {
  Text& text = texts_[index];
  std::vector<int32_t>& have = held(text.sequence);
  size_t same = 0;
  while (same < have.size() && same + 1 < text.tokens.size() && have[same] == text.tokens[same]) ++same;
  have.resize(same);
  if (text.options.sampling.repetition_penalty != 1) seen_.emplace(text.sequence, text.tokens);
  if (!text.started) text.result.reused_tokens = static_cast<int64_t>(same);
  reading_ = index;
}

WantedStep Writing::chunk_from(size_t begin) const {
  const Text& text = texts_[*reading_];
  const size_t end = std::min(text.tokens.size(), begin + static_cast<size_t>(chunk_));
  WantedStep step;
  for (size_t i = begin; i < end; ++i) step.rows.push_back({text.tokens[i], text.sequence, static_cast<int64_t>(i)});
  step.choices = {choice(text)};
  step.logits = end == text.tokens.size() && text.options.candidates >= 0;
  return step;
}

WantedStep Writing::chunk() {
  const Text& text = texts_[*reading_];
  if (text.options.cancel && text.options.cancel->load())
    fail(ErrorCode::Cancelled, "generate", "cancelled in the prompt");
  WantedStep step = chunk_from(held(text.sequence).size());
  step.seen = std::exchange(seen_, std::nullopt);
  asked_.clear();
  if (held(text.sequence).size() + step.rows.size() == text.tokens.size()) asked_ = {*reading_};
  rows_ = step.rows;
  return step;
}

std::optional<WantedStep> Writing::ahead() const {
  if (rows_.empty()) return std::nullopt;
  if (reading_ && asked_.empty())
    return chunk_from(cached_[static_cast<size_t>(texts_[*reading_].sequence)].size() + rows_.size());
  WantedStep step;
  step.kind = StepKind::Each;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const Text& text = texts_[i];
    if (text.done) continue;
    const auto asked = std::find(asked_.begin(), asked_.end(), i);
    const bool gets = asked != asked_.end();
    const auto size = static_cast<int64_t>(text.tokens.size()) + (gets ? 1 : 0);
    if (gets && static_cast<int64_t>(text.result.tokens.size()) + 1 >= text.options.tokens) continue;  // its last one
    // What is read anew, or for the first time, comes in chunks.
    if (size >= context_ || (!gets && (!text.started || !has_all_but_one(text)))) return std::nullopt;
    const int32_t token = gets ? -1 - static_cast<int32_t>(asked - asked_.begin()) : text.tokens.back();
    step.rows.push_back({token, text.sequence, size - 1});
    step.choices.push_back(choice(text, gets ? 1 : 0));
    step.logits = step.logits || text.options.candidates >= 0;
  }
  if (step.rows.empty()) return std::nullopt;
  return step;
}

bool foretold(const WantedStep& ahead, const WantedStep& wanted) {
  const auto same_row = [](const StepRow& a, const StepRow& b) {
    return (a.token < 0 || a.token == b.token) && a.sequence == b.sequence && a.position == b.position;
  };
  const auto same_choice = [](const Choice& a, const Choice& b) {
    return a.step == b.step && a.sequence == b.sequence;
  };
  return !wanted.seen && ahead.kind == wanted.kind && ahead.logits == wanted.logits &&
         std::equal(ahead.rows.begin(), ahead.rows.end(), wanted.rows.begin(), wanted.rows.end(), same_row) &&
         std::equal(ahead.choices.begin(), ahead.choices.end(), wanted.choices.begin(), wanted.choices.end(),
                    same_choice);
}

Choice Writing::choice(const Text& text, int64_t ahead) {
  // Counted from the start of the text, also where its older half was dropped: no draw comes twice.
  const int64_t place = text.result.prompt_tokens + static_cast<int64_t>(text.result.tokens.size()) + ahead;
  return {text.options.sampling, static_cast<uint32_t>(place), text.sequence};
}

// Where the context is full, the older half of what is not to be kept goes.
void Writing::make_room(Text& text) {
  if (static_cast<int64_t>(text.tokens.size()) < context_) return;
  if (!text.options.shift) return end(text, Finish::Length);
  const int64_t keep = std::clamp<int64_t>(text.options.keep, 0, context_ - 2);
  const int64_t drop = std::max<int64_t>(1, (static_cast<int64_t>(text.tokens.size()) - keep) / 2);
  text.tokens.erase(text.tokens.begin() + keep, text.tokens.begin() + keep + drop);
}

void Writing::take(const std::vector<int32_t>& tokens, const float* logits) {
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (tokens.at(i) >= 0) continue;
    for (const StepRow& row : rows_) held(row.sequence).clear();
    fail(ErrorCode::NonFinite, "model", "the scores of the next token are not finite numbers: its weights are damaged");
  }
  for (const StepRow& row : rows_) held(row.sequence).push_back(row.token);
  rows_.clear();
  if (!asked_.empty()) reading_.reset();
  for (size_t i = 0; i < asked_.size(); ++i) {
    Text& text = texts_[asked_[i]];
    text.started = true;
    const bool scored = logits && text.options.candidates >= 0;
    take(text, tokens.at(i), scored ? logits + static_cast<int64_t>(i) * vocabulary_ : nullptr);
  }
  asked_.clear();
}

// The next token of a text; what became certain is given to the caller.
void Writing::take(Text& text, int32_t token, const float* logits) {
  if (!text.options.ignore_end && tokenizer_.ends_text(token)) return end(text, Finish::End);
  GeneratedToken made{token, {}, {}};
  if (logits) made.candidates = scores_of(logits, vocabulary_, token, text.options.candidates);
  text.tokens.push_back(token);
  const bool last = static_cast<int64_t>(text.result.tokens.size()) + 1 >= text.options.tokens;
  made.text = text.stops->push(text.decoder->push(token));
  if (last) made.text += text.stops->push(text.decoder->finish());
  if (last) made.text += text.stops->finish();
  text.result.text += made.text;
  text.result.tokens.push_back(made);
  const bool goes_on = !text.options.on_token || text.options.on_token(made);
  if (text.stops->found()) return end(text, Finish::Stop);
  if (!goes_on || (text.options.cancel && text.options.cancel->load())) return end(text, Finish::Cancelled);
  if (last) end(text, Finish::Length);
}

void Writing::end(Text& text, Finish finish) {
  text.done = true;
  text.result.finish = finish;
  // A stop text that was found ends what is held back, and so does a reader that wants no more.
  if (finish != Finish::End && finish != Finish::Length) return;
  std::string rest = text.stops->push(text.decoder->finish());
  rest += text.stops->finish();
  if (rest.empty()) return;
  text.result.text += rest;
  if (!text.result.tokens.empty()) text.result.tokens.back().text += rest;
  if (text.options.on_token) text.options.on_token({-1, rest, {}});
}

void Writing::stop(size_t index) {
  Text& text = texts_[index];
  if (text.done && text.result.finish != Finish::Length) return;
  end(text, Finish::Cancelled);
  if (reading_ == index) reading_.reset();
}

}  // namespace gyrus::llm
