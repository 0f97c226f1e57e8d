#include "core/error.h"

namespace gyrus {

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
