// The entry points behind web/src/compiler.ts: models, their plans, volumes. abi.h says how they answer.

#include <cmath>

#include "abi.h"
#include "engine/compile.h"
#include "engine/known_models.h"
#include "engine/manifest.h"
#include "plan/check.h"
#include "volume/components.h"
#include "volume/conform.h"
#include "volume/io.h"
#include "volume/mask.h"
#include "volume/nifti.h"
#include "volume/report.h"
#include "volume/restore.h"
#include "volume/volume_tensor.h"

using namespace gyrus;

// Pages take ONNX networks as programs; those for volumes, which need windows, are left out of the module.
WindowGraphs gyrus::window_graphs(const Model& model, const Shape&, NetworkOutput) {
  fail(ErrorCode::Unsupported, model.name, "is an ONNX network for volumes, which the command line segments with");
}

namespace {

constexpr uint64_t kLargestVolume = uint64_t{1} << 30;  // bytes; as MAX_VOLUME_BYTES in gzip.ts
constexpr int kLabelIntent = 1002;                      // of NIfTI

std::string colour_text(const Rgb& colour) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", colour[0], colour[1], colour[2]);
  return text;
}

Json info_json(const DescribedModel& open) {
  const Model& model = open.model;
  const Manifest& manifest = open.manifest;
  Json layers = Json::array(), labels = Json::array();
  for (const LayerInfo& layer : model.layers)
    layers.push_back({{"name", layer.name},
                      {"kind", layer.kind},
                      {"weightShape", layer.weight_shape},
                      {"parameters", layer.parameters},
                      {"activation", layer.activation},
                      {"norm", layer.norm}});
  for (const LabelEntry& entry : manifest.labels.entries)
    labels.push_back({{"value", entry.value}, {"name", entry.name}, {"colour", colour_text(entry.colour)}});
  return {{"name", model.name},
          {"title", manifest.title},
          {"description", manifest.description},
          {"licence", manifest.licence},
          {"citation", manifest.citation},
          {"format", model.format},
          {"classes", model.classes},
          {"inputChannels", model.input_channels},
          {"spatialRank", model.spatial_rank},
          {"parameters", model.parameters},
          {"receptiveField", model.receptive_field},
          {"normalize", normalize_text(manifest.normalize)},
          {"largestComponent", manifest.largest_component},
          {"fillHoles", manifest.fill_holes},
          {"allowEmpty", manifest.allow_empty},
          {"notices", manifest.notices},
          {"weightsSha256", weights_sha256(model)},
          {"layers", layers},
          {"labels", labels}};
}

NetworkOptions network_of(const Json& request) {
  NetworkOptions network;
  const std::string input = request.at("input"), output = request.at("output");
  network.input = input == "u8" ? DType::U8 : DType::F32;
  network.clamp = request.at("clamp");
  network.output = output == "logits" ? NetworkOutput::Logits : NetworkOutput::Labels;
  return network;
}

PlanChoice choice_of(const Json& json) { return {json.at("precision") == "f16", json.at("small")}; }

// Without "small" the precision is a wish, "auto" too, and "memory" (bytes, because) what is likely to be there.
Compiled compile_request(const Model& model, const Json& request) {
  CompileTarget target{limits_of(request.at("limits")), "this device", {}, std::nullopt};
  if (request.at("software")) target.tuning = software_options();
  target.tuning.check_finite = request.value("checkFinite", false);
  target.tuning.dispatch_flops = request.value("dispatchFlops", 0.0);
  if (const auto memory = request.find("memory"); memory != request.end() && !memory->is_null())
    target.memory = MemoryBudget{memory->at("bytes"), false, memory->at("because")};
  const Shape spatial = request.at("spatial").get<Shape>();
  for (const int64_t extent : spatial)
    if (extent < 1) fail(ErrorCode::InvalidInput, "plan", "volumes of ", to_string(spatial), " voxels have none");
  const NetworkOptions network = network_of(request);
  Compiled compiled = request.contains("small")
                          ? compile(model, spatial, network, target, choice_of(request))
                          : compile(model, spatial, network, target, parse_precision(request.at("precision")));
  check(compiled.plan, target.limits);
  return compiled;
}

// Nothing of an empty text.
std::optional<Provenance> parsed_provenance(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::optional<Provenance> by = parse_provenance(text);
  if (!by) fail(ErrorCode::InvalidInput, "provenance", "is not complete");
  return by;
}

// Least and greatest value; null where none is finite.
Json value_range(const Volume& volume) {
  double least = INFINITY, most = -INFINITY;
  for (const float value : to_floats(volume))
    if (std::isfinite(value)) {
      least = std::min<double>(least, value);
      most = std::max<double>(most, value);
    }
  return least <= most ? Json{least, most} : Json();
}

Volume* keep(Volume volume) { return new Volume(std::move(volume)); }

Json volume_json(const Volume& volume) {
  Json affine = Json::array();
  for (const auto& row : volume.affine.rows)
    for (double value : row) affine.push_back(value);
  return {{"name", volume.name},
          {"dims", volume.dims},
          {"spacing", volume.spacing()},
          {"type", to_string(volume.type)},
          {"affine", affine},
          {"conformed", is_conformed(volume)},
          {"range", value_range(volume)},
          {"notices", volume.notices}};
}

Json statistics_json(const Report& report) {
  const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json labels = Json::array();
  for (const LabelStatistics& label : report.labels)
    labels.push_back({{"value", label.value},
                      {"name", label.name},
                      {"voxels", label.voxels},
                      {"mm3", label.mm3},
                      {"mean", label.mean},
                      {"sd", label.sd},
                      {"centroid", label.centroid}});
  return {{"labels", labels},
          {"totalMm3", report.total_mm3},
          {"greyMm3", optional(report.grey_mm3)},
          {"whiteMm3", optional(report.white_mm3)},
          {"csfMm3", optional(report.csf_mm3)},
          {"warnings", report.warnings},
          {"json", report_json(report)},
          {"csv", report_table(report, ',')}};
}

}  // namespace

// ---- models ----

GYRUS_EXPORT DescribedModel* gyrus_model_open(const ModelFiles* files) {
  return guarded([&] {
    auto open = std::make_unique<DescribedModel>();
    open->model = load_model(*files);
    open->manifest = manifest_of(open->model, files->files);
    return open.release();
  });
}
GYRUS_EXPORT void gyrus_model_close(DescribedModel* open) { delete open; }

GYRUS_EXPORT int gyrus_model_info(const DescribedModel* open) {
  return guarded([&] {
    answer.text = dump(info_json(*open));
    return 1;
  });
}

// `request` is types.ts's PlanRequest. Text: the plan; data: its weights.
GYRUS_EXPORT int gyrus_model_plan(const DescribedModel* open, const char* request) {
  return guarded([&] {
    Compiled compiled = compile_request(open->model, Json::parse(request));
    answer.text = to_json(compiled.plan);
    answer.peak_bytes = static_cast<double>(compiled.plan.peak_bytes());
    answer.flops = compiled.plan.flops();
    const Decision& decision = compiled.decision;
    answer.about = dump({{"precision", decision.plan.halves ? "f16" : "f32"},
                         {"small", decision.plan.small_buffers},
                         {"why", decision.why},
                         {"notice", decision.notice}});
    answer.data = std::move(compiled.plan.weights);
    return 1;
  });
}

GYRUS_EXPORT double gyrus_plan_peak_bytes() { return answer.peak_bytes; }
GYRUS_EXPORT double gyrus_plan_flops() { return answer.flops; }
// JSON: precision, small, why, notice.
GYRUS_EXPORT const char* gyrus_plan_decision() { return answer.about.c_str(); }

// ---- policy (engine/policy.h) ----

// `facts`: limits, mobile, memoryGiB (or null). Text: bytes and because, as "memory" of a plan request.
GYRUS_EXPORT int gyrus_policy_memory(const char* facts) {
  return guarded([&] {
    const Json json = Json::parse(facts);
    BrowserFacts browser{json.at("mobile"), std::nullopt};
    if (!json.at("memoryGiB").is_null()) browser.memory_gib = json.at("memoryGiB").get<double>();
    const MemoryBudget budget = likely_memory(limits_of(json.at("limits")), browser);
    answer.text = dump({{"bytes", budget.bytes}, {"because", budget.because}});
    return 1;
  });
}

// `attempt`: wish, precision, small, checkFinite, losses. `failure`: "out-of-memory", "device-lost" or "non-finite".
// Text: the next attempt with a notice; empty where only giving up is left.
GYRUS_EXPORT int gyrus_policy_next(const char* attempt, const char* failure) {
  return guarded([&] {
    const Json json = Json::parse(attempt);
    const Attempt failed{parse_precision(json.at("wish")), choice_of(json), json.at("checkFinite"), json.at("losses")};
    const std::string what = failure;
    const Failure kind = what == "non-finite"    ? Failure::NonFinite
                         : what == "device-lost" ? Failure::DeviceLost
                                                 : Failure::OutOfMemory;
    const std::optional<Attempt> next = next_attempt(failed, kind);
    if (next)
      answer.text = dump({{"wish", json.at("wish")},
                          {"precision", next->plan.halves ? "f16" : "f32"},
                          {"small", next->plan.small_buffers},
                          {"checkFinite", next->check_finite},
                          {"losses", next->losses},
                          {"notice", notice_of(failed, kind, *next)}});
    return 1;
  });
}

// Fails where all labels are zero. The bytes stay the caller's.
GYRUS_EXPORT int gyrus_policy_labels(const std::byte* labels, size_t size, const char* model, int on_cpu) {
  return guarded([&] {
    refuse_empty(model, {labels, size}, on_cpu != 0);
    return 1;
  });
}

// ---- volumes ----

// Copies what it needs of the bytes. `frame`: which volume of a 4-D file, from 0; -1: the first, with a notice. Text:
// how many there are.
GYRUS_EXPORT Volume* gyrus_volume_open(const char* name, const std::byte* bytes, size_t size, int frame) {
  return guarded([&] {
    ReadOptions options;
    options.max_bytes = kLargestVolume;
    options.frame = frame;
    int64_t frames = 1;
    options.frames = &frames;
    Volume* volume = keep(read_volume(std::span(bytes, size), name, options));
    answer.text = std::to_string(frames);
    return volume;
  });
}
GYRUS_EXPORT void gyrus_volume_close(Volume* volume) { delete volume; }

GYRUS_EXPORT int gyrus_volume_info(const Volume* volume) {
  return guarded([&] {
    answer.text = dump(volume_json(*volume));
    return 1;
  });
}

// What made the volume, which goes into its file: `provenance` as provenance_json() writes it.
GYRUS_EXPORT int gyrus_volume_mark(Volume* volume, const char* provenance) {
  return guarded([&] {
    const Provenance by = parsed_provenance(provenance).value();
    volume->description = provenance_line(by);
    volume->comment = provenance_json(by);
    return 1;
  });
}

// Data: a NIfTI file, not compressed.
GYRUS_EXPORT int gyrus_volume_nifti(const Volume* volume, int labels) {
  return guarded([&] {
    answer.data = encode_nifti(*volume, labels ? kLabelIntent : 0);
    return 1;
  });
}

GYRUS_EXPORT Volume* gyrus_volume_conform(const Volume* volume) {
  return guarded([&] { return keep(conform(*volume).volume); });
}

// Text: shape, dtype, scale, shift and clamp; data: the image as the network takes it.
GYRUS_EXPORT int gyrus_volume_tensor(const Volume* volume, const char* normalize) {
  return guarded([&] {
    const NormalizeOptions options = parse_normalize(normalize);
    const Normalization normalization = normalization_of(*volume, options);
    const NetworkOptions network = network_options(*volume, options);
    Tensor tensor = to_tensor(*volume, network.input);
    answer.text = dump({{"shape", tensor.shape},
                        {"dtype", to_string(tensor.dtype)},
                        {"scale", normalization.scale},
                        {"shift", normalization.shift},
                        {"clamp", network.clamp}});
    answer.data = std::move(tensor.data);
    return 1;
  });
}

// A volume on the same grid from the network's labels (u8 or u32), whose bytes are copied.
GYRUS_EXPORT Volume* gyrus_volume_labels(const Volume* grid, const char* dtype, const std::byte* bytes, size_t size) {
  return guarded([&] {
    const bool is_u8 = std::string(dtype) == "u8";
    Tensor tensor;
    tensor.dtype = is_u8 ? DType::U8 : DType::U32;
    tensor.shape = {static_cast<int64_t>(size / byte_size(tensor.dtype))};
    tensor.data.assign(bytes, bytes + size);
    return keep(to_volume(tensor, *grid));
  });
}

// Each answers with the number of voxels that it changed, plus one.
GYRUS_EXPORT double gyrus_volume_keep_largest(Volume* labels) {
  return guarded([&] { return static_cast<double>(keep_largest(*labels) + 1); });
}
GYRUS_EXPORT double gyrus_volume_fill_holes(Volume* labels) {
  return guarded([&] { return static_cast<double>(fill_holes(*labels) + 1); });
}

GYRUS_EXPORT Volume* gyrus_volume_restore(const Volume* labels, const Volume* grid) {
  return guarded([&] { return keep(restore_labels(*labels, *grid)); });
}

GYRUS_EXPORT Volume* gyrus_volume_mask(const Volume* labels, double border_mm) {
  return guarded([&] { return keep(make_mask(*labels, border_mm)); });
}
GYRUS_EXPORT Volume* gyrus_volume_masked(const Volume* scan, const Volume* mask) {
  return guarded([&] { return keep(apply_mask(*scan, *mask)); });
}

// Text: types.ts's Report. Without a model labels have default names; `provenance` may be empty.
GYRUS_EXPORT int gyrus_report(const Volume* scan, const Volume* labels, const DescribedModel* open, const char* name,
                              const char* provenance) {
  return guarded([&] {
    Report report = make_report(*scan, *labels, open ? open->manifest.labels : LabelTable{});
    report.scan = name;
    report.provenance = parsed_provenance(provenance);
    answer.text = dump(statistics_json(report));
    return 1;
  });
}
