#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text_service.h"

// What clients ask for in OpenAI's words, checked.

namespace gyrus::cli {

// An answer that is an error: its HTTP status and the words of the interface.
struct RequestError {
  int status = 400;
  std::string message;
  std::string code{};  // null in the answer where it is empty
};

struct TextRequest {
  CompletionOptions options;
  std::vector<std::string> stop;
  bool stream = false, usage = false;         // usage: a last piece of a stream says how many tokens there were
  std::vector<std::vector<int32_t>> prompts;  // completions and embeddings may have several
  std::vector<std::string> echo;              // the prompts as text, where they are to be in the answer
  bool base64 = false;                        // embeddings
};

// Throws RequestError where the text is no JSON object, or nested deeper than 32.
nlohmann::ordered_json parse_request(const std::string& body);

// Each throws RequestError with the key that is wrong, or that gyrus does not know how to serve.
TextRequest chat_request(const nlohmann::ordered_json& json, const TextService& service, const ChatTemplate* chat,
                         double temperature);
TextRequest completion_request(const nlohmann::ordered_json& json, const TextService& service, double temperature);
TextRequest embedding_request(const nlohmann::ordered_json& json, const TextService& service);

std::string error_json(const RequestError& error);
std::string base64(const std::string& bytes);

}  // namespace gyrus::cli
