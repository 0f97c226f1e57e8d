#include "import/network.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace gyrus {
namespace {

constexpr int64_t kLargestNumber = 1 << 16;  // stride, dilation, padding
constexpr int64_t kMostChannels = 1 << 20;

std::string layer(const std::string& label) { return "layer " + in_quotes(label); }

// TensorFlow's "same": ceil(extent / stride) outputs, the odd zero after the last voxel.
std::vector<int64_t> same_pads(const NetworkStep& step, const Shape& input, const Shape& weight) {
  const std::vector<int64_t>& stride = step.attrs.integers("stride");
  const std::vector<int64_t>& dilation = step.attrs.integers("dilation");
  std::vector<int64_t> pads(2 * stride.size());
  for (size_t axis = 0; axis < stride.size(); ++axis) {
    const int64_t extent = input[axis + 2];
    const int64_t outputs = (extent + stride[axis] - 1) / stride[axis];
    const int64_t covered = (outputs - 1) * stride[axis] + (weight[axis + 2] - 1) * dilation[axis] + 1;
    const int64_t zeros = std::max<int64_t>(covered - extent, 0);
    pads[axis] = zeros / 2;
    pads[axis + stride.size()] = zeros - zeros / 2;
  }
  return pads;
}

}  // namespace

Network::Network(std::string subject, size_t spatial_rank, int64_t channels)
    : subject_(std::move(subject)), spatial_rank_(spatial_rank) {
  if (spatial_rank < 1 || spatial_rank > 3) {
    fail(ErrorCode::Unsupported, subject_, "a network over ", spatial_rank, " spatial axes; 1 to 3 are possible");
  }
  if (channels < 1 || channels > kMostChannels) {
    fail(ErrorCode::InvalidModel, subject_, "an image of ", channels, " channels");
  }
  NetworkStep image;
  image.op = "input";
  image.label = "image";
  image.channels = channels;
  append(std::move(image));
}

size_t Network::append(NetworkStep step) {
  steps_.push_back(std::move(step));
  output_ = steps_.size() - 1;
  return output_;
}

void Network::check_vector(const std::string& label, const NamedTensor& tensor, int64_t length) const {
  if (tensor.tensor->shape == Shape{length} && tensor.tensor->dtype == DType::F32) return;
  fail(ErrorCode::InvalidModel, subject_, layer(label), ": weight ", in_quotes(tensor.name), " is ",
       to_string(tensor.tensor->dtype), to_string(tensor.tensor->shape), ", wanted f32[", length, "]");
}

void Network::check_range(const std::string& label, const char* what, const std::vector<int64_t>& values, size_t count,
                          int64_t least) const {
  if (values.size() != count) {
    fail(ErrorCode::InvalidModel, subject_, layer(label), ": ", what, " has ", values.size(), " numbers, wanted ",
         count);
  }
  for (const int64_t value : values) {
    if (value >= least && value <= kLargestNumber) continue;
    fail(ErrorCode::InvalidModel, subject_, layer(label), ": ", what, " is ", value, ", wanted ", least, " to ",
         kLargestNumber);
  }
}

NamedTensor Network::constant(const std::string& name, int64_t length, float value) const {
  const std::vector<float> values(static_cast<size_t>(length), value);
  return {name, std::make_shared<const Tensor>(Tensor::from_floats({length}, values))};
}

size_t Network::conv(size_t x, Convolution conv) {
  const Shape& shape = conv.weight.tensor->shape;
  bool good = shape.size() == spatial_rank_ + 2 && conv.weight.tensor->dtype == DType::F32 && conv.groups >= 1;
  for (const int64_t extent : shape) good = good && extent >= 1;
  if (!good || channels(x) % conv.groups != 0 || shape[0] % conv.groups != 0 || shape[1] != channels(x) / conv.groups) {
    fail(ErrorCode::InvalidModel, subject_, layer(conv.label), ": weight ", in_quotes(conv.weight.name), " is ",
         to_string(conv.weight.tensor->dtype), to_string(shape), ", which does not fit ", channels(x),
         " input channels in ", conv.groups, " group(s) over ", spatial_rank_, " spatial axes");
  }
  check_range(conv.label, "stride", conv.stride, spatial_rank_, 1);
  check_range(conv.label, "dilation", conv.dilation, spatial_rank_, 1);
  if (!conv.same_padding) check_range(conv.label, "padding", conv.pads, 2 * spatial_rank_, 0);

  NetworkStep step;
  step.op = "conv";
  step.label = conv.label;
  step.inputs = {x};
  step.attrs = {{"stride", conv.stride}, {"dilation", conv.dilation}, {"groups", conv.groups}};
  if (!conv.same_padding) step.attrs.set("pads", conv.pads);
  step.same_padding = conv.same_padding;
  step.channels = shape[0];
  step.weights.push_back(conv.weight);
  if (conv.bias.tensor != nullptr) {
    check_vector(conv.label, conv.bias, shape[0]);
    step.weights.push_back(conv.bias);
  }
  return append(std::move(step));
}

size_t Network::batch_norm(size_t x, const std::string& label, NamedTensor mean, NamedTensor variance,
                           NamedTensor gamma, NamedTensor beta, double eps) {
  const int64_t count = channels(x);
  if (!(eps >= 0)) fail(ErrorCode::InvalidModel, subject_, layer(label), ": epsilon is ", eps);
  for (const NamedTensor* tensor : {&mean, &variance, &gamma, &beta}) {
    if (tensor->tensor != nullptr) check_vector(label, *tensor, count);
  }
  for (int64_t c = 0; c < count; ++c) {
    if (get(*variance.tensor, c) >= 0 && get(*variance.tensor, c) + eps > 0) continue;
    fail(ErrorCode::InvalidModel, subject_, layer(label), ": weight ", in_quotes(variance.name),
         " holds a variance that is not positive");
  }
  NetworkStep step;
  step.op = "batch_norm";
  step.label = label;
  step.inputs = {x};
  step.attrs = {{"eps", eps}};
  step.channels = count;
  step.weights = {std::move(mean), std::move(variance)};
  if (gamma.tensor != nullptr || beta.tensor != nullptr) {
    if (gamma.tensor == nullptr) gamma = constant(label + "/ones", count, 1);
    if (beta.tensor == nullptr) beta = constant(label + "/zeros", count, 0);
    step.weights.push_back(std::move(gamma));
    step.weights.push_back(std::move(beta));
  }
  return append(std::move(step));
}

size_t Network::instance_norm(size_t x, const std::string& label, NamedTensor gamma, NamedTensor beta, double eps) {
  NetworkStep step;
  step.op = "group_norm";
  step.label = label;
  step.inputs = {x};
  step.attrs = {{"groups", channels(x)}, {"eps", eps}};
  step.channels = channels(x);
  if (gamma.tensor != nullptr) {
    check_vector(label, gamma, channels(x));
    check_vector(label, beta, channels(x));
    step.weights = {std::move(gamma), std::move(beta)};
  }
  return append(std::move(step));
}

size_t Network::activation(size_t x, const std::string& label, const std::string& op, Attrs attrs) {
  NetworkStep step;
  step.op = op;
  step.label = label;
  step.inputs = {x};
  step.attrs = std::move(attrs);
  step.channels = channels(x);
  return append(std::move(step));
}

size_t Network::pad(size_t x, const std::string& label, std::vector<int64_t> pads) {
  check_range(label, "padding", pads, 2 * spatial_rank_, 0);
  // The op pads every axis, batch and channels included.
  pads.insert(pads.begin() + static_cast<std::ptrdiff_t>(spatial_rank_), 2, 0);
  pads.insert(pads.begin(), 2, 0);
  NetworkStep step;
  step.op = "pad";
  step.label = label;
  step.inputs = {x};
  step.attrs = {{"pads", std::move(pads)}, {"value", 0.0}};
  step.channels = channels(x);
  return append(std::move(step));
}

size_t Network::concat_channels(const std::vector<size_t>& inputs, const std::string& label) {
  NetworkStep step;
  step.op = "concat";
  step.label = label;
  step.inputs = inputs;
  step.attrs = {{"axis", int64_t{1}}};
  for (const size_t input : inputs) step.channels += channels(input);
  if (step.channels > kMostChannels) fail(ErrorCode::InvalidModel, subject_, layer(label), " makes too many channels");
  return append(std::move(step));
}

size_t Network::combine(const std::string& op, const std::vector<size_t>& inputs, const std::string& label) {
  size_t result = inputs.at(0);
  for (size_t i = 1; i < inputs.size(); ++i) {
    const int64_t a = channels(result), b = channels(inputs[i]);
    if (a != b && a != 1 && b != 1) {
      fail(ErrorCode::InvalidModel, subject_, layer(label), " joins ", a, " and ", b, " channels");
    }
    NetworkStep step;
    step.op = op;
    step.label = label;
    step.inputs = {result, inputs[i]};
    step.channels = std::max(a, b);
    result = append(std::move(step));
  }
  return result;
}

ValueId Network::append_to(Graph& graph, ValueId image) const {
  const Shape& shape = graph.type(image).shape;
  const Shape spatial(shape.begin() + 2, shape.end());
  bool good = spatial.size() == spatial_rank_;
  for (const int64_t extent : spatial) good = good && extent >= 1;
  if (!good) {
    fail(ErrorCode::InvalidInput, subject_, "an image of extents ", to_string(spatial), "; the model wants ",
         spatial_rank_, " positive numbers");
  }
  std::map<const Tensor*, ValueId> constants;  // a weight used twice is one constant
  std::vector<ValueId> values = {image};
  for (size_t i = 1; i < steps_.size(); ++i) {
    const NetworkStep& step = steps_[i];
    std::vector<ValueId> operands;
    for (const size_t input : step.inputs) operands.push_back(values[input]);
    for (const NamedTensor& weight : step.weights) {
      const auto known = constants.find(weight.tensor.get());
      operands.push_back(known != constants.end() ? known->second : graph.add_constant(weight.name, weight.tensor));
      constants[weight.tensor.get()] = operands.back();
    }
    Attrs attrs = step.attrs;
    if (step.same_padding) {
      attrs.set("pads", same_pads(step, graph.type(operands[0]).shape, step.weights[0].tensor->shape));
    }
    values.push_back(graph.add(step.op, operands, std::move(attrs), step.label));
  }
  return values[output_];
}

Graph Network::build(const Shape& spatial) const {
  Graph graph;
  Shape shape = {1, channels(0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  graph.add_output("logits", append_to(graph, graph.add_input("image", {DType::F32, shape, Layout::Plain})));
  graph = without_dead_nodes(graph);
  verify(graph);
  return graph;
}

}  // namespace gyrus
