#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "volume/report.h"

namespace gyrus {

// One scan on a quality-control page.
struct QcEntry {
  std::string name;
  std::vector<std::byte> png;  // the picture; empty for a scan that failed
  Report report;               // its warnings are shown first
  std::string error;           // why it failed; empty otherwise
};

// One HTML page that needs no other file: a summary, then a card for each scan with picture, warnings and a table of
// volumes. Cards can be filtered by text and by "needs a look", and stepped through with the keys j and k.
std::string qc_page(const std::string& title, const std::vector<QcEntry>& entries);

std::string base64(const std::vector<std::byte>& bytes);

}  // namespace gyrus
