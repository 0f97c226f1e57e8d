#include "before.h"

#include <filesystem>

#include "core/error.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const Job& job, const std::string& file, const std::string& why) {
  fail(ErrorCode::InvalidInput, job.scan, file, " is there already, ", why,
       ": say --again to replace it, or give the results another folder",
       job.source.empty() ? " or other names (--name)" : "");
}

// Two files of the same content are two scans as long as both exist; one that moved is the same.
bool is_another_file(const std::string& before, const std::string& now) {
  std::error_code failed;
  return before != now && fs::exists(before, failed) && !fs::equivalent(before, now, failed) && !failed;
}

Provenance check_file(const Job& job, const std::string& file, const Provenance& wanted) {
  const std::optional<Provenance> made = parse_provenance(volume_comment(file));
  if (!made) refuse(job, file, "and does not say what made it");
  std::string differs = difference(*made, wanted);
  // In a BIDS dataset names tell scans apart, and are given relative to it.
  if (differs.empty() && job.source.empty() && is_another_file(made->scan, job.scan))
    differs = cat("another scan (", made->scan, ")");
  if (!differs.empty()) refuse(job, file, cat("but made with ", differs));
  return *made;
}

}  // namespace

void check_comparable(const Job& job) {
  std::error_code ignored;
  const fs::file_status status = fs::status(job.scan, ignored);
  const bool is_file = !fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status);
  if (job.scan == "-" || !is_file) refuse(job, job.outputs.labels, "and a pipe cannot be compared with it");
}

Provenance check_before(const Job& job, const Provenance& wanted, const OutputOptions& options) {
  Provenance with_border = wanted;
  for (const auto& [name, value] : options.mask_options()) with_border.options[name] = value;
  const Provenance made = check_file(job, job.outputs.labels, wanted);
  for (const std::string* file : {&job.outputs.mask, &job.outputs.brain, &job.outputs.distance})
    if (!file->empty() && fs::exists(*file)) check_file(job, *file, with_border);
  return made;
}

Segmentation read_before(const Job& job, const PipelineOptions& options, const Manifest& manifest) {
  Segmentation item;
  item.path = job.scan;
  ReadOptions read;
  read.frame = options.frame;
  item.scan = read_volume(job.scan, read);
  take_nonfinite_as_zero(item.scan);
  item.notices = item.scan.notices;
  if (options.conform && options.space == Space::Conformed) item.conformed = network_volume(item.scan, manifest);
  item.labels = read_volume(job.outputs.labels);
  return item;
}

}  // namespace gyrus::cli
