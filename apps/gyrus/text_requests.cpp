#include "text_requests.h"

#include <algorithm>
#include <random>

#include "core/error.h"
#include "text/template_json.h"

namespace gyrus::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kDeepestRequest = 32;
constexpr size_t kMostMembers = 1024;  // of an object: each is looked for among those before it
constexpr size_t kMostPrompts = 256;
constexpr size_t kMostStops = 16;
constexpr double kLeastShare = 1e-6;  // of the probability, which the best token alone has: what 0 asks for

[[noreturn]] void refuse(const std::string& message) { throw RequestError{400, message}; }

const OrderedJson* find(const OrderedJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

double number(const OrderedJson& json, const char* key, double fallback, double least, double most) {
  const OrderedJson* const found = find(json, key);
  if (!found) return fallback;
  const double value = found->is_number() ? found->get<double>() : least - 1;
  if (!(value >= least && value <= most)) refuse(cat("'", key, "' must be a number from ", least, " to ", most));
  return value;
}

int64_t integer(const OrderedJson& json, const char* key, int64_t fallback, int64_t least, int64_t most) {
  const OrderedJson* const found = find(json, key);
  if (!found) return fallback;
  const double value = found->is_number() ? found->get<double>() : static_cast<double>(least) - 1;
  if (!found->is_number_integer() || value < static_cast<double>(least) || value > static_cast<double>(most))
    refuse(cat("'", key, "' must be an integer from ", least, " to ", most));
  return found->get<int64_t>();
}

bool boolean(const OrderedJson& json, const char* key) {
  const OrderedJson* const found = find(json, key);
  if (found && !found->is_boolean()) refuse(cat("'", key, "' must be true or false"));
  return found && found->get<bool>();
}

// What would change the answer, but is not done, is refused rather than ignored.
void refuse_unknown(const OrderedJson& json) {
  for (const char* const key : {"presence_penalty", "frequency_penalty"}) {
    if (number(json, key, 0, -2, 2) != 0) refuse(cat("'", key, "' is not supported; 'repetition_penalty' is"));
  }
  for (const char* const key : {"tools", "functions", "logit_bias", "suffix", "audio", "prediction"}) {
    const OrderedJson* const found = find(json, key);
    if (found && !(found->is_structured() && found->empty()) && *found != "")
      refuse(cat("'", key, "' is not supported"));
  }
  if (integer(json, "n", 1, 1, 128) != 1 || integer(json, "best_of", 1, 1, 128) != 1)
    refuse("only one answer to a request: 'n' and 'best_of' must be 1");
  const OrderedJson* const form = find(json, "response_format");
  const OrderedJson* const kind = form && form->is_object() ? find(*form, "type") : nullptr;
  if (form && (!kind || *kind != "text")) refuse("'response_format' must be of the type 'text'");
}

std::vector<std::string> stops_of(const OrderedJson& json) {
  const OrderedJson* const stop = find(json, "stop");
  if (!stop) return {};
  if (stop->is_string()) return {stop->get<std::string>()};
  std::vector<std::string> out;
  for (const OrderedJson& one : *stop) {
    if (!stop->is_array() || !one.is_string()) refuse("'stop' must be a text or a list of texts");
    out.push_back(one.get<std::string>());
  }
  if (!stop->is_array() || out.size() > kMostStops)
    refuse(cat("'stop' must be a text or a list of up to ", kMostStops));
  return out;
}

// What chat and plain completions share.
TextRequest shared_request(const OrderedJson& json, double temperature) {
  refuse_unknown(json);
  TextRequest out;
  out.options.temperature = number(json, "temperature", temperature, 0, 100);
  out.options.top_p = std::max(number(json, "top_p", 1, 0, 1), kLeastShare);
  out.options.top_k = integer(json, "top_k", 0, 0, 1 << 20);
  out.options.min_p = number(json, "min_p", 0, 0, 1);
  out.options.repetition_penalty = number(json, "repetition_penalty", 1, 0.01, 100);
  if (find(json, "seed")) {
    out.options.seed = static_cast<uint32_t>(integer(json, "seed", 0, INT64_MIN / 2, INT64_MAX / 2));
  } else {
    out.options.seed = std::random_device()();
  }
  out.stop = stops_of(json);
  out.stream = boolean(json, "stream");
  if (const OrderedJson* const stream = find(json, "stream_options")) {
    if (!stream->is_object()) refuse("'stream_options' must be an object");
    out.usage = boolean(*stream, "include_usage");
  }
  return out;
}

// `tokens`: of the answer, at least.
void check_room(const TextService& service, const std::vector<int32_t>& prompt, int64_t tokens) {
  const auto size = static_cast<int64_t>(prompt.size());
  if (size + tokens > service.context()) {
    throw RequestError{400,
                       cat("the model's context is ", service.context(), " tokens; the prompt has ", size,
                           tokens > 1 ? cat(", the answer may have ", tokens) : std::string()),
                       "context_length_exceeded"};
  }
  if (prompt.empty()) refuse("the prompt is empty, and this model has no token that begins a text");
}

// Content may be a list of parts; those of text are joined.
void join_parts(OrderedJson& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    message["content"] = "";
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) refuse("'content' of a message must be a text or a list of parts");
  std::string text;
  for (const OrderedJson& part : *content) {
    const bool plain = part.is_object() && part.value("type", OrderedJson()) == "text" && part.contains("text") &&
                       part["text"].is_string();
    if (!plain) refuse("parts of a message must be of the type 'text'");
    text += part["text"].get<std::string>();
  }
  *content = text;
}

std::vector<int32_t> tokens_of(const OrderedJson& list) {
  std::vector<int32_t> out;
  for (const OrderedJson& one : list) {
    if (!one.is_number_integer() || one.get<int64_t>() < 0 || one.get<int64_t>() > INT32_MAX)
      refuse("a list of tokens must hold ids");
    out.push_back(one.get<int32_t>());
  }
  return out;
}

// A text, tokens, or a list of either.
void read_prompts(const OrderedJson& json, const char* key, const TextService& service, TextRequest& out) {
  const OrderedJson* const found = find(json, key);
  if (!found) refuse(cat("'", key, "' is missing"));
  const auto add = [&](const OrderedJson& one) {
    if (one.is_string()) {
      out.echo.push_back(one.get<std::string>());
      out.prompts.push_back(service.tokenize(out.echo.back(), false, true));
    } else if (one.is_array() && !one.empty()) {
      out.prompts.push_back(tokens_of(one));
      out.echo.push_back(service.text_of(out.prompts.back()));
    } else {
      refuse(cat("'", key, "' must be a text, a list of tokens, or a list of these"));
    }
  };
  const bool several = found->is_array() && !found->empty() && !(*found)[0].is_number();
  if (!several) return add(*found);
  if (found->size() > kMostPrompts) refuse(cat("'", key, "' has more than ", kMostPrompts, " texts"));
  for (const OrderedJson& one : *found) add(one);
}

}  // namespace

OrderedJson parse_request(const std::string& body) {
  try {
    using Event = OrderedJson::parse_event_t;
    std::vector<size_t> members;  // of the objects that are open
    OrderedJson json = OrderedJson::parse(body, [&](int depth, Event event, OrderedJson&) {
      if (depth > kDeepestRequest) refuse(cat("the request is nested deeper than ", kDeepestRequest));
      if (event == Event::object_start) members.push_back(0);
      if (event == Event::object_end) members.pop_back();
      if (event == Event::key && ++members.back() > kMostMembers)
        refuse(cat("an object of the request has more than ", kMostMembers, " members"));
      return true;
    });
    if (!json.is_object()) refuse("the request is no JSON object");
    return json;
  } catch (const OrderedJson::parse_error& error) {
    refuse(cat("the request is not valid JSON, at byte ", error.byte));
  }
}

TextRequest chat_request(const OrderedJson& json, const TextService& service, const ChatTemplate* chat,
                         double temperature) {
  if (!chat) refuse("this model has no chat template that gyrus can use; /v1/completions works");
  TextRequest out = shared_request(json, temperature);
  const OrderedJson* const messages = find(json, "messages");
  if (!messages || !messages->is_array() || messages->empty()) refuse("'messages' must be a list of messages");
  OrderedJson plain = *messages;
  for (OrderedJson& message : plain) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      refuse("every message must have a 'role'");
    join_parts(message);
  }
  const char* const most = find(json, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  out.options.tokens = integer(json, most, 0, 1, INT32_MAX);
  if (boolean(json, "logprobs")) out.options.candidates = integer(json, "top_logprobs", 0, 0, 20);
  const auto [begin, end] = service.begin_and_end();
  TemplateValue::Map variables = {{"messages", to_template_value(plain)},
                                  {"add_generation_prompt", TemplateValue::boolean(true)},
                                  {"bos_token", TemplateValue::text(begin)},
                                  {"eos_token", TemplateValue::text(end)}};
  if (const OrderedJson* const more = find(json, "chat_template_kwargs")) {
    if (!more->is_object()) refuse("'chat_template_kwargs' must be an object");
    for (auto it = more->begin(); it != more->end(); ++it)
      variables.emplace_back(it.key(), to_template_value(it.value()));
  }
  std::string prompt;
  try {
    prompt = chat->render(TemplateValue::map(std::move(variables)));
  } catch (const Error& error) {
    refuse(error.what());
  }
  // Templates write the token that begins a text themselves.
  const bool begins = !begin.empty() && prompt.compare(0, begin.size(), begin) == 0;
  out.prompts.push_back(service.tokenize(prompt, true, !begins));
  check_room(service, out.prompts[0], std::max<int64_t>(out.options.tokens, 1));
  return out;
}

TextRequest completion_request(const OrderedJson& json, const TextService& service, double temperature) {
  TextRequest out = shared_request(json, temperature);
  out.options.tokens = integer(json, "max_tokens", 16, 1, INT32_MAX);
  out.options.candidates = integer(json, "logprobs", -1, 0, 20);
  read_prompts(json, "prompt", service, out);
  for (const std::vector<int32_t>& prompt : out.prompts) check_room(service, prompt, out.options.tokens);
  if (!boolean(json, "echo")) out.echo.clear();
  if (out.stream && out.prompts.size() > 1) refuse("only one prompt can be streamed");
  return out;
}

TextRequest embedding_request(const OrderedJson& json, const TextService& service) {
  TextRequest out;
  const OrderedJson* const format = find(json, "encoding_format");
  if (format && *format != "float" && *format != "base64") refuse("'encoding_format' must be 'float' or 'base64'");
  out.base64 = format && *format == "base64";
  if (find(json, "dimensions")) refuse("'dimensions' is not supported");
  read_prompts(json, "input", service, out);
  for (const std::vector<int32_t>& prompt : out.prompts) check_room(service, prompt, 0);
  return out;
}

std::string error_json(const RequestError& error) {
  const OrderedJson code = error.code.empty() ? OrderedJson() : OrderedJson(error.code);
  const char* const type = error.status >= 500 ? "server_error" : "invalid_request_error";
  const OrderedJson json = {
      {"error", {{"message", error.message}, {"type", type}, {"param", nullptr}, {"code", code}}}};
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string base64(const std::string& bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j) word = word << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kLetters[word >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace gyrus::cli
