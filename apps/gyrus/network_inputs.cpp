#include "network_inputs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/text.h"
#include "engine/model_store.h"
#include "engine/network.h"
#include "import/onnx_path.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

std::pair<std::string, std::string> name_and_value(const std::string& text, const char* option) {
  // Names may hold '=', files seldom do.
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    fail(ErrorCode::InvalidInput, option, "\"", text, "\" is not NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

Shape read_extents(const std::string& text) {
  Shape shape;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (part.empty() || part.size() > 12 || part.find_first_not_of("0123456789") != std::string::npos)
      fail(ErrorCode::InvalidInput, "--shape", "\"", text, "\" is no list of extents such as 1,3,224,224");
    shape.push_back(std::stoll(part));
  }
  return shape;
}

using Arrays = std::map<std::string, Array>;
using Wanted = std::vector<WantedInput>;

MediaOptions media_options(const NetworkArguments& arguments) {
  MediaOptions options;
  options.scale = arguments.scale;
  options.mean = arguments.mean;
  options.std = arguments.std;
  if (std::find(options.std.begin(), options.std.end(), 0.0) != options.std.end())
    fail(ErrorCode::InvalidInput, "--std", "is what values are divided by, and cannot be 0");
  return options;
}

Array read_array(const std::string& path, const std::string& name, const Wanted& wanted, const MediaOptions& media) {
  const std::vector<std::byte> bytes = read_file(path);
  const Bytes view = bytes_of(bytes);
  if (is_npy(view)) return read_npy(view, path);
  if (is_zip(view)) return read_npz(view, name, path);
  if (is_media(view, path)) {
    const auto input = std::find_if(wanted.begin(), wanted.end(), [&](const WantedInput& w) { return w.name == name; });
    if (input == wanted.end()) fail(ErrorCode::InvalidInput, "--input", "the model has no input ", in_quotes(name));
    return read_media(view, path, *input, media);
  }
  const onnx::TensorProto proto = onnx::read_tensor(view, path);
  return {proto.type, onnx::to_tensor(proto, path)};
}

Arrays read_arrays(const std::vector<std::string>& given, const char* option, const Wanted& wanted,
                   const MediaOptions& media) {
  Arrays arrays;
  for (const std::string& text : given) {
    const auto [name, path] = name_and_value(text, option);
    arrays[name] = read_array(path, name, wanted, media);
  }
  return arrays;
}

// --shape comes before what the file leaves open.
std::map<std::string, Shape> given_shapes(const NetworkArguments& arguments) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : arguments.shapes) {
    const auto [name, extents] = name_and_value(text, "--shape");
    shapes[name] = read_extents(extents);
  }
  return shapes;
}

void load_onnx(const onnx::ModelFile& file, const NetworkArguments& arguments, std::map<std::string, Shape> shapes,
               Arrays& arrays, Network& network) {
  const std::vector<onnx::DeclaredInput> declared = onnx::declared_inputs(file.model);
  Wanted wanted;
  for (const onnx::DeclaredInput& d : declared) {
    const auto given = shapes.find(d.name);
    wanted.push_back({d.name, d.elem, given == shapes.end() ? d.shape : given->second});
  }
  const MediaOptions media = media_options(arguments);
  arrays = read_arrays(arguments.inputs, "--input", wanted, media);
  for (const auto& [name, array] : arrays) shapes[name] = array.tensor.shape;
  onnx::ImportOptions options;
  options.subject = file.path;
  options.shapes = shapes;
  options.external = file.external;
  options.captures = arguments.captures;
  options.capture_all = arguments.capture_all;
  for (const auto& [name, array] : read_arrays(arguments.bound, "--bind", wanted, media)) {
    const auto input =
        std::find_if(declared.begin(), declared.end(), [n = name](const auto& d) { return d.name == n; });
    options.bound[name] = input == declared.end() ? array.tensor : converted(array, input->elem, name);
  }
  onnx::Imported imported = onnx::import_model(file.model, options);
  network = {std::move(imported.graph),
             std::move(imported.inputs),
             std::move(imported.outputs),
             std::move(imported.captures),
             {}};
}

onnx::OnnxPort port_of(const Graph& graph, const std::string& name, ValueId id) {
  const TensorType& type = graph.type(id);
  return {name, onnx::elem_of(type.dtype), type.dtype, type.shape};
}

void add_captures(const NetworkArguments& arguments, Network& network) {
  Graph& graph = network.graph;
  std::set<std::string> found;
  const std::vector<Node> nodes = graph.nodes();
  for (const Node& node : nodes) {
    const bool asked =
        std::find(arguments.captures.begin(), arguments.captures.end(), node.label) != arguments.captures.end();
    if (node.label.empty() || (!asked && !arguments.capture_all)) continue;
    const std::string name = found.count(node.label) == 0 ? node.label : cat(node.label, ".", node.op);
    if (!found.insert(name).second) continue;
    graph.add_capture(name, node.outputs[0]);
    network.captures.push_back(port_of(graph, name, node.outputs[0]));
  }
  for (const std::string& name : arguments.captures)
    if (found.count(name) == 0) fail(ErrorCode::InvalidInput, "--capture", "the model has no layer ", in_quotes(name));
}

// A model of another format; its ports have the element types of the graph.
void load_other(const NetworkArguments& arguments, std::map<std::string, Shape> shapes, Ends ends, int64_t cube,
                Arrays& arrays, Network& network) {
  if (!arguments.bound.empty()) fail(ErrorCode::InvalidInput, "--bind", "is for ONNX models");
  const Model model = load_model(resolve_model(arguments.model));
  Shape open = {1, model.input_channels};
  open.resize(static_cast<size_t>(model.spatial_rank) + 2, -1);
  const auto image = shapes.find("image");
  const Wanted wanted = {{"image", onnx::Elem::F32, image == shapes.end() ? open : image->second}};
  arrays = read_arrays(arguments.inputs, "--input", wanted, media_options(arguments));
  if (const auto given = arrays.find("image"); given != arrays.end()) shapes["image"] = given->second.tensor.shape;
  if (shapes.count("image") == 0 && cube > 0) {
    std::replace(open.begin(), open.end(), int64_t{-1}, cube);
    shapes["image"] = open;
  }
  network.graph = load_graph(arguments.model, shapes);
  if (ends == Ends::Segmentation) {
    const Shape& shape = shapes["image"];
    network.graph = network_graph(model, Shape(shape.begin() + 2, shape.end()), {});
    // Random values from -1 to 1 become 0 to 1, the range of what networks are given.
    for (const char* name : {"scale", "shift"})
      arrays.try_emplace(name, Array{onnx::Elem::F32, Tensor::from_floats({1}, {0.5f})});
  }
  for (const Port& p : network.graph.inputs()) network.inputs.push_back(port_of(network.graph, p.name, p.value));
  for (const Port& p : network.graph.outputs()) network.outputs.push_back(port_of(network.graph, p.name, p.value));
  add_captures(arguments, network);
}

// Floats from -1 to 1; integers 0 and 1, which are indices of nearly anything.
Tensor random_tensor(const onnx::OnnxPort& port, std::mt19937_64& rng) {
  Tensor tensor(port.dtype, port.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double unit = static_cast<double>(rng() >> 11) * 0x1p-53;
    set(tensor, i, is_float(port.dtype) ? 2 * unit - 1 : unit < 0.5 ? 0 : 1);
  }
  return tensor;
}

void make_inputs(const Arrays& arrays, const NetworkArguments& arguments, Network& network) {
  for (const auto& [name, array] : arrays)
    if (std::none_of(network.inputs.begin(), network.inputs.end(), [n = name](const auto& p) { return p.name == n; }))
      fail(ErrorCode::InvalidInput, "--input", "the model has no input ", in_quotes(name));
  std::mt19937_64 rng(arguments.seed);
  std::string random;
  for (const onnx::OnnxPort& port : network.inputs) {
    const auto given = arrays.find(port.name);
    if (given != arrays.end()) {
      network.tensors[port.name] = converted(given->second, port.elem, port.name);
      continue;
    }
    network.tensors[port.name] = random_tensor(port, rng);
    random += (random.empty() ? "" : ", ") + port.name;
  }
  if (!random.empty() && !arguments.quiet)
    say(cat("[", arguments.command, "] random inputs: ", random, " (--seed ", arguments.seed, ")"));
}

}  // namespace

void add_shape_options(CLI::App& command, NetworkArguments& arguments) {
  command
      .add_option("--bind", arguments.bound,
                  "An input whose values decide shapes: it becomes a constant of the network")
      ->type_name("NAME=FILE");
  command.add_option("--shape", arguments.shapes, "The shape of an input that is not given")->type_name("NAME=A,B,…");
}

void add_network_options(CLI::App& command, NetworkArguments& arguments) {
  arguments.command = command.get_name();
  command
      .add_option("-i,--input", arguments.inputs,
                  "An input: .npy, .npz, an ONNX tensor (.pb), a picture (PNG, JPEG), a volume (NIfTI, MGH) or sound "
                  "(WAV); those not given are random")
      ->type_name("NAME=FILE");
  add_shape_options(command, arguments);
  command.add_option("--scale", arguments.scale,
                     "Of pictures, volumes and sound: values are multiplied by this (pictures for floats: 1/255)");
  command.add_option("--mean", arguments.mean, "Likewise: this is taken off then, one number or one for each channel")
      ->delimiter(',')
      ->type_name("A,B,…");
  command.add_option("--std", arguments.std, "Likewise: and the rest divided by this")
      ->delimiter(',')
      ->type_name("A,B,…");
  command.add_option("--seed", arguments.seed, "Of random inputs")->capture_default_str();
}

Network load_network(const NetworkArguments& arguments, Ends ends, int64_t cube) {
  Network network;
  Arrays arrays;
  const std::map<std::string, Shape> shapes = given_shapes(arguments);
  if (const auto file = onnx::open_model(resolve_model(arguments.model)))
    load_onnx(*file, arguments, shapes, arrays, network);
  else
    load_other(arguments, shapes, ends, cube, arrays, network);
  make_inputs(arrays, arguments, network);
  return network;
}

std::map<std::string, Tensor> random_tensors(const Graph& graph, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::map<std::string, Tensor> tensors;
  for (const Port& port : graph.inputs())
    tensors[port.name] = random_tensor(port_of(graph, port.name, port.value), rng);
  return tensors;
}

Device open(const DeviceArguments& arguments, std::optional<Limits>& limits) {
  find_adapters();
  limits = read_limits(arguments.limits).limits;
  const AdapterInfo adapter = choose_adapter(arguments.device);
  const bool halves = arguments.precision == "f16" || arguments.matrix == "on";
  if (!limits && (!halves || arguments.matrix == "off" || !adapter.features.subgroup_matrix))
    return open_best(arguments.device, arguments.threads);
  DeviceOptions options;
  options.selector = arguments.device;
  options.threads = arguments.threads;
  options.limits = limits ? *limits : adapter.limits;
  if (!limits) options.features = adapter.features;
  return open_device(options);
}

ValueRange summary_of(const Tensor& tensor) {
  ValueRange s;
  s.least = INFINITY;
  s.most = -INFINITY;
  int64_t zeros = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = get(tensor, i);
    zeros += value == 0;
    if (!std::isfinite(value)) {
      ++s.odd;
      continue;
    }
    s.least = std::min(s.least, value);
    s.most = std::max(s.most, value);
    s.mean += value;
  }
  const int64_t finite = tensor.size() - s.odd;
  if (finite > 0) s.mean /= static_cast<double>(finite);
  if (finite == 0) s.least = s.most = 0;
  if (tensor.size() > 0) s.zeros = static_cast<double>(zeros) / static_cast<double>(tensor.size());
  return s;
}

std::string file_name(const std::string& name, std::set<std::string>& taken) {
  std::string safe;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                       c == '-' || (c == '.' && !safe.empty());
    safe += plain ? c : '_';
  }
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = cat(safe, "_", i);
  return unique;
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) fail(ErrorCode::Io, folder, "cannot be made: ", failed.message());
}

}  // namespace gyrus::cli
