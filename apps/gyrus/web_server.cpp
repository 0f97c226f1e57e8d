#include "web_server.h"

#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <thread>

#include "common.h"
#include "core/error.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAddress = "127.0.0.1";

const char* content_type(const fs::path& path) {
  struct Type {
    const char* suffix;
    const char* type;
  };
  static constexpr Type kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".json", "application/json"},
      {".map", "application/json"},
      {".webmanifest", "application/manifest+json"},
      {".wasm", "application/wasm"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"},
      {".md", "text/plain; charset=utf-8"},
  };
  for (const Type& type : kTypes)
    if (path.extension() == type.suffix) return type.type;
  return "application/octet-stream";
}

// Isolation lets the page use threads and shared memory; the policy keeps what it loads to itself, models from other
// addresses excepted.
void add_headers(httplib::Response& response) {
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header("Cross-Origin-Embedder-Policy", "require-corp");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Content-Security-Policy",
                      "default-src 'self'; script-src 'self' 'wasm-unsafe-eval' blob:; worker-src 'self' blob:; "
                      "connect-src 'self' https: blob: data:; img-src 'self' blob: data:; font-src 'self' data:; "
                      "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'");
}

void answer_text(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_header("Cache-Control", "no-store");
  response.set_content(text + "\n", "text/plain; charset=utf-8");
}

// Another site's name that resolves to this machine would make its pages ours in the browser's eyes.
bool is_local(const std::string& host) {
  const std::string name = host.substr(0, host.rfind(':'));
  return name == kAddress || name == "localhost";
}

std::string http_date(time_t seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

struct FileState {
  uint64_t size = 0;
  std::string tag, date;
};

std::optional<FileState> state_of_file(const fs::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  char tag[64];
  std::snprintf(tag, sizeof tag, "\"%llx-%llx.%lx\"", static_cast<unsigned long long>(found.st_size),
                static_cast<unsigned long long>(found.st_mtim.tv_sec),
                static_cast<unsigned long>(found.st_mtim.tv_nsec));
  return FileState{static_cast<uint64_t>(found.st_size), tag, http_date(found.st_mtim.tv_sec)};
}

bool is_unchanged(const httplib::Request& request, const FileState& state) {
  if (request.has_header("If-None-Match")) {
    const std::string tags = request.get_header_value("If-None-Match");
    return tags == "*" || tags.find(state.tag) != std::string::npos;
  }
  return request.get_header_value("If-Modified-Since") == state.date;
}

// Page and service worker decide which of the rest is wanted, and are never old. The rest is asked for again by its
// tag.
const char* caching(const fs::path& path) {
  return path.extension() == ".html" || path.filename() == "sw.js" ? "no-store" : "no-cache";
}

void answer_file(const httplib::Request& request, httplib::Response& response, const fs::path& path) {
  const std::optional<FileState> state = state_of_file(path);
  if (!state) return answer_text(response, 404, "There is no such file here.");
  response.set_header("Cache-Control", caching(path));
  response.set_header("ETag", state->tag);
  response.set_header("Last-Modified", state->date);
  if (is_unchanged(request, *state)) {
    response.status = 304;
    return;
  }
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (!*file) return answer_text(response, 403, "The file cannot be read.");
  if (state->size == 0) return response.set_content("", content_type(path));
  // With a known length the library neither compresses nor holds the whole of it.
  response.set_content_provider(state->size, content_type(path),
                                [file](size_t offset, size_t length, httplib::DataSink& sink) {
                                  std::vector<char> part(std::min<size_t>(length, 1 << 18));
                                  file->seekg(static_cast<std::streamoff>(offset));
                                  if (!file->read(part.data(), static_cast<std::streamsize>(part.size()))) return false;
                                  return sink.write(part.data(), part.size());
                                });
}

std::vector<std::string> segments_of(const std::string& path) {
  std::vector<std::string> segments;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, '/');) segments.push_back(part);
  if (!segments.empty()) segments.erase(segments.begin());  // before the first slash
  if (path.empty() || path.back() == '/') segments.emplace_back("index.html");
  return segments;
}

// Names of ordinary files only: nothing hidden, nothing that climbs.
bool is_plain(const std::string& segment) {
  return !segment.empty() && segment[0] != '.' && segment.find_first_of(std::string("\\\0", 2)) == std::string::npos;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code failed;
  const fs::path whole = fs::canonical(path, failed);
  if (failed) return false;
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), whole.begin(), whole.end());
  return end == folder.end();
}

void only_reuse_address(socket_t socket) {
  // Not the library's own choice, which lets two servers share a port unnoticed.
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

struct WebServer::Impl {
  Site site;
  httplib::Server server;
  int port = 0;

  void answer(const httplib::Request& request, httplib::Response& response) const {
    add_headers(response);
    if (!is_local(request.get_header_value("Host")))
      return answer_text(response, 403, "This server answers to 127.0.0.1 and localhost only.");
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return answer_text(response, 405, "Files can be read here, nothing else.");
    }
    const std::vector<std::string> path = segments_of(request.path);
    if (!std::all_of(path.begin(), path.end(), is_plain))
      return answer_text(response, 404, "There is no such file here.");
    if (path.size() == 2 && path[0] == "models" && path[1] == "index.json") {
      response.set_header("Cache-Control", "no-store");
      return response.set_content(models_index(site.models), "application/json");
    }
    if (path.size() == 3 && path[0] == "models")
      for (const WebModel& model : site.models)
        if (model.name == path[1] && model.find(path[2])) return answer_file(request, response, model.folder / path[2]);
    fs::path file = site.page;
    for (const std::string& segment : path) file /= segment;
    if (!lies_in(file, site.page)) return answer_text(response, 404, "There is no such file here.");
    answer_file(request, response, file);
  }
};

WebServer::WebServer(Site site, int port) : impl_(std::make_unique<Impl>()) {
  impl_->site = std::move(site);
  impl_->site.page = fs::canonical(impl_->site.page);
  httplib::Server& server = impl_->server;
  server.set_socket_options(only_reuse_address);
  server.set_keep_alive_timeout(1);  // seconds; also how long the end waits for a browser that holds on
  server.set_keep_alive_max_count(1000);
  server.set_payload_max_length(0);
  server.set_pre_routing_handler([impl = impl_.get()](const httplib::Request& request, httplib::Response& response) {
    impl->answer(request, response);  // leaves the status of success to the library: 200, or 206 for a range
    whisper(cat(request.method, " ", request.path, response.status < 0 ? "" : cat(" ", response.status)));
    return httplib::Server::HandlerResponse::Handled;
  });
  errno = 0;
  impl_->port = port == 0 ? server.bind_to_any_port(kAddress) : server.bind_to_port(kAddress, port) ? port : -1;
  if (impl_->port < 0)
    fail(ErrorCode::Io, cat(kAddress, ":", port), "cannot be listened on",
         errno ? cat(": ", std::strerror(errno)) : std::string(),
         "; choose another port with --port N, or --port 0 for any that is free");
}

WebServer::WebServer(WebServer&&) noexcept = default;
WebServer& WebServer::operator=(WebServer&&) noexcept = default;
WebServer::~WebServer() = default;

int WebServer::port() const { return impl_->port; }

void WebServer::run() {
  std::atomic<bool> ended{false};
  std::thread watch([&] {
    while (!interrupted().load() && !ended.load()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    impl_->server.stop();
  });
  const bool well = impl_->server.listen_after_bind();
  ended.store(true);
  watch.join();
  if (!well && !interrupted().load()) fail(ErrorCode::Io, kAddress, "the server stopped by itself");
}

}  // namespace gyrus::cli
