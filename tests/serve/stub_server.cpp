// Serves a model of bytes that needs no GPU, for tests/serve/openai_test.mjs: stub_server [MS], which prints its port.
#include <cstdio>
#include <cstdlib>

#include "common.h"
#include "support/stub_text_service.h"
#include "text_server.h"

int main(int argc, char** argv) {
  gyrus::cli::catch_interrupts();
  gyrus::test::StubTextService service;
  service.pause = std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 0);
  gyrus::cli::TextServerOptions options;
  options.port = 0;
  options.key = "secret";
  gyrus::cli::TextServer server(service, options);
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  server.run();
}
