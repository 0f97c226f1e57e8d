#pragma once
#include <memory>
#include <string>

#include "text_service.h"

namespace gyrus::cli {

struct TextServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;         // 0: any that is free
  std::string key;         // that clients must have; empty: none
  std::string origin;      // of pages that may use it, "*" for all; empty: none
  double temperature = 1;  // where a request does not say
  int64_t queue = 256;     // requests that may wait
  size_t body = 8 << 20;   // bytes of a request at most
};

// The part of OpenAI's interface that docs/text.md lists, over one model: requests wait in one queue. It reads no
// files.
class TextServer {
 public:
  // Throws Io where the address cannot be had. The service must outlive it.
  TextServer(TextService& service, const TextServerOptions& options);
  ~TextServer();
  TextServer(const TextServer&) = delete;
  TextServer& operator=(const TextServer&) = delete;

  int port() const;
  // Until interrupted() or stop().
  void run();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gyrus::cli
