#pragma once
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text_service.h"

namespace gyrus::cli {

struct ChatOptions {
  CompletionOptions completion;
  std::string system;   // message of the system; empty: none
  bool prompts = true;  // "> " before every line of the user
};

// A conversation with a model on a terminal or over pipes: lines in, answers out as they come; lines that start with /
// are commands.
class Chat {
 public:
  // Throws InvalidModel where the model has no chat template, Unsupported where gyrus does not know it. Times and what
  // is wrong go to `tell`, a line each.
  Chat(TextService& service, ChatOptions options, std::ostream& out, std::function<void(const std::string&)> tell);

  // Until the end of the input, /quit, or Ctrl-C while no answer comes.
  void run(std::istream& in);
  // One line; false: the conversation is over.
  bool take(const std::string& line);

 private:
  bool command(const std::string& line);
  void answer();
  void set_number(const std::string& name, const std::string& value);
  std::vector<ChatMessage> conversation() const;

  TextService& service_;
  ChatOptions options_;
  std::ostream& out_;
  std::function<void(const std::string&)> tell_;
  ChatTemplate template_;
  std::vector<ChatMessage> messages_;  // without that of the system
};

}  // namespace gyrus::cli
