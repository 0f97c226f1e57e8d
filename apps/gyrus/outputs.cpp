#include "outputs.h"

#include <algorithm>
#include <filesystem>

#include "common.h"
#include "core/error.h"
#include "volume/freesurfer.h"
#include "volume/io.h"
#include "volume/mask.h"
#include "volume/report.h"
#include "volume/series.h"

namespace gyrus::cli {
namespace {

// Letters of other scripts stay as they are.
std::string file_word(const std::string& name) {
  std::string word;
  for (const char c : name)
    word += std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 ? c : '-';
  return word;
}

// A label of a BIDS entity: letters and digits only, with the short names that the specification has for tissues.
std::string entity_word(const std::string& name) {
  std::string label, small;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80) label += c;
  for (const char c : label) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (small == "greymatter" || small == "graymatter") return "GM";
  if (small == "whitematter") return "WM";
  return label;
}

// The word for class c in a file name; with its number where the name alone would be empty or another's too.
std::string class_word(const LabelTable& table, size_t c, std::string (*word_of)(const std::string&)) {
  const auto word = [&](size_t i) {
    const LabelEntry* entry = table.find(static_cast<int64_t>(i));
    return word_of(entry ? entry->name : cat("label", i));
  };
  const std::string own = word(c);
  bool unique = !own.empty();
  for (size_t i = 1; i < table.entries.size(); ++i) unique = unique && (i == c || word(i) != own);
  return unique ? own : cat(own.empty() ? "label" : own, c);
}

std::string probability_path(const std::string& path, const LabelTable& table, size_t classes, size_t c) {
  const size_t at = path.find(kClassWord);
  if (at == std::string::npos) return classes == 2 ? path : with_suffix(path, class_word(table, c, file_word));
  return path.substr(0, at) + class_word(table, c, entity_word) + path.substr(at + std::string(kClassWord).size());
}

// One path for each class where kClassWord stands for it, else the path itself.
std::vector<std::string> for_classes(const std::string& path, const LabelTable& table) {
  if (path.find(kClassWord) == std::string::npos) return {path};
  std::vector<std::string> paths;
  for (size_t c = 1; c < table.entries.size(); ++c)
    paths.push_back(probability_path(path, table, table.entries.size(), c));
  return paths;
}

// A result and what made it, in one file.
void write_result(const std::string& path, Volume volume, const Provenance& by, bool labels) {
  volume.description = provenance_line(by);
  volume.comment = provenance_json(by);
  WriteOptions options;
  options.labels = labels;
  write_volume(path, volume, options);
}

void write_masks(const Segmentation& item, const OutputPaths& paths, const OutputOptions& options, const Volume& scan,
                 Provenance by) {
  if (paths.mask.empty() && paths.brain.empty() && paths.distance.empty()) return;
  for (const auto& [name, value] : options.mask_options()) by.options[name] = value;
  const Volume mask = make_mask(item.labels, options.border_mm);
  if (!paths.mask.empty()) write_result(paths.mask, mask, by, true);
  if (!paths.brain.empty() && options.all_volumes)
    write_masked_series(paths.brain, item.path, mask, provenance_line(by), provenance_json(by));
  else if (!paths.brain.empty())
    write_result(paths.brain, apply_mask(scan, mask), by, false);
  if (!paths.distance.empty()) write_result(paths.distance, signed_distance(mask), by, false);
}

void write_freesurfer(const Segmentation& item, const std::string& path, const Manifest& manifest, Provenance by) {
  if (path.empty()) return;
  const FreeSurferLabels numbers = freesurfer_labels(manifest.labels, manifest.name);
  by.options["numbers"] = numbers.splits ? "FreeSurfer, sides by the midline" : "FreeSurfer";
  write_result(path, to_freesurfer(item.labels, numbers), by, true);
}

// The background says nothing that the others do not.
void write_probabilities(const Segmentation& item, const std::string& path, const LabelTable& table,
                         const Provenance& by) {
  if (path.empty()) return;
  for (size_t c = 1; c < item.probabilities.size(); ++c)
    write_result(probability_path(path, table, item.probabilities.size(), c), item.probabilities[c], by, false);
}

void write_tables(const OutputPaths& paths, const LabelTable& table, const Provenance& by) {
  if (!paths.sidecar.empty()) write_file(paths.sidecar, sidecar_json(table));
  if (!paths.itksnap.empty()) write_file(paths.itksnap, itksnap_table(table));
  if (!paths.freesurfer.empty()) write_file(paths.freesurfer, freesurfer_table(table));
  for (const auto& [path, json] : paths.texts) {
    nlohmann::ordered_json text = json;
    text["Provenance"] = nlohmann::ordered_json::parse(provenance_json(by));
    for (const std::string& one : for_classes(path, table))
      write_file(one, text.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
}

// Pages of many scans have smaller pictures, so that a page stays below some 20 MB.
MosaicOptions qc_mosaic(MosaicOptions mosaic, size_t scans) {
  mosaic.title.clear();  // the card says it
  mosaic.legend = scans <= 200;
  mosaic.columns = scans <= 200 ? 6 : 4;
  mosaic.tile_height = scans <= 40 ? 160 : scans <= 200 ? 96 : scans <= 500 ? 64 : scans <= 1500 ? 52 : 40;
  return mosaic;
}

void write_pictures(QcEntry& entry, const Segmentation& item, const std::string& path, const OutputOptions& options,
                    const Manifest& manifest, const Volume& scan) {
  MosaicOptions mosaic;
  mosaic.title = stem_of(item.path) + ", " + manifest.name;
  mosaic.overlay = options.overlay;
  if (!path.empty()) write_file(path, encode_png(picture_mosaic(scan, item.labels, manifest.labels, mosaic)));
  if (options.qc_scans == 0) return;
  const MosaicOptions small = qc_mosaic(mosaic, options.qc_scans);
  entry.png = encode_small_png(picture_mosaic(scan, item.labels, manifest.labels, small));
}

void clear_existing(std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) path.clear();
}

}  // namespace

std::map<std::string, std::string> OutputOptions::mask_options() const {
  std::map<std::string, std::string> options = {{"border_mm", cat(border_mm)}};
  if (all_volumes) options["volumes"] = "all";
  return options;
}

std::vector<std::string> OutputPaths::volumes(const LabelTable& classes) const {
  std::vector<std::string> all;
  for (const std::string* one : {&labels, &mask, &brain, &distance, &aseg})
    if (!one->empty()) all.push_back(*one);
  if (!probabilities.empty())
    for (size_t c = 1; c < classes.entries.size(); ++c)
      all.push_back(probability_path(probabilities, classes, classes.entries.size(), c));
  return all;
}

std::vector<std::string> OutputPaths::files(const LabelTable& classes) const {
  std::vector<std::string> all = volumes(classes);
  for (const std::string* one : {&report, &picture, &sidecar, &itksnap, &freesurfer})
    if (!one->empty()) all.push_back(*one);
  for (const auto& [path, text] : texts)
    for (const std::string& one : for_classes(path, classes)) all.push_back(one);
  return all;
}

OutputPaths OutputPaths::missing(const LabelTable& classes) const {
  OutputPaths out = *this;
  for (std::string* one : {&out.labels, &out.mask, &out.brain, &out.distance, &out.aseg, &out.report, &out.picture,
                           &out.sidecar, &out.itksnap, &out.freesurfer})
    clear_existing(*one);
  const auto all_exist = [](const std::vector<std::string>& files) {
    return std::all_of(files.begin(), files.end(),
                       [](const std::string& path) { return std::filesystem::exists(path); });
  };
  std::erase_if(out.texts, [&](const auto& text) { return all_exist(for_classes(text.first, classes)); });
  OutputPaths maps;
  maps.probabilities = probabilities;
  if (all_exist(maps.volumes(classes))) out.probabilities.clear();
  return out;
}

std::string with_suffix(const std::string& path, const std::string& word) {
  const size_t slash = path.find_last_of('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::string stem = stem_of(path);
  return path.substr(0, name) + stem + "_" + word + path.substr(name + stem.size());
}

QcEntry write_outputs(const Segmentation& item, const OutputPaths& paths, const OutputOptions& options,
                      const Manifest& manifest, Space space, const Provenance& by) {
  const Volume& scan = item.result_scan(space);
  QcEntry entry;
  entry.name = item.path;
  entry.report = make_report(scan, item.labels, manifest.labels, /*brain=*/manifest.conform);
  entry.report.scan = item.path;
  entry.report.provenance = by;
  entry.report.warnings.insert(entry.report.warnings.begin(), item.notices.begin(), item.notices.end());
  write_masks(item, paths, options, scan, by);
  write_freesurfer(item, paths.aseg, manifest, by);
  write_probabilities(item, paths.probabilities, manifest.labels, by);
  write_tables(paths, manifest.labels, by);
  if (!paths.report.empty()) write_report(paths.report, entry.report);
  if (!paths.picture.empty() || options.qc_scans > 0)
    write_pictures(entry, item, paths.picture, options, manifest, scan);
  if (!paths.labels.empty()) write_result(paths.labels, item.labels, by, true);
  return entry;
}

}  // namespace gyrus::cli
