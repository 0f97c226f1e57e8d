#include "text_server.h"

#include <httplib.h>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include "common.h"
#include "core/error.h"
#include "import/bytes.h"
#include "text/stop_texts.h"
#include "text_requests.h"

namespace gyrus::cli {

// One after another, in the order in which they came.
class RequestQueue {
 public:
  explicit RequestQueue(int64_t longest) : longest_(longest) {}

  class Turn {
   public:
    explicit Turn(RequestQueue& queue) : queue_(queue) {
      std::unique_lock lock(queue.mutex_);
      if (queue.next_ - queue.served_ > queue.longest_)
        throw RequestError{503, cat("more than ", queue.longest_, " requests wait already; try again later")};
      const int64_t mine = queue.next_++;
      queue.changed_.wait(lock, [&] { return queue.served_ == mine; });
    }
    ~Turn() {
      const std::lock_guard lock(queue_.mutex_);
      ++queue_.served_;
      queue_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    RequestQueue& queue_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0, served_ = 0, longest_;
};

namespace {

constexpr int kWaiting = 256;    // connections that wait to be accepted
constexpr size_t kThreads = 64;  // connections that are answered at once; a model answers one of them at a time

using OrderedJson = nlohmann::ordered_json;

std::string dumped(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

void answer_json(httplib::Response& response, const OrderedJson& json) {
  response.set_content(dumped(json), "application/json");
}

void answer_error(httplib::Response& response, const RequestError& error) {
  response.status = error.status;
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (error.status == 503) response.set_header("Retry-After", "1");
  response.set_content(error_json(error), "application/json");
}

// In a time that does not tell how much of it was right.
bool same_text(const std::string& a, const std::string& b) {
  size_t different = a.size() ^ b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<size_t>(static_cast<uint8_t>(a[i] ^ b[b.empty() ? 0 : i % b.size()]));
  return different == 0;
}

bool is_loopback(const std::string& host) { return host == "127.0.0.1" || host == "localhost" || host == "::1"; }

// "[::1]:8080" → "::1", "localhost:8080" → "localhost".
std::string name_of_host(const std::string& host) {
  if (!host.empty() && host[0] == '[') return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

// What one answer consists of.
struct Answer {
  std::string text;
  std::string finish = "length";
  int64_t tokens = 0;
  OrderedJson scores = OrderedJson::array();  // of each token, where asked for
};

OrderedJson usage_json(int64_t prompt, int64_t answer) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", answer}, {"total_tokens", prompt + answer}};
}

}  // namespace

struct TextServer::Impl {
  TextService& service;
  TextServerOptions options;
  RequestQueue queue;
  std::unique_ptr<ChatTemplate> chat;
  httplib::Server server;
  int port = 0;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> answered{0};
  std::time_t created = std::time(nullptr);

  Impl(TextService& served, const TextServerOptions& given) : service(served), options(given), queue(given.queue) {
    const std::string text = service.chat_template();
    if (text.empty()) return;
    try {
      chat = std::make_unique<ChatTemplate>(text);
    } catch (const Error& error) {
      say(cat(error.what(), "; only /v1/completions and /v1/embeddings will work"));
    }
  }

  // Who may ask. Pages of other origins could else use a server that listens to this machine only.
  void check_caller(const httplib::Request& request) const {
    if (is_loopback(options.host) && !is_loopback(name_of_host(request.get_header_value("Host"))))
      throw RequestError{403, "this server answers to 127.0.0.1 and localhost only"};
    const std::string origin = request.get_header_value("Origin");
    if (!origin.empty() && options.origin != "*" && origin != options.origin)
      throw RequestError{403, cat("pages of ", origin.substr(0, 100), " may not use this server; --cors allows them")};
    if (options.key.empty() || request.method == "OPTIONS") return;
    if (!same_text(request.get_header_value("Authorization"), "Bearer " + options.key))
      throw RequestError{401, "the key is missing or wrong", "invalid_api_key"};
  }

  void add_headers(httplib::Response& response) const {
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Content-Type-Options", "nosniff");
    if (options.origin.empty()) return;
    response.set_header("Access-Control-Allow-Origin", options.origin);
    response.set_header("Access-Control-Allow-Headers", "*, Authorization");
    response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    response.set_header("Vary", "Origin");
  }

  OrderedJson head(const char* prefix, const char* object) {
    return {{"id", cat(prefix, static_cast<int64_t>(created), "-", ++answered)},
            {"object", object},
            {"created", static_cast<int64_t>(std::time(nullptr))},
            {"model", service.name()}};
  }
  OrderedJson model_json() const {
    return {
        {"id", service.name()}, {"object", "model"}, {"created", static_cast<int64_t>(created)}, {"owned_by", "gyrus"}};
  }

  // The scores of a token in the words of chat completions.
  OrderedJson score_json(const CompletionToken& token) const {
    OrderedJson best = OrderedJson::array();
    const auto one = [&](const std::pair<int32_t, float>& candidate) {
      const std::string text = service.text_of({candidate.first});
      OrderedJson bytes = OrderedJson::array();
      for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
      return OrderedJson{{"token", text}, {"logprob", candidate.second}, {"bytes", bytes}};
    };
    for (size_t i = 1; i < token.candidates.size(); ++i) best.push_back(one(token.candidates[i]));
    OrderedJson out = one(token.candidates.empty() ? std::pair(token.token, 0.0F) : token.candidates[0]);
    out["top_logprobs"] = best;
    return out;
  }

  // `on_text` gets what is certain, with the scores that came with it; false ends it. The caller has the turn.
  Answer complete(const TextRequest& request, size_t prompt,
                  const std::function<bool(const std::string&, const OrderedJson&)>& on_text) {
    Answer answer;
    StopTexts stops(request.stop);
    OrderedJson scores = OrderedJson::array();
    const auto hand_on = [&](const std::string& text) {
      answer.text += text;
      const bool on = text.empty() || on_text(text, scores);
      if (!text.empty()) scores = OrderedJson::array();
      return on;
    };
    const CompletionEnd end =
        service.complete(request.prompts[prompt], request.options, [&](const CompletionToken& token) {
          // Text that was held back until the end comes without a token.
          if (request.options.candidates >= 0 && token.token >= 0) {
            scores.push_back(score_json(token));
            answer.scores.push_back(scores.back());
          }
          return hand_on(stops.push(token.text)) && !stops.found() && !stopping.load() && !interrupted().load();
        });
    hand_on(stops.finish());
    answer.tokens = end.tokens;
    if (end.ended || stops.found()) answer.finish = "stop";
    return answer;
  }

  // Of plain completions: lists side by side.
  static OrderedJson plain_scores(const OrderedJson& scores) {
    OrderedJson out = {{"tokens", OrderedJson::array()},
                       {"token_logprobs", OrderedJson::array()},
                       {"top_logprobs", OrderedJson::array()},
                       {"text_offset", OrderedJson::array()}};
    size_t offset = 0;
    for (const OrderedJson& score : scores) {
      OrderedJson best = OrderedJson::object();
      for (const OrderedJson& one : score["top_logprobs"]) best[one["token"].get<std::string>()] = one["logprob"];
      out["tokens"].push_back(score["token"]);
      out["token_logprobs"].push_back(score["logprob"]);
      out["top_logprobs"].push_back(best);
      out["text_offset"].push_back(offset);
      offset += score["token"].get<std::string>().size();
    }
    return out;
  }
  static OrderedJson scores_json(bool of_chat, const TextRequest& request, const OrderedJson& scores) {
    if (request.options.candidates < 0) return {};
    return of_chat ? OrderedJson{{"content", scores}} : plain_scores(scores);
  }

  void answer_whole(bool of_chat, const TextRequest& request, httplib::Response& response) {
    OrderedJson json = of_chat ? head("chatcmpl-", "chat.completion") : head("cmpl-", "text_completion");
    json["choices"] = OrderedJson::array();
    int64_t asked = 0, made = 0;
    const RequestQueue::Turn turn(queue);
    for (size_t i = 0; i < request.prompts.size(); ++i) {
      const Answer answer = complete(request, i, [](const std::string&, const OrderedJson&) { return true; });
      OrderedJson choice = {{"index", i}};
      if (of_chat)
        choice["message"] = {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
      else
        choice["text"] = (request.echo.empty() ? std::string() : request.echo[i]) + answer.text;
      choice["logprobs"] = scores_json(of_chat, request, answer.scores);
      choice["finish_reason"] = answer.finish;
      json["choices"].push_back(choice);
      asked += static_cast<int64_t>(request.prompts[i].size());
      made += answer.tokens;
    }
    json["usage"] = usage_json(asked, made);
    answer_json(response, json);
  }

  // Server-sent events, as the tokens come. A client that goes ends its answer.
  void answer_stream(bool of_chat, const TextRequest& request, httplib::Response& response) {
    const OrderedJson first = of_chat ? head("chatcmpl-", "chat.completion.chunk") : head("cmpl-", "text_completion");
    response.set_chunked_content_provider("text/event-stream", [=, this](size_t, httplib::DataSink& sink) {
      const auto send = [&](const std::string& data) {
        const std::string event = "data: " + data + "\n\n";
        return sink.is_writable() && sink.write(event.data(), event.size());
      };
      const auto piece = [&](const OrderedJson& delta, const OrderedJson& scores, const OrderedJson& finish) {
        OrderedJson json = first, choice = {{"index", 0}};
        if (of_chat)
          choice["delta"] = delta;
        else
          choice["text"] = delta.is_string() ? delta : OrderedJson("");
        choice["logprobs"] = scores;
        choice["finish_reason"] = finish;
        json["choices"] = OrderedJson::array({choice});
        if (request.usage) json["usage"] = nullptr;
        return send(dumped(json));
      };
      const auto text_piece = [&](const std::string& text, const OrderedJson& scores) {
        const OrderedJson delta = of_chat ? OrderedJson{{"content", text}} : OrderedJson(text);
        return piece(delta, scores_json(of_chat, request, scores), nullptr);
      };
      try {
        const RequestQueue::Turn turn(queue);
        bool there = of_chat ? piece({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr) : true;
        if (there && !request.echo.empty()) there = text_piece(request.echo[0], OrderedJson::array());
        if (!there) return false;
        const Answer answer = complete(request, 0, text_piece);
        if (!piece(of_chat ? OrderedJson::object() : OrderedJson(""), nullptr, answer.finish)) return false;
        if (request.usage) {
          OrderedJson json = first;
          json["choices"] = OrderedJson::array();
          json["usage"] = usage_json(static_cast<int64_t>(request.prompts[0].size()), answer.tokens);
          if (!send(dumped(json))) return false;
        }
        if (!send("[DONE]")) return false;
        sink.done();
        return true;
      } catch (const RequestError& error) {
        send(error_json(error));
      } catch (const std::exception& error) {
        say(error.what());
        send(error_json({500, error.what()}));
      }
      sink.done();
      return true;
    });
  }

  void answer_embeddings(const TextRequest& request, httplib::Response& response) {
    OrderedJson json = {{"object", "list"}, {"data", OrderedJson::array()}, {"model", service.name()}};
    int64_t asked = 0;
    const RequestQueue::Turn turn(queue);
    for (size_t i = 0; i < request.prompts.size(); ++i) {
      const std::vector<float> values = service.embed(request.prompts[i]);
      OrderedJson one = {{"object", "embedding"}, {"index", i}};
      if (request.base64)
        one["embedding"] = base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
      else
        one["embedding"] = values;
      json["data"].push_back(one);
      asked += static_cast<int64_t>(request.prompts[i].size());
    }
    json["usage"] = {{"prompt_tokens", asked}, {"total_tokens", asked}};
    answer_json(response, json);
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    check_caller(request);
    const std::string& path = request.path;
    const std::string one_model = "/v1/models/" + service.name();
    const bool reads = path == "/v1/models" || path == one_model || path == "/health";
    const bool chats = path == "/v1/chat/completions", completes = path == "/v1/completions";
    if (!reads && !chats && !completes && path != "/v1/embeddings")
      throw RequestError{404,
                         "there is no such address here; there are /v1/chat/completions, /v1/completions, "
                         "/v1/embeddings and /v1/models"};
    if (request.method == "OPTIONS") {
      response.status = 204;
      return;
    }
    if (request.method != (reads ? "GET" : "POST") && !(reads && request.method == "HEAD"))
      throw RequestError{405, cat(path, " is asked for by ", reads ? "GET" : "POST")};
    if (path == "/health") return answer_json(response, {{"status", "ok"}});
    if (path == "/v1/models") return answer_json(response, {{"object", "list"}, {"data", {model_json()}}});
    if (reads) return answer_json(response, model_json());
    const OrderedJson json = parse_request(request.body);
    if (path == "/v1/embeddings") return answer_embeddings(embedding_request(json, service), response);
    const TextRequest wanted = chats ? chat_request(json, service, chat.get(), options.temperature)
                                     : completion_request(json, service, options.temperature);
    wanted.stream ? answer_stream(chats, wanted, response) : answer_whole(chats, wanted, response);
  }

  void guarded(const httplib::Request& request, httplib::Response& response) {
    add_headers(response);
    try {
      answer(request, response);
    } catch (const RequestError& error) {
      answer_error(response, error);
    } catch (const Error& error) {
      const bool theirs = error.code() == ErrorCode::InvalidInput;
      if (!theirs) say(error.what());
      answer_error(response, {theirs ? 400 : 500, error.what()});
    } catch (const std::exception& error) {
      say(error.what());
      answer_error(response, {500, error.what()});
    }
    std::string path = request.path;  // which may hold anything
    std::replace_if(path.begin(), path.end(), is_control, '?');
    whisper(cat(request.method, " ", path, " ", response.status < 0 ? 200 : response.status));
  }
};

TextServer::TextServer(TextService& service, const TextServerOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {
  httplib::Server& server = impl_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  socket_t listening = INVALID_SOCKET;
  server.set_socket_options([&listening](socket_t socket) {
    listening = socket;
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_tcp_nodelay(true);
  server.set_keep_alive_timeout(1);  // seconds; also how long the end waits
  server.set_payload_max_length(options.body);
  const auto handler = [impl = impl_.get()](const httplib::Request& request, httplib::Response& response) {
    impl->guarded(request, response);
  };
  constexpr const char* kAll = ".*";
  server.Get(kAll, handler).Post(kAll, handler).Put(kAll, handler).Delete(kAll, handler).Options(kAll, handler);
  // What the library refuses itself, a body that is too long say, in the words of the interface.
  server.set_error_handler([impl = impl_.get()](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    impl->add_headers(response);
    const bool large = response.status == 413;
    response.set_content(
        error_json({response.status, large ? cat("the request is larger than ", impl->options.body, " bytes")
                                           : std::string("the request was not understood")}),
        "application/json");
  });
  errno = 0;
  const bool any = options.port == 0;
  impl_->port = any                                               ? server.bind_to_any_port(options.host)
                : server.bind_to_port(options.host, options.port) ? options.port
                                                                  : -1;
  if (impl_->port < 0)
    fail(ErrorCode::Io, cat(options.host, ":", options.port), "cannot be listened on",
         errno ? cat(": ", std::strerror(errno)) : std::string(),
         "; choose another port with --port N, or --port 0 for any that is free");
  // The library lets five connections wait; what more of them send is then lost for a second.
  listen(listening, kWaiting);
}

TextServer::~TextServer() = default;

int TextServer::port() const { return impl_->port; }

void TextServer::stop() { impl_->stopping.store(true); }

void TextServer::run() {
  std::atomic<bool> ended{false};
  std::thread watch([&] {
    while (!interrupted().load() && !impl_->stopping.load() && !ended.load())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    impl_->stopping.store(true);
    impl_->server.stop();
  });
  const bool well = impl_->server.listen_after_bind();
  const bool wanted = impl_->stopping.load();
  ended.store(true);
  watch.join();
  if (!well && !wanted) fail(ErrorCode::Io, impl_->options.host, "the server stopped by itself");
}

}  // namespace gyrus::cli
