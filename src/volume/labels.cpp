#include "volume/labels.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "volume/phantom.h"

namespace gyrus {

namespace {

// A colour of full brightness; hue in turns.
Rgb from_hue(double hue, double saturation, double value) {
  const double h = (hue - std::floor(hue)) * 6;
  Rgb out{};
  for (size_t i = 0; i < 3; ++i) {
    const double offset = i == 0 ? 0.0 : i == 1 ? 4.0 : 2.0;
    const double distance = std::abs(std::fmod(h + offset, 6.0) - 3.0);
    const double ramp = std::clamp(distance - 1.0, 0.0, 1.0);
    out[i] = static_cast<uint8_t>(std::lround(255 * value * (1 - saturation * (1 - ramp))));
  }
  return out;
}

std::string hex(const Rgb& colour) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "#";
  for (uint8_t v : colour) {
    out += kDigits[v >> 4];
    out += kDigits[v & 15];
  }
  return out;
}

std::string one_word(std::string name) {
  for (char& c : name)
    if (std::isspace(static_cast<unsigned char>(c)) != 0) c = '-';
  return name.empty() ? "unnamed" : name;
}

std::string padded(const std::string& text, size_t width) {
  return text.size() >= width ? text + " " : text + std::string(width - text.size(), ' ');
}

using Json = nlohmann::json;

std::vector<int64_t> integers(const Json& root, const char* key, const std::string& name) {
  const auto found = root.find(key);
  if (found == root.end()) return {};
  if (!found->is_array()) fail(ErrorCode::InvalidModel, name, "\"", key, "\" is no array");
  std::vector<int64_t> out;
  for (const Json& value : *found) {
    if (!value.is_number()) fail(ErrorCode::InvalidModel, name, "\"", key, "\" holds something that is no number");
    const double number = value.get<double>();
    if (!(std::abs(number) < 1e9)) fail(ErrorCode::InvalidModel, name, "\"", key, "\" holds ", number);
    out.push_back(static_cast<int64_t>(number));
  }
  return out;
}

}  // namespace

const LabelEntry* LabelTable::find(int64_t value) const {
  for (const LabelEntry& entry : entries)
    if (entry.value == value) return &entry;
  return nullptr;
}

LabelTable default_labels(int64_t count) {
  LabelTable table;
  table.entries.push_back({0, "background", {0, 0, 0}});
  constexpr double kGoldenTurn = 0.6180339887498949;  // the most even spacing of hues for any count
  for (int64_t i = 1; i < count; ++i) {
    const double saturation = i % 3 == 0 ? 0.55 : 0.85;
    const double value = i % 2 == 0 ? 0.8 : 1.0;
    table.entries.push_back(
        {i, cat("label ", i), from_hue(static_cast<double>(i - 1) * kGoldenTurn, saturation, value)});
  }
  return table;
}

LabelTable phantom_labels() {
  static constexpr Rgb kColours[kTissues] = {{0, 0, 0},     {224, 196, 140}, {64, 156, 255},
                                             {225, 87, 89}, {245, 245, 245}, {120, 70, 200}};
  LabelTable table;
  for (int i = 0; i < kTissues; ++i)
    table.entries.push_back({i, to_string(static_cast<Tissue>(i)), kColours[static_cast<size_t>(i)]});
  return table;
}

LabelTable parse_colormap(const std::string& text, const std::string& name) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) fail(ErrorCode::InvalidModel, name, "is no JSON object with R, G, B and labels");
  const auto red = integers(root, "R", name), green = integers(root, "G", name), blue = integers(root, "B", name);
  auto values = integers(root, "I", name);
  if (red.empty() || red.size() != green.size() || red.size() != blue.size())
    fail(ErrorCode::InvalidModel, name, "needs R, G and B of one length, found ", red.size(), ", ", green.size(), ", ",
         blue.size());
  if (values.empty())
    for (size_t i = 0; i < red.size(); ++i) values.push_back(static_cast<int64_t>(i));
  if (values.size() != red.size()) fail(ErrorCode::InvalidModel, name, "I and R differ in length");
  const Json names = root.value("labels", Json::array());
  LabelTable table;
  for (size_t i = 0; i < red.size(); ++i) {
    const auto channel = [](int64_t v) { return static_cast<uint8_t>(std::clamp<int64_t>(v, 0, 255)); };
    const bool named = names.is_array() && i < names.size() && names[i].is_string();
    table.entries.push_back({values[i],
                             named ? names[i].get<std::string>() : cat("label ", values[i]),
                             {channel(red[i]), channel(green[i]), channel(blue[i])}});
  }
  std::sort(table.entries.begin(), table.entries.end(),
            [](const LabelEntry& a, const LabelEntry& b) { return a.value < b.value; });
  return table;
}

std::string itksnap_table(const LabelTable& labels) {
  std::string out =
      "################################################\n"
      "# ITK-SnAP Label Description File\n"
      "# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL\n"
      "################################################\n";
  for (const LabelEntry& entry : labels.entries) {
    const bool shown = entry.value != 0;
    std::string quoted = entry.name;
    std::replace(quoted.begin(), quoted.end(), '"', '\'');
    std::replace_if(
        quoted.begin(), quoted.end(), [](unsigned char c) { return c < ' '; }, ' ');
    out += cat(padded(std::to_string(entry.value), 8), padded(std::to_string(entry.colour[0]), 5),
               padded(std::to_string(entry.colour[1]), 5), padded(std::to_string(entry.colour[2]), 5),
               shown ? "1     1   1    \"" : "0     0   0    \"", quoted, "\"\n");
  }
  return out;
}

std::string freesurfer_table(const LabelTable& labels) {
  std::string out = "#No.    Label Name:                              R   G   B   A\n";
  for (const LabelEntry& entry : labels.entries)
    out += cat(padded(std::to_string(entry.value), 8), padded(one_word(entry.name), 40),
               padded(std::to_string(entry.colour[0]), 4), padded(std::to_string(entry.colour[1]), 4),
               padded(std::to_string(entry.colour[2]), 4), "0\n");
  return out;
}

std::string sidecar_json(const LabelTable& labels) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LabelEntry& entry : labels.entries)
    list.push_back({{"value", entry.value}, {"name", entry.name}, {"colour", hex(entry.colour)}});
  // Bytes of a name that are no UTF-8 are replaced, not thrown over.
  return nlohmann::ordered_json{{"labels", list}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gyrus
