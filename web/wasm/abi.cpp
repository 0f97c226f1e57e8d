#include "abi.h"

#include <cstdlib>

#include "core/limits.h"
#include "import/model.h"

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

using namespace gyrus;

// ---- memory and results ----

GYRUS_EXPORT void* gyrus_alloc(size_t bytes) { return std::malloc(bytes); }
GYRUS_EXPORT void gyrus_free(void* bytes) { std::free(bytes); }
GYRUS_EXPORT const char* gyrus_error_code() { return answer.code.c_str(); }
GYRUS_EXPORT const char* gyrus_error_message() { return answer.message.c_str(); }
GYRUS_EXPORT const char* gyrus_error_hints() { return answer.hints.c_str(); }
GYRUS_EXPORT const char* gyrus_text() { return answer.text.data(); }
GYRUS_EXPORT size_t gyrus_text_size() { return answer.text.size(); }
GYRUS_EXPORT const std::byte* gyrus_data() { return answer.data.data(); }
GYRUS_EXPORT size_t gyrus_size() { return answer.data.size(); }
GYRUS_EXPORT const char* gyrus_version() { return GYRUS_VERSION; }
GYRUS_EXPORT void gyrus_clear() {
  answer.text = {};
  answer.data = {};
}

// ---- files ----

GYRUS_EXPORT ModelFiles* gyrus_files_new(const char* name, const char* main) {
  return guarded([&] { return new ModelFiles{name, {}, {}, main}; });
}
// Copies the bytes.
GYRUS_EXPORT int gyrus_files_add(ModelFiles* files, const char* name, const std::byte* bytes, size_t size) {
  return guarded([&] {
    files->files[name].assign(bytes, bytes + size);
    return 1;
  });
}
GYRUS_EXPORT void gyrus_files_close(ModelFiles* files) { delete files; }
