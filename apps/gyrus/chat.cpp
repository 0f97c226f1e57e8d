#include "chat.h"

#include <cstdio>
#include <cstdlib>
#include <istream>
#include <ostream>

#include "common.h"
#include "core/error.h"

namespace gyrus::cli {
namespace {

constexpr double kMostTokens = 1e6, kHottest = 1000;  // what may be set
constexpr const char* kChatHelp =
    "/help             this list\n"
    "/system TEXT      what the model is told first; without TEXT nothing\n"
    "/clear            forget the conversation\n"
    "/undo             forget the last question and its answer\n"
    "/retry            answer the last question again, with another seed\n"
    "/history          the conversation so far\n"
    "/temperature T    how freely tokens are drawn; 0: always the best one\n"
    "/tokens N         of an answer at most; 0: as many as there is room for\n"
    "/quit             end (so does Ctrl-D)\n";

const std::string& template_of(const std::string& text, const std::string& name) {
  if (text.empty()) {
    fail(ErrorCode::InvalidModel, name,
         "has no chat template: it goes on with texts, but does not talk; gyrus generate is for such models");
  }
  return text;
}

}  // namespace

Chat::Chat(TextService& service, ChatOptions options, std::ostream& out, std::function<void(const std::string&)> tell)
    : service_(service),
      options_(std::move(options)),
      out_(out),
      tell_(std::move(tell)),
      template_(template_of(service.chat_template(), service.name())) {}

void Chat::run(std::istream& in) {
  std::string line;
  for (;;) {
    if (options_.prompts) out_ << "> " << std::flush;
    if (!std::getline(in, line) || interrupted().load()) return;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && !take(line)) return;
  }
}

bool Chat::take(const std::string& line) {
  if (line[0] == '/') return command(line);
  messages_.push_back({"user", line});
  answer();
  return true;
}

bool Chat::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string word = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (word == "/quit" || word == "/exit") return false;
  if (word == "/help") {
    out_ << kChatHelp << std::flush;
  } else if (word == "/system") {
    options_.system = rest;
  } else if (word == "/clear") {
    messages_.clear();
  } else if (word == "/undo") {
    while (!messages_.empty() && messages_.back().role != "user") messages_.pop_back();
    if (!messages_.empty()) messages_.pop_back();
  } else if (word == "/retry") {
    while (!messages_.empty() && messages_.back().role != "user") messages_.pop_back();
    ++options_.completion.seed;
    messages_.empty() ? tell_("there is no question yet") : answer();
  } else if (word == "/history") {
    for (const ChatMessage& message : conversation()) out_ << message.role << ": " << message.content << '\n';
    out_ << std::flush;
  } else if (word == "/temperature" || word == "/tokens") {
    set_number(word, rest);
  } else {
    tell_(word + " is no command; /help lists them");
  }
  return true;
}

void Chat::set_number(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const double most = name == "/tokens" ? kMostTokens : kHottest;
  if (value.empty() || *end != 0 || !(number >= 0) || number > most)
    return tell_(cat(name, " wants a number from 0 to ", static_cast<int64_t>(most)));
  if (name == "/tokens")
    options_.completion.tokens = static_cast<int64_t>(number);
  else
    options_.completion.temperature = number;
}

std::vector<ChatMessage> Chat::conversation() const {
  std::vector<ChatMessage> out;
  if (!options_.system.empty()) out.push_back({"system", options_.system});
  out.insert(out.end(), messages_.begin(), messages_.end());
  return out;
}

// A question that cannot be answered is forgotten, so that the conversation can go on.
void Chat::answer() {
  std::string text;
  try {
    const auto [begin, end] = service_.begin_and_end();
    const std::string prompt = template_.render(conversation(), begin, end);
    const bool begins = !begin.empty() && prompt.compare(0, begin.size(), begin) == 0;
    const std::vector<int32_t> tokens = service_.tokenize(prompt, true, !begins);
    if (static_cast<int64_t>(tokens.size()) >= service_.context()) {
      fail(ErrorCode::InvalidInput, "chat", "the conversation has ", tokens.size(), " tokens, the context ",
           service_.context(), "; /clear or /undo makes room");
    }
    const CompletionEnd made = service_.complete(tokens, options_.completion, [&](const CompletionToken& token) {
      out_ << token.text << std::flush;
      text += token.text;
      return !interrupted().load();
    });
    out_ << '\n' << std::flush;
    const int64_t most = options_.completion.tokens;
    char line[120];
    std::snprintf(line, sizeof line, "%lld tokens, the first after %.2f s, %.1f tokens/s",
                  static_cast<long long>(made.tokens), made.prompt_seconds,
                  made.seconds > 0 ? static_cast<double>(made.tokens) / made.seconds : 0.0);
    const std::string cut = made.ended                        ? ""
                            : most > 0 && made.tokens >= most ? cat(", cut at ", most, " tokens")
                                                              : ", cut: there is no more room";
    tell_(line + cut);
    messages_.push_back({"assistant", text});
  } catch (const Error& error) {
    if (!text.empty()) out_ << '\n' << std::flush;
    messages_.pop_back();
    tell_(worded(error));
    if (error.code() == ErrorCode::Device) throw;
  }
}

}  // namespace gyrus::cli
