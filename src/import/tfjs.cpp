#include "import/tfjs.h"

#include <algorithm>
#include <set>

#include "import/tfjs_topology.h"

namespace gyrus {
namespace {

// Hands out the weight "LAYER/ROLE", perhaps with scopes before it, and knows what was never asked for.
class Weights {
 public:
  Weights(const StateDict& weights, const std::string& subject) : weights_(weights), subject_(subject) {}

  NamedTensor take(const KerasLayer& layer, const std::string& role) {
    const std::string name = layer.name + "/" + role;
    const NamedTensor* found = weights_.find(name);
    if (found == nullptr) found = find_scoped("/" + name);
    if (found == nullptr) {
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(name), " is missing: the topology asks for it");
    }
    if (!taken_.insert(found->name).second) {
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(found->name), " belongs to two layers");
    }
    return *found;
  }
  void check_all_taken() const {
    for (const NamedTensor& entry : weights_.entries()) {
      if (taken_.count(entry.name) != 0) continue;
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(entry.name), " is left over (",
           weights_.entries().size() - taken_.size(), " in all): no layer uses it");
    }
  }

 private:
  // The only weight whose name ends so; null where there is none or several.
  const NamedTensor* find_scoped(const std::string& end) const {
    const NamedTensor* found = nullptr;
    for (const NamedTensor& entry : weights_.entries()) {
      const std::string& name = entry.name;
      if (name.size() < end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) continue;
      if (found != nullptr) return nullptr;
      found = &entry;
    }
    return found;
  }

  const StateDict& weights_;
  const std::string& subject_;
  std::set<std::string> taken_;
};

// [k…, in, out] → [out, in, k…].
NamedTensor channels_first(const NamedTensor& kernel) {
  const Shape& from = kernel.tensor->shape;
  const int64_t outputs = from.back(), inputs = from[from.size() - 2];
  const int64_t taps = element_count(Shape(from.begin(), from.end() - 2));
  Shape shape = {outputs, inputs};
  shape.insert(shape.end(), from.begin(), from.end() - 2);
  Tensor out(DType::F32, shape);
  const float* source = kernel.tensor->as<float>();
  float* target = out.as<float>();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t k = 0; k < taps; ++k) *target++ = source[(k * inputs + i) * outputs + o];
    }
  }
  return {kernel.name, std::make_shared<const Tensor>(std::move(out))};
}

class Importer {
 public:
  Importer(const Topology& topology, Weights& weights, const std::string& subject)
      : topology_(topology), weights_(weights), subject_(subject), network_(make_network()) {}

  Network run() {
    for (const KerasLayer& layer : topology_.layers) {
      if (layer.class_name != "InputLayer") done_[layer.name] = add(layer);
    }
    const auto output = done_.find(topology_.output);
    if (output == done_.end())
      fail(ErrorCode::InvalidModel, subject_, "output layer ", in_quotes(topology_.output), " is missing");
    network_.set_output(output->second);
    weights_.check_all_taken();
    return std::move(network_);
  }

 private:
  Network make_network() {
    const KerasLayer* input = nullptr;
    for (const KerasLayer& layer : topology_.layers) {
      if (layer.class_name == "InputLayer") input = &layer;
      const std::string format = layer.config.text("data_format", "channels_last");
      if (format != "channels_last") unsupported(layer, "data_format " + in_quotes(format));
    }
    if (input == nullptr) fail(ErrorCode::InvalidModel, subject_, "a model without InputLayer");
    const char* key = input->config.has("batch_input_shape") ? "batch_input_shape" : "batch_shape";
    const Json& shape = input->config.array(key);  // [batch, spatial…, channels]
    if (shape.size() < 3 || shape.size() > 5) unsupported(*input, "wants [batch, 1 to 3 spatial axes, channels]");
    if (!shape.back().is_number_unsigned() || shape.back().get<uint64_t>() > INT32_MAX) {
      input->config.bad(key, "a shape that ends with the number of channels");
    }
    done_[input->name] = 0;
    return Network(subject_, shape.size() - 2, shape.back().get<int64_t>());
  }

  size_t add(const KerasLayer& layer) {
    std::vector<size_t> inputs;
    for (const std::string& name : layer.inputs) inputs.push_back(done_.at(name));
    static const std::map<std::string, std::string> joins = {
        {"Add", "add"}, {"Subtract", "sub"}, {"Multiply", "mul"}, {"Maximum", "max"}, {"Minimum", "min"}};
    const auto join = joins.find(layer.class_name);
    if (join != joins.end() || layer.class_name == "Concatenate") {
      if (inputs.size() < 2) unsupported(layer, "joins fewer than two tensors");
      if (join != joins.end()) return network_.combine(join->second, inputs, layer.name);
      check_channel_axis(layer, layer.config.integer("axis", -1));
      return network_.concat_channels(inputs, layer.name);
    }
    if (inputs.size() != 1) unsupported(layer, cat("reads ", inputs.size(), " tensors"));
    return add_unary(layer, inputs[0]);
  }

  size_t add_unary(const KerasLayer& layer, size_t x) {
    static const std::set<std::string> nothing = {"Dropout",          "SpatialDropout1D",      "SpatialDropout2D",
                                                  "SpatialDropout3D", "GaussianDropout",       "AlphaDropout",
                                                  "GaussianNoise",    "ActivityRegularization"};
    const std::string rank = cat(network_.spatial_rank(), "D");
    const std::string& kind = layer.class_name;
    if (nothing.count(kind) != 0) return x;
    if (kind == "Conv" + rank) return add_conv(layer, x);
    if (kind == "BatchNormalization") return add_batch_norm(layer, x);
    if (kind == "ZeroPadding" + rank) return network_.pad(x, layer.name, read_padding(layer));
    if (kind == "Activation") return add_activation(layer, x, layer.name, layer.config.text("activation"));
    if (kind == "ReLU") return add_relu(layer, x);
    if (kind == "LeakyReLU") {
      const double slope = layer.config.number("negative_slope", layer.config.number("alpha", 0.3));
      return network_.activation(x, layer.name, "leaky_relu", {{"alpha", slope}});
    }
    if (kind == "ELU") return network_.activation(x, layer.name, "elu", {{"alpha", layer.config.number("alpha", 1)}});
    if (kind == "Softmax") {
      check_channel_axis(layer, layer.config.integer("axis", -1));
      return add_activation(layer, x, layer.name, "softmax");
    }
    unsupported(layer, "gyrus does not know this layer");
  }

  void check_channel_axis(const KerasLayer& layer, int64_t axis) const {
    if (axis == -1 || axis == static_cast<int64_t>(network_.spatial_rank()) + 1) return;
    unsupported(layer, cat("works along axis ", axis, ", which is not the channels"));
  }

  size_t add_conv(const KerasLayer& layer, size_t x) {
    const JsonObject& config = layer.config;
    const size_t rank = network_.spatial_rank();
    const NamedTensor kernel = weights_.take(layer, "kernel");
    Shape wanted = config.integers("kernel_size", rank, 0);
    Convolution conv;
    conv.label = layer.name;
    conv.groups = config.integer("groups", 1);
    if (conv.groups < 1 || conv.groups > network_.channels(x)) config.bad("groups", "a divisor of the channels");
    wanted.push_back(network_.channels(x) / conv.groups);
    wanted.push_back(config.integer("filters"));
    if (kernel.tensor->shape != wanted || kernel.tensor->dtype != DType::F32) {
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(kernel.name), " is ",
           to_string(kernel.tensor->dtype), to_string(kernel.tensor->shape), ", but layer ", in_quotes(layer.name),
           " wants f32", to_string(wanted));
    }
    conv.weight = channels_first(kernel);
    if (config.boolean("use_bias", true)) conv.bias = weights_.take(layer, "bias");
    conv.stride = config.integers("strides", rank, 1);
    conv.dilation = config.integers("dilation_rate", rank, 1);
    conv.pads.assign(2 * rank, 0);
    const std::string padding = config.text("padding", "valid");
    if (padding != "valid" && padding != "same") unsupported(layer, "padding " + in_quotes(padding));
    conv.same_padding = padding == "same";
    // With stride 1 "same" does not depend on the extents.
    if (conv.same_padding && std::all_of(conv.stride.begin(), conv.stride.end(), [](int64_t s) { return s == 1; })) {
      conv.same_padding = false;
      for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t zeros = (wanted[axis] - 1) * std::clamp<int64_t>(conv.dilation[axis], 0, 1 << 17);
        conv.pads[axis] = zeros / 2;
        conv.pads[axis + rank] = zeros - zeros / 2;
      }
    }
    const size_t result = network_.conv(x, std::move(conv));
    return add_activation(layer, result, layer.name + "/activation", config.text("activation", "linear"));
  }

  size_t add_batch_norm(const KerasLayer& layer, size_t x) {
    const JsonObject& config = layer.config;
    const Json* axis = config.find("axis");  // an integer, or a list of one
    const bool list = axis != nullptr && axis->is_array();
    check_channel_axis(layer, list ? config.integers("axis", 1, -1)[0] : config.integer("axis", -1));
    NamedTensor gamma, beta;
    if (config.boolean("scale", true)) gamma = weights_.take(layer, "gamma");
    if (config.boolean("center", true)) beta = weights_.take(layer, "beta");
    const NamedTensor mean = weights_.take(layer, "moving_mean");
    const NamedTensor variance = weights_.take(layer, "moving_variance");
    return network_.batch_norm(x, layer.name, mean, variance, gamma, beta, config.number("epsilon", 1e-3));
  }

  size_t add_relu(const KerasLayer& layer, size_t x) {
    if (layer.config.has("max_value")) unsupported(layer, "max_value is not supported");
    if (layer.config.number("threshold", 0) != 0) unsupported(layer, "threshold is not supported");
    const double slope = layer.config.number("negative_slope", 0);
    if (slope == 0) return network_.activation(x, layer.name, "relu");
    return network_.activation(x, layer.name, "leaky_relu", {{"alpha", slope}});
  }

  size_t add_activation(const KerasLayer& layer, size_t x, const std::string& label, const std::string& name) {
    struct Op {
      std::string op;
      Attrs attrs;
    };
    static const std::map<std::string, Op> ops = {
        {"relu", {"relu", {}}},
        {"elu", {"elu", {{"alpha", 1.0}}}},
        {"gelu", {"gelu", {{"approximate", "none"}}}},
        {"silu", {"silu", {}}},
        {"swish", {"silu", {}}},
        {"sigmoid", {"sigmoid", {}}},
        {"tanh", {"tanh", {}}},
        {"softplus", {"softplus", {}}},
        {"softmax", {"softmax", {{"axis", int64_t{1}}}}},
        {"leaky_relu", {"leaky_relu", {{"alpha", 0.2}}}},
    };
    if (name == "linear") return x;
    const auto found = ops.find(name);
    if (found == ops.end()) unsupported(layer, "unknown activation " + in_quotes(name));
    return network_.activation(x, label, found->second.op, found->second.attrs);
  }

  // One number, one each axis, or a pair each axis.
  std::vector<int64_t> read_padding(const KerasLayer& layer) const {
    const size_t rank = network_.spatial_rank();
    const Json& json = layer.config.at("padding");
    const bool pairs = json.is_array() && json.size() == rank && json[0].is_array();
    if (!pairs && rank == 1 && json.is_array()) return layer.config.integers("padding", 2, 0);
    std::vector<int64_t> before = pairs ? std::vector<int64_t>() : layer.config.integers("padding", rank, 0);
    std::vector<int64_t> after = before;
    for (size_t axis = 0; pairs && axis < rank; ++axis) {
      const Json& pair = json[axis];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_number_unsigned()) {
        layer.config.bad("padding", "a list of pairs");
      }
      before.push_back(pair[0].get<int64_t>());
      after.push_back(pair[1].get<int64_t>());
    }
    before.insert(before.end(), after.begin(), after.end());
    return before;
  }

  const Topology& topology_;
  Weights& weights_;
  const std::string& subject_;
  std::map<std::string, size_t> done_;  // layer → step
  Network network_;
};

}  // namespace

bool is_tfjs(const Json& json) { return json.is_object() && json.contains("modelTopology"); }

Network read_tfjs(const Json& json, const FileMap& files, const std::string& fallback, const std::string& subject) {
  const Topology topology = read_tfjs_topology(json, subject);
  const JsonObject document(json, subject, "");
  const StateDict state = read_tfjs_weights(document.array("weightsManifest"), files, fallback, subject);
  check_finite(state, subject);
  Weights weights(state, subject);
  return Importer(topology, weights, subject).run();
}

}  // namespace gyrus
