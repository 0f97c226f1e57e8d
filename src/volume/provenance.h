#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

// What made a result. It goes with every file that can hold it, and decides whether a scan is done already: names do
// not.

namespace gyrus {

// The end of options that are the SHA-256 of a further scan: channel_1_sha256.
inline constexpr const char* kHashEnd = "_sha256";

struct Provenance {
  std::string version;                         // of gyrus
  std::string model, weights;                  // its name; SHA-256 of its weights
  std::map<std::string, std::string> options;  // that change the result, with what the model's manifest chose
  std::string scan;                            // path, as it was given
  uint64_t scan_bytes = 0;
  std::string scan_sha256;        // of the file or, for a pair, of header and image
  std::string device, precision;  // where and in which numbers it was computed
  std::string date;               // UTC, ISO 8601
};

nlohmann::ordered_json provenance_object(const Provenance& provenance);
// The same as one line.
std::string provenance_json(const Provenance& provenance);
// Nothing where the text is no such JSON.
std::optional<Provenance> parse_provenance(const std::string& json);

// At most 79 characters, for NIfTI's descrip: "gyrus 0.1.0 mindgrab 063f294e scan 5f0c1d2e".
std::string provenance_line(const Provenance& provenance);

// The present as a Provenance has it; $SOURCE_DATE_EPOCH (seconds) takes its place where set, for files that are the
// same byte for byte.
std::string date_now();

// What of two differs that a result depends on (model, options, scan), in words: "another model (mindgrab, not
// model5_gw_ae)". Empty where they would give the same. Version, device and date do not count, nor does the path.
std::string difference(const Provenance& made, const Provenance& wanted);

}  // namespace gyrus
