#include "volume/image.h"

#include <algorithm>
#include <cstring>

#include "volume/font.h"

namespace gyrus {

namespace {

// Is the glyph's dot at (column, row) set? Outside the glyph none is.
bool dot(const uint8_t* glyph, int column, int row) {
  return column >= 0 && column < kFontColumns && row >= 0 && row < kFontRows &&
         ((glyph[row] >> (kFontColumns - 1 - column)) & 1) != 0;
}

void put(Image& image, int x, int y, Rgb colour) {
  if (x < 0 || y < 0 || x >= image.width || y >= image.height) return;
  std::memcpy(image.pixel(x, y), colour.data(), 3);
}

// One glyph at twice its size; corners between two set neighbours are filled (the rule of EPX), which rounds diagonals.
void draw_glyph(Image& image, int x, int y, const uint8_t* glyph, Rgb colour) {
  for (int row = 0; row < kFontRows; ++row) {
    for (int column = 0; column < kFontColumns; ++column) {
      const bool own = dot(glyph, column, row);
      const bool up = dot(glyph, column, row - 1), down = dot(glyph, column, row + 1);
      const bool left = dot(glyph, column - 1, row), right = dot(glyph, column + 1, row);
      const bool corners[2][2] = {{left == up && left != down && up != right ? up : own,
                                   up == right && up != left && right != down ? right : own},
                                  {down == left && down != right && left != up ? left : own,
                                   right == down && right != up && down != left ? down : own}};
      for (int dy = 0; dy < 2; ++dy)
        for (int dx = 0; dx < 2; ++dx)
          if (corners[dy][dx]) put(image, x + 2 * column + dx, y + 2 * row + dy, colour);
    }
  }
}

}  // namespace

Image::Image(int width_in, int height_in, Rgb background)
    : width(width_in), height(height_in), rgb(3 * static_cast<size_t>(width_in) * static_cast<size_t>(height_in)) {
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = background[i % 3];
}

void fill(Image& image, int x, int y, int width, int height, Rgb colour) {
  for (int row = std::max(0, y); row < std::min(image.height, y + height); ++row)
    for (int column = std::max(0, x); column < std::min(image.width, x + width); ++column)
      std::memcpy(image.pixel(column, row), colour.data(), 3);
}

void paste(Image& image, int x, int y, const Image& part) {
  const int x0 = std::max(0, x), x1 = std::min(image.width, x + part.width);
  if (x0 >= x1) return;
  for (int row = std::max(0, y); row < std::min(image.height, y + part.height); ++row)
    std::memcpy(image.pixel(x0, row), part.pixel(x0 - x, row - y), 3 * static_cast<size_t>(x1 - x0));
}

void draw_text(Image& image, int x, int y, const std::string& text, Rgb colour) {
  for (char c : text) {
    const bool known = c >= kFontFirst && c <= kFontLast;
    draw_glyph(image, x, y, kFont[static_cast<size_t>((known ? c : '?') - kFontFirst)], colour);
    x += kGlyphWidth;
  }
}

}  // namespace gyrus
