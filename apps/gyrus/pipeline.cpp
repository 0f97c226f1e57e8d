#include "pipeline.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "volume/components.h"
#include "volume/conform.h"
#include "volume/io.h"
#include "volume/restore.h"
#include "volume/volume_tensor.h"

namespace gyrus::cli {
namespace {

// The map of one class out of [1, classes, spatial…].
Tensor class_map(const Tensor& maps, int64_t index) {
  Tensor map(maps.dtype, Shape(maps.shape.begin() + 2, maps.shape.end()));
  std::memcpy(map.data.data(), maps.data.data() + static_cast<size_t>(index) * map.data.size(), map.data.size());
  return map;
}

}  // namespace

Item prepare(const std::string& path, const PipelineOptions& options, Timeline& timeline) {
  Item item;
  item.path = path;
  {
    const Stage stage(timeline, "prepare", "read", path);
    ReadOptions read;
    read.frame = options.frame;
    item.scan = read_volume(path, read);
  }
  make_ready(item, options, timeline);
  return item;
}

void make_ready(Item& item, const PipelineOptions& options, Timeline& timeline) {
  if (options.conform && !is_conformed(item.scan)) {
    const Stage stage(timeline, "prepare", "conform", item.path);
    item.conformed = conform(item.scan).volume;
  }
  for (const Volume* volume : {&item.scan, item.conformed ? &*item.conformed : nullptr}) {
    if (volume == nullptr) continue;
    for (const std::string& notice : volume->notices)
      if (std::find(item.notices.begin(), item.notices.end(), notice) == item.notices.end())
        item.notices.push_back(notice);
  }
  const Stage stage(timeline, "prepare", "normalize", item.path);
  item.normalization = normalization_of(item.network_input(), options.normalize);
  item.network = network_options(item.network_input(), options.normalize,
                                 options.probabilities ? NetworkOutput::Probabilities : NetworkOutput::Labels);
  item.image = to_tensor(item.network_input(), item.network.input);
}

void Computer::open_session(Item& item) {
  const Shape spatial = spatial_shape(model_, item.network_input());
  if (session_ && spatial == spatial_ && item.network.input == input_ && !session_->device().lost()) return;
  const Stage stage(timeline_, "compute " + device_, "compile", item.path);
  session_.reset();  // its memory first
  SessionOptions wanted = options_.session;
  wanted.device = device_;
  wanted.network = item.network;
  session_.emplace(model_, spatial, wanted);
  spatial_ = spatial;
  input_ = item.network.input;
  item.notices.insert(item.notices.end(), session_->notices().begin(), session_->notices().end());
}

void Computer::run(Item& item, const Progress& progress) {
  open_session(item);
  RunOptions run_options;
  run_options.progress = progress;
  run_options.cancel = &interrupted();
  run_options.profile = options_.profile && session_->can_profile();
  if (options_.profile && !run_options.profile)
    item.notices.emplace_back("this GPU has no timestamps; no profile by kernel");
  const double begin = timeline_.now();
  RunResult result;
  {
    const Stage stage(timeline_, "compute " + device_, "segment", item.path);
    result = session_->run(item.image, item.normalization, run_options);
  }
  timeline_.add(result.profile, begin, item.path);
  const Plan& plan = session_->plan();
  item.facts = {session_->adapter(), plan.precision, plan.peak_bytes(), session_->allocated_bytes(),
                plan.steps.size(),   plan.flops(),   plan.bytes()};
  item.image = Tensor(item.image.dtype, {0});
  item.outputs = std::move(result.outputs);
  item.profile = std::move(result.profile);
}

void Computer::compute(Item& item, const Progress& progress) {
  try {
    run(item, progress);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Device || !session_ || !session_->device().lost()) throw;
    session_.reset();
    item.notices.push_back(cat("the device was lost (", error.what(), "); ran again on a new one"));
    run(item, progress);
  }
}

void finish(Item& item, const PipelineOptions& options, Timeline& timeline) {
  {
    const Stage stage(timeline, "finish", "unpack", item.path);
    item.labels = to_volume(item.outputs.at("labels"), item.network_input());
    const auto maps = item.outputs.find("probabilities");
    for (int64_t c = 0; maps != item.outputs.end() && c < maps->second.shape.at(1); ++c)
      item.probabilities.push_back(to_volume(class_map(maps->second, c), item.network_input()));
    item.outputs.clear();
  }
  if (options.largest_component || options.fill_holes) {
    const Stage stage(timeline, "finish", "components", item.path);
    if (options.largest_component) keep_largest(item.labels);
    if (options.fill_holes) fill_holes(item.labels);
  }
  if (item.conformed && options.space == Space::Native) {
    const Stage stage(timeline, "finish", "restore", item.path);
    item.labels = restore_labels(item.labels, item.scan);
    for (Volume& map : item.probabilities) map = restore_values(map, item.scan);
  }
}

}  // namespace gyrus::cli
