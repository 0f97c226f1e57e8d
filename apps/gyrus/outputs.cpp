#include "outputs.h"

#include "common.h"
#include "core/error.h"
#include "volume/io.h"
#include "volume/mask.h"
#include "volume/picture.h"
#include "volume/report.h"

namespace gyrus::cli {
namespace {

std::string file_word(const std::string& name) {
  std::string word;
  for (const char c : name) word += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return word;
}

void write_masks(const Segmentation& item, const OutputPaths& paths, const OutputOptions& options, const Volume& scan) {
  if (paths.mask.empty() && paths.brain.empty()) return;
  const Volume mask = make_mask(item.labels, options.border_mm);
  WriteOptions as_labels;
  as_labels.labels = true;
  if (!paths.mask.empty()) write_volume(paths.mask, mask, as_labels);
  if (!paths.brain.empty()) write_volume(paths.brain, apply_mask(scan, mask));
}

std::string probability_path(const std::string& path, const LabelTable& table, size_t classes, size_t c) {
  const LabelEntry* entry = table.find(static_cast<int64_t>(c));
  const std::string word = file_word(entry ? entry->name : cat("label", c));
  const size_t at = path.find(kClassWord);
  if (at == std::string::npos) return classes == 2 ? path : with_suffix(path, word);
  std::string label = word;  // of a BIDS entity: no dashes
  std::erase(label, '-');
  return path.substr(0, at) + label + path.substr(at + std::string(kClassWord).size());
}

// The background says nothing that the others do not.
void write_probabilities(const Segmentation& item, const std::string& path, const LabelTable& table) {
  if (path.empty()) return;
  for (size_t c = 1; c < item.probabilities.size(); ++c)
    write_volume(probability_path(path, table, item.probabilities.size(), c), item.probabilities[c]);
}

void write_tables(const OutputPaths& paths, const LabelTable& table) {
  if (!paths.sidecar.empty()) write_file(paths.sidecar, sidecar_json(table));
  if (!paths.itksnap.empty()) write_file(paths.itksnap, itksnap_table(table));
  if (!paths.freesurfer.empty()) write_file(paths.freesurfer, freesurfer_table(table));
  for (const auto& [path, text] : paths.texts) write_file(path, text);
}

}  // namespace

std::vector<std::string> OutputPaths::files(const LabelTable& classes) const {
  std::vector<std::string> all;
  for (const std::string* one : {&labels, &mask, &brain, &report, &picture, &sidecar, &itksnap, &freesurfer})
    if (!one->empty()) all.push_back(*one);
  if (!probabilities.empty())
    for (size_t c = 1; c < classes.entries.size(); ++c)
      all.push_back(probability_path(probabilities, classes, classes.entries.size(), c));
  for (const auto& [path, text] : texts) all.push_back(path);
  return all;
}

std::string with_suffix(const std::string& path, const std::string& word) {
  const size_t slash = path.find_last_of('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::string stem = stem_of(path);
  return path.substr(0, name) + stem + "_" + word + path.substr(name + stem.size());
}

QcEntry write_outputs(const Segmentation& item, const OutputPaths& paths, const OutputOptions& options,
                      const Manifest& manifest, Space space) {
  const Volume& scan = item.result_scan(space);
  QcEntry entry;
  entry.name = item.path;
  write_masks(item, paths, options, scan);
  write_probabilities(item, paths.probabilities, manifest.labels);
  write_tables(paths, manifest.labels);
  if (!paths.report.empty() || options.qc) {
    entry.report = make_report(scan, item.labels, manifest.labels);
    entry.report.scan = item.path;
    if (!paths.report.empty()) write_report(paths.report, entry.report);
  }
  if (!paths.picture.empty() || options.qc) {
    MosaicOptions mosaic;
    mosaic.title = stem_of(item.path) + ", " + manifest.name;
    entry.png = encode_png(picture_mosaic(scan, item.labels, manifest.labels, mosaic));
    if (!paths.picture.empty()) write_file(paths.picture, entry.png);
    if (!options.qc) entry.png.clear();
  }
  WriteOptions as_labels;
  as_labels.labels = true;
  write_volume(paths.labels, item.labels, as_labels);
  return entry;
}

}  // namespace gyrus::cli
