#include "demo.h"

#include <DemoModel_files.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "volume/labels.h"

namespace gyrus::cli {
namespace {

// The colours of the phantom's tissues, as brainchop writes such files.
std::string colormap(const LabelTable& table) {
  nlohmann::ordered_json map;
  for (const LabelEntry& entry : table.entries) {
    map["R"].push_back(entry.colour[0]);
    map["G"].push_back(entry.colour[1]);
    map["B"].push_back(entry.colour[2]);
    map["labels"].push_back(entry.name);
  }
  return map.dump();
}

ModelFiles demo_files() {
  ModelFiles files;
  files.name = "demo";
  for (const DemoModelFile& file : kDemoModelFiles) {
    const auto* bytes = reinterpret_cast<const std::byte*>(file.bytes);
    files.files[file.name] = {bytes, bytes + file.size};
  }
  const std::string colours = colormap(phantom_labels());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(colours.data(), colours.size()));
  files.files["colormap.json"] = {bytes.begin(), bytes.end()};
  return files;
}

}  // namespace

DescribedModel demo_model() {
  const ModelFiles files = demo_files();
  DescribedModel made;
  made.model = load_model(files);
  SideFiles side;
  for (const auto& [name, bytes] : files.files)
    if (is_side_file(name)) side[name] = bytes;
  made.manifest = manifest_of(made.model, side);
  return made;
}

std::vector<std::string> write_demo_model(const std::string& folder) {
  std::vector<std::string> written;
  for (const auto& [name, bytes] : demo_files().files) {
    written.push_back((std::filesystem::path(folder) / name).string());
    write_file(written.back(), bytes);
  }
  return written;
}

}  // namespace gyrus::cli
