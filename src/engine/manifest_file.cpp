#include "engine/manifest_file.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace gyrus {
namespace {

using Json = nlohmann::json;

constexpr const char* kCommonKeys[] = {"title",      "description", "normalize", "labels",  "components",
                                       "fill_holes", "allow_empty", "licence",   "citation"};
constexpr const char* kOnnxKeys[] = {"input", "output",   "channels", "conform", "orientation", "spacing", "axes",
                                     "patch", "multiple", "overlap",  "blend",   "sigma",       "scores",  "threshold"};

template <class List>
bool holds(const List& list, const std::string& word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string range_text(double least, double most) { return cat("from ", least, " to ", most); }

}  // namespace

ManifestFile::ManifestFile(const std::string& text, std::string file)
    : root_(Json::parse(text, nullptr, false)), file_(std::move(file)) {
  if (!root_.is_object()) refuse("is no JSON object");
}

void ManifestFile::refuse(const std::string& why) const { fail(ErrorCode::InvalidModel, file_, why); }

void ManifestFile::check_keys(bool onnx) const {
  for (const auto& [key, value] : root_.items()) {
    if (holds(kCommonKeys, key) || (onnx && holds(kOnnxKeys, key))) continue;
    if (holds(kOnnxKeys, key)) refuse(cat("\"", key, "\" is an entry for ONNX models only; docs/models.md lists them"));
    refuse(cat("\"", key, "\" is no entry of a manifest; docs/models.md lists them"));
  }
}

std::string ManifestFile::text(const char* key) const {
  const auto found = root_.find(key);
  if (found == root_.end()) return {};
  if (!found->is_string()) refuse(cat("\"", key, "\" is no text"));
  return found->get<std::string>();
}

bool ManifestFile::flag(const char* key) const {
  const auto found = root_.find(key);
  if (found == root_.end()) return false;
  if (!found->is_boolean()) refuse(cat("\"", key, "\" is neither true nor false"));
  return found->get<bool>();
}

size_t ManifestFile::word(const char* key, const std::vector<std::string>& words) const {
  if (!has(key)) return 0;
  const std::string given = text(key);
  const auto found = std::find(words.begin(), words.end(), given);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  std::string all;
  for (const std::string& one : words) all += (all.empty() ? "" : ", ") + one;
  refuse(cat("\"", key, "\": \"", given, "\" is none of ", all));
}

double ManifestFile::number(const char* key, double absent, double least, double most) const {
  const auto found = root_.find(key);
  if (found == root_.end()) return absent;
  const double value = found->is_number() ? found->get<double>() : NAN;
  if (!(value >= least && value <= most)) refuse(cat("\"", key, "\" is no number ", range_text(least, most)));
  return value;
}

std::optional<std::vector<double>> ManifestFile::three(const char* key, double least, double most) const {
  const auto found = root_.find(key);
  if (found == root_.end()) return std::nullopt;
  std::vector<double> values;
  const Json list = found->is_array() ? *found : Json::array({*found, *found, *found});
  for (const Json& one : list) values.push_back(one.is_number() ? one.get<double>() : NAN);
  const bool good = values.size() == 3 &&
                    std::all_of(values.begin(), values.end(), [&](double v) { return v >= least && v <= most; });
  if (!good) refuse(cat("\"", key, "\" is neither a number nor a list of three, each ", range_text(least, most)));
  return values;
}

std::vector<std::string> ManifestFile::texts(const char* key) const {
  const auto found = root_.find(key);
  if (found == root_.end()) return {};
  std::vector<std::string> out;
  for (const Json& one : found->is_array() ? *found : Json::array({*found})) {
    if (!one.is_string()) refuse(cat("\"", key, "\" is neither a text nor a list of texts"));
    out.push_back(one.get<std::string>());
  }
  return out;
}

std::optional<std::vector<std::string>> ManifestFile::labels() const {
  const auto found = root_.find("labels");
  if (found == root_.end()) return std::nullopt;
  if (found->is_array()) {
    for (size_t i = 0; i < found->size(); ++i)
      if (!(*found)[i].is_string()) refuse(cat("label ", i, " is no text"));
    return found->get<std::vector<std::string>>();
  }
  if (!found->is_object()) refuse("\"labels\" is neither a list of names nor names with their numbers");
  std::vector<std::string> names(found->size());
  for (const auto& [name, value] : found->items()) {
    const bool good = value.is_number_unsigned() && value.get<size_t>() < names.size();
    if (!good || !names[value.get<size_t>()].empty())
      refuse(cat("label \"", name, "\" has no number of its own from 0 to ", names.size() - 1));
    names[value.get<size_t>()] = name;
  }
  return names;
}

void ManifestFile::read_common(Manifest& manifest) const {
  manifest.title = text("title");
  manifest.description = text("description");
  manifest.licence = text("licence");
  manifest.citation = text("citation");
  manifest.largest_component = word("components", {"keep", "largest"}) == 1;
  manifest.fill_holes = flag("fill_holes");
  manifest.allow_empty = flag("allow_empty");
  const auto names = labels();
  if (!names) return;
  if (names->size() != manifest.labels.entries.size())
    refuse(cat("\"labels\" has ", names->size(), " names; the model has ", manifest.labels.entries.size(),
               " classes, the background among them"));
  for (size_t i = 0; i < names->size(); ++i) manifest.labels.entries[i].name = (*names)[i];
}

}  // namespace gyrus
