#pragma once
#include <emscripten/emscripten.h>

#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "gyrus/limits.h"

// What the entry points of the modules share: a C ABI, called by web/src alone.
//
// A call that can fail returns 0 (or a null handle) when it did; gyrus_error_code(), gyrus_error_message() and
// gyrus_error_hints() (names, with commas) then say why. Results that are no handle are left in two places until the
// next call: gyrus_text(), JSON or other UTF-8, and gyrus_data() with gyrus_size(), bytes. Handles are freed by the
// close function of their kind. Bytes come in through gyrus_alloc(); the calls that take them say who frees them.

#define GYRUS_EXPORT extern "C" EMSCRIPTEN_KEEPALIVE

namespace gyrus {

using Json = nlohmann::json;

struct Answer {
  std::string code, message, hints;  // of the last failure; hints by their names, with commas
  std::string text;
  std::vector<std::byte> data;
  double peak_bytes = 0, flops = 0;  // of the last plan
  std::string about;                 // likewise, JSON: which it is and why, or the ports of a network
};
extern Answer answer;

std::string dump(const Json& json);
void record(const char* code, std::string message, const std::vector<Hint>& hints = {});

// What body returns; its zero after an exception, which is recorded.
template <class F>
auto guarded(F&& body) -> decltype(body()) {
  answer.text.clear();
  answer.data = {};
  try {
    return body();
  } catch (const Error& error) {
    record(to_string(error.code()), error.what(), error.hints());
  } catch (const std::bad_alloc&) {
    record("over-limits", "[compiler] no memory left in the page; close other tabs or take a smaller volume");
  } catch (const std::exception& error) {
    record("invalid-input", cat("[compiler] ", error.what()));
  }
  return {};
}

// Throws InvalidInput where one is missing.
Limits limits_of(const Json& json);

}  // namespace gyrus
