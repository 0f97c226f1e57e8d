// The entry points behind web/src/program.ts: a network of any kind, its ports, and plans for the shapes of its inputs.

#include "abi.h"
#include "engine/program_plan.h"
#include "import/onnx_import.h"
#include "plan/check.h"

using namespace gyrus;

namespace {

// An ONNX file, or a model for volumes.
struct OpenNetwork {
  ModelFiles files;
  std::optional<onnx::ModelProto> onnx;  // refers to the files
  Model model;                           // where it is no ONNX file
  std::map<std::string, Tensor> bound;
};

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

Json value_json(const onnx::ValueProto& value) {
  Json dims = Json::array();
  for (const onnx::Dim& dim : value.dims)
    dims.push_back(dim.extent >= 0 ? Json(dim.extent) : dim.name.empty() ? Json() : Json(dim.name));
  Json dtype;
  try {
    dtype = to_string(onnx::stored_as(value.type, value.name));
  } catch (const Error&) {
    // None that gyrus has; planning says so.
  }
  return {{"name", value.name},
          {"type", value.is_tensor ? onnx::to_string(value.type) : value.kind},
          {"dtype", dtype},
          {"dims", value.has_shape ? dims : Json()}};
}

Json declared_json(const OpenNetwork& network) {
  Json inputs = Json::array(), outputs = Json::array();
  if (network.onnx) {
    const onnx::GraphProto& graph = network.onnx->graph;
    for (const onnx::DeclaredInput& input : onnx::declared_inputs(*network.onnx))
      for (const onnx::ValueProto& value : graph.inputs)
        if (value.name == input.name) inputs.push_back(value_json(value));
    for (const onnx::ValueProto& value : graph.outputs) outputs.push_back(value_json(value));
  } else {
    const auto port = [&](const char* name, int64_t channels) {
      Json dims = {1, channels};
      for (int axis = 0; axis < network.model.spatial_rank; ++axis) dims.push_back(nullptr);
      return Json{{"name", name}, {"type", "float"}, {"dtype", "f32"}, {"dims", dims}};
    };
    inputs.push_back(port("image", network.model.input_channels));
    outputs.push_back(port("logits", network.model.classes));
  }
  return {{"inputs", inputs}, {"outputs", outputs}};
}

Json ports_json(const Graph& graph, const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    const TensorType& type = graph.type(port.value);
    list.push_back({{"name", port.name}, {"dtype", to_string(type.dtype)}, {"shape", type.shape}});
  }
  return list;
}

Graph graph_for(const OpenNetwork& network, const Json& request) {
  const Shapes shapes = request.at("shapes").get<Shapes>();
  const Json& captures = request.at("captures");
  const bool all = captures.is_boolean() && captures.get<bool>();
  if (!network.onnx) {
    if (all || (captures.is_array() && !captures.empty()) || !network.bound.empty())
      fail(ErrorCode::Unsupported, network.model.name, "captures and bound inputs are for ONNX models");
    return model_graph(network.model, shapes);
  }
  onnx::ImportOptions options;
  options.subject = network.files.name;
  options.shapes = shapes;
  options.bound = network.bound;
  options.capture_all = all;
  if (captures.is_array()) options.captures = captures.get<std::vector<std::string>>();
  options.external = [&](const std::string& location, uint64_t offset, uint64_t length) {
    return external_data(network.files, location, offset, length);
  };
  return onnx::import_model(*network.onnx, options).graph;
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::F32, DType::F16, DType::I32, DType::U32, DType::U8, DType::I64, DType::Bool})
    if (name == to_string(dtype)) return dtype;
  fail(ErrorCode::InvalidInput, name, "is no element type");
}

}  // namespace

// Takes the files over, in any case.
GYRUS_EXPORT OpenNetwork* gyrus_network_open(ModelFiles* files) {
  const std::unique_ptr<ModelFiles> given(files);
  return guarded([&] {
    auto network = std::make_unique<OpenNetwork>();
    network->files = std::move(*given);
    std::string name;
    if (const std::vector<std::byte>* file = onnx_file(network->files, name)) {
      if (network->files.name.empty()) network->files.name = name;
      network->onnx = onnx::read_model(bytes_of(*file), network->files.name);
    } else {
      network->model = load_model(network->files);
    }
    return network.release();
  });
}
GYRUS_EXPORT void gyrus_network_close(OpenNetwork* network) { delete network; }

// Text: inputs and outputs as the file declares them.
GYRUS_EXPORT int gyrus_network_info(const OpenNetwork* network) {
  return guarded([&] {
    answer.text = dump(declared_json(*network));
    return 1;
  });
}

// Makes an input a constant of every plan to come. `type`: dtype and shape. Copies the bytes.
GYRUS_EXPORT int gyrus_network_bind(OpenNetwork* network, const char* name, const char* type, const std::byte* bytes,
                                    size_t size) {
  return guarded([&] {
    const Json json = Json::parse(type);
    Tensor tensor(dtype_named(json.at("dtype")), json.at("shape").get<Shape>());
    if (tensor.data.size() != size)
      fail(ErrorCode::InvalidInput, name, "has ", size, " bytes, ", to_string(tensor.dtype), to_string(tensor.shape),
           " has ", tensor.data.size());
    std::copy(bytes, bytes + size, tensor.data.begin());
    network->bound[name] = std::move(tensor);
    return 1;
  });
}

// `request` is types.ts's NetworkRequest. Text: the plan, empty where no result has an element; data: its weights.
// gyrus_network_ports() then tells the ports as the caller sees them.
GYRUS_EXPORT int gyrus_network_plan(const OpenNetwork* network, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    const Limits limits = limits_of(json.at("limits"));
    PlanOptions options = json.at("software").get<bool>() ? software_options() : PlanOptions{};
    options.check_finite = json.at("checkFinite");
    options.dispatch_flops = json.value("dispatchFlops", 0.0);
    const Graph graph = graph_for(*network, json);
    answer.about = dump({{"inputs", ports_json(graph, graph.inputs())},
                         {"outputs", ports_json(graph, graph.outputs())},
                         {"captures", ports_json(graph, graph.captures())}});
    const Precision precision = json.at("precision") == "f16" ? Precision::F16 : Precision::F32;
    ProgramPlan program = plan_program(graph, limits, precision, options);
    if (!program.plan) return 1;
    check(*program.plan, limits);
    answer.text = to_json(*program.plan);
    answer.data = std::move(program.plan->weights);
    return 1;
  });
}
GYRUS_EXPORT const char* gyrus_network_ports() { return answer.about.c_str(); }

// An ONNX tensor in a file of its own. Text: name, type, dtype and shape; data: its elements.
GYRUS_EXPORT int gyrus_tensor_read(const char* file, const std::byte* bytes, size_t size) {
  return guarded([&] {
    const onnx::TensorProto proto = onnx::read_tensor({bytes, size}, file);
    Tensor tensor = onnx::to_tensor(proto, file);
    answer.text = dump({{"name", proto.name},
                        {"type", onnx::to_string(proto.type)},
                        {"dtype", to_string(tensor.dtype)},
                        {"shape", tensor.shape}});
    answer.data = std::move(tensor.data);
    return 1;
  });
}
