// gyrus web: what it gives out, with which headers, and what it does not.
#include <httplib.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

constexpr int kInput = 2, kIo = 3;

class Web : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write("web/page/index.html", to_bytes("<!doctype html><title>page</title>"));
    write("web/page/wasm/gyrus.wasm", to_bytes("asm!"));
    write("web/page/main.js", to_bytes("export {};"));
    write("web/page/.hidden", to_bytes("hidden"));
    write("web/secret.txt", to_bytes("secret"));
    fs::create_symlink("../secret.txt", folder_ / "web/page/link.txt");
    write_model("cache/gyrus/models/tiny");
    write_model("lab/one");
    write_model("lab/two");
    write("lab/two/gyrus.json", to_bytes(R"({"title": "Second"})"));
    write("lab/two/notes.txt", to_bytes("not for the page"));
    write("lab/broken/model.json", to_bytes("{"));
  }
  void TearDown() override {
    if (server_ > 0) kill(server_, SIGKILL);
    if (server_ > 0) waitpid(server_, nullptr, 0);
    Program::TearDown();
  }
  std::vector<std::string> variables() const {
    return {"GYRUS_WEB_DIR=" + in_folder("web"), "XDG_CACHE_HOME=" + in_folder("cache"), "GYRUS_MODELS="};
  }

  // The address is the first line on standard output.
  void serve(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"web", "--port", "0"};
    words.insert(words.end(), more.begin(), more.end());
    server_ = start(words, variables());
    std::string text;
    for (int i = 0; i < 500 && text.find('\n') == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (fs::exists(in_folder("stdout"))) text = text_of(in_folder("stdout"));
    }
    const std::string before = "http://127.0.0.1:";
    ASSERT_EQ(text.rfind(before, 0), 0u) << text << text_of(in_folder("stderr"));
    port_ = std::stoi(text.substr(before.size()));
  }
  Outcome end(int signal) {
    kill(server_, signal);
    const Outcome outcome = finish(server_);
    server_ = -1;
    return outcome;
  }
  httplib::Response get(const std::string& path, const httplib::Headers& headers = {}) const {
    httplib::Client client("127.0.0.1", port_);
    client.set_url_encode(false);  // what is asked for is what is sent
    const httplib::Result result = client.Get(path, headers);
    EXPECT_TRUE(result) << path;
    return result ? *result : httplib::Response{};
  }

  pid_t server_ = -1;
  int port_ = 0;
};

TEST_F(Web, FilesWithTheirHeaders) {
  serve();
  const httplib::Response page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<!doctype html><title>page</title>");
  EXPECT_EQ(page.get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.get_header_value("Cache-Control"), "no-store");
  EXPECT_EQ(page.get_header_value("Cross-Origin-Opener-Policy"), "same-origin");
  EXPECT_EQ(page.get_header_value("Cross-Origin-Embedder-Policy"), "require-corp");
  EXPECT_EQ(page.get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_NE(page.get_header_value("Content-Security-Policy").find("'wasm-unsafe-eval'"), std::string::npos);
  EXPECT_EQ(get("/main.js").get_header_value("Content-Type"), "text/javascript; charset=utf-8");

  const httplib::Response wasm = get("/wasm/gyrus.wasm?v=1");
  EXPECT_EQ(wasm.body, "asm!");
  EXPECT_EQ(wasm.get_header_value("Content-Type"), "application/wasm");
  EXPECT_EQ(wasm.get_header_value("Cache-Control"), "no-cache");
  const std::string tag = wasm.get_header_value("ETag"), date = wasm.get_header_value("Last-Modified");
  EXPECT_EQ(get("/wasm/gyrus.wasm", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(get("/wasm/gyrus.wasm", {{"If-Modified-Since", date}}).status, 304);
  EXPECT_EQ(get("/wasm/gyrus.wasm", {{"If-None-Match", "\"other\""}, {"If-Modified-Since", date}}).status, 200);
  const httplib::Response part = get("/wasm/gyrus.wasm", {{"Range", "bytes=1-2"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "sm");
  write("web/page/wasm/gyrus.wasm", to_bytes("newer"));
  EXPECT_EQ(get("/wasm/gyrus.wasm", {{"If-None-Match", tag}}).body, "newer");
  httplib::Client client("127.0.0.1", port_);
  const httplib::Result head = client.Head("/main.js");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->get_header_value("Content-Length"), "10");
}

TEST_F(Web, NothingElseIsGivenOut) {
  serve({"--models", "lab"});
  for (const char* path : {"/absent",
                           "/../secret.txt",
                           "/%2e%2e/secret.txt",
                           "/wasm/../../secret.txt",
                           "/..%2fsecret.txt",
                           "/%2e%2e%2fsecret.txt",
                           "/..%5csecret.txt",
                           "//etc/passwd",
                           "/./index.html",
                           "/.hidden",
                           "/link.txt",
                           "/wasm",
                           "/wasm/",
                           "/index.html/",
                           "/index.html%00.js",
                           "/models/",
                           "/models/two/",
                           "/models/two/notes.txt",
                           "/models/two/../one/model.json",
                           "/models/two/..%2fone%2fmodel.json",
                           "/models/broken/model.json",
                           "/models/../secret.txt",
                           "/models/lab/one/model.json"}) {
    const httplib::Response response = get(path);
    EXPECT_EQ(response.status, 404) << path << ": " << response.body;
    EXPECT_EQ(response.body.find("secret"), std::string::npos) << path;
    EXPECT_EQ(response.get_header_value("Cross-Origin-Opener-Policy"), "same-origin") << path;
  }
  // A foreign name that was made to point here.
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""})
    EXPECT_EQ(get("/", {{"Host", host}}).status, 403) << host;
  for (const char* host : {"localhost", "localhost:1234", "127.0.0.1"})
    EXPECT_EQ(get("/", {{"Host", host}}).status, 200) << host;
  httplib::Client client("127.0.0.1", port_);
  for (const httplib::Result& result : {client.Post("/"), client.Delete("/index.html"), client.Options("/")}) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 405);
    EXPECT_EQ(result->get_header_value("Allow"), "GET, HEAD");
  }
  EXPECT_EQ(get("/").status, 200);  // all that left it well
}

TEST_F(Web, ModelsOfTheCacheAndOfFolders) {
  serve({"--models", "lab", "--models", "lab/one"});
  EXPECT_NE(text_of(in_folder("stderr")).find("lab/broken"), std::string::npos) << "the broken one is not mentioned";
  const httplib::Response response = get("/models/index.json");
  EXPECT_EQ(response.get_header_value("Content-Type"), "application/json");
  const json models = json::parse(response.body).at("models");
  ASSERT_EQ(models.size(), 3u) << models;
  EXPECT_EQ(models[0].at("name"), "one");
  EXPECT_EQ(models[1].at("title"), "Second");
  EXPECT_EQ(models[2].at("name"), "tiny");
  for (const json& model : models) {
    EXPECT_EQ(model.at("classes"), 3);
    EXPECT_EQ(model.at("labels").size(), 2u) << model;  // without the background
    EXPECT_GT(model.at("parameters"), 0);
    for (const char* text : {"description", "citation"}) EXPECT_TRUE(model.at(text).is_string()) << text;
    uint64_t bytes = 0;
    for (const json& file : model.at("files")) {
      const std::string path = model.at("path").get<std::string>() + file.at("name").get<std::string>();
      EXPECT_EQ(get("/models/" + path).body.size(), file.at("bytes").get<size_t>()) << path;
      bytes += file.at("bytes").get<uint64_t>();
    }
    EXPECT_EQ(model.at("bytes").get<uint64_t>(), bytes);
  }
  EXPECT_EQ(get("/models/one/model.pth").body, text_of(in_folder("lab/one/model.pth")));
}

TEST_F(Web, InterruptEndsIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    serve();
    httplib::Client holding("127.0.0.1", port_);  // a browser that keeps its connection
    holding.set_keep_alive(true);
    ASSERT_TRUE(holding.Get("/"));
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(end(signal).status, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
    fs::remove(folder_ / "stdout");
  }
}

TEST_F(Web, PortInUseAndOtherErrors) {
  serve();
  const pid_t first = server_;
  const Outcome second = run({"web", "--port", std::to_string(port_)}, variables());
  EXPECT_EQ(second.status, kIo);
  EXPECT_NE(second.err.find("in use; choose another port with --port N"), std::string::npos) << second.err;
  EXPECT_EQ(get("/").status, 200);
  server_ = first;
  expect_refused({"web", "--port", "70000"}, kInput, "--port");
  expect_refused({"web", "--models", "absent"}, kIo, "[absent] --models: is no folder", "", variables());
  expect_refused({"web"}, kIo, "make web", "", {"GYRUS_WEB_DIR=" + in_folder("lab")});
}

}  // namespace
}  // namespace gyrus::test
