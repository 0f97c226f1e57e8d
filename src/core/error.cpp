#include "core/error.h"

#include <cstdio>

namespace gyrus {

void TextPart::append_to(std::string& out) const {
  switch (kind_) {
    case Kind::Text: out += text_; break;
    case Kind::Letter: out += static_cast<char>(integer_); break;
    case Kind::Signed: out += std::to_string(integer_); break;
    case Kind::Unsigned: out += std::to_string(static_cast<uint64_t>(integer_)); break;
    case Kind::Real: {
      char text[32];
      std::snprintf(text, sizeof text, "%g", real_);
      out += text;
    }
  }
}

std::string text_of_parts(std::initializer_list<TextPart> pieces) {
  std::string text;
  for (const TextPart& piece : pieces) piece.append_to(text);
  return text;
}

void fail_with(ErrorCode code, const std::vector<Hint>& hints, const std::string& subject,
               std::initializer_list<TextPart> message) {
  throw Error(code, "[" + subject + "] " + text_of_parts(message), hints);
}

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidModel: return "invalid-model";
    case ErrorCode::InvalidGraph: return "invalid-graph";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::OverLimits: return "over-limits";
    case ErrorCode::Device: return "device";
    case ErrorCode::InvalidInput: return "invalid-input";
    case ErrorCode::Io: return "io";
    case ErrorCode::Cancelled: return "cancelled";
    case ErrorCode::NonFinite: return "non-finite";
  }
  return "unknown";
}

const char* to_string(Hint hint) {
  switch (hint) {
    case Hint::HalfPrecision: return "half-precision";
    case Hint::SinglePrecision: return "single-precision";
    case Hint::SmallerVolume: return "smaller-volume";
    case Hint::SmallerModel: return "smaller-model";
    case Hint::OtherModel: return "other-model";
    case Hint::OtherDevice: return "other-device";
    case Hint::CheckFinite: return "check-finite";
    case Hint::AllowEmpty: return "allow-empty";
    case Hint::FetchModel: return "fetch-model";
    case Hint::FetchFromFolder: return "fetch-from-folder";
  }
  return "unknown";
}

}  // namespace gyrus
