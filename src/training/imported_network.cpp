// A network from its file: a layer list or other model of layers, or ONNX, with the weights that with_parameters()
// finds.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/tensor.h"
#include "engine/manifest.h"
#include "gyrus/program.h"
#include "gyrus/train.h"
#include "import/model.h"
#include "import/network.h"
#include "import/onnx_path.h"
#include "import/safetensors.h"
#include "training/built_network.h"
#include "training/onnx_write.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

class ImportedNetwork : public TrainNetwork {
 public:
  ImportedNetwork(const std::string& path, int64_t classes, const Shape& extents) : path_(path) {
    if (const auto file = onnx::open_model(path)) onnx_ = file->path;
    if (is_onnx()) multiple_ = multiple_of_folder();
    if (!is_onnx() && load_model(path).format.rfind("layer list", 0) != 0)
      fail(ErrorCode::Unsupported, path, "is a ", load_model(path).format,
           ", which is not written back; train a layer list or an ONNX file");
    for (const int64_t extent : extents)
      if (extent % multiple_ != 0)
        fail(ErrorCode::InvalidInput, path, "takes extents that are multiples of ", multiple_, ", not ",
             to_string(extents), ": give another data.patch");
    const Graph graph = graph_for({1, 1, extents[0], extents[1], extents[2]});
    const Shape scores = graph.type(graph.outputs()[0].value).shape;
    if (graph.inputs().size() != 1 || scores.size() != 5 || scores[1] != classes)
      fail(ErrorCode::InvalidInput, path, "gives ", to_string(scores), " for one volume; the config has ", classes,
           " classes");
    for (const State& state : graph.states()) start_[state.name] = *state.start;
    if (start_.empty()) fail(ErrorCode::InvalidInput, path, "has no weights to train");
    check_all_are_found();
  }

  Value append(Graph& graph, Value image, const BuildOptions& options) const override {
    const Graph part = graph_for(image.shape());
    std::vector<ValueId> map(part.value_count(), kNoValue);
    map[part.inputs()[0].value] = image.id();
    for (const State& state : part.states()) map[state.value] = weight(graph, state.name, options).id();
    for (ValueId id = 0; id < part.value_count(); ++id)
      if (part.is_constant(id)) map[id] = graph.add_constant("", part.value(id).constant);
    for (Node node : part.nodes()) {
      const std::vector<ValueId> old = node.outputs;
      for (ValueId& id : node.inputs)
        if (id != kNoValue) id = map.at(id);
      const std::vector<ValueId> made = graph.add_node(std::move(node));
      for (size_t i = 0; i < made.size(); ++i) map[old[i]] = made[i];
    }
    return {graph, map.at(part.outputs()[0].value)};
  }

  std::map<std::string, std::vector<std::byte>> files(const std::map<std::string, Tensor>& weights) const override {
    if (is_onnx()) return {{"model.onnx", onnx(weights)}};
    std::map<std::string, Tensor> all = weights;
    const Graph graph = graph_for({1, 1, 8, 8, 8});
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (graph.is_constant(id) && !graph.value(id).name.empty()) all[graph.value(id).name] = graph.constant(id);
    const fs::path given(path_);
    std::error_code failed;
    const std::string list = fs::is_directory(given, failed) ? (given / "model.json").string() : path_;
    return {{"model.json", read_file(list)}, {"model.safetensors", write_safetensors(all)}};
  }

  std::vector<std::byte> onnx(const std::map<std::string, Tensor>& weights) const override {
    if (!is_onnx())
      fail(ErrorCode::Unsupported, path_, "a network of layers from a file is not written as ONNX; leave out export");
    return with_initializers(read_file(onnx_), weights);
  }
  bool is_onnx() const override { return !onnx_.empty(); }
  int64_t multiple() const override { return multiple_; }

 private:
  Graph graph_for(const Shape& image) const {
    if (is_onnx()) {
      const auto file = onnx::open_model(path_);
      const std::vector<onnx::DeclaredInput> inputs = onnx::declared_inputs(file->model);
      if (inputs.size() != 1)
        fail(ErrorCode::InvalidInput, path_, "has ", inputs.size(), " inputs, expected one of volumes");
      if (!inputs[0].shape.empty() && inputs[0].shape[0] != -1 && inputs[0].shape[0] != image[0])
        fail(ErrorCode::InvalidInput, path_, "takes ", inputs[0].text, ", batches of ", inputs[0].shape[0],
             " alone: train it with that \"batch\"; \"accumulate\" averages the gradients of several steps");
      return with_parameters(load_graph(path_, {{inputs[0].name, image}}));
    }
    const Model model = load_model(path_);
    if (model.input_channels != image[1] || static_cast<size_t>(model.spatial_rank) + 2 != image.size())
      fail(ErrorCode::InvalidInput, path_, "takes ", model.input_channels, " channels of ", model.spatial_rank,
           " axes, not ", to_string(image));
    Graph graph;
    graph.add_output("logits", model.network->append_to(graph, graph.add_input("image", {DType::F32, image})));
    return with_parameters(graph);
  }

  // As its gyrus.json says, if there is one.
  int64_t multiple_of_folder() const {
    const std::string manifest = (fs::path(path_) / kManifestName).string();
    std::error_code failed;
    if (!fs::is_regular_file(manifest, failed)) return 1;
    const std::vector<std::byte> bytes = read_file(manifest);
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const auto json = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
    const auto found = json.is_object() ? json.find("multiple") : json.end();
    if (!json.is_object() || found == json.end()) return 1;
    constexpr int64_t kMost = 1024;
    if (!found->is_number_integer() || *found < 1 || *found > kMost)
      fail(ErrorCode::InvalidModel, manifest, "multiple: expected a whole number from 1 to ", kMost);
    return found->get<int64_t>();
  }

  // What the importer computed with at once is no weight of the graph any more.
  void check_all_are_found() const {
    if (!is_onnx()) return;
    const auto file = onnx::open_model(path_);
    for (const onnx::TensorProto& proto : file->model.graph.initializers)
      if (proto.dims.size() > 1 && proto.type == onnx::Elem::F32 && !start_.count(proto.name))
        fail(ErrorCode::Unsupported, path_, "the weight \"", proto.name,
             "\" is changed while the file is read, so that it cannot be trained");
  }

  std::string path_;
  std::string onnx_;  // the file; empty where it is none
  int64_t multiple_ = 1;
};

}  // namespace

std::unique_ptr<TrainNetwork> make_network(const NetworkConfig& config, int64_t classes, uint64_t seed,
                                           const Shape& extents) {
  if (config.kind == NetworkConfig::Kind::File) return std::make_unique<ImportedNetwork>(config.file, classes, extents);
  return std::make_unique<BuiltNetwork>(config, classes, seed);
}

}  // namespace gyrus
