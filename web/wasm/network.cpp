#include "network.h"

namespace gyrus {
namespace {

// The file that was named, else the only one called *.onnx; null where that is another kind of model.
const std::vector<std::byte>* onnx_file(const ModelFiles& files, std::string& name) {
  const std::vector<std::byte>* found = nullptr;
  for (const auto& [file, bytes] : files.files) {
    const bool called = file.ends_with(".onnx");
    if (files.main.empty() ? !called : file != files.main) continue;
    if (!called && !onnx::is_onnx(bytes_of(bytes))) continue;
    if (found) fail(ErrorCode::InvalidInput, files.name, "holds ", name, " and ", file, ": say which is the model");
    found = &bytes;
    name = file;
  }
  return found;
}

std::vector<std::byte> external_data(const ModelFiles& files, const std::string& location, uint64_t offset,
                                     uint64_t length) {
  const auto found = files.files.find(location);
  if (found == files.files.end())
    fail(ErrorCode::Io, location, "holds weights of the model: give it with the model's other files");
  const std::vector<std::byte>& bytes = found->second;
  if (offset > bytes.size() || length > bytes.size() - offset)
    fail(ErrorCode::InvalidModel, location, "has ", bytes.size(), " bytes; the model wants ", length, " from ", offset,
         " on");
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(offset);
  return {begin, begin + static_cast<ptrdiff_t>(length)};
}

}  // namespace

std::unique_ptr<OpenNetwork> open_network(ModelFiles files) {
  auto network = std::make_unique<OpenNetwork>();
  network->files = std::move(files);
  std::string name;
  if (const std::vector<std::byte>* file = onnx_file(network->files, name)) {
    if (network->files.name.empty()) network->files.name = name;
    network->onnx = onnx::read_model(bytes_of(*file), network->files.name);
  } else {
    network->model = load_model(network->files);
  }
  return network;
}

onnx::ImportOptions import_options(const OpenNetwork& network, Shapes shapes) {
  onnx::ImportOptions options;
  options.subject = network.files.name;
  options.shapes = std::move(shapes);
  options.bound = network.bound;
  options.external = [&](const std::string& location, uint64_t offset, uint64_t length) {
    return external_data(network.files, location, offset, length);
  };
  return options;
}

Json ports_json(const Graph& graph, const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    const TensorType& type = graph.type(port.value);
    list.push_back({{"name", port.name}, {"dtype", to_string(type.dtype)}, {"shape", type.shape}});
  }
  return list;
}

}  // namespace gyrus
