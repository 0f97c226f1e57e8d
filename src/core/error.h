#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "gyrus/error.h"

namespace gyrus {

// A part of a text: words, or a number as streams write it. Stands in for std::format, which the WASM toolchain lacks;
// streams would bring all of their locales into that module.
class TextPart {
 public:
  TextPart(std::string_view text) : text_(text) {}
  TextPart(const std::string& text) : text_(text) {}
  TextPart(const char* text) : text_(text) {}
  TextPart(char letter) : kind_(Kind::Letter), integer_(letter) {}
  template <class T>
  requires std::is_integral_v<T> ||(std::is_enum_v<T>&& std::is_convertible_v<T, int64_t>)TextPart(T number)
      : kind_(std::is_unsigned_v<T> ? Kind::Unsigned : Kind::Signed), integer_(static_cast<int64_t>(number)) {}
  TextPart(double number) : kind_(Kind::Real), real_(number) {}

  void append_to(std::string& out) const;

 private:
  enum class Kind : uint8_t { Text, Letter, Signed, Unsigned, Real };
  Kind kind_ = Kind::Text;
  std::string_view text_{};
  int64_t integer_ = 0;
  double real_ = 0;
};

std::string text_of_parts(std::initializer_list<TextPart> pieces);
[[noreturn]] void fail_with(ErrorCode code, const std::vector<Hint>& hints, const std::string& subject,
                            std::initializer_list<TextPart> message);

// The arguments written one after another.
template <class... Args>
std::string cat(const Args&... args) {
  return text_of_parts({TextPart(args)...});
}

// Throws Error with "[subject] message"; subject is the op, file or device concerned.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, const std::string& subject, const Args&... message) {
  fail_with(code, {}, subject, {TextPart(message)...});
}

// The same with hints, the most promising first.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, const std::vector<Hint>& hints, const std::string& subject,
                       const Args&... message) {
  fail_with(code, hints, subject, {TextPart(message)...});
}

}  // namespace gyrus
