#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/text.h"
#include "engine/model_store.h"
#include "import/onnx_volume.h"
#include "info.h"

namespace gyrus::cli {
namespace {

// What the model costs at a size, under the limits that every WebGPU device has.
struct Cost {
  double flops = 0;
  uint64_t f32_bytes = 0, f16_bytes = 0;
};

Cost cost_of(const Model& model, const Manifest& manifest, const Shape& size) {
  if (model.onnx) {
    const Compiled f32 = compile(model, size, {}, default_target(), PrecisionChoice::F32);
    const Compiled f16 = compile(model, size, {}, default_target(), PrecisionChoice::F16);
    return {f32.flops(), f32.peak_bytes(), f16.peak_bytes()};
  }
  NetworkOptions network;
  network.input = DType::U8;
  network.clamp = manifest.normalize.kind != NormalizeKind::None;
  const Plan f32 = compile(model, size, network, default_target(), PrecisionChoice::F32).plan;
  const Plan f16 = compile(model, size, network, default_target(), PrecisionChoice::F16).plan;
  return {f32.flops(), f32.peak_bytes(), f16.peak_bytes()};
}

std::string list_text(const std::vector<int64_t>& values) {
  if (values.empty()) return "-";
  if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; }))
    return std::to_string(values[0]);
  return extents_text(values);
}

void print_layers(const Model& model) {
  std::printf("\n%4s  %-22s %-9s %-18s %6s %8s %7s  %-14s %s\n", "", "layer", "kind", "weights", "kernel", "dilation",
              "stride", "norm", "activation");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerInfo& l = model.layers[i];
    std::printf("%4zu  %-22s %-9s %-18s %6s %8s %7s  %-14s %s\n", i + 1, l.name.c_str(), l.kind.c_str(),
                l.weight_shape.empty() ? "-" : extents_text(l.weight_shape).c_str(), list_text(l.kernel).c_str(),
                list_text(l.dilation).c_str(), list_text(l.stride).c_str(), l.norm.empty() ? "-" : l.norm.c_str(),
                l.activation.empty() ? "-" : l.activation.c_str());
  }
}

void line(const char* name, const std::string& text) { std::printf("%-16s %s\n", name, text.c_str()); }

std::string colour_text(const Rgb& colour) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", colour[0], colour[1], colour[2]);
  return text;
}

const char* components_text(const Manifest& manifest) { return manifest.largest_component ? "largest" : "keep"; }

// What only manifests of ONNX models say.
void print_onnx(const OnnxVolumes& onnx, const Manifest& manifest) {
  for (const ScanChannel& channel : manifest.channels)
    line("channel", cat(channel.name.empty() ? "any" : channel.name, ", ", normalize_text(channel.normalize)));
  const GridOptions& grid = manifest.grid;
  const bool own = grid.spacing[0] > 0;
  line("grid", manifest.conform
                   ? "256³ voxels of 1 mm"
                   : cat(grid.orientation.empty() ? "as the scan" : grid.orientation,
                         own ? cat(", ", grid.spacing[0], " x ", grid.spacing[1], " x ", grid.spacing[2], " mm") : ""));
  if (!onnx.patch.empty())
    line("overlap", cat(onnx.overlap[0], ", ", onnx.overlap[1], ", ", onnx.overlap[2],
                        onnx.blend == Blend::Constant ? "" : cat(", gaussian of ", onnx.sigma)));
  line("scores", to_string(onnx.scores));
}

void print_manifest(const Model& model, const Manifest& manifest) {
  if (!manifest.description.empty()) line("description", manifest.description);
  if (model.onnx) print_onnx(*model.onnx, manifest);
  line("components", components_text(manifest));
  line("fill holes", manifest.fill_holes ? "yes" : "no");
  line("licence", manifest.licence.empty() ? "not stated" : manifest.licence);
  line("citation", manifest.citation.empty() ? "not stated" : manifest.citation);
  std::printf("\nlabels\n");
  for (const LabelEntry& entry : manifest.labels.entries)
    std::printf("%6lld  %s  %s\n", static_cast<long long>(entry.value), colour_text(entry.colour).c_str(),
                entry.name.c_str());
}

void print_text(const Model& model, const Manifest& manifest, const Shape& size, const Cost& cost) {
  line("model", model.name);
  if (!manifest.title.empty()) line("", manifest.title);
  line("format", model.format);
  line("input", cat(model.input_channels, model.input_channels == 1 ? " channel, " : " channels, ", model.spatial_rank,
                    " dimensions"));
  line("classes", cat(model.classes));
  line("parameters", cat(model.parameters));
  if (model.onnx)
    line("patch", model.onnx->patch.empty() ? "the whole volume" : extents_text(model.onnx->patch) + " voxels");
  else
    line("receptive field", cat(model.receptive_field, " voxels"));
  line("normalisation", normalize_text(manifest.normalize));
  line("at", extents_text(size) + " voxels");
  line("  arithmetic", count_text(cost.flops) + "FLOP");
  line("  GPU memory", cat(bytes_text(cost.f32_bytes), " in f32, ", bytes_text(cost.f16_bytes), " in f16"));
}

void add_manifest(const Manifest& manifest, nlohmann::ordered_json& out) {
  out["title"] = manifest.title;
  out["description"] = manifest.description;
  out["components"] = components_text(manifest);
  out["fill_holes"] = manifest.fill_holes;
  out["licence"] = manifest.licence;
  out["citation"] = manifest.citation;
  for (const LabelEntry& entry : manifest.labels.entries) out["colours"].push_back(colour_text(entry.colour));
}

nlohmann::ordered_json to_json(const Model& model, const Manifest& manifest, const Shape& size, const Cost& cost) {
  nlohmann::ordered_json out = {{"model", model.name},
                                {"format", model.format},
                                {"input_channels", model.input_channels},
                                {"spatial_rank", model.spatial_rank},
                                {"classes", model.classes},
                                {"parameters", model.parameters},
                                {"receptive_field", model.receptive_field},
                                {"normalize", normalize_text(manifest.normalize)},
                                {"size", size},
                                {"flops", cost.flops},
                                {"memory", {{"f32", cost.f32_bytes}, {"f16", cost.f16_bytes}}}};
  for (const LabelEntry& entry : manifest.labels.entries) out["labels"].push_back(entry.name);
  for (const LayerInfo& l : model.layers)
    out["layers"].push_back({{"name", l.name},
                             {"kind", l.kind},
                             {"weights", l.weight_shape},
                             {"parameters", l.parameters},
                             {"kernel", l.kernel},
                             {"dilation", l.dilation},
                             {"stride", l.stride},
                             {"norm", l.norm},
                             {"activation", l.activation}});
  return out;
}

}  // namespace

void print_info(const InfoArguments& arguments) {
  const Shape size = parse_size(arguments.size);
  const auto [model, manifest] = open_model(arguments.model);
  const Cost cost = cost_of(model, manifest, size);
  if (arguments.json) {
    nlohmann::ordered_json out = to_json(model, manifest, size, cost);
    if (arguments.manifest) add_manifest(manifest, out);
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  print_text(model, manifest, size, cost);
  if (arguments.manifest)
    print_manifest(model, manifest);
  else if (model.network)
    print_layers(model);
}

void add_info(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "Show what is in a model: layers, parameters, cost at a size");
  auto arguments = std::make_shared<InfoArguments>();
  command->add_option("MODEL", arguments->model, "A model's folder, file or name")->type_name("MODEL")->required();
  command->add_option("--size", arguments->size, "Voxels for which cost is shown")
      ->type_name("N|AxBxC")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { print_info(*arguments); });
}

}  // namespace gyrus::cli
