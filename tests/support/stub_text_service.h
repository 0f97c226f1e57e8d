#pragma once
#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "text/unicode.h"
#include "text_service.h"

namespace gyrus::test {

// A language model of bytes that needs no GPU: it answers with the last line of its prompt.
class StubTextService : public cli::TextService {
 public:
  static constexpr int32_t kBegin = 256, kEnd = 257;
  int64_t tokens = 4096;  // context
  std::string chat = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  std::chrono::milliseconds pause{0};                     // before each token
  std::atomic<double> top_p{1};                           // of the last request
  std::atomic<int> running{0}, most_running{0}, made{0};  // answers at once; tokens in all

  std::string name() const override { return "stub"; }
  int64_t context() const override { return tokens; }
  std::string chat_template() const override { return chat; }
  std::pair<std::string, std::string> begin_and_end() const override { return {"<s>", "</s>"}; }

  std::vector<int32_t> tokenize(const std::string& text, bool special, bool begin) const override {
    std::vector<int32_t> out;
    size_t at = 0;
    if (begin || (special && text.rfind("<s>", 0) == 0)) out.push_back(kBegin);
    if (special && text.rfind("<s>", 0) == 0) at = 3;
    for (; at < text.size(); ++at) out.push_back(static_cast<uint8_t>(text[at]));
    return out;
  }
  std::string text_of(const std::vector<int32_t>& ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (id < 0 || id > kEnd) fail(ErrorCode::InvalidInput, "stub", "there is no token ", id);
      if (id < kBegin) out += static_cast<char>(id);
    }
    return out;
  }

  cli::CompletionEnd complete(const std::vector<int32_t>& prompt, const cli::CompletionOptions& options,
                              const std::function<bool(const cli::CompletionToken&)>& on_token) override {
    top_p = options.top_p;
    most_running = std::max(most_running.load(), ++running);
    std::string text = text_of(prompt);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    text.erase(0, text.rfind('\n') + 1);
    if (text == "user: fail") {
      --running;
      fail(ErrorCode::Device, "stub", "the device was lost");
    }
    cli::CompletionEnd end;
    const int64_t room = tokens - static_cast<int64_t>(prompt.size());
    const int64_t most = options.tokens > 0 ? std::min(options.tokens, room) : room;
    std::string waiting;
    end.ended = static_cast<int64_t>(text.size()) <= most;
    for (const char c : text) {
      if (end.tokens >= most) break;
      std::this_thread::sleep_for(pause);
      cli::CompletionToken token{static_cast<uint8_t>(c), ""};
      waiting += c;
      if (unicode::unfinished_bytes(waiting) == 0) token.text = std::exchange(waiting, {});
      if (options.candidates >= 0) token.candidates.emplace_back(token.token, -0.5F);
      for (int64_t i = 0; i < options.candidates; ++i) token.candidates.emplace_back('a' + i, -1.0F);
      ++end.tokens;
      ++made;
      if (!on_token(token)) {
        end.ended = true;
        break;
      }
    }
    if (end.ended && !waiting.empty()) on_token({-1, "\ufffd"});
    --running;
    return end;
  }
  std::vector<float> embed(const std::vector<int32_t>& ids) override {
    return {static_cast<float>(ids.size()), 0.5F, static_cast<float>(ids.back())};
  }
};

}  // namespace gyrus::test
