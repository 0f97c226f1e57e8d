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
  }
  return "unknown";
}

}  // namespace gyrus
