#include "bids.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kBidsVersion = "1.9.0";
constexpr const char* kProgram = "gyrus";
// What gyrus writes beside what the specification names.
constexpr const char* kIgnored =
    "*.html\n*.csv\n*_dseg_itksnap.txt\n*_dseg_freesurfer.txt\n*_morph.tsv\nsub-*/figures/\ngroup_*\n*.claim\n*.part\n";

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

std::string without_prefix(const std::string& text, const std::string& prefix) {
  return starts_with(text, prefix) ? text.substr(prefix.size()) : text;
}

// Names of what is in a folder, sorted; none where it is no folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return names;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    names.push_back(entry->path().filename().string());
  if (failed) fail(ErrorCode::Io, folder.string(), "cannot be read: ", failed.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_in(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) { return !starts_with(name, prefix); });
  return names;
}

void add_scans(const fs::path& anat, const BidsScan& start, const std::vector<std::string>& suffixes,
               std::vector<BidsScan>& scans) {
  for (const std::string& name : names_in(anat, "sub-"))
    for (const std::string& suffix : suffixes)
      for (const std::string& end : {"_" + suffix + ".nii.gz", "_" + suffix + ".nii"})
        if (name.size() > end.size() && name.ends_with(end)) {
          BidsScan scan = start;
          scan.path = (anat / name).string();
          scan.entities = name.substr(0, name.size() - end.size());
          scan.suffix = suffix;
          scans.push_back(scan);
        }
}

std::string listed(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

// The wanted labels without prefix, all of which must be there.
std::set<std::string> check_labels(const std::vector<std::string>& wanted, const std::string& prefix,
                                   const std::set<std::string>& there, const char* option, const std::string& dataset) {
  std::set<std::string> labels, unknown;
  for (const std::string& word : wanted) {
    const std::string label = without_prefix(word, prefix);
    (there.count(label) ? labels : unknown).insert(label);
  }
  if (!unknown.empty())
    fail(ErrorCode::InvalidInput, option, dataset, " has no such scan of ", listed(unknown), "; it has ",
         listed(there));
  return labels;
}

std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Where the scans are, as links between datasets are given: relative to the results.
std::string link_to_dataset(const BidsLayout& layout) {
  std::error_code failed;
  const fs::path relative = fs::relative(layout.dataset, layout.output, failed);
  return failed || relative.empty() ? fs::absolute(layout.dataset).string() : relative.string();
}

Json sidecar(const BidsLayout& layout, const BidsScan& scan) {
  const std::string source = fs::path(scan.path).lexically_relative(layout.dataset).generic_string();
  Json json{{"Sources", {"bids:raw:" + source}}};
  if (layout.space == Space::Conformed)
    json["SpatialReference"] = "The scan conformed to 256 x 256 x 256 voxels of 1 mm, axes to the left, down, front";
  else
    json["SpatialReference"] = "bids:raw:" + source;
  return json;
}

bool wants(const BidsLayout& layout, const char* output) {
  return std::find(layout.outputs.begin(), layout.outputs.end(), output) != layout.outputs.end();
}

bool is_by_gyrus(const Json& entry) {
  return entry.is_object() && entry.contains("Name") && entry["Name"].is_string() &&
         entry["Name"].get<std::string>() == kProgram;
}

Json read_json(const fs::path& path) {
  if (!fs::exists(path)) return Json();
  const std::vector<std::byte> bytes = read_file(path.string());
  const char* text = reinterpret_cast<const char*>(bytes.data());
  return Json::parse(text, text + bytes.size(), nullptr, false);
}

// What made the dataset so far. Another program's results, or scans, are not to be mixed with these.
Json generated_by(const fs::path& path) {
  if (!fs::exists(path)) return Json::array();
  const Json json = read_json(path);
  const Json by = json.is_object() ? json.value("GeneratedBy", Json()) : Json();
  if (!by.is_array() || by.empty() || !is_by_gyrus(by[0]))
    fail(ErrorCode::InvalidInput, path.string(), "describes a dataset that gyrus did not make; name another folder");
  return by;
}

// An entry for each model.
Json generated_with(Json by, const BidsLayout& layout) {
  const Json entry{{"Name", kProgram},
                   {"Version", GYRUS_VERSION},
                   {"Description", cat("Model ", layout.model, ", SHA-256 of its weights ", layout.weights)}};
  for (Json& other : by)
    if (other.is_object() && other.value("Description", "") == entry["Description"].get<std::string>()) {
      other = entry;
      return by;
    }
  by.push_back(entry);
  return by;
}

// By its DOI where it has one, else by the link.
Json source_dataset(const BidsLayout& layout) {
  const Json raw = read_json(fs::path(layout.dataset) / "dataset_description.json");
  if (raw.is_object() && raw.contains("DatasetDOI") && raw["DatasetDOI"].is_string())
    return {{"DOI", raw["DatasetDOI"]}};
  return {{"URL", "bids:raw:"}};
}

std::string dseg_table(const LabelTable& labels) {
  std::string table = "index\tname\tcolor\n";
  for (const LabelEntry& entry : labels.entries) {
    std::string name = entry.name;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return c < ' '; }, ' ');
    char colour[8];
    std::snprintf(colour, sizeof colour, "#%02x%02x%02x", entry.colour[0], entry.colour[1], entry.colour[2]);
    table += cat(entry.value, "\t", name, "\t", colour, "\n");
  }
  return table;
}

}  // namespace

std::string entity_label(const std::string& name) {
  std::string label;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) label += c;
  return label.empty() ? "gyrus" : label;
}

std::vector<BidsScan> find_bids_scans(const std::string& dataset, const std::vector<std::string>& suffixes) {
  if (!fs::is_directory(dataset)) fail(ErrorCode::Io, dataset, "is no folder; a BIDS dataset was expected");
  std::vector<BidsScan> scans;
  for (const std::string& sub : names_in(dataset, "sub-")) {
    const fs::path folder = fs::path(dataset) / sub;
    BidsScan start;
    start.participant = without_prefix(sub, "sub-");
    add_scans(folder / "anat", start, suffixes, scans);
    for (const std::string& ses : names_in(folder, "ses-")) {
      start.session = without_prefix(ses, "ses-");
      add_scans(folder / ses / "anat", start, suffixes, scans);
    }
  }
  return scans;
}

std::vector<std::string> participants_without(const std::vector<BidsScan>& scans, const std::string& dataset) {
  std::vector<std::string> out;
  for (const std::string& sub : names_in(dataset, "sub-")) {
    const std::string label = without_prefix(sub, "sub-");
    if (fs::is_directory(fs::path(dataset) / sub) &&
        std::none_of(scans.begin(), scans.end(), [&](const BidsScan& scan) { return scan.participant == label; }))
      out.push_back(label);
  }
  return out;
}

std::vector<BidsScan> choose_bids_scans(const std::vector<BidsScan>& scans, const BidsFilter& filter,
                                        const std::string& dataset) {
  if (scans.empty())
    fail(ErrorCode::InvalidInput, dataset,
         "has no such scan: no sub-*/[ses-*/]anat/*_T1w.nii[.gz], or of the suffixes given, is there");
  std::set<std::string> participants, sessions;
  for (const BidsScan& scan : scans) {
    participants.insert(scan.participant);
    if (!scan.session.empty()) sessions.insert(scan.session);
  }
  const auto wanted = check_labels(filter.participants, "sub-", participants, "--participant-label", dataset);
  const auto wanted_sessions = check_labels(filter.sessions, "ses-", sessions, "--session-label", dataset);
  std::vector<BidsScan> chosen;
  for (const BidsScan& scan : scans)
    if ((wanted.empty() || wanted.count(scan.participant)) &&
        (wanted_sessions.empty() || wanted_sessions.count(scan.session)))
      chosen.push_back(scan);
  if (chosen.empty())
    fail(ErrorCode::InvalidInput, dataset, "has no such scan of these participants in these sessions");
  return chosen;
}

Job bids_job(const BidsLayout& layout, const BidsScan& scan) {
  const fs::path participant = fs::path(layout.output) / ("sub-" + scan.participant);
  const fs::path session = scan.session.empty() ? participant : participant / ("ses-" + scan.session);
  const std::string entities = scan.entities + (layout.space == Space::Conformed ? "_space-conformed" : "");
  const std::string stem = (session / "anat" / entities).string(), model = entity_label(layout.model);
  // Contrasts of one session would share names: all but T1w are told apart by desc-.
  const std::string contrast = scan.suffix == "T1w" ? "" : scan.suffix;
  const std::string seg = "_seg-" + model, desc = contrast.empty() ? "" : "_desc-" + contrast;
  // Only a model whose one label is the brain makes a brain mask.
  const std::string masked = "_desc-" + (layout.strips ? "brain" : model) + contrast;
  Job job{scan.path, {}, fs::path(scan.path).lexically_relative(layout.dataset).generic_string()};
  OutputPaths& paths = job.outputs;
  paths.labels = stem + seg + desc + "_dseg.nii.gz";
  paths.mask = stem + masked + "_mask.nii.gz";
  if (wants(layout, "brain")) paths.brain = stem + masked + "_" + scan.suffix + ".nii.gz";
  if (wants(layout, "probabilities"))
    paths.probabilities = stem + seg + "_label-" + kClassWord + desc + "_probseg.nii.gz";
  if (wants(layout, "report")) paths.report = stem + seg + desc + "_morph.tsv";
  if (wants(layout, "picture"))
    paths.picture = (participant / "figures" / entities).string() + seg + desc + "_dseg.png";
  if (wants(layout, "tables")) {
    paths.itksnap = stem + seg + desc + "_dseg_itksnap.txt";
    paths.freesurfer = stem + seg + desc + "_dseg_freesurfer.txt";
  }
  Json of_labels = sidecar(layout, scan), of_mask = of_labels, of_brain = of_labels;
  of_labels["Manual"] = false;
  of_mask["Type"] = layout.strips ? "Brain" : "ROI";
  of_brain["SkullStripped"] = true;
  paths.texts[stem + seg + desc + "_dseg.json"] = of_labels;
  paths.texts[stem + masked + "_mask.json"] = of_mask;
  if (!paths.brain.empty()) paths.texts[stem + masked + "_" + scan.suffix + ".json"] = of_brain;
  // One for each class: by the inheritance principle a common one of T1w would be that of other contrasts too.
  if (!paths.probabilities.empty())
    paths.texts[stem + seg + "_label-" + kClassWord + desc + "_probseg.json"] = of_labels;
  return job;
}

void write_bids_dataset(const BidsLayout& layout, const LabelTable& labels) {
  std::error_code failed;
  fs::create_directories(layout.output, failed);
  if (failed) fail(ErrorCode::Io, layout.output, "cannot be made: ", failed.message());
  const fs::path output(layout.output), description = output / "dataset_description.json";
  const Json by = generated_with(generated_by(description), layout);
  const Json json{{"Name", "gyrus: segmentation of the brain"},
                  {"BIDSVersion", kBidsVersion},
                  {"DatasetType", "derivative"},
                  {"GeneratedBy", by},
                  {"SourceDatasets", Json::array({source_dataset(layout)})},
                  {"DatasetLinks", {{"raw", link_to_dataset(layout)}}}};
  write_file(description.string(), text_of(json));
  if (!fs::exists(output / ".bidsignore")) write_file((output / ".bidsignore").string(), kIgnored);
  write_file((output / ("seg-" + entity_label(layout.model) + "_dseg.tsv")).string(), dseg_table(labels));
}

}  // namespace gyrus::cli
