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
  std::string suffix;                // "T1w"
};

// All sub-*/[ses-*/]anat/*_SUFFIX.nii[.gz], in the order of their names. Throws Io where the folder cannot be read.
std::vector<BidsScan> find_bids_scans(const std::string& dataset, const std::vector<std::string>& suffixes);
// Participants of the dataset without one of these scans.
std::vector<std::string> participants_without(const std::vector<BidsScan>& scans, const std::string& dataset);

struct BidsFilter {
  std::vector<std::string> participants, sessions;  // labels, with or without sub- and ses-; empty: all
};

// What the filter lets through. Throws InvalidInput that names the labels the dataset does not have.
std::vector<BidsScan> choose_bids_scans(const std::vector<BidsScan>& scans, const BidsFilter& filter,
                                        const std::string& dataset);

struct BidsLayout {
  std::string dataset, output;
  std::string model, weights;        // its name, letters and digits of which become the entity seg-MODEL; its SHA-256
  bool strips = false;               // its one label is the brain
  std::vector<std::string> outputs;  // kinds beside labels and mask: brain, probabilities, report, picture, tables
  Space space = Space::Native;
};

// Letters and digits of a name, as labels of entities are.
std::string entity_label(const std::string& name);

Job bids_job(const BidsLayout& layout, const BidsScan& scan);

// Writes dataset_description.json, .bidsignore and seg-MODEL_dseg.tsv. Throws InvalidInput where the folder is a
// dataset of something else.
void write_bids_dataset(const BidsLayout& layout, const LabelTable& labels);

// group_seg-MODEL_morph.tsv in the results.
std::string group_table_path(const BidsLayout& layout);

// Writes it: the volumes of all labels of all scans that have a report, and what lies far from
// the others. Returns its path and how many scans it has. Throws InvalidInput where there is no report.
std::pair<std::string, size_t> write_bids_group(const BidsLayout& layout);

}  // namespace gyrus::cli
