#include "pipeline.h"

#include "core/error.h"
#include "volume/components.h"
#include "volume/conform.h"
#include "volume/io.h"
#include "volume/restore.h"

namespace gyrus::cli {

Item prepare(const std::string& path, const PipelineOptions& options, Timeline& timeline) {
  Item item;
  item.path = path;
  {
    const Stage stage(timeline, "prepare", "read", path);
    ReadOptions read;
    read.frame = options.frame;
    item.scan = read_volume(path, read);
    item.notices = item.scan.notices;
  }
  if (options.conform && !is_conformed(item.scan)) {
    const Stage stage(timeline, "prepare", "conform", path);
    item.conformed = conform(item.scan).volume;
    item.notices.insert(item.notices.end(), item.conformed->notices.begin(), item.conformed->notices.end());
  }
  return item;
}

void Computer::open_session(Item& item) {
  const Volume& input = item.network_input();
  const Shape spatial = spatial_shape(model_, input);
  const NetworkOptions network = network_options(input, options_.normalize);
  if (session_ && spatial == spatial_ && network.input == input_ && !session_->device().lost()) return;
  const Stage stage(timeline_, "compute", "compile", item.path);
  session_.reset();  // its memory first
  SessionOptions wanted = options_.session;
  wanted.network = network;
  session_.emplace(model_, spatial, wanted);
  spatial_ = spatial;
  input_ = network.input;
  item.notices.insert(item.notices.end(), session_->notices().begin(), session_->notices().end());
}

void Computer::compute(Item& item, const Progress& progress) {
  // A bad scan is told before anything is compiled for it.
  {
    const Stage stage(timeline_, "compute", "normalize", item.path);
    item.normalization = normalization_of(item.network_input(), options_.normalize);
  }
  open_session(item);
  RunOptions run;
  run.progress = progress;
  run.cancel = &interrupted();
  run.profile = options_.profile && session_->can_profile();
  if (options_.profile && !run.profile) item.notices.emplace_back("this GPU has no timestamps; no profile by kernel");
  const double begin = timeline_.now();
  Segmentation result;
  {
    const Stage stage(timeline_, "compute", "segment", item.path);
    result = segment(*session_, item.network_input(), item.normalization, run);
  }
  timeline_.add(result.profile, begin, item.path);
  item.labels = std::move(result.labels);
  item.profile = std::move(result.profile);
}

void finish(Item& item, const PipelineOptions& options, Timeline& timeline) {
  if (options.largest_component || options.fill_holes) {
    const Stage stage(timeline, "finish", "components", item.path);
    if (options.largest_component) keep_largest(item.labels);
    if (options.fill_holes) fill_holes(item.labels);
  }
  if (item.conformed && options.space == Space::Native) {
    const Stage stage(timeline, "finish", "restore", item.path);
    item.labels = restore_labels(item.labels, item.scan);
  }
}

}  // namespace gyrus::cli
