#include "training/bids_pairs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/error.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

struct BidsFile {
  std::string path;
  std::set<std::string> entities;  // "sub-01", "ses-2"
};

// Files whose names end so, in the order of their paths.
std::vector<BidsFile> files_with(const std::string& folder, const std::string& suffix) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) fail(ErrorCode::Io, folder, "is no folder");
  std::vector<BidsFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    std::string name = entry.path().filename().string();
    const size_t dot = name.find(".nii");
    if (dot == std::string::npos || name.compare(0, 4, "sub-") != 0) continue;
    name.resize(dot);
    BidsFile file{entry.path().string(), {}};
    std::istringstream parts(name);
    std::string part, last;
    while (std::getline(parts, part, '_')) {
      if (part.find('-') != std::string::npos) file.entities.insert(part);
      last = part;
    }
    if (last == suffix) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const BidsFile& a, const BidsFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace

std::vector<PairConfig> find_bids_pairs(const std::string& images, const std::string& labels, const std::string& suffix,
                                        const std::string& label_suffix) {
  const std::vector<BidsFile> scans = files_with(images, suffix);
  std::vector<PairConfig> pairs;
  for (const BidsFile& map : files_with(labels, label_suffix)) {
    const BidsFile* best = nullptr;
    for (const BidsFile& scan : scans) {
      const bool fits =
          std::includes(map.entities.begin(), map.entities.end(), scan.entities.begin(), scan.entities.end());
      if (fits && (!best || scan.entities.size() > best->entities.size())) best = &scan;
    }
    if (!best) fail(ErrorCode::InvalidInput, map.path, "there is no _", suffix, " of it below ", images);
    pairs.push_back({best->path, map.path});
  }
  if (pairs.empty()) fail(ErrorCode::InvalidInput, labels, "there is no sub-*_", label_suffix, ".nii.gz below it");
  return pairs;
}

}  // namespace gyrus
