#include "text/chat_template.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::ChatTemplate chat(text);
    chat.render({{"system", "Be\nbrief."}, {"user", "a"}, {"assistant", "<think>b</think>"}, {"user", ""}}, "<s>",
                "</s>");
  });
}
