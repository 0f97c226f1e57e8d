#include "volume/picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "volume/normalize.h"
#include "volume/slices.h"

namespace gyrus {

namespace {

constexpr Rgb kPaper{14, 16, 20};
constexpr Rgb kInk{225, 228, 232};
constexpr Rgb kFaint{150, 156, 165};
constexpr int kGap = 12;         // pixels between panels
constexpr int kPanelSide = 420;  // pixels, of the longest side of a panel
constexpr int kLegendRow = 26;   // pixels
constexpr int kSwatch = 16;      // pixels

struct Letters {
  const char* left;
  const char* right;
  const char* top;
  const char* bottom;
};

Letters letters_of(Plane plane) {
  switch (plane) {
    case Plane::Sagittal: return {"A", "P", "S", "I"};
    case Plane::Coronal: return {"R", "L", "S", "I"};
    case Plane::Axial: break;
  }
  return {"R", "L", "A", "P"};
}

// A dark rim keeps the letter legible on bright tissue.
void draw_letter(Image& image, int x, int y, const std::string& letter) {
  for (int dy : {-1, 0, 1})
    for (int dx : {-1, 0, 1}) draw_text(image, x + dx, y + dy, letter, {0, 0, 0});
  draw_text(image, x, y, letter, {255, 214, 80});
}

void draw_letters(Image& panel, Plane plane) {
  const Letters letters = letters_of(plane);
  const int middle_x = panel.width / 2 - kGlyphWidth / 2, middle_y = panel.height / 2 - kGlyphHeight / 2;
  draw_letter(panel, 6, middle_y, letters.left);
  draw_letter(panel, panel.width - 6 - kGlyphWidth + 2, middle_y, letters.right);
  draw_letter(panel, middle_x, 6, letters.top);
  draw_letter(panel, middle_x, panel.height - 6 - kGlyphHeight, letters.bottom);
}

// Labels that occur, with their texts; the background is left out.
struct LegendEntry {
  Rgb colour;
  std::string text;
};
std::vector<LegendEntry> legend_of(const LabelTable& table, const std::vector<std::string>& values) {
  std::vector<LegendEntry> out;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const LabelEntry& entry = table.entries[i];
    if (entry.value == 0) continue;
    const std::string value = i < values.size() ? values[i] : std::string();
    out.push_back({entry.colour, value.empty() ? entry.name : entry.name + " " + value});
  }
  return out;
}

int legend_columns(const std::vector<LegendEntry>& legend, int width, int& column_width) {
  column_width = 0;
  for (const auto& entry : legend)
    column_width = std::max(column_width, kSwatch + 8 + text_width(entry.text) + 2 * kGap);
  return std::max(1, width / std::max(1, column_width));
}

int legend_height(const std::vector<LegendEntry>& legend, int width) {
  int column_width = 0;
  const int columns = legend_columns(legend, width, column_width);
  return (static_cast<int>(legend.size()) + columns - 1) / columns * kLegendRow;
}

void draw_legend(Image& image, int x, int y, int width, const std::vector<LegendEntry>& legend) {
  int column_width = 0;
  const int columns = legend_columns(legend, width, column_width);
  for (size_t i = 0; i < legend.size(); ++i) {
    const int left = x + static_cast<int>(i) % columns * column_width;
    const int top = y + static_cast<int>(i) / columns * kLegendRow;
    fill(image, left, top, kSwatch, kSwatch, legend[i].colour);
    draw_text(image, left + kSwatch + 8, top + 1, legend[i].text, kInk);
  }
}

SliceStyle style_of(const Volume& scan, const AnatomicalGrid& grid, const Box& box, double opacity) {
  SliceStyle style;
  style.black = quantile(scan, 0.01);
  style.white = quantile(scan, 0.995);
  style.opacity = opacity;
  double longest = 1;  // mm
  for (size_t i = 0; i < 3; ++i)
    longest = std::max(longest, static_cast<double>(box.last[i] - box.first[i] + 1) * grid.spacing[i]);
  style.pixels_per_mm = kPanelSide / longest;
  return style;
}

}  // namespace

Image picture_of_slices(const Volume& scan, const Volume& labels, const LabelTable& table,
                        const PictureOptions& options) {
  const AnatomicalGrid grid = anatomical_grid(scan);
  const Box box = head_box(scan, grid);
  const SliceStyle style = style_of(scan, grid, box, options.opacity);
  const std::array<int64_t, 3> slices = telling_slices(labels, grid);
  constexpr Plane kPlanes[3] = {Plane::Axial, Plane::Coronal, Plane::Sagittal};
  std::array<std::array<Image, 3>, 2> panels;
  int width = kGap, height = 0;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t slice = slices[static_cast<size_t>(kPlanes[i])];
    panels[0][i] = draw_slice(scan, nullptr, table, grid, box, kPlanes[i], slice, style);
    panels[1][i] = draw_slice(scan, &labels, table, grid, box, kPlanes[i], slice, style);
    width += panels[0][i].width + kGap;
    height = std::max(height, panels[0][i].height);
  }
  const std::vector<LegendEntry> legend = legend_of(table, options.values);
  const int title = options.title.empty() ? 0 : kGlyphHeight + kGap;
  const int foot = legend_height(legend, width - 2 * kGap);
  Image image(width, kGap + title + 2 * (height + kGap) + foot + (foot > 0 ? kGap / 2 : 0), kPaper);
  if (title > 0) draw_text(image, kGap, kGap, options.title, kFaint);
  for (size_t row = 0; row < 2; ++row) {
    int x = kGap;
    for (size_t i = 0; i < 3; ++i) {
      Image& panel = panels[row][i];
      draw_letters(panel, kPlanes[i]);
      paste(image, x, kGap + title + static_cast<int>(row) * (height + kGap) + (height - panel.height) / 2, panel);
      x += panel.width + kGap;
    }
  }
  draw_legend(image, kGap, kGap + title + 2 * (height + kGap), width - 2 * kGap, legend);
  return image;
}

}  // namespace gyrus
