#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/bytes.h"

// Pictures and sound as numbers.

namespace gyrus::cli {

struct Pixels {
  int64_t width = 0, height = 0, channels = 0;  // 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
  std::vector<uint8_t> values;                  // rows from the top, channels fastest
};

bool is_png(Bytes file);
bool is_jpeg(Bytes file);
bool is_wav(Bytes file);

// Palettes become colours, 16 bits become 8. Throws InvalidInput("[subject] …").
Pixels decode_png(Bytes file, const std::string& subject);
Pixels decode_jpeg(Bytes file, const std::string& subject);

struct Sound {
  int64_t rate = 0, channels = 0;
  std::vector<float> samples;  // channels fastest; whole numbers are brought to -1 … 1
};

// PCM of 8, 16, 24 or 32 bits, and floats of 32 or 64. Throws InvalidInput("[subject] …").
Sound decode_wav(Bytes file, const std::string& subject);

}  // namespace gyrus::cli
