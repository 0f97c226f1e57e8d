#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/template_value.h"

namespace gyrus {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", …
  std::string content;
};

struct TemplateTree;

// A model's chat template ("tokenizer.chat_template"): the part of Jinja that the templates of the supported
// architectures use (docs/text.md), rendered as transformers does. Copies are the same template.
class ChatTemplate {
 public:
  // Throws Unsupported with the line and the name of what gyrus does not know, InvalidModel where the syntax is wrong.
  explicit ChatTemplate(const std::string& text);

  // `variables` is a map: messages, add_generation_prompt, bos_token, eos_token, tools, … Throws InvalidInput where the
  // template raises an exception, uses what is not there, or does not end.
  std::string render(const TemplateValue& variables) const;

  // The prompt for the next answer.
  std::string render(const std::vector<ChatMessage>& messages, const std::string& begin_text,
                     const std::string& end_text) const;

 private:
  std::shared_ptr<const TemplateTree> tree_;
};

// The messages as the list that templates know.
TemplateValue to_template_value(const std::vector<ChatMessage>& messages);

}  // namespace gyrus
