#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/pipeline.h"
#include "volume/picture.h"
#include "volume/qc_page.h"

// The files that a scan gives.

namespace gyrus::cli {

// Stands for the name of a class in the path of probabilities.
inline constexpr const char* kClassWord = "{class}";

// Empty: not wanted.
struct OutputPaths {
  std::string labels;
  std::string mask, brain;    // a brain mask; the scan with zero outside of it
  std::string distance;       // mm from every voxel to the border of the mask
  std::string aseg;           // the labels in FreeSurfer's numbers
  std::string probabilities;  // a file, or one for each class with its name for kClassWord, else before the ending
  std::string report, picture;
  std::string sidecar;              // names and colours of the labels as JSON,
  std::string itksnap, freesurfer;  // and as the tables of those programs
  std::map<std::string, nlohmann::ordered_json>
      texts;  // by path (with kClassWord as above): JSON, to which what made them is added

  // All files that are to be, for a model with these classes.
  std::vector<std::string> files(const LabelTable& classes) const;
  // Those that are volumes.
  std::vector<std::string> volumes(const LabelTable& classes) const;
  // The same without what is there already.
  OutputPaths missing(const LabelTable& classes) const;
};

struct OutputOptions {
  double border_mm = 0;      // of mask and brain
  bool all_volumes = false;  // of a 4-D scan in `brain`, with the one mask

  // What mask, brain and distance depend on beside the labels.
  std::map<std::string, std::string> mask_options() const;
  size_t qc_scans = 0;   // of the page that a picture is made for; 0: none
  OverlayStyle overlay;  // of pictures
};

// Writes what is wanted, the labels last: where they are, everything is. Returns the scan's part of the QC page, with
// its report in any case.
QcEntry write_outputs(const Segmentation& item, const OutputPaths& paths, const OutputOptions& options,
                      const Manifest& manifest, Space space, const Provenance& by);

// With `word` before the ending: "a/b.nii.gz" → "a/b_word.nii.gz".
std::string with_suffix(const std::string& path, const std::string& word);

}  // namespace gyrus::cli
