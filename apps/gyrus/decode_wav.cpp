#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "decode.h"

namespace gyrus::cli {
namespace {

constexpr uint32_t kPcm = 1, kFloat = 3, kExtensible = 0xfffe;

// Little-endian, as all numbers of a WAV file are.
uint64_t number(Bytes bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

struct Format {
  uint32_t kind = 0, channels = 0, rate = 0, bits = 0;
};

Format read_format(Bytes chunk, const std::string& subject) {
  if (chunk.size() < 16) fail(ErrorCode::InvalidInput, subject, "is a broken WAV: its format is too short");
  Format format{static_cast<uint32_t>(number(chunk, 0, 2)), static_cast<uint32_t>(number(chunk, 2, 2)),
                static_cast<uint32_t>(number(chunk, 4, 4)), static_cast<uint32_t>(number(chunk, 14, 2))};
  if (format.kind == kExtensible && chunk.size() >= 26) format.kind = static_cast<uint32_t>(number(chunk, 24, 2));
  const bool pcm =
      format.kind == kPcm && (format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32);
  const bool floats = format.kind == kFloat && (format.bits == 32 || format.bits == 64);
  if (!pcm && !floats)
    fail(ErrorCode::InvalidInput, subject, "is a WAV of format ", format.kind, " with ", format.bits,
         " bits; gyrus reads PCM of 8, 16, 24 and 32 bits and floats");
  if (format.channels == 0) fail(ErrorCode::InvalidInput, subject, "is a WAV without channels");
  return format;
}

float sample(Bytes data, size_t at, const Format& format) {
  const uint64_t bits = number(data, at, format.bits / 8);
  if (format.kind == kFloat)
    return format.bits == 32 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                             : static_cast<float>(std::bit_cast<double>(bits));
  if (format.bits == 8) return (static_cast<float>(bits) - 128) / 128;  // the only one without a sign
  const int64_t whole = static_cast<int64_t>(bits << (64 - format.bits)) >> (64 - format.bits);
  return static_cast<float>(std::ldexp(static_cast<double>(whole), 1 - static_cast<int>(format.bits)));
}

}  // namespace

bool is_wav(Bytes file) {
  return file.size() >= 12 && std::memcmp(file.data(), "RIFF", 4) == 0 && std::memcmp(file.data() + 8, "WAVE", 4) == 0;
}

Sound decode_wav(Bytes file, const std::string& subject) {
  Format format;
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t length = number(file, at + 4, 4);
    const bool is_data = std::memcmp(file.data() + at, "data", 4) == 0;
    if (file.size() - at - 8 < length)
      fail(ErrorCode::InvalidInput, subject, "is a broken WAV: it ends ", length - (file.size() - at - 8),
           " bytes too early");
    const Bytes chunk = file.subspan(at + 8, length);
    if (std::memcmp(file.data() + at, "fmt ", 4) == 0) format = read_format(chunk, subject);
    if (is_data && format.channels == 0) break;
    if (is_data) {
      Sound sound{format.rate, format.channels, {}};
      const size_t bytes = format.bits / 8, frames = length / (bytes * format.channels);
      sound.samples.resize(frames * format.channels);
      for (size_t i = 0; i < sound.samples.size(); ++i) sound.samples[i] = sample(chunk, i * bytes, format);
      return sound;
    }
    at += 8 + length + length % 2;
  }
  fail(ErrorCode::InvalidInput, subject, "is a broken WAV: it has no format or no data");
}

}  // namespace gyrus::cli
