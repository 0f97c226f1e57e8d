#pragma once
#include "batch.h"

// Everything that can be wrong with names, looked at before a GPU starts: inputs are never outputs, no two outputs have
// one name, endings are such as can be written, folders can be written to.

namespace gyrus::cli {

// Throws InvalidInput where two scans would write the same labels, with what to do.
void check_distinct(const std::vector<Job>& jobs, const char* advice);

// Throws InvalidInput or Io. `others`: files to write beside those of the scans, such as a page for all; `read`: files
// to read beside the scans.
void check_names(const std::vector<Job>& jobs, const LabelTable& classes, const std::vector<std::string>& others,
                 const std::vector<std::string>& read);

// Makes the folders that results of many scans go to.
void make_folders(const std::vector<Job>& jobs, const LabelTable& classes);

// Throws Io where a file cannot be put there. Its folder must exist.
void check_writable(const std::string& path);

// Throws InvalidInput where both are one file (by device and inode), however they are called.
void check_other_file(const std::string& input, const std::string& output);

}  // namespace gyrus::cli
