#include "engine/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "volume/components.h"
#include "volume/io.h"
#include "volume/restore.h"
#include "volume/volume_tensor.h"

namespace gyrus {
namespace {

// The map of one class out of [1, classes, spatial…].
Tensor class_map(const Tensor& maps, int64_t index) {
  Tensor map(maps.dtype, Shape(maps.shape.begin() + 2, maps.shape.end()));
  std::memcpy(map.data.data(), maps.data.data() + static_cast<size_t>(index) * map.data.size(), map.data.size());
  return map;
}

Tensor scalar(double value) { return Tensor::from_floats({1}, {static_cast<float>(value)}); }

void add_notices(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& notice : from)
    if (std::find(to.begin(), to.end(), notice) == to.end()) to.push_back(notice);
}

AxisOrder axis_order(const OnnxVolumes& onnx) { return onnx.reversed ? AxisOrder::Zyx : AxisOrder::Xyz; }

// What a manifest says and the hash of the weights does not know.
void add_manifest_options(const DescribedModel& model, bool conform, std::map<std::string, std::string>& out) {
  const OnnxVolumes& onnx = *model.model.onnx;
  const GridOptions& grid = model.manifest.grid;
  if (conform && !model.manifest.conform)
    out["grid"] = cat(grid.orientation.empty() ? "as is" : grid.orientation, ", ", grid.spacing[0], " ",
                      grid.spacing[1], " ", grid.spacing[2], " mm");
  out["axes"] = onnx.reversed ? "zyx" : "xyz";
  out["scores"] = cat(to_string(onnx.scores), " of ", onnx.output, ", threshold ", onnx.threshold);
  out["windows"] = onnx.patch.empty()
                       ? cat("whole, multiple ", onnx.multiple)
                       : cat(to_string(onnx.patch), ", overlap ", onnx.overlap[0], " ", onnx.overlap[1], " ",
                             onnx.overlap[2], onnx.blend == Blend::Constant ? "" : cat(", gaussian ", onnx.sigma),
                             onnx.style == WindowStyle::Monai ? "" : ", nnunet");
}

std::string channel_names(const Manifest& manifest) {
  std::string names;
  for (const ScanChannel& channel : manifest.channels)
    names += (names.empty() ? "" : ", ") + (channel.name.empty() ? "any" : channel.name);
  return names.empty() ? "one" : names;
}

}  // namespace

ScanPipeline::ScanPipeline(const DescribedModel& model, const PipelineOptions& options)
    : model_(model),
      options_(options),
      normalize_(options.normalize.value_or(model.manifest.normalize)),
      largest_component_(options.largest_component.value_or(model.manifest.largest_component)),
      fill_holes_(options.fill_holes.value_or(model.manifest.fill_holes)),
      allow_empty_(options.allow_empty || model.manifest.allow_empty) {}

Volume ScanPipeline::read_scan(const std::string& path, SourceFile* source) const {
  ReadOptions read;
  read.frame = options_.frame;
  read.source = source;
  read.cancel = options_.cancel;
  return read_volume(path, read);
}

std::vector<std::string> ScanPipeline::other_channels(const std::string& path) const {
  const size_t wanted = model_.manifest.channels.empty() ? 1 : model_.manifest.channels.size();
  if (!options_.channels.empty() || wanted == 1) {
    if (options_.channels.size() + 1 != wanted)
      fail(ErrorCode::InvalidInput, model_.model.name, "looks at ", wanted, wanted == 1 ? " scan" : " scans",
           " of a subject (", channel_names(model_.manifest), "), not ", options_.channels.size() + 1);
    return options_.channels;
  }
  constexpr const char* kFirst = "_0000.";
  const size_t at = path.rfind(kFirst);
  if (at == std::string::npos || path.find('/', at) != std::string::npos)
    fail(ErrorCode::InvalidInput, path, "the model looks at ", wanted, " scans of a subject (",
         channel_names(model_.manifest), "): name the others with --channel, or all of them _0000, _0001 …");
  std::vector<std::string> paths;
  for (size_t i = 1; i < wanted; ++i) {
    const std::string digits = std::to_string(10000 + i).substr(1);
    paths.push_back(std::string(path).replace(at + 1, 4, digits));
  }
  return paths;
}

Segmentation ScanPipeline::read(const std::string& path) const {
  Volume scan;
  std::vector<Volume> channels;
  SourceFile source;
  std::vector<SourceFile> other_sources;
  {
    const Stage stage(options_.timeline, "prepare", "read", path);
    const std::vector<std::string> others = other_channels(path);
    scan = read_scan(path, &source);
    for (const std::string& other : others) channels.push_back(read_scan(other, &other_sources.emplace_back()));
  }
  Segmentation item = prepare(std::move(scan), path, channels);
  item.source = source;
  item.other_sources = std::move(other_sources);
  return item;
}

std::map<std::string, std::string> ScanPipeline::label_options() const {
  std::map<std::string, std::string> out = {{"conform", options_.conform ? "yes" : "no"},
                                            {"normalize", normalize_text(normalize_)},
                                            {"components", largest_component_ ? "largest" : "keep"},
                                            {"fill_holes", fill_holes_ ? "yes" : "no"},
                                            {"space", options_.space == Space::Native ? "native" : "conformed"}};
  if (model_.model.onnx) add_manifest_options(model_, options_.conform, out);
  for (size_t i = 1; i < model_.manifest.channels.size(); ++i)
    out["normalize"] += "; " + normalize_text(normalize_of(i));
  for (size_t i = 0; i < options_.channels.size(); ++i) out[cat("channel_", i + 1)] = options_.channels[i];
  if (options_.frame > 0) out["volume"] = std::to_string(options_.frame);
  if (options_.islands_mm3 > 0) out["islands_mm3"] = cat(options_.islands_mm3);
  return out;
}

NormalizeOptions ScanPipeline::normalize_of(size_t channel) const {
  return channel == 0 || options_.normalize ? normalize_ : model_.manifest.channels[channel].normalize;
}

// "image", all channels on the grid of the first, normalised and padded.
void ScanPipeline::prepare_onnx(Segmentation& item, const std::vector<Volume>& channels) const {
  const OnnxVolumes& onnx = *model_.model.onnx;
  const Volume& first = item.network_input();
  const Padded padded = padded_extents(onnx, spatial_shape(model_.model, first));
  Shape shape = {1, model_.model.input_channels};
  shape.insert(shape.end(), padded.extents.begin(), padded.extents.end());
  if (static_cast<int64_t>(channels.size()) + 1 != shape[1])
    fail(ErrorCode::InvalidInput, model_.model.name, "looks at ", shape[1], " scans of a subject, not ",
         channels.size() + 1);
  Tensor image(DType::F32, shape);
  const int64_t voxels = element_count(padded.extents);
  for (size_t c = 0; c <= channels.size(); ++c) {
    Volume other;
    if (c > 0) {
      other = channels[c - 1];
      take_nonfinite_as_zero(other);
      if (!same_grid(other, first)) other = resampled(other, first);
    }
    const Volume& volume = c == 0 ? first : other;
    const Normalization normalization = normalization_of(volume, normalize_of(c));
    if (c == 0) item.normalization = normalization;
    put_voxels(normalized(volume, normalization), volume.dims, axis_order(onnx), padded.before, padded.extents,
               image.as<float>() + static_cast<int64_t>(c) * voxels);
  }
  item.network.output = options_.probabilities ? NetworkOutput::Probabilities : NetworkOutput::Labels;
  item.inputs.emplace("image", std::move(image));
}

Segmentation ScanPipeline::prepare(Volume scan, const std::string& path, const std::vector<Volume>& channels) const {
  Segmentation item;
  item.path = path;
  item.scan = std::move(scan);
  take_nonfinite_as_zero(item.scan);
  add_notices(item.notices, item.scan.notices);
  if (options_.conform) {
    const Stage stage(options_.timeline, "prepare", "conform", path);
    item.conformed = network_volume(item.scan, model_.manifest);
    if (item.conformed) add_notices(item.notices, item.conformed->notices);
  }
  if (!options_.normalize) add_notices(item.notices, model_.manifest.notices);
  const Stage stage(options_.timeline, "prepare", "normalize", path);
  if (model_.model.onnx) {
    prepare_onnx(item, channels);
    return item;
  }
  const Volume& input = item.network_input();
  item.normalization = normalization_of(input, normalize_);
  item.network =
      network_options(input, normalize_, options_.probabilities ? NetworkOutput::Probabilities : NetworkOutput::Labels);
  item.inputs.emplace("image", to_tensor(input, item.network.input));
  item.inputs.emplace("scale", scalar(item.normalization.scale));
  item.inputs.emplace("shift", scalar(item.normalization.shift));
  return item;
}

bool ScanPipeline::is_open_for(const Segmentation& item) const {
  return session_ && !session_->device().lost() && spatial_ == spatial_shape(model_.model, item.network_input()) &&
         input_ == item.network.input;
}

// The first attempt decides which plan it takes; later ones are told.
Compiled ScanPipeline::compile_for(const Segmentation& item, Attempt& attempt, bool is_first) {
  const Stage stage(options_.timeline, "compute " + options_.session.device, "compile", item.path);
  session_.reset();  // its memory first
  spatial_ = spatial_shape(model_.model, item.network_input());
  input_ = item.network.input;
  CompileTarget target = target_of(options_.session);
  target.tuning.check_finite = attempt.check_finite;
  if (!is_first && target.cpu)
    return compile_for_cpu(model_.model, spatial_, item.network, target,
                           attempt.plan.halves ? PrecisionChoice::F16 : PrecisionChoice::F32);
  if (!is_first) return compile(model_.model, spatial_, item.network, target, attempt.plan);
  const PrecisionChoice wish = options_.session.precision;
  Compiled compiled = target.cpu ? compile_for_cpu(model_.model, spatial_, item.network, target, wish)
                                 : compile(model_.model, spatial_, item.network, target, wish);
  attempt.plan = compiled.decision.plan;
  return compiled;
}

void ScanPipeline::load(const Segmentation& item, Compiled compiled) {
  const Stage stage(options_.timeline, "compute " + options_.session.device, "compile", item.path);
  session_.emplace(options_.session.device, std::move(compiled), options_.session.threads);
}

void ScanPipeline::run(Segmentation& item, RunOptions options) {
  options.profile = options_.profile && session_->can_profile();
  if (options_.profile && !options.profile)
    add_notices(item.notices, {"this GPU has no timestamps; no profile by kernel"});
  const double begin = options_.timeline ? options_.timeline->now() : 0;
  RunResult result;
  {
    const Stage stage(options_.timeline, "compute " + options_.session.device, "segment", item.path);
    result = session_->run(item.inputs, options);
  }
  if (options_.timeline) options_.timeline->add(result.profile, begin, item.path);
  const Plan& plan = session_->plan();
  item.facts = {
      session_->adapter(), plan.precision, session_->peak_bytes(), session_->allocated_bytes(), plan.steps.size(),
      session_->flops(),   plan.bytes()};
  item.inputs.clear();
  item.outputs = std::move(result.outputs);
  item.profile = std::move(result.profile);
}

std::optional<Failure> ScanPipeline::failure_of(const Error& error) const {
  if (error.code() == ErrorCode::NonFinite) return Failure::NonFinite;
  if (error.code() == ErrorCode::OverLimits) return Failure::OutOfMemory;
  if (error.code() == ErrorCode::Device && session_ && session_->device().lost()) return Failure::DeviceLost;
  return std::nullopt;
}

void ScanPipeline::compute(Segmentation& item, const RunOptions& options) {
  Attempt attempt{options_.session.precision,
                  {},
                  options_.check_finite,
                  0,
                  choose_adapter(options_.session.device).type == AdapterType::Cpu};
  for (bool is_first = true;; is_first = false) {
    std::optional<Compiled> compiled;
    if (is_open_for(item))
      attempt.plan = session_->decision().plan;
    else
      compiled = compile_for(item, attempt, is_first);
    if (compiled && !compiled->decision.notice.empty()) add_notices(item.notices, {compiled->decision.notice});
    try {
      if (compiled) load(item, std::move(*compiled));
      return run(item, options);
    } catch (const Error& error) {
      const std::optional<Failure> failure = failure_of(error);
      if (failure == Failure::NonFinite) fail_nonfinite(error, item, attempt, options);
      const std::optional<Attempt> next = failure ? next_attempt(attempt, *failure) : std::nullopt;
      if (!next) throw;
      item.notices.push_back(cat(notice_of(attempt, *failure, *next), " (", error.what(), ")"));
      attempt = *next;
    }
    session_.reset();
  }
}

// Runs once more with every value tested, so that the error names the first node.
void ScanPipeline::fail_nonfinite(const Error& found, Segmentation& item, Attempt attempt, const RunOptions& options) {
  std::string message = found.what();
  if (std::optional<Attempt> checked = next_attempt(attempt, Failure::NonFinite)) {
    try {
      load(item, compile_for(item, *checked, false));
      run(item, options);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Cancelled) throw;
      if (error.code() == ErrorCode::NonFinite) message = error.what();
    }
    session_.reset();  // testing takes time, which other scans need not spend
  }
  std::vector<Hint> hints = {Hint::OtherDevice};
  if (attempt.plan.halves) hints.insert(hints.begin(), Hint::SinglePrecision);
  throw Error(ErrorCode::NonFinite, message, hints);
}

void ScanPipeline::clean(Segmentation& item) const {
  if (!largest_component_ && !fill_holes_ && options_.islands_mm3 <= 0) return;
  const Stage stage(options_.timeline, "finish", "components", item.path);
  if (largest_component_) {
    std::vector<int64_t> twins;
    keep_largest(item.labels, Connectivity::Corners, &twins);
    std::string names;
    for (const int64_t label : twins) {
      const LabelEntry* entry = model_.manifest.labels.find(label);
      names += (names.empty() ? "" : ", ") + (entry ? entry->name : cat("label ", label));
    }
    if (!names.empty())
      add_notices(item.notices,
                  {cat("only the largest part of each label is kept, which removes a second large part of ", names,
                       ": left and right seem to share a label")});
  }
  if (options_.islands_mm3 > 0) {
    const double voxel = std::abs(determinant(item.labels.affine));
    drop_islands(item.labels, static_cast<int64_t>(std::ceil(options_.islands_mm3 / voxel)));
  }
  if (fill_holes_) fill_holes(item.labels);
}

void ScanPipeline::finish(Segmentation& item) const {
  {
    const Stage stage(options_.timeline, "finish", "unpack", item.path);
    const Tensor& labels = item.outputs.at("labels");
    if (!allow_empty_) refuse_empty(model_.model.name, labels.data, item.facts.adapter.type == AdapterType::Cpu);
    const AxisOrder order = model_.model.onnx ? axis_order(*model_.model.onnx) : AxisOrder::Xyz;
    item.labels = to_volume(labels, item.network_input(), order);
    const auto maps = item.outputs.find("probabilities");
    for (int64_t c = 0; maps != item.outputs.end() && c < maps->second.shape.at(1); ++c)
      item.probabilities.push_back(to_volume(class_map(maps->second, c), item.network_input(), order));
    item.outputs.clear();
  }
  clean(item);
  if (item.conformed && options_.space == Space::Native) {
    const Stage stage(options_.timeline, "finish", "restore", item.path);
    item.labels = restore_labels(item.labels, item.scan);
    for (Volume& map : item.probabilities) map = restore_values(map, item.scan);
  }
}

}  // namespace gyrus
