#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "web_models.h"

namespace gyrus::cli {

struct Site {
  std::filesystem::path page;    // files under /
  std::vector<WebModel> models;  // under /models/NAME/, and /models/index.json
};

// An HTTP server on 127.0.0.1 that gives out a site and nothing else: GET and HEAD only, only to pages that were asked
// for by that address (a foreign name that points here is refused), only files of the page and files that the models
// list.
class WebServer {
 public:
  // Port 0: any that is free. Throws Io where it cannot be had.
  WebServer(Site site, int port);
  WebServer(WebServer&&) noexcept;
  WebServer& operator=(WebServer&&) noexcept;
  ~WebServer();

  int port() const;
  // Until interrupted().
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gyrus::cli
