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

double longest_side(const AnatomicalGrid& grid, const Box& box) {
  double longest = 1;  // mm
  for (size_t i = 0; i < 3; ++i)
    longest = std::max(longest, static_cast<double>(box.last[i] - box.first[i] + 1) * grid.spacing[i]);
  return longest;
}

SliceStyle style_of(const Volume& scan, const AnatomicalGrid& grid, const Box& box, const OverlayStyle& overlay,
                    int side) {
  SliceStyle style;
  style.black = quantile(scan, 0.01);
  style.white = quantile(scan, 0.995);
  style.opacity = overlay.opacity;
  style.contours = overlay.contours;
  style.pixels_per_mm = side / longest_side(grid, box);
  return style;
}

// The table with only the labels that occur; those it lacks get a default name and colour.
LabelTable occurring(const Volume& labels, const LabelTable& table) {
  std::vector<bool> seen(65536);
  for (int64_t i = 0; i < labels.voxels(); ++i) {
    const double value = labels.type == VoxelType::U8 ? labels.as<uint8_t>()[i] : value_at(labels, i);
    if (value > 0 && value < 65536) seen[static_cast<size_t>(value)] = true;
  }
  LabelTable out;
  for (const LabelEntry& entry : table.entries)
    if (entry.value >= 0 && entry.value < 65536 && seen[static_cast<size_t>(entry.value)]) {
      out.entries.push_back(entry);
      seen[static_cast<size_t>(entry.value)] = false;
    }
  const LabelTable defaults = default_labels(256);
  for (size_t value = 1; value < seen.size(); ++value)
    if (seen[value])
      out.entries.push_back(
          {static_cast<int64_t>(value), cat("label ", value), defaults.entries[1 + (value - 1) % 255].colour});
  return out;
}

// Letters at the outer left and right of a row, where they say which side is which.
void draw_side_letters(Image& image, int y, Plane plane, int left, int right) {
  const Letters letters = letters_of(plane);
  draw_letter(image, left, y, letters.left);
  draw_letter(image, right, y, letters.right);
}

}  // namespace

Image picture_mosaic(const Volume& scan, const Volume& labels, const LabelTable& table, const MosaicOptions& options) {
  check_same_extents(scan, labels);
  const AnatomicalGrid grid = anatomical_grid(scan);
  const Box head = head_box(scan, grid), part = label_box(labels, grid);
  const LabelTable shown = occurring(labels, table);
  // What is shown: the labelled part with some of what surrounds it, within the head.
  Box box;
  for (size_t i = 0; i < 3; ++i) {
    box.first[i] = std::max(head.first[i], part.first[i]);
    box.last[i] = std::min(head.last[i], part.last[i]);
    if (box.first[i] >= box.last[i]) box = head;
  }
  const SliceStyle style = style_of(scan, grid, box, options.overlay, options.tile_height);
  constexpr Plane kPlanes[3] = {Plane::Axial, Plane::Coronal, Plane::Sagittal};
  std::vector<std::vector<Image>> rows;
  int tile_width = 0;
  for (Plane plane : kPlanes) {
    std::vector<Image>& row = rows.emplace_back();
    const auto axis = static_cast<size_t>(plane);
    const auto first = static_cast<double>(box.first[axis]), last = static_cast<double>(box.last[axis]);
    for (int i = 0; i < options.columns; ++i) {
      // Away from both ends, where little is to be seen; from left to right, back to front, bottom to top.
      const double t = 0.12 + 0.76 * (i + 0.5) / options.columns;
      row.push_back(draw_slice(scan, &labels, shown, grid, box, plane, std::lround(first + t * (last - first)), style));
      tile_width = std::max(tile_width, row.back().width);
    }
  }
  const int width = 2 * kGap + options.columns * (tile_width + 4) - 4;
  const std::vector<LegendEntry> legend = options.legend ? legend_of(shown, {}) : std::vector<LegendEntry>();
  const int title = options.title.empty() ? 0 : kGlyphHeight + kGap;
  int height = kGap + title;
  for (const auto& row : rows) height += row[0].height + kGap;
  Image image(width, height + legend_height(legend, width - 2 * kGap) + (legend.empty() ? 0 : kGap / 2), kPaper);
  if (title > 0) draw_text(image, kGap, kGap, options.title, kFaint);
  int y = kGap + title;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int i = 0; i < options.columns; ++i) {
      const Image& tile = rows[r][static_cast<size_t>(i)];
      paste(image, kGap + i * (tile_width + 4) + (tile_width - tile.width) / 2, y, tile);
    }
    const int margin = (tile_width - rows[r][0].width) / 2;
    draw_side_letters(image, y + 4, kPlanes[r], kGap + margin + 4, kGap + margin + rows[r][0].width - kGlyphWidth - 2);
    y += rows[r][0].height + kGap;
  }
  draw_legend(image, kGap, y, width - 2 * kGap, legend);
  return image;
}

Image picture_of_slices(const Volume& scan, const Volume& labels, const LabelTable& table,
                        const PictureOptions& options) {
  check_same_extents(scan, labels);
  const AnatomicalGrid grid = anatomical_grid(scan);
  const Box box = head_box(scan, grid);
  const SliceStyle style = style_of(scan, grid, box, {options.opacity, false}, kPanelSide);
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
