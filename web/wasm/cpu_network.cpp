#include "cpu_network.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "graph/op.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

using Lanes = float __attribute__((vector_size(16)));
using UnalignedLanes = float __attribute__((vector_size(16), aligned(4)));

constexpr int64_t kWidth = 8;  // voxels along z that are summed at a time
constexpr int64_t kBlock = 6;  // output channels at a time: 12 sums, 2 inputs and a weight fit 16 registers
constexpr size_t kAxes = 3;

Lanes load(const float* at) { return *reinterpret_cast<const UnalignedLanes*>(at); }
void store(float* at, Lanes value) { *reinterpret_cast<UnalignedLanes*>(at) = value; }

// A row of the input and the weights that it is multiplied with, one for each output channel of the block.
struct Tap {
  const float* row;
  const float* weights;
};

// out[o][z] = bias[o] + Σ row[z] · weight[o], for `count` voxels rounded up to kWidth.
template <int64_t O>
void sum_taps(const std::vector<Tap>& taps, const float* bias, float* const* out, int64_t count) {
  for (int64_t z = 0; z < count; z += kWidth) {
    Lanes sums[O][2];
    for (int64_t o = 0; o < O; ++o) sums[o][0] = sums[o][1] = Lanes{bias[o], bias[o], bias[o], bias[o]};
    for (const Tap& tap : taps) {
      const Lanes a = load(tap.row + z), b = load(tap.row + z + 4);
      for (int64_t o = 0; o < O; ++o) {
        const float w = tap.weights[o];
        const Lanes all{w, w, w, w};
        sums[o][0] += a * all;
        sums[o][1] += b * all;
      }
    }
    for (int64_t o = 0; o < O; ++o) {
      store(out[o] + z, sums[o][0]);
      store(out[o] + z + 4, sums[o][1]);
    }
  }
}

using SumTaps = void (*)(const std::vector<Tap>&, const float*, float* const*, int64_t);
constexpr SumTaps kSumTaps[] = {nullptr, sum_taps<1>, sum_taps<2>, sum_taps<3>, sum_taps<4>, sum_taps<5>, sum_taps<6>};

// The channels cut into blocks of nearly equal size: the first ones of each, and the end.
std::vector<int64_t> blocks_of(int64_t channels) {
  const int64_t count = (channels + kBlock - 1) / kBlock;
  std::vector<int64_t> begins;
  for (int64_t b = 0; b <= count; ++b) begins.push_back(channels * b / count);
  return begins;
}

[[noreturn]] void fail_op(const std::string& model, const Node& node) {
  fail(ErrorCode::Unsupported, model, "cannot run without a GPU: ", node.label, " (", node.op,
       ") is none of the layers that the CPU path has");
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

CpuNetwork::CpuNetwork(const Model& model, const Shape& spatial, const NetworkOptions& options)
    : options_(options), name_(model.name) {
  options_.output = NetworkOutput::Labels;
  const Graph graph = fold_scale(fold_constants(decompose(network_graph(model, spatial, options_))));
  if (spatial.size() != kAxes || model.input_channels != 1)
    fail(ErrorCode::Unsupported, name_, "cannot run without a GPU: it takes no volumes of one channel");
  nx_ = spatial[0], ny_ = spatial[1], nz_ = spatial[2];
  ValueId current = kNoValue;
  for (const Node& node : graph.nodes()) {
    if (layers_.empty() && node.label == "normalize") {
      current = node.outputs[0];
      continue;
    }
    if (node.inputs[0] != current || (!layers_.empty() && layers_.back().is_last)) fail_op(name_, node);
    current = node.outputs[0];
    const OpDef& def = op(node.op);
    if (node.op == "conv") {
      add_layer(graph, node);
    } else if (node.op == "argmax" && !layers_.empty() && layers_.back().activation.op.empty()) {
      layers_.back().is_last = true;
    } else if (def.elementwise && node.inputs.size() == 1 && !layers_.empty() && layers_.back().activation.op.empty()) {
      layers_.back().activation = node;
    } else {
      fail_op(name_, node);
    }
  }
  if (layers_.empty() || !layers_.back().is_last) fail_op(name_, graph.nodes().back());
  stride_ = round_up(nz_ + gap_, 4) + kWidth;
}

void CpuNetwork::add_layer(const Graph& graph, const Node& conv) {
  const ConvAttrs attrs = conv_attrs(conv, kAxes);
  const Tensor& weight = graph.constant(conv.inputs[1]);
  Layer layer;
  layer.label = conv.label;
  layer.out_channels = weight.shape[0], layer.in_channels = weight.shape[1];
  layer.kernel.assign(weight.shape.begin() + 2, weight.shape.end());
  layer.dilation = attrs.dilation;
  layer.pads = attrs.pad_lo;
  const TensorType& result = graph.type(conv.outputs[0]);
  if (attrs.groups != 1 || attrs.stride != Shape(kAxes, 1) ||
      Shape(result.shape.begin() + 2, result.shape.end()) != Shape{nx_, ny_, nz_})
    fail_op(name_, conv);
  const int64_t taps = element_count(layer.kernel);
  const float* from = weight.as<float>();
  const std::vector<int64_t> blocks = blocks_of(layer.out_channels);
  for (size_t b = 0; b + 1 < blocks.size(); ++b)
    for (int64_t tap = 0; tap < layer.in_channels * taps; ++tap)
      for (int64_t o = blocks[b]; o < blocks[b + 1]; ++o)
        layer.weights.push_back(from[o * layer.in_channels * taps + tap]);
  layer.bias.resize(static_cast<size_t>(layer.out_channels));
  if (conv.inputs.size() > 2) {
    const float* bias = graph.constant(conv.inputs[2]).as<float>();
    layer.bias.assign(bias, bias + layer.out_channels);
  }
  layer.flops = 2.0 * static_cast<double>(nx_ * ny_ * nz_ * taps * layer.in_channels * layer.out_channels);
  flops_ += layer.flops;
  channels_ = std::max({channels_, layer.in_channels, layer.out_channels});
  const int64_t reach = (layer.kernel[2] - 1) * layer.dilation[2];
  gap_ = std::max({gap_, layer.pads[2], reach - layer.pads[2]});
  slots_ = std::max(slots_, layer.pads[0] + 1);
  layers_.push_back(std::move(layer));
}

uint64_t CpuNetwork::bytes() const {
  return sizeof(float) * static_cast<uint64_t>(channels_ * (nx_ + slots_) * ny_ * stride_);
}

void CpuNetwork::start(const std::byte* image, size_t bytes, double scale, double shift) {
  const auto voxels = static_cast<size_t>(nx_ * ny_ * nz_);
  if (bytes != voxels * byte_size(options_.input))
    fail(ErrorCode::InvalidInput, name_, "the image has ", bytes, " bytes, expected ",
         voxels * byte_size(options_.input));
  const auto map_size = static_cast<size_t>(channels_ * nx_ * ny_ * stride_ + 2 * gap_ + kWidth);
  if (map_.size() == map_size) {
    std::fill(map_.begin(), map_.end(), 0.0f);
  } else {
    map_.assign(map_size, 0.0f);
  }
  ring_.assign(static_cast<size_t>(slots_ * channels_ * ny_ * stride_), 0.0f);
  labels_ = Tensor(layers_.back().out_channels <= 256 ? DType::U8 : DType::U32, {1, nx_, ny_, nz_});
  const auto a = static_cast<float>(scale), b = static_cast<float>(shift);
  const bool is_u8 = options_.input == DType::U8;
  for (int64_t row = 0; row < nx_ * ny_; ++row) {
    float* to = map_row(0, 0, row);
    for (int64_t z = 0; z < nz_; ++z) {
      const auto i = static_cast<size_t>(row * nz_ + z);
      float value = is_u8 ? static_cast<float>(reinterpret_cast<const uint8_t*>(image)[i])
                          : reinterpret_cast<const float*>(image)[i];
      value = value * a + b;
      to[z] = options_.clamp ? std::min(std::max(value, 0.0f), 1.0f) : value;
    }
  }
  layer_ = 0, plane_ = 0, done_ = 0;
}

double CpuNetwork::step(double flops) {
  const double until = done_ + flops;
  while (layer_ < layers_.size()) {
    const Layer& layer = layers_[layer_];
    run_plane(layer, plane_);
    done_ += layer.flops / static_cast<double>(nx_);
    if (++plane_ == nx_) {
      for (int64_t x = std::max<int64_t>(0, nx_ - layer.pads[0]); x < nx_ && !layer.is_last; ++x) commit(layer, x);
      plane_ = 0;
      ++layer_;
    }
    if (done_ >= until) break;
  }
  if (layer_ < layers_.size()) return std::min(done_ / flops_, 1 - 1e-9);
  map_ = {};
  ring_ = {};
  return 1;
}

const std::string& CpuNetwork::label() const { return layers_[std::min(layer_, layers_.size() - 1)].label; }

// One plane of the layer's result into the ring; then the plane whose input nobody needs any more into the map.
void CpuNetwork::run_plane(const Layer& layer, int64_t x) {
  std::vector<float*> out(static_cast<size_t>(layer.out_channels));
  for (int64_t y = 0; y < ny_; ++y) {
    for (int64_t o = 0; o < layer.out_channels; ++o)
      out[static_cast<size_t>(o)] = ring_.data() + ((x % slots_ * channels_ + o) * ny_ + y) * stride_;
    run_row(layer, x, y, out);
    if (!layer.is_last)
      for (float* row : out) activate(layer, row);
    else
      write_labels(layer, x, y);
  }
  if (!layer.is_last && x >= layer.pads[0]) commit(layer, x - layer.pads[0]);
}

void CpuNetwork::run_row(const Layer& layer, int64_t x, int64_t y, const std::vector<float*>& out) {
  const std::vector<int64_t> blocks = blocks_of(layer.out_channels);
  const float* weights = layer.weights.data();
  std::vector<Tap> taps;
  for (size_t b = 0; b + 1 < blocks.size(); ++b) {
    const int64_t size = blocks[b + 1] - blocks[b];
    taps.clear();
    for (int64_t c = 0; c < layer.in_channels; ++c)
      for (int64_t i = 0; i < layer.kernel[0]; ++i)
        for (int64_t j = 0; j < layer.kernel[1]; ++j) {
          const int64_t from_x = x + i * layer.dilation[0] - layer.pads[0];
          const int64_t from_y = y + j * layer.dilation[1] - layer.pads[1];
          const bool inside = from_x >= 0 && from_x < nx_ && from_y >= 0 && from_y < ny_;
          for (int64_t k = 0; k < layer.kernel[2]; ++k, weights += size)
            if (inside) taps.push_back({map_row(c, from_x, from_y) + k * layer.dilation[2] - layer.pads[2], weights});
        }
    kSumTaps[size](taps, layer.bias.data() + blocks[b], out.data() + blocks[b], nz_);
  }
}

void CpuNetwork::activate(const Layer& layer, float* row) const {
  const Node& node = layer.activation;
  if (node.op.empty()) return;
  if (node.op == "relu") {
    for (int64_t z = 0; z < nz_; ++z) row[z] = row[z] > 0 ? row[z] : 0;
  } else if (node.op == "elu") {
    const auto alpha = static_cast<float>(node.attrs.number("alpha", 1));
    for (int64_t z = 0; z < nz_; ++z) row[z] = row[z] < 0 ? alpha * std::expm1(row[z]) : row[z];
  } else {
    const Elementwise& row_op = *op(node.op).elementwise;
    const std::vector<double> numbers = row_numbers(row_op, node.attrs);
    for (int64_t z = 0; z < nz_; ++z) {
      const double value = row[z];
      row[z] = static_cast<float>(row_op.value(&value, numbers.data()));
    }
  }
}

// The channel with the largest value, the lowest of equal ones.
void CpuNetwork::write_labels(const Layer& layer, int64_t x, int64_t y) {
  const float* scores = ring_.data() + (x % slots_ * channels_ * ny_ + y) * stride_;
  const int64_t next = ny_ * stride_;  // channel
  const int64_t at = (x * ny_ + y) * nz_;
  for (int64_t z = 0; z < nz_; ++z) {
    int64_t best = 0;
    for (int64_t o = 1; o < layer.out_channels; ++o)
      if (scores[o * next + z] > scores[best * next + z]) best = o;
    if (labels_.dtype == DType::U8)
      labels_.as<uint8_t>()[at + z] = static_cast<uint8_t>(best);
    else
      labels_.as<uint32_t>()[at + z] = static_cast<uint32_t>(best);
  }
}

void CpuNetwork::commit(const Layer& layer, int64_t x) {
  for (int64_t o = 0; o < layer.out_channels; ++o)
    for (int64_t y = 0; y < ny_; ++y)
      std::memcpy(map_row(o, x, y), ring_.data() + ((x % slots_ * channels_ + o) * ny_ + y) * stride_,
                  static_cast<size_t>(nz_) * sizeof(float));
}

}  // namespace gyrus
