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
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    const size_t dot = name.find(".nii");
    if (dot == std::string::npos || name.compare(0, 4, "sub-") != 0) continue;
    name.resize(dot);
    BidsFile file{entry->path().string(), {}};
    std::istringstream parts(name);
    std::string part, last;
    while (std::getline(parts, part, '_')) {
      if (part.find('-') != std::string::npos) file.entities.insert(part);
      last = part;
    }
    if (last == suffix) files.push_back(std::move(file));
  }
  if (failed) fail(ErrorCode::Io, folder, "cannot be searched: ", failed.message());
  std::sort(files.begin(), files.end(), [](const BidsFile& a, const BidsFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace

std::vector<PairConfig> find_bids_pairs(const std::string& images, const std::string& labels, const std::string& suffix,
                                        const std::string& label_suffix) {
  const std::vector<BidsFile> scans = files_with(images, suffix);
  std::vector<PairConfig> pairs;
  for (const BidsFile& map : files_with(labels, label_suffix)) {
    const BidsFile *best = nullptr, *other = nullptr;  // `other` fits as well
    for (const BidsFile& scan : scans) {
      if (!std::includes(map.entities.begin(), map.entities.end(), scan.entities.begin(), scan.entities.end()))
        continue;
      const bool better = !best || scan.entities.size() > best->entities.size();
      if (better || scan.entities.size() == best->entities.size()) other = better ? nullptr : &scan;
      if (better) best = &scan;
    }
    if (!best) fail(ErrorCode::InvalidInput, map.path, "there is no _", suffix, " of it below ", images);
    if (other)
      fail(ErrorCode::InvalidInput, map.path, "both ", best->path, " and ", other->path,
           " may be its image; name pairs or a list instead");
    pairs.push_back({best->path, map.path});
  }
  if (pairs.empty()) fail(ErrorCode::InvalidInput, labels, "there is no sub-*_", label_suffix, ".nii.gz below it");
  return pairs;
}

}  // namespace gyrus
