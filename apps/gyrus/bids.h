#pragma once
#include <string>
#include <vector>

#include "batch.h"

// Brain imaging data structure (https://bids-specification.readthedocs.io): which scans a dataset has, and what their
// results are called in a dataset of derivatives.

namespace gyrus::cli {

struct BidsScan {
  std::string path;
  std::string participant, session;  // labels, without sub- and ses-; no session: empty
  std::string entities;              // the file's name up to its suffix: "sub-01_ses-2_run-1"
};

// All sub-*/[ses-*/]anat/*_T1w.nii[.gz], in the order of their names. Throws Io where the folder cannot be read.
std::vector<BidsScan> find_bids_scans(const std::string& dataset);

struct BidsFilter {
  std::vector<std::string> participants, sessions;  // labels, with or without sub- and ses-; empty: all
};

// What the filter lets through. Throws InvalidInput that names the labels the dataset does not have.
std::vector<BidsScan> choose_bids_scans(const std::vector<BidsScan>& scans, const BidsFilter& filter,
                                        const std::string& dataset);

struct BidsLayout {
  std::string dataset, output;
  std::string model;                 // its name; letters and digits of it become the entity desc-MODEL
  std::vector<std::string> outputs;  // kinds beside labels and mask: brain, probabilities, report, picture, tables
  Space space = Space::Native;
};

Job bids_job(const BidsLayout& layout, const BidsScan& scan);

// Writes dataset_description.json and desc-MODEL_dseg.tsv. Throws InvalidInput where the folder is a dataset of
// something else.
void write_bids_dataset(const BidsLayout& layout, const LabelTable& labels);

}  // namespace gyrus::cli
