#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "gyrus/text.h"
#include "import/text_model_file.h"
#include "llm/runner.h"
#include "llm/write_ahead.h"
#include "llm/writing.h"
#include "text/tokenizer.h"

namespace gyrus {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

llm::Sources sources_of(std::shared_ptr<const TextModelFile> file) {
  return [file = std::move(file)](const std::string& name) -> std::optional<llm::Source> {
    const GgufTensor* tensor = file->head().find(name);
    if (!tensor) return std::nullopt;
    return llm::Source{tensor->type, tensor->shape, file->bytes(*tensor)};
  };
}

std::shared_ptr<const llm::Model> model_of(const std::shared_ptr<const TextModelFile>& file,
                                           const TextOptions& options) {
  const llm::Config config = llm::read_config(file->head());
  const std::string& subject = file->head().subject();
  auto model =
      std::make_shared<llm::Model>(config, sources_of(file), llm::with_context(options, config, subject), subject);
  llm::refuse_unused(*model, file->head());
  return model;
}

}  // namespace

struct TextGeneratorImpl {
  std::shared_ptr<const TextModelFile> file;
  std::shared_ptr<const llm::Model> model;
  Tokenizer tokenizer;
  llm::Runner runner;
  TextModelInfo info;
  std::string chat_template;
  llm::Writing writing;
  std::mutex mutex{};

  TextGeneratorImpl(const Device& device, const std::string& path, const TextOptions& options)
      : file(std::make_shared<TextModelFile>(path)),
        model(model_of(file, options)),
        tokenizer(file->head()),
        runner(device, model),
        info(model->info()),
        chat_template(file->head().text("tokenizer.chat_template", "")),
        writing(tokenizer, info.vocabulary, model->options()) {}

  llm::PendingStep start(const llm::WantedStep& step) {
    if (step.seen) runner.set_seen(step.seen->first, step.seen->second);
    if (step.kind == llm::StepKind::Last) return runner.start_prefill(step.rows, step.choices.at(0), step.logits);
    return runner.start_decode(step.rows, step.choices, step.logits);
  }

  std::vector<Generated> write(std::vector<std::vector<int32_t>> prompts, std::vector<GenerateOptions> options) {
    writing.begin(std::move(prompts), std::move(options));
    const auto begun = Clock::now();
    double prompt_seconds = -1;
    const auto made_one = [&](const llm::WantedStep&, bool) {
      if (prompt_seconds < 0 && writing.started()) prompt_seconds = seconds_since(begun);
    };
    write_ahead(
        writing, [&](const llm::WantedStep& step) { return start(step); }, made_one);
    const double seconds = seconds_since(begun);
    std::vector<Generated> results;
    for (size_t i = 0; i < writing.texts(); ++i) {
      Generated& result = results.emplace_back(writing.result(i));
      result.prompt_seconds = prompt_seconds < 0 ? seconds : prompt_seconds;
      result.generate_seconds = seconds - result.prompt_seconds;
    }
    return results;
  }

  // Calls visit(rows) for stretches of tokens, all of which the sequence then holds.
  template <class Visit>
  void visit_rows(const std::vector<int32_t>& tokens, int64_t sequence, const Visit& visit) {
    writing.check_tokens(tokens);
    if (static_cast<int64_t>(tokens.size()) > writing.context())
      fail(ErrorCode::InvalidInput, "text", "has ", tokens.size(), " tokens, the context ", writing.context());
    writing.held(sequence).clear();
    const auto most = static_cast<size_t>(runner.rows_of_values());
    for (size_t begin = 0; begin < tokens.size(); begin += most) {
      std::vector<llm::StepRow> rows;
      for (size_t i = begin; i < std::min(tokens.size(), begin + most); ++i)
        rows.push_back({tokens[i], sequence, static_cast<int64_t>(i)});
      visit(rows);
    }
    writing.held(sequence) = tokens;
  }
};

TextModelInfo describe_text_model(const std::string& path) {
  return model_of(std::make_shared<TextModelFile>(path), {})->info();
}

TextMemory plan_text_model(const std::string& path, const Target& target, const TextOptions& options) {
  return llm::planned_memory(*model_of(std::make_shared<TextModelFile>(path), options), target);
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
  return impl_->write({prompt}, {options})[0];
}

std::vector<Generated> TextGenerator::generate_batch(const std::vector<std::vector<int32_t>>& prompts,
                                                     const std::vector<GenerateOptions>& options) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<GenerateOptions> each = options;
  for (size_t i = 0; i < each.size(); ++i) each[i].sequence = static_cast<int64_t>(i);
  return impl_->write(prompts, std::move(each));
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
  const llm::Pooling pooling = impl_->model->config().pooling;
  const auto last = static_cast<int64_t>(tokens.size()) - 1;
  impl_->visit_rows(tokens, sequence, [&](const std::vector<llm::StepRow>& rows) {
    const Tensor some = impl_->runner.normed(rows);
    for (int64_t i = 0; i < some.size(); ++i) {
      const auto width = static_cast<int64_t>(sums.size());
      const int64_t position = rows[static_cast<size_t>(i / width)].position;
      if (pooling == llm::Pooling::First && position != 0) continue;
      if (pooling == llm::Pooling::Last && position != last) continue;
      sums[static_cast<size_t>(i % width)] += some.as<float>()[i];
    }
  });
  double length = 0;
  for (const double x : sums) length += x * x;
  if (!std::isfinite(length))
    fail(ErrorCode::NonFinite, "model", "the values of the last layer are not finite numbers");
  std::vector<float> result;
  for (const double x : sums) result.push_back(static_cast<float>(length > 0 ? x / std::sqrt(length) : 0));
  return result;
}

void TextGenerator::forget(int64_t sequence) {
  const std::lock_guard lock(impl_->mutex);
  impl_->writing.held(sequence).clear();
}

}  // namespace gyrus
