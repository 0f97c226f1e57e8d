// gyrus serve over a model that needs no GPU.
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/stub_text_service.h"
#include "text/stop_texts.h"
#include "text_requests.h"
#include "text_server.h"

namespace gyrus::test {
namespace {

using Json = nlohmann::ordered_json;

class Serve : public testing::Test {
 protected:
  void start(cli::TextServerOptions options = {}) {
    options.port = 0;
    server_ = std::make_unique<cli::TextServer>(service_, options);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop();
    thread_.join();
  }
  httplib::Client client() const {
    httplib::Client out("127.0.0.1", server_->port());
    out.set_read_timeout(30);
    return out;
  }
  httplib::Result post(const std::string& path, const std::string& body, const httplib::Headers& headers = {}) const {
    return client().Post(path, headers, body, "application/json");
  }
  static std::string chat(const std::string& text, const std::string& more = "") {
    return R"({"model":"stub","messages":[{"role":"user","content":")" + text + "\"}]" + more + "}";
  }
  // Of a chat's answer.
  static std::string content(const httplib::Result& result) {
    return Json::parse(result->body)["choices"][0]["message"]["content"].get<std::string>();
  }
  void expect_error(const httplib::Result& result, int status, const std::string& part) const {
    ASSERT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    const Json json = Json::parse(result->body, nullptr, false);
    ASSERT_TRUE(json.contains("error")) << result->body;
    EXPECT_NE(json["error"]["message"].get<std::string>().find(part), std::string::npos) << result->body;
  }
  void expect_serves() const {
    const httplib::Result result = post("/v1/chat/completions", chat("still?"));
    ASSERT_TRUE(result);
    EXPECT_EQ(content(result), "user: still?");
  }

  StubTextService service_;
  std::unique_ptr<cli::TextServer> server_;
  std::thread thread_;
};

TEST_F(Serve, AnswersWholeAndStreamed) {
  start();
  EXPECT_EQ(content(post("/v1/chat/completions", chat("hello"))), "user: hello");
  EXPECT_EQ(content(post("/v1/chat/completions", chat("hello", R"(,"top_p":0)"))), "user: hello");
  EXPECT_TRUE(service_.top_p > 0 && service_.top_p < 1e-5);  // the best token alone
  const Json cut = Json::parse(post("/v1/chat/completions", chat("hello", R"(,"max_tokens":4)"))->body);
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 4);
  EXPECT_EQ(content(post("/v1/chat/completions", chat("hello", R"(,"stop":"l")"))), "user: he");
  const httplib::Result stream = post("/v1/chat/completions", chat("h\\u00fc", R"(,"stream":true)"));
  EXPECT_EQ(stream->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_NE(stream->body.find("{\"content\":\"\u00fc\"}"), std::string::npos) << stream->body;
  EXPECT_NE(stream->body.find("data: [DONE]\n\n"), std::string::npos);
  const Json echo = Json::parse(post("/v1/completions", R"({"prompt":"a\nb","echo":true,"logprobs":1})")->body);
  EXPECT_EQ(echo["choices"][0]["text"], "a\nbb");
  EXPECT_EQ(echo["choices"][0]["logprobs"]["token_logprobs"][0], -0.5);
  // A text that ends within a character: its rest has no token.
  const Json rest = Json::parse(post("/v1/completions", R"({"prompt":[104,195],"logprobs":1})")->body);
  EXPECT_EQ(rest["choices"][0]["text"], "h\ufffd");
  EXPECT_EQ(rest["choices"][0]["logprobs"]["tokens"].size(), 2);
  const Json tokens = Json::parse(post("/v1/completions", R"({"prompt":[104,105]})")->body);
  EXPECT_EQ(tokens["choices"][0]["text"], "hi");
  EXPECT_EQ(Json::parse(post("/v1/embeddings", R"({"input":"ab"})")->body)["data"][0]["embedding"][0], 3);
  // An embedding needs no room for an answer.
  EXPECT_EQ(post("/v1/embeddings", R"({"input":")" + std::string(4095, 'a') + "\"}")->status, 200);
  EXPECT_EQ(post("/v1/embeddings", R"({"input":")" + std::string(4096, 'a') + "\"}")->status, 400);
  EXPECT_EQ(Json::parse(client().Get("/v1/models")->body)["data"][0]["id"], "stub");
}

TEST_F(Serve, SaysWhatIsWrong) {
  start();
  const auto wrong = [&](const std::string& part, const std::string& body,
                         const std::string& path = "/v1/chat/completions") {
    SCOPED_TRACE(body.substr(0, 100));
    expect_error(post(path, body), 400, part);
  };
  wrong("not valid JSON, at byte 2", "{");
  wrong("not valid JSON", "");
  wrong("not valid JSON", "{\"a\":\"\xff\"}");
  wrong("no JSON object", "[]");
  wrong("nested deeper", std::string(1 << 20, '['));
  wrong("'messages' must be a list", "{}");
  wrong("'messages' must be a list", R"({"messages":{}})");
  wrong("must have a 'role'", R"({"messages":[1]})");
  wrong("of the type 'text'", R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})");
  wrong("'temperature' must be a number", chat("a", R"(,"temperature":"hot")"));
  wrong("'max_tokens' must be an integer", chat("a", R"(,"max_tokens":-1)"));
  wrong("'max_tokens' must be an integer", chat("a", R"(,"max_tokens":1e300)"));
  wrong("'tools' is not supported", chat("a", R"(,"tools":[{"type":"function"}])"));
  wrong("'stop' must be", chat("a", R"(,"stop":[1])"));
  wrong("'n' and 'best_of' must be 1", chat("a", R"(,"n":3)"));
  wrong("'presence_penalty' is not supported", chat("a", R"(,"presence_penalty":1)"));
  wrong("'response_format' must be of the type", chat("a", R"(,"response_format":{"type":1})"));
  std::string crowded = "{";
  for (int i = 0; i < 300'000; ++i) crowded += cat("\"", i, "\":0,");
  wrong("more than 1024 members", crowded + R"("messages":[]})");
  wrong("'prompt' is missing", "{}", "/v1/completions");
  wrong("there is no token 999", R"({"prompt":[999]})", "/v1/completions");
  wrong("a list of tokens must hold ids", R"({"prompt":[1,"a"]})", "/v1/completions");
  wrong("context is 4096 tokens", R"({"prompt":")" + std::string(5000, 'a') + "\"}", "/v1/completions");
  wrong("'encoding_format'", R"({"input":"a","encoding_format":"x"})", "/v1/embeddings");
  expect_error(post("/v1/chat/completions", chat("fail")), 500, "the device was lost");
  expect_error(client().Get("/v1/completions"), 405, "POST");
  expect_error(client().Get("/../../etc/passwd"), 404, "no such address");
  expect_error(client().Get("/%2e%2e/%2e%2e/etc/passwd"), 404, "no such address");
  expect_error(client().Get("/v1/models/..%2f..%2fetc"), 404, "no such address");
  expect_serves();
}

TEST_F(Serve, KnowsWhoMayAsk) {
  cli::TextServerOptions options;
  options.key = "k1";
  options.origin = "https://page.example";
  start(options);
  const std::string path = "/v1/completions", body = R"({"prompt":"a"})";
  expect_error(post(path, body), 401, "key");
  expect_error(post(path, body, {{"Authorization", "Bearer k2"}}), 401, "key");
  expect_error(post(path, body, {{"Authorization", "Bearer k1x"}}), 401, "key");
  const httplib::Headers key = {{"Authorization", "Bearer k1"}};
  EXPECT_EQ(post(path, body, key)->status, 200);
  httplib::Headers page = key;
  page.emplace("Origin", "https://page.example");
  EXPECT_EQ(post(path, body, page)->get_header_value("Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(client().Options(path, {{"Origin", "https://page.example"}})->status, 204);
  httplib::Headers other = key;
  other.emplace("Origin", "https://other.example");
  expect_error(post(path, body, other), 403, "other.example");
  httplib::Headers name = key;
  name.emplace("Host", "evil.example");
  expect_error(post(path, body, name), 403, "127.0.0.1");
}

TEST_F(Serve, WithoutCorsNoPageMayAsk) {
  start();
  expect_error(post("/v1/completions", R"({"prompt":"a"})", {{"Origin", "http://localhost:3000"}}), 403, "--cors");
  EXPECT_FALSE(post("/v1/completions", R"({"prompt":"a"})")->has_header("Access-Control-Allow-Origin"));
}

TEST_F(Serve, ModelsWithoutTemplate) {
  service_.chat = "{% include 'x' %}";
  start();
  expect_error(post("/v1/chat/completions", chat("a")), 400, "no chat template");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})")->status, 200);
}

TEST_F(Serve, FiftyClientsOneQueue) {
  service_.pause = std::chrono::milliseconds(1);
  start();
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([&, i] {
      const std::string text = "number " + std::to_string(i);
      const httplib::Result result = post("/v1/chat/completions", chat(text, i % 2 ? R"(,"stream":true)" : ""));
      if (!result || result->status != 200) return;
      if (i % 2 ? result->body.find("[DONE]") != std::string::npos : content(result) == "user: " + text) ++right;
    });
  }
  for (std::thread& one : clients) one.join();
  EXPECT_EQ(right, 50);
  EXPECT_EQ(service_.most_running, 1);
}

TEST_F(Serve, CutConnectionsEndTheirAnswers) {
  service_.pause = std::chrono::milliseconds(5);
  start();
  for (int i = 0; i < 5; ++i) {
    int received = 0;
    auto one = client();
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = chat(std::string(2000, 'x'), R"(,"stream":true)");
    request.content_receiver = [&](const char*, size_t, uint64_t, uint64_t) { return ++received < 3; };
    const httplib::Result result = one.send(request);
    EXPECT_FALSE(result);
  }
  expect_serves();
  // 5 answers of 2006 tokens were cut after a few.
  EXPECT_LT(service_.made, 5000);
}

TEST_F(Serve, HalfRequestsAndLargeBodies) {
  start();
  const auto connect_raw = [&] {
    const int raw = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(raw, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return raw;
  };
  for (const std::string text :
       {"", "GET", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", "\r\n\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n"}) {
    const int raw = connect_raw();
    EXPECT_EQ(::send(raw, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    ::close(raw);
  }
  const std::string large(100 << 20, 'a');
  const httplib::Result result = post("/v1/chat/completions", large);
  if (result) expect_error(result, 413, "larger than 8388608 bytes");
  expect_serves();
}

TEST(StopTexts, HoldsBackWhatMayBeOne) {
  StopTexts stops({"END", "", "##"});
  EXPECT_EQ(stops.push("a E"), "a ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("x#"), "ENx");
  EXPECT_EQ(stops.push("y"), "#y");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.push("zEN"), "z");
  EXPECT_EQ(stops.push("D more"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.finish(), "");
  StopTexts rest({"END"});
  rest.push("E");
  EXPECT_EQ(rest.finish(), "E");
}

TEST(StopTexts, Base64) {
  EXPECT_EQ(cli::base64(""), "");
  EXPECT_EQ(cli::base64("a"), "YQ==");
  EXPECT_EQ(cli::base64("ab"), "YWI=");
  EXPECT_EQ(cli::base64("abc\xff"), "YWJj/w==");
}

}  // namespace
}  // namespace gyrus::test
