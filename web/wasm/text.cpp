// The entry points behind web/src/text-model.ts: language models from GGUF files, whose weights never come here, plans
// of their steps, and the texts in the making (llm/writing.h). abi.h says how they answer.

#include <set>

#include "llm/planning.h"
#include "llm/writing.h"
#include "network.h"
#include "text/chat_template.h"
#include "text/template_json.h"
#include "text/tokenizer.h"

using namespace gyrus;

namespace {

using Given = std::map<std::string, std::vector<std::byte>>;  // tensors whose bytes decide the graph

struct TextModel {
  std::string name;
  std::optional<Gguf> head;
  std::optional<Tokenizer> tokenizer;
  Given given;
  std::shared_ptr<const llm::Model> model;
  std::optional<llm::Writing> writing;
  std::optional<llm::WantedStep> foreseen;
  std::string template_text;
  std::optional<ChatTemplate> chat;
  std::vector<std::pair<size_t, GeneratedToken>> made;  // since the last step, by text
};

// Nothing is asked of these but shapes, unless they decide the graph.
const std::set<std::string> kDeciding = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

Json tensor_json(const GgufTensor& tensor) {
  return {{"name", tensor.name}, {"offset", tensor.offset}, {"bytes", tensor.bytes}};
}

Json info_json(const TextModelInfo& info) {
  return {{"architecture", info.architecture},
          {"name", info.name},
          {"layers", info.layers},
          {"width", info.width},
          {"heads", info.heads},
          {"kvHeads", info.kv_heads},
          {"headWidth", info.head_width},
          {"vocabulary", info.vocabulary},
          {"context", info.context},
          {"parameters", info.parameters},
          {"formats", info.formats}};
}

CacheFormat cache_of(const std::string& name) {
  for (const CacheFormat format : {CacheFormat::F32, CacheFormat::F16, CacheFormat::Q8})
    if (name == to_string(format)) return format;
  fail(ErrorCode::InvalidInput, "cache", "is '", name, "', expected f32, f16 or q8");
}

TextOptions text_options_of(const Json& json) {
  TextOptions options;
  options.context = json.value("context", options.context);
  options.sequences = json.value("sequences", options.sequences);
  options.chunk = json.value("chunk", options.chunk);
  options.cache = cache_of(json.value("cache", to_string(options.cache)));
  return options;
}

GenerateOptions generate_options_of(const Json& json) {
  GenerateOptions o;
  o.tokens = json.value("tokens", o.tokens);
  o.sampling.temperature = json.value("temperature", o.sampling.temperature);
  o.sampling.top_k = json.value("topK", o.sampling.top_k);
  o.sampling.top_p = json.value("topP", o.sampling.top_p);
  o.sampling.min_p = json.value("minP", o.sampling.min_p);
  o.sampling.repetition_penalty = json.value("repetitionPenalty", o.sampling.repetition_penalty);
  o.sampling.seed = json.value("seed", o.sampling.seed);
  o.stop = json.value("stop", o.stop);
  o.candidates = json.value("candidates", o.candidates);
  o.keep = json.value("keep", o.keep);
  o.shift = json.value("shift", o.shift);
  o.ignore_end = json.value("ignoreEnd", o.ignore_end);
  o.sequence = json.value("sequence", o.sequence);
  return o;
}

Json token_json(const GeneratedToken& token) {
  Json candidates = Json::array();
  for (const TokenScore& score : token.candidates)
    candidates.push_back({{"token", score.token}, {"logProbability", score.log_probability}});
  return {{"token", token.token}, {"text", token.text}, {"candidates", candidates}};
}

llm::Sources sources_of(const TextModel& model) {
  return [&model](const std::string& name) -> std::optional<llm::Source> {
    const GgufTensor* tensor = model.head->find(name);
    if (!tensor) return std::nullopt;
    const auto given = model.given.find(name);
    return llm::Source{tensor->type, tensor->shape, given == model.given.end() ? Bytes() : bytes_of(given->second)};
  };
}

Json weights_json(const TextModel& text) {
  Json states = Json::array();
  for (const llm::WeightState& state : text.model->weights()) {
    Json parts = Json::array();
    for (const llm::WeightPart& part : state.parts) {
      Json json = tensor_json(text.head->tensor(part.tensor));
      json["at"] = part.offset;
      json["unpack"] = part.floats && text.head->tensor(part.tensor).type != BlockType::F32;
      parts.push_back(std::move(json));
    }
    states.push_back({{"name", state.name}, {"parts", parts}});
  }
  return states;
}

const llm::Model& model_of(const TextModel* text) {
  if (!text->model) fail(ErrorCode::InvalidInput, text->name, "was not configured");
  return *text->model;
}

std::vector<int32_t> ids_of(const std::byte* bytes, size_t size) {
  const auto* first = reinterpret_cast<const int32_t*>(bytes);
  return {first, first + size / sizeof(int32_t)};
}

std::vector<std::byte> bytes_from(const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

llm::StepKind kind_of(const std::string& name) {
  if (name == "last") return llm::StepKind::Last;
  if (name == "each") return llm::StepKind::Each;
  return name == "logits" ? llm::StepKind::Logits : llm::StepKind::Normed;
}

// The text and the tables of a step: those of its rows, then its choices.
void answer_step(const TextModel& text, const llm::WantedStep& step, bool was_foretold) {
  const TextOptions& options = text.model->options();
  const bool last = step.kind == llm::StepKind::Last;
  const auto given = static_cast<int64_t>(step.rows.size());
  const int64_t rows = last ? llm::step_size(options, step.rows.size()) : given;
  // A step of one row gives the same token whether it is the last one or each of one.
  Json json = {{"kind", last || rows == 1 ? "last" : "each"},
               {"rows", rows},
               {"last", given - 1},
               {"tokens", step.choices.size()},
               {"logits", step.logits},
               {"foretold", was_foretold},
               {"seen", nullptr}};
  if (step.seen) json["seen"] = {{"sequence", step.seen->first}, {"tokens", step.seen->second}};
  answer.text = dump(json);
  answer.data = llm::row_table(step.rows, rows, options).data;
  const Tensor choices = llm::choice_table(step.choices);
  answer.data.insert(answer.data.end(), choices.data.begin(), choices.data.end());
}

}  // namespace

GYRUS_EXPORT TextModel* gyrus_text_new(const char* name) {
  return guarded([&] {
    auto text = std::make_unique<TextModel>();
    text->name = name;
    return text.release();
  });
}
GYRUS_EXPORT void gyrus_text_close(TextModel* text) { delete text; }

// The first bytes of the file. Text: how many of them are wanted before anything else, 0 once these are enough; and
// then the tensors whose bytes gyrus_text_tensor() wants.
GYRUS_EXPORT int gyrus_text_head(TextModel* text, const std::byte* bytes, size_t size, double file_bytes) {
  return guarded([&] {
    GgufHead head = read_gguf_head({bytes, size}, static_cast<uint64_t>(file_bytes), text->name);
    Json tensors = Json::array();
    if (head.gguf) {
      const auto [number, count] = gguf_part(*head.gguf);
      if (count > 1)
        fail(ErrorCode::Unsupported, text->name, "is part ", number + 1, " of ", count,
             "; merge the parts into one file first");
      text->head = std::move(*head.gguf);
      text->tokenizer.emplace(*text->head);
      text->template_text = text->head->text("tokenizer.chat_template", "");
      for (const std::string& name : kDeciding)
        if (const GgufTensor* tensor = text->head->find(name)) tensors.push_back(tensor_json(*tensor));
    }
    answer.text = dump({{"wanted", text->head ? 0 : head.wanted}, {"tensors", tensors}});
    return 1;
  });
}

// Copies the bytes.
GYRUS_EXPORT int gyrus_text_tensor(TextModel* text, const char* name, const std::byte* bytes, size_t size) {
  return guarded([&] {
    text->given[name] = bytes_from(bytes, size);
    return 1;
  });
}

// Text: the model, its options with the context filled in, its states of weights with the parts of the file that fill
// them, and its numbers of rows.
GYRUS_EXPORT int gyrus_text_configure(TextModel* text, const char* options) {
  return guarded([&] {
    const llm::Config config = llm::read_config(*text->head);
    const TextOptions asked = llm::with_context(text_options_of(Json::parse(options)), config, text->name);
    text->writing.reset();
    text->model = std::make_shared<llm::Model>(config, sources_of(*text), asked, text->name);
    llm::refuse_unused(*text->model, *text->head);
    text->writing.emplace(*text->tokenizer, config.vocabulary, asked);
    const TextOptions& o = text->model->options();
    answer.text =
        dump({{"info", info_json(text->model->info())},
              {"options",
               {{"context", o.context}, {"sequences", o.sequences}, {"chunk", o.chunk}, {"cache", to_string(o.cache)}}},
              {"chatTemplate", text->template_text},
              {"weights", weights_json(*text)},
              {"sizes", llm::step_sizes(o)},
              {"valueRows", llm::rows_of_values(o, config.vocabulary)},
              {"pooling", llm::pooling_name(config.pooling)}});
    return 1;
  });
}

// `request` is types.ts's NetworkRequest. Answers as answer_with_plan() says.
GYRUS_EXPORT int gyrus_text_plan(const TextModel* text, const char* kind, int rows, const char* request) {
  return guarded([&] {
    answer_with_plan(model_of(text).step(rows, kind_of(kind)), Json::parse(request));
    return 1;
  });
}

// Text: bytes of weights, cache and scratch on a device of these limits.
GYRUS_EXPORT int gyrus_text_memory(const TextModel* text, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    PlanOptions options = json.at("software").get<bool>() ? software_options() : PlanOptions{};
    options.dispatch_flops = json.value("dispatchFlops", 0.0);
    const TextMemory memory = llm::planned_memory(model_of(text), limits_of(json.at("limits")), options);
    answer.text = dump({{"weights", memory.weights}, {"cache", memory.cache}, {"scratch", memory.scratch}});
    return 1;
  });
}

// Data: the floats of a tensor from its bytes.
GYRUS_EXPORT int gyrus_text_unpack(const TextModel* text, const char* name, const std::byte* bytes, size_t size) {
  return guarded([&] {
    answer.data = dequantized(text->head->tensor(name), {bytes, size}).data;
    return 1;
  });
}

// Data: tokens, i32.
GYRUS_EXPORT int gyrus_text_tokenize(const TextModel* text, const char* bytes, size_t size, int special, int begin) {
  return guarded([&] {
    const std::vector<int32_t> ids = text->tokenizer->encode({bytes, size}, special != 0, begin != 0);
    answer.data = bytes_from(ids.data(), ids.size() * sizeof(int32_t));
    return 1;
  });
}
// Text: of these tokens.
GYRUS_EXPORT int gyrus_text_decode(const TextModel* text, const std::byte* ids, size_t size, int special) {
  return guarded([&] {
    answer.text = text->tokenizer->decode(ids_of(ids, size), special != 0);
    return 1;
  });
}
GYRUS_EXPORT int gyrus_text_ends(const TextModel* text, int token) { return text->tokenizer->ends_text(token); }

// `messages`: a list of {role, content}; `variables`: what else the template is told. Text: the prompt; data: its
// tokens.
GYRUS_EXPORT int gyrus_text_chat(TextModel* text, const char* messages, const char* variables) {
  return guarded([&] {
    if (text->template_text.empty())
      fail(ErrorCode::InvalidModel, text->name, "has no chat template: it goes on with texts, but does not talk");
    if (!text->chat) text->chat.emplace(text->template_text);
    const Tokenizer& tokenizer = *text->tokenizer;
    const auto raw = [&](int32_t token) { return token < 0 ? std::string() : tokenizer.raw(token); };
    const std::string begin = raw(tokenizer.begin_token()), end = raw(tokenizer.end_token());
    nlohmann::ordered_json all = nlohmann::ordered_json::parse(variables);
    all["messages"] = nlohmann::ordered_json::parse(messages);
    all["add_generation_prompt"] = true;
    all["bos_token"] = begin;
    all["eos_token"] = end;
    const std::string prompt = text->chat->render(to_template_value(all));
    const bool begins = !begin.empty() && prompt.compare(0, begin.size(), begin) == 0;
    const std::vector<int32_t> ids = tokenizer.encode(prompt, true, !begins);
    answer.text = prompt;
    answer.data = bytes_from(ids.data(), ids.size() * sizeof(int32_t));
    return 1;
  });
}

// `texts`: a list of {prompt: tokens, options: types of text-generator.ts}.
GYRUS_EXPORT int gyrus_text_begin(TextModel* text, const char* texts) {
  return guarded([&] {
    model_of(text);
    std::vector<std::vector<int32_t>> prompts;
    std::vector<GenerateOptions> options;
    text->made.clear();
    text->foreseen.reset();
    for (const Json& each : Json::parse(texts)) {
      prompts.push_back(each.at("prompt").get<std::vector<int32_t>>());
      options.push_back(generate_options_of(each.at("options")));
      options.back().on_token = [text, index = options.size() - 1](const GeneratedToken& token) {
        text->made.emplace_back(index, token);
        return true;
      };
    }
    text->writing->begin(std::move(prompts), std::move(options));
    return 1;
  });
}

// Text: the step that is to be run, empty where all texts are done, and whether it is the one that gyrus_text_ahead()
// gave; data: its tables.
GYRUS_EXPORT int gyrus_text_next(TextModel* text) {
  return guarded([&] {
    const std::optional<llm::WantedStep> step = text->writing->next();
    if (step) answer_step(*text, *step, text->foreseen && foretold(*text->foreseen, *step));
    text->foreseen.reset();
    return 1;
  });
}

// Text: the step behind it, as far as it is known, empty where it is not; data: its tables.
GYRUS_EXPORT int gyrus_text_ahead(TextModel* text) {
  return guarded([&] {
    text->foreseen = text->writing->ahead();
    if (text->foreseen) answer_step(*text, *text->foreseen, false);
    return 1;
  });
}

// What the step gave: tokens i32 and, where they were asked for, logits f32. Text: what became of it.
GYRUS_EXPORT int gyrus_text_take(TextModel* text, const std::byte* tokens, size_t size, const std::byte* logits,
                                 size_t logits_size) {
  return guarded([&] {
    text->made.clear();
    const std::vector<std::byte> copy(logits, logits + logits_size);  // where it is aligned
    text->writing->take(ids_of(tokens, size), copy.empty() ? nullptr : reinterpret_cast<const float*>(copy.data()));
    Json made = Json::array();
    for (const auto& [index, token] : text->made) {
      Json json = token_json(token);
      json["index"] = index;
      made.push_back(std::move(json));
    }
    answer.text = dump({{"made", made}, {"started", text->writing->started()}});
    return 1;
  });
}

GYRUS_EXPORT int gyrus_text_stop(TextModel* text, int index) {
  return guarded([&] {
    text->writing->stop(static_cast<size_t>(index));
    return 1;
  });
}

// Text: what became of each text.
GYRUS_EXPORT int gyrus_text_results(const TextModel* text) {
  return guarded([&] {
    Json results = Json::array();
    for (size_t i = 0; i < text->writing->texts(); ++i) {
      const Generated& g = text->writing->result(i);
      Json tokens = Json::array();
      for (const GeneratedToken& token : g.tokens) tokens.push_back(token_json(token));
      results.push_back({{"text", g.text},
                         {"tokens", tokens},
                         {"finish", to_string(g.finish)},
                         {"promptTokens", g.prompt_tokens},
                         {"reusedTokens", g.reused_tokens}});
    }
    answer.text = dump(results);
    return 1;
  });
}

// Data: the table of `rows` rows for tokens [first, first + rows) of a text whose logits or values are wanted.
GYRUS_EXPORT int gyrus_text_rows(TextModel* text, const std::byte* ids, size_t size, int sequence, int first,
                                 int rows) {
  return guarded([&] {
    const std::vector<int32_t> tokens = ids_of(ids, size);
    text->writing->check_tokens(tokens);
    if (static_cast<int64_t>(tokens.size()) > text->writing->context())
      fail(ErrorCode::InvalidInput, "text", "has ", tokens.size(), " tokens, the context ", text->writing->context());
    text->writing->held(sequence).clear();
    std::vector<llm::StepRow> step;
    for (size_t i = static_cast<size_t>(first); i < std::min(tokens.size(), static_cast<size_t>(first + rows)); ++i)
      step.push_back({tokens[i], sequence, static_cast<int64_t>(i)});
    answer.data = llm::row_table(step, rows, model_of(text).options()).data;
    return 1;
  });
}

// Says what a sequence holds now.
GYRUS_EXPORT int gyrus_text_hold(TextModel* text, const std::byte* ids, size_t size, int sequence) {
  return guarded([&] {
    text->writing->held(sequence) = ids_of(ids, size);
    return 1;
  });
}
