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

void add_scans(const fs::path& anat, const std::string& participant, const std::string& session,
               std::vector<BidsScan>& scans) {
  for (const std::string& name : names_in(anat, "sub-"))
    for (const std::string end : {"_T1w.nii.gz", "_T1w.nii"})
      if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
        scans.push_back({(anat / name).string(), participant, session, name.substr(0, name.size() - end.size())});
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
    fail(ErrorCode::InvalidInput, option, dataset, " has no T1w scan of ", listed(unknown), "; it has ", listed(there));
  return labels;
}

// A label of an entity: letters and digits only.
std::string entity_label(const std::string& name) {
  std::string label;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) label += c;
  return label.empty() ? "gyrus" : label;
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

// Another program's results, or scans, are not to be mixed with these.
void check_description(const fs::path& path) {
  if (!fs::exists(path)) return;
  const std::vector<std::byte> bytes = read_file(path.string());
  const char* text = reinterpret_cast<const char*>(bytes.data());
  const Json json = Json::parse(text, text + bytes.size(), nullptr, false);
  const Json by = json.is_object() ? json.value("GeneratedBy", Json()) : Json();
  const bool ours = by.is_array() && !by.empty() && by[0].is_object() && by[0].contains("Name") &&
                    by[0]["Name"].is_string() && by[0]["Name"].get<std::string>() == kProgram;
  if (!ours)
    fail(ErrorCode::InvalidInput, path.string(), "describes a dataset that gyrus did not make; name another folder");
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

std::vector<BidsScan> find_bids_scans(const std::string& dataset) {
  if (!fs::is_directory(dataset)) fail(ErrorCode::Io, dataset, "is no folder; a BIDS dataset was expected");
  std::vector<BidsScan> scans;
  for (const std::string& sub : names_in(dataset, "sub-")) {
    const fs::path folder = fs::path(dataset) / sub;
    const std::string participant = without_prefix(sub, "sub-");
    add_scans(folder / "anat", participant, "", scans);
    for (const std::string& ses : names_in(folder, "ses-"))
      add_scans(folder / ses / "anat", participant, without_prefix(ses, "ses-"), scans);
  }
  return scans;
}

std::vector<BidsScan> choose_bids_scans(const std::vector<BidsScan>& scans, const BidsFilter& filter,
                                        const std::string& dataset) {
  if (scans.empty())
    fail(ErrorCode::InvalidInput, dataset, "has no T1w scan: no sub-*/[ses-*/]anat/*_T1w.nii[.gz] is there");
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
  if (chosen.empty()) fail(ErrorCode::InvalidInput, dataset, "has no T1w scan of these participants in these sessions");
  return chosen;
}

Job bids_job(const BidsLayout& layout, const BidsScan& scan) {
  const fs::path participant = fs::path(layout.output) / ("sub-" + scan.participant);
  const fs::path session = scan.session.empty() ? participant : participant / ("ses-" + scan.session);
  const std::string entities = scan.entities + (layout.space == Space::Conformed ? "_space-conformed" : "");
  const std::string stem = (session / "anat" / entities).string();
  const std::string by_model = "_desc-" + entity_label(layout.model);
  Job job{scan.path, {}};
  OutputPaths& paths = job.outputs;
  paths.labels = stem + by_model + "_dseg.nii.gz";
  paths.mask = stem + "_desc-brain_mask.nii.gz";
  if (wants(layout, "brain")) paths.brain = stem + "_desc-brain_T1w.nii.gz";
  if (wants(layout, "probabilities"))
    paths.probabilities = stem + "_label-" + kClassWord + by_model + "_probseg.nii.gz";
  if (wants(layout, "report")) paths.report = stem + by_model + "_morph.tsv";
  if (wants(layout, "picture")) paths.picture = (participant / "figures" / entities).string() + by_model + "_dseg.png";
  if (wants(layout, "tables")) {
    paths.itksnap = stem + by_model + "_dseg_itksnap.txt";
    paths.freesurfer = stem + by_model + "_dseg_freesurfer.txt";
  }
  Json of_labels = sidecar(layout, scan), of_mask = of_labels;
  of_labels["Manual"] = false;
  of_mask["Type"] = "Brain";
  paths.texts[stem + by_model + "_dseg.json"] = text_of(of_labels);
  paths.texts[stem + "_desc-brain_mask.json"] = text_of(of_mask);
  return job;
}

void write_bids_dataset(const BidsLayout& layout, const LabelTable& labels) {
  std::error_code failed;
  fs::create_directories(layout.output, failed);
  if (failed) fail(ErrorCode::Io, layout.output, "cannot be made: ", failed.message());
  const fs::path description = fs::path(layout.output) / "dataset_description.json";
  check_description(description);
  const Json json{{"Name", "gyrus: segmentation of the brain"},
                  {"BIDSVersion", kBidsVersion},
                  {"DatasetType", "derivative"},
                  {"GeneratedBy", Json::array({{{"Name", kProgram}, {"Version", GYRUS_VERSION}}})},
                  {"DatasetLinks", {{"raw", link_to_dataset(layout)}}}};
  write_file(description.string(), text_of(json));
  write_file((fs::path(layout.output) / ("desc-" + entity_label(layout.model) + "_dseg.tsv")).string(),
             dseg_table(labels));
}

}  // namespace gyrus::cli
