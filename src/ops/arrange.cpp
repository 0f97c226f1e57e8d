#include "ops/arrange.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/common.h"

namespace gyrus {
namespace {

// Where a row of the result comes from.
struct Source {
  int64_t output = 0;  // the first of four channels
  bool bias = false;
  int64_t input = 0;              // channel
  int64_t plane = 0, column = 0;  // tap
  int64_t row = 0;                // tap along the middle axis, or the point of a transform
};

Source direct_source(const ArrangeAttrs& a, int64_t row) {
  Source s;
  s.bias = row >= a.weight_rows();
  s.output = (a.begin + row % a.quads()) * 4;
  s.input = row / a.quads() % a.lanes;
  const int64_t tap = row / a.quads() / a.lanes;
  s.column = tap % a.columns;
  s.row = tap / a.columns % a.rows;
  s.plane = tap / a.columns / a.rows;
  return s;
}

Source argmax_source(const ArrangeAttrs& a, int64_t row) {
  Source s;
  s.bias = row >= a.weight_rows();
  s.output = (s.bias ? row - a.weight_rows() : row / a.lanes) * 4;
  s.input = row % a.lanes;
  return s;
}

Source winograd_source(const ArrangeAttrs& a, int64_t row) {
  Source s;
  s.bias = row >= a.weight_rows();
  if (s.bias) {
    s.output = (a.begin + row - a.weight_rows()) * 4;
    return s;
  }
  const bool last = a.kernel == ArrangeAttrs::Kernel::WinogradLast;
  const int64_t points = last ? 1 : kWinogradPoints;
  int64_t rest = row / a.held;
  s.input = rest % 4;
  s.row = last ? kWinogradPoints - 1 : rest / 4 % points;
  rest /= 4 * points;
  s.output = (a.begin + rest % a.groups() * a.held + row % a.held) * 4;
  rest /= a.groups();
  s.input += rest % (a.lanes / 4) * 4;
  rest /= a.lanes / 4;
  s.column = rest % a.columns;
  s.plane = rest / a.columns;
  return s;
}

// The first of eight input channels of a row of a matrix.
Source matrix_source(const ArrangeAttrs& a, int64_t row) {
  Source s;
  s.bias = row >= a.weight_rows();
  if (s.bias) {
    s.output = (a.begin + row - a.weight_rows()) * 4;
    return s;
  }
  const int64_t eights = a.depth / 8, outputs = a.held * 4;
  int64_t rest = row / eights / outputs;
  s.output = a.begin * 4 + rest % a.groups() * outputs + row / eights % outputs;
  rest /= a.groups();
  s.input = rest % (a.lanes / a.depth) * a.depth + row % eights * 8;
  rest /= a.lanes / a.depth;
  s.column = rest % a.columns;
  s.row = rest / a.columns % a.rows;
  s.plane = rest / a.columns / a.rows;
  return s;
}

Source source_of(const ArrangeAttrs& a, int64_t row) {
  if (a.kernel == ArrangeAttrs::Kernel::Direct) return direct_source(a, row);
  return a.kernel == ArrangeAttrs::Kernel::Argmax ? argmax_source(a, row) : winograd_source(a, row);
}

// The weights as halves. What rounding takes from a tap goes to the next smaller one of the same pair of channels,
// whose halves lie closer together: neighbouring voxels are alike, so that errors of one sign would add up over the
// taps.
std::vector<uint16_t> rounded_weights(const std::vector<double>& weights, int64_t taps) {
  std::vector<uint16_t> rounded(weights.size());
  std::vector<size_t> order(static_cast<size_t>(taps));
  for (size_t first = 0; first < weights.size(); first += order.size()) {
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return std::abs(weights[x]) > std::abs(weights[y]); });
    double missing = 0;
    for (size_t i : order) {
      const double wanted = weights[i] + missing;
      rounded[i] = float_to_half(static_cast<float>(wanted));
      missing = wanted - static_cast<double>(half_to_float(rounded[i]));
      if (!std::isfinite(missing)) missing = 0;  // a weight that no half holds
    }
  }
  return rounded;
}

uint32_t float_bits(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  return bits;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"kernel", "begin", "end", "lanes", "held", "depth"});
  for (const TensorType& type : inputs) expect_float(node, type, "operand");
  const ArrangeAttrs a = arrange_attrs(node, inputs[0].shape);
  return {{a.kernel == ArrangeAttrs::Kernel::Matrix ? DType::U32 : DType::F32, {a.all_rows(), 4}, Layout::Plain}};
}

void matrices_of(const ArrangeAttrs& a, const RefTensor& weights, const RefTensor& bias, RefTensor& output) {
  const std::vector<uint16_t> rounded = rounded_weights(weights.data, a.taps());
  const auto half = [&](const Source& s, int64_t further) -> uint32_t {
    const int64_t input = s.input + further;
    if (s.output >= std::min(a.outputs, a.end * 4) || input >= a.inputs) return 0;
    const int64_t tap = (s.plane * a.rows + s.row) * a.columns + s.column;
    return rounded[static_cast<size_t>((s.output * a.inputs + input) * a.taps() + tap)];
  };
  double* word = output.data.data();
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    const Source s = matrix_source(a, row);
    for (int64_t lane = 0; lane < 4; ++lane, ++word) {
      const bool has_bias = s.bias && s.output + lane < a.outputs;
      if (has_bias) *word = float_bits(bias.data[static_cast<size_t>(s.output + lane)]);
      if (!s.bias) *word = half(s, 2 * lane) | half(s, 2 * lane + 1) << 16;
    }
  }
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const ArrangeAttrs a = arrange_attrs(node, inputs[0]->shape);
  const auto weight = [&](int64_t output, const Source& s, int64_t row) {
    const int64_t at = (((output * a.inputs + s.input) * a.planes + s.plane) * a.rows + row) * a.columns + s.column;
    return inputs[0]->data[static_cast<size_t>(at)];
  };
  if (a.kernel == ArrangeAttrs::Kernel::Matrix) return matrices_of(a, *inputs[0], *inputs[1], outputs[0]);
  const bool transformed = a.kernel == ArrangeAttrs::Kernel::Winograd || a.kernel == ArrangeAttrs::Kernel::WinogradLast;
  double* out = outputs[0].data.data();
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    const Source s = source_of(a, row);
    for (int64_t output = s.output; output < s.output + 4; ++output, ++out) {
      *out = s.bias && a.kernel == ArrangeAttrs::Kernel::Argmax && output >= a.outputs ? -FLT_MAX : 0;
      if (output >= std::min(a.outputs, a.end * 4) || (!s.bias && s.input >= a.inputs)) continue;
      if (s.bias)
        *out = inputs[1]->data[static_cast<size_t>(output)];
      else if (!transformed)
        *out = weight(output, s, s.row);
      else
        for (int64_t tap = 0; tap < 3; ++tap) *out += kWinogradWeights[s.row][tap] * weight(output, s, tap);
    }
  }
}

}  // namespace

const double kWinogradWeights[kWinogradPoints][3] = {{1.0 / 4, 0, 0},
                                                     {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                                     {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                                     {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                                     {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                                     {0, 0, 1}};

int64_t ArrangeAttrs::weight_rows() const {
  switch (kernel) {
    case Kernel::Direct: return taps() * lanes * quads();
    case Kernel::Argmax: return lanes * quads();
    case Kernel::Winograd: return planes * columns * lanes * kWinogradPoints * groups() * held;
    case Kernel::WinogradLast: return planes * columns * lanes * groups() * held;
    case Kernel::Matrix: return taps() * lanes * groups() * held / 2;
  }
  return 0;
}

int64_t ArrangeAttrs::all_rows() const {
  if (kernel == Kernel::WinogradLast) return weight_rows();
  return weight_rows() + (kernel == Kernel::Winograd ? groups() * held : quads());
}

ArrangeAttrs arrange_attrs(const Node& node, const Shape& weight) {
  static constexpr std::array<std::string_view, 5> kKernels = {"direct", "argmax", "winograd", "winograd_last",
                                                               "matrix"};
  ArrangeAttrs a;
  const std::string kernel = node.attrs.text("kernel");
  const auto found = std::find(kKernels.begin(), kKernels.end(), kernel);
  if (found == kKernels.end()) fail(ErrorCode::InvalidGraph, node.op, "no kernel '", kernel, "' orders weights");
  a.kernel = static_cast<ArrangeAttrs::Kernel>(found - kKernels.begin());
  if (weight.size() < 3 || weight.size() > 5)
    fail(ErrorCode::InvalidGraph, node.op, "weights are ", to_string(weight), ", expected [O,C,k…]");
  a.outputs = weight[0];
  a.inputs = weight[1];
  a.planes = weight[2];
  if (weight.size() == 5) a.rows = weight[3];
  if (weight.size() > 3) a.columns = weight.back();
  a.begin = node.attrs.integer("begin");
  a.end = node.attrs.integer("end");
  a.lanes = node.attrs.integer("lanes");
  a.held = node.attrs.integer("held", 1);
  a.depth = node.attrs.integer("depth", 4);
  const bool sound =
      a.begin >= 0 && a.begin < a.end && (a.end - 1) * 4 < a.outputs && a.lanes >= a.inputs && a.held > 0;
  const bool whole =
      a.kernel != ArrangeAttrs::Kernel::Matrix || (a.depth > 0 && a.depth % 8 == 0 && a.lanes % a.depth == 0);
  if (!sound || !whole)
    fail(ErrorCode::InvalidGraph, node.op, "quads ", a.begin, " to ", a.end, " and ", a.lanes,
         " lanes do not belong to weights ", to_string(weight));
  return a;
}

const OpDef kArrange = {
    .name = "arrange",
    .infer = infer,
    .reference = reference,
    .flops = no_flops,
};

}  // namespace gyrus
