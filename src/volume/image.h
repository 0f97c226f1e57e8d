#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "volume/labels.h"

// A picture in memory: 8-bit RGB, rows from the top.

namespace gyrus {

struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;  // 3 * width * height

  Image() = default;
  Image(int width, int height, Rgb background = {0, 0, 0});

  uint8_t* pixel(int x, int y) {
    return rgb.data() + 3 * (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x));
  }
  const uint8_t* pixel(int x, int y) const {
    return rgb.data() + 3 * (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x));
  }
};

void fill(Image& image, int x, int y, int width, int height, Rgb colour);  // clipped
void paste(Image& image, int x, int y, const Image& part);                 // clipped

// Characters are 12 pixels apart, capitals 14 pixels high, descenders 4 below; what lies outside the image is clipped.
// Only ASCII has shapes.
inline constexpr int kGlyphWidth = 12;
inline constexpr int kGlyphHeight = 14;
inline int text_width(const std::string& text) { return kGlyphWidth * static_cast<int>(text.size()); }
void draw_text(Image& image, int x, int y, const std::string& text, Rgb colour);

// PNG file bytes.
std::vector<std::byte> encode_png(const Image& image);
// The same with at most 256 colours, greys in 32 steps: less than half of the bytes.
std::vector<std::byte> encode_small_png(const Image& image);

}  // namespace gyrus
