#include "abi.h"

#include "core/limits.h"

namespace gyrus {

Answer answer;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void record(const char* code, std::string message, const std::vector<Hint>& hints) {
  answer.code = code;
  answer.message = std::move(message);
  answer.hints.clear();
  for (const Hint hint : hints) answer.hints += (answer.hints.empty() ? "" : ",") + std::string(to_string(hint));
}

Limits limits_of(const Json& json) {
  Limits limits = default_limits();
  visit_limits(limits, [&](const char* name, auto& limit) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned())
      fail(ErrorCode::InvalidInput, "plan", "the limit ", name, " is missing or no whole number");
    using T = std::decay_t<decltype(limit)>;
    // Adapters may report more than a plan can ever use.
    limit = static_cast<T>(std::min<uint64_t>(found->template get<uint64_t>(), std::numeric_limits<T>::max()));
  });
  return limits;
}

}  // namespace gyrus
