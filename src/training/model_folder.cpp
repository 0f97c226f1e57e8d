#include "training/model_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "import/safetensors.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

std::string manifest(const TrainConfig& config, const TrainNetwork& network) {
  Json out;
  const auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  text("title", config.title);
  text("description", config.description);
  out["normalize"] = normalize_text(config.data.normalize);
  out["labels"] = config.labels;
  if (config.largest_component) out["components"] = "largest";
  if (config.fill_holes) out["fill_holes"] = true;
  if (config.allow_empty) out["allow_empty"] = true;
  text("licence", config.licence);
  text("citation", config.citation);
  if (network.is_onnx()) {
    out["conform"] = config.data.conform;
    out["patch"] = "whole";
    out["multiple"] = network.multiple();
    out["scores"] = "logits";
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string write_model_folder(const std::string& folder, const TrainConfig& config, const TrainNetwork& network,
                               const std::map<std::string, Tensor>& weights) {
  const fs::path done = fs::path(folder) / "model", made = fs::path(folder) / "model.part";
  std::error_code failed;
  fs::remove_all(made, failed);
  fs::create_directories(made, failed);
  if (failed) fail(ErrorCode::Io, made.string(), "cannot be made: ", failed.message());
  for (const auto& [name, bytes] : network.files(weights)) write_file((made / name).string(), bytes);
  write_file((made / "gyrus.json").string(), manifest(config, network));
  fs::remove_all(done, failed);
  fs::rename(made, done, failed);
  if (failed) fail(ErrorCode::Io, done.string(), "cannot be put in place: ", failed.message());
  if (config.write_safetensors)
    write_file((fs::path(folder) / "weights.safetensors").string(), write_safetensors(weights));
  if (config.write_onnx) write_file((fs::path(folder) / "model.onnx").string(), network.onnx(weights));
  return done.string();
}

}  // namespace gyrus
