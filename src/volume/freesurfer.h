#pragma once
#include <string>
#include <vector>

#include "volume/labels.h"
#include "volume/volume.h"

// Labels as FreeSurfer numbers them (aseg, aparc+aseg).

namespace gyrus {

struct FreeSurferLabels {
  struct Sides {
    int64_t left = 0, right = 0;  // the same for what has no side, or is one
  };
  std::vector<Sides> numbers;  // by the model's label
  LabelTable table;            // all of FreeSurfer's that can occur, with the colours of the model
  bool splits = false;         // a label of both sides is parted
};

// By the names of the labels. Throws Unsupported naming the first that FreeSurfer has no number for.
FreeSurferLabels freesurfer_labels(const LabelTable& labels, const std::string& model);

// The plane x = at + y * along_y + z * along_z (RAS, mm) between left and right: the one nearest to the middles of all
// that is labelled, which is the plane of symmetry where that is symmetric, however the head is turned.
struct Midline {
  double at = 0, along_y = 0, along_z = 0;
};
Midline midline_of(const Volume& labels);

// The labels in FreeSurfer's numbers, I32; where a label is of both sides, the midline parts it.
Volume to_freesurfer(const Volume& labels, const FreeSurferLabels& numbers);

}  // namespace gyrus
