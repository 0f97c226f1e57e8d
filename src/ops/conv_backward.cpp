#include "ops/conv_backward.h"

#include <algorithm>

#include "ops/building.h"
#include "ops/common.h"
#include "ops/conv.h"

namespace gyrus {
namespace {

// Calls visit(offset in the wide map, offset in the narrow one) for every pair of voxels that a tap joins: voxel o of
// the narrow map and voxel o * stride + tap * dilation - pad of the wide one.
template <class Visit>
void join(const ConvAttrs& attrs, const Shape& wide, const Shape& narrow, const Shape& tap, Visit visit) {
  const size_t rank = tap.size();
  const std::vector<int64_t> wide_strides = strides_of(Shape(wide.begin() + 2, wide.end()));
  Shape positions(narrow.begin() + 2, narrow.end());
  std::vector<int64_t> at(rank, 0);
  const int64_t count = element_count(positions);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t a = 0; a < rank; ++a) {
      const int64_t to = at[a] * attrs.stride[a] + tap[a] * attrs.dilation[a] - attrs.pad_lo[a];
      inside = inside && to >= 0 && to < wide[a + 2];
      offset += to * wide_strides[a];
    }
    if (inside) visit(offset, i);
    for (size_t a = rank; a-- > 0;) {
      if (++at[a] < positions[a]) break;
      at[a] = 0;
    }
  }
}

// The place of tap number `index` in a kernel.
Shape tap_of(const Shape& kernel, int64_t index) {
  Shape tap(kernel.size());
  for (size_t a = kernel.size(); a-- > 0; index /= kernel[a]) tap[a] = index % kernel[a];
  return tap;
}

Shape kernel_of(const Shape& weight) { return Shape(weight.begin() + 2, weight.end()); }

int64_t voxels_of(const Shape& map) { return element_count(kernel_of(map)); }

void expect_map(const Node& node, const TensorType& type, const char* what) {
  expect_float(node, type, what);
  if (type.shape.size() < 3 || type.shape.size() > 5)
    fail(ErrorCode::Unsupported, node.op, what, " is ", to_string(type.shape),
         ", expected [N,C,…] with 1 to 3 spatial axes");
}

// The transposed convolution

std::vector<int64_t> output_padding(const Node& node, size_t rank) {
  const std::vector<int64_t> more = node.attrs.integers("output_padding", std::vector<int64_t>(rank, 0));
  if (more.size() != rank || std::any_of(more.begin(), more.end(), [](int64_t m) { return m < 0; }))
    fail(ErrorCode::InvalidGraph, node.op, "output_padding is ", to_string(more),
         ", expected a number of at least 0 for each spatial axis");
  return more;
}

// Pads may be negative: then there are zeros, or sums, around what a convolution would have read.
ConvAttrs transpose_attrs(const Node& node, size_t rank) {
  Node padless = node;
  padless.attrs.erase("pads");
  ConvAttrs attrs = conv_attrs(padless, rank);
  const std::vector<int64_t> pads = node.attrs.integers("pads", std::vector<int64_t>(2 * rank, 0));
  if (pads.size() != 2 * rank)
    fail(ErrorCode::InvalidGraph, node.op, "pads has ", pads.size(), " numbers, expected ", 2 * rank);
  attrs.pad_lo.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  attrs.pad_hi.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  return attrs;
}

std::vector<TensorType> infer_transpose(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {"stride", "dilation", "pads", "output_padding", "groups"});
  expect_map(node, inputs[0], "the input");
  expect_float(node, inputs[1], "the weight");
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  const ConvAttrs attrs = transpose_attrs(node, x.size() - 2);
  if (w.size() != x.size() || w[0] != x[1] || w[0] % attrs.groups != 0)
    fail(ErrorCode::InvalidGraph, node.op, "weight is ", to_string(w), " and input ", to_string(x), " in ",
         attrs.groups, " groups: expected [C,O/groups,…] with the C channels of the input");
  const std::vector<int64_t> more = output_padding(node, x.size() - 2);
  Shape result = {x[0], w[1] * attrs.groups};
  if (has_input(node, inputs, 2) && inputs[2].shape != Shape{result[1]})
    fail(ErrorCode::InvalidGraph, node.op, "bias is ", to_string(inputs[2].shape), ", expected [", result[1], "]");
  for (size_t a = 0; a < attrs.stride.size(); ++a) {
    const int64_t reach = checked_mul(w[a + 2] - 1, attrs.dilation[a], "conv_transpose");
    result.push_back((x[a + 2] - 1) * attrs.stride[a] - attrs.pad_lo[a] - attrs.pad_hi[a] + reach + 1 + more[a]);
    if (result.back() < 1) fail(ErrorCode::InvalidGraph, node.op, "pads leave nothing of spatial axis ", a);
  }
  return {{inputs[0].dtype, result, Layout::Plain}};
}

void reference_transpose(const Node& node, const std::vector<const RefTensor*>& inputs,
                         std::vector<RefTensor>& outputs) {
  const RefTensor &x = *inputs[0], &w = *inputs[1];
  RefTensor& y = outputs[0];
  const ConvAttrs attrs = transpose_attrs(node, x.shape.size() - 2);
  const Shape kernel = kernel_of(w.shape);
  const int64_t taps = element_count(kernel), per_group = w.shape[1], channels = x.shape[1], results = y.shape[1];
  const int64_t in = voxels_of(x.shape), out = voxels_of(y.shape), group_in = channels / attrs.groups;
  if (has_input(inputs, 2))
    for (size_t i = 0; i < y.data.size(); ++i)
      y.data[i] = inputs[2]->data[i / static_cast<size_t>(out) % static_cast<size_t>(results)];
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t o = 0; o < per_group; ++o) {
          const double weight = w.data[static_cast<size_t>((c * per_group + o) * taps + t)];
          const double* from = x.data.data() + (n * channels + c) * in;
          double* to = y.data.data() + (n * results + c / group_in * per_group + o) * out;
          join(attrs, y.shape, x.shape, tap_of(kernel, t),
               [&](int64_t wide, int64_t narrow) { to[wide] += weight * from[narrow]; });
        }
}

// [C, O/groups, k…] as the weights [O, C/groups, k…] of a convolution that goes the other way.
Value turned(Value weight, int64_t groups) {
  const Shape shape = weight.shape();
  Shape apart = {groups, shape[0] / groups, shape[1]}, result = {shape[1] * groups, shape[0] / groups};
  std::vector<int64_t> perm = {0, 2, 1}, starts = {0, 0}, ends, steps = {1, 1};
  for (size_t a = 2; a < shape.size(); ++a) {
    apart.push_back(shape[a]);
    result.push_back(shape[a]);
    perm.push_back(static_cast<int64_t>(a) + 1);
    starts.push_back(shape[a] - 1);
    steps.push_back(-1);
  }
  ends = result;
  for (size_t a = 2; a < shape.size(); ++a) ends[a] = -shape[a] - 1;
  return slice(reshape(transpose(reshape(weight, apart), perm), result), starts, ends, steps);
}

// Whether every voxel of the input makes a block of the result of its own, of more than itself.
bool makes_blocks(const Node& node, const ConvAttrs& attrs, const Shape& kernel) {
  const auto none = [](const std::vector<int64_t>& all) {
    return std::all_of(all.begin(), all.end(), [](int64_t p) { return p == 0; });
  };
  bool blocks = element_count(kernel) > 1 && attrs.groups == 1 && none(attrs.pad_lo) && none(attrs.pad_hi) &&
                none(output_padding(node, kernel.size())) && attrs.stride == kernel;
  for (size_t a = 0; a < kernel.size(); ++a) blocks = blocks && (attrs.dilation[a] == 1 || kernel[a] == 1);
  return blocks;
}

// A pointwise convolution that makes the taps of every result as channels of their own, which then take their places.
Value by_blocks(Value x, Value weight, Value bias) {
  const Shape shape = x.shape(), kernel = kernel_of(weight.shape());
  const int64_t results = weight.shape()[1], taps = element_count(kernel);
  Shape pointwise = {results * taps, shape[1]}, apart = {shape[0], results}, whole = apart;
  std::vector<int64_t> turn = {1}, places = {0, 1};
  for (size_t a = 0; a < kernel.size(); ++a) {
    pointwise.push_back(1);
    turn.push_back(static_cast<int64_t>(a) + 2);
    apart.push_back(kernel[a]);
    whole.push_back(shape[a + 2] * kernel[a]);
    places.push_back(static_cast<int64_t>(2 + kernel.size() + a));
    places.push_back(static_cast<int64_t>(2 + a));
  }
  apart.insert(apart.end(), shape.begin() + 2, shape.end());
  turn.push_back(0);
  if (bias) bias = reshape(expand(reshape(bias, {results, 1}), {results, taps}), {results * taps});
  const Value y = conv(x, reshape(transpose(weight, turn), pointwise), {.bias = bias});
  return reshape(transpose(reshape(y, apart), places), whole);
}

// A convolution with turned weights over the input, with zeros between and around its voxels.
std::vector<ValueId> decompose_transpose(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  Value x(graph, node.inputs[0]);
  const Value weight(graph, node.inputs[1]);
  const Value bias = node.inputs.size() > 2 ? Value(graph, node.inputs[2]) : Value{};
  const Shape kernel = weight.shape();
  const size_t rank = kernel.size() - 2;
  const ConvAttrs attrs = transpose_attrs(node, rank);
  if (makes_blocks(node, attrs, kernel_of(kernel))) return {by_blocks(x, weight, bias).id()};
  const std::vector<int64_t> more = output_padding(node, rank);
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t a = 0; a < rank; ++a) {
    const int64_t reach = attrs.dilation[a] * (kernel[a + 2] - 1);
    x = spread(x, a + 2, attrs.stride[a]);
    // Fewer zeros than none: the map itself is cut.
    int64_t before = reach - attrs.pad_lo[a], after = reach - attrs.pad_hi[a] + more[a];
    const int64_t cut = std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (x.shape()[a + 2] + cut < 1) {  // of the zeros on the other side too
      std::vector<int64_t> around(2 * kernel.size(), 0);
      around[a + 2] = std::max<int64_t>(0, before);
      around[a + 2 + kernel.size()] = std::max<int64_t>(0, after);
      x = pad(x, around);
      before = std::min<int64_t>(0, before);
      after = std::min<int64_t>(0, after);
    }
    const int64_t extent = x.shape()[a + 2];
    if (before < 0 || after < 0)
      x = slice_of(x, a + 2, std::max<int64_t>(0, -before), extent - std::max<int64_t>(0, -after));
    pads[a] = std::max<int64_t>(0, before);
    pads[a + rank] = std::max<int64_t>(0, after);
  }
  return {conv(x, turned(weight, attrs.groups),
               {.bias = bias, .dilation = attrs.dilation, .pads = pads, .groups = attrs.groups})
              .id()};
}

// The pads of an axis, before and after, in one list.
std::vector<int64_t> pads_of(const ConvAttrs& attrs) {
  std::vector<int64_t> pads = attrs.pad_lo;
  pads.insert(pads.end(), attrs.pad_hi.begin(), attrs.pad_hi.end());
  return pads;
}

Value conv_weights(Value x, Value g, const Shape& kernel, const ConvAttrs& attrs) {
  return apply("conv_weights", {x, g},
               {{"kernel", kernel},
                {"stride", attrs.stride},
                {"dilation", attrs.dilation},
                {"pads", pads_of(attrs)},
                {"groups", attrs.groups}});
}

Value summed_voxels(Value g) {
  std::vector<int64_t> axes = axes_from(2, g.shape().size());
  axes.insert(axes.begin(), 0);
  return reduce_sum(g, {axes, false});
}

std::vector<Value> gradient_transpose(const Backward& back) {
  const Value x = back.inputs[0], weight = back.inputs[1], whole = back.gradients[0];
  ConvAttrs attrs = transpose_attrs(back.node, x.shape().size() - 2);
  // What lies beyond negative pads came from no tap.
  Value g = whole;
  for (size_t a = 0; a < attrs.pad_lo.size(); ++a) {
    const int64_t before = std::max<int64_t>(0, -attrs.pad_lo[a]), after = std::max<int64_t>(0, -attrs.pad_hi[a]);
    if (before > 0 || after > 0) g = slice_of(g, a + 2, before, g.shape()[a + 2] - after);
    attrs.pad_lo[a] += before;
    attrs.pad_hi[a] += after;
  }
  std::vector<Value> gradients(back.inputs.size());
  // What output_padding added is read by no tap that the input has a voxel for.
  const auto same = [&](Value y) {
    for (size_t a = 2; a < x.shape().size(); ++a)
      if (y.shape()[a] > x.shape()[a]) y = slice_of(y, a, 0, x.shape()[a]);
    return y;
  };
  if (back.wanted[0])
    gradients[0] = same(
        conv(g, weight,
             {.stride = attrs.stride, .dilation = attrs.dilation, .pads = pads_of(attrs), .groups = attrs.groups}));
  if (back.wanted[1]) gradients[1] = conv_weights(g, x, kernel_of(weight.shape()), attrs);
  if (gradients.size() > 2 && back.wanted[2]) gradients[2] = summed_voxels(whole);
  return gradients;
}

double transpose_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 2.0 * static_cast<double>(element_count(inputs[0].shape)) *
         static_cast<double>(inputs[1].shape[1] * element_count(kernel_of(inputs[1].shape)));
}

// The gradient in the weights

std::vector<TensorType> infer_weights(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"kernel", "stride", "dilation", "pads", "groups"});
  expect_map(node, inputs[0], "the input");
  expect_map(node, inputs[1], "the gradient");
  const Shape &x = inputs[0].shape, &g = inputs[1].shape;
  const ConvAttrs attrs = conv_attrs(node, x.size() - 2);
  const Shape kernel = node.attrs.integers("kernel");
  bool fits = g.size() == x.size() && g[0] == x[0] && kernel.size() + 2 == x.size() && x[1] % attrs.groups == 0 &&
              g[1] % attrs.groups == 0;
  for (size_t a = 0; fits && a < kernel.size(); ++a) {
    const int64_t room = x[a + 2] + attrs.pad_lo[a] + attrs.pad_hi[a] - (kernel[a] - 1) * attrs.dilation[a] - 1;
    fits = kernel[a] > 0 && room >= 0 && g[a + 2] <= room / attrs.stride[a] + 1;
  }
  if (!fits)
    fail(ErrorCode::InvalidGraph, node.op, "input ", to_string(x), " and gradient ", to_string(g),
         " are not those of a convolution with a kernel of ", to_string(kernel));
  Shape result = {g[1], x[1] / attrs.groups};
  result.insert(result.end(), kernel.begin(), kernel.end());
  return {{DType::F32, result, Layout::Plain}};
}

void reference_weights(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &x = *inputs[0], &g = *inputs[1];
  const ConvAttrs attrs = conv_attrs(node, x.shape.size() - 2);
  const Shape kernel = kernel_of(outputs[0].shape);
  const int64_t taps = element_count(kernel), filters = g.shape[1], channels = x.shape[1];
  const int64_t group_in = channels / attrs.groups, group_out = filters / attrs.groups;
  const int64_t in = voxels_of(x.shape), out = voxels_of(g.shape);
  for (int64_t o = 0; o < filters; ++o)
    for (int64_t i = 0; i < group_in; ++i)
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t n = 0; n < x.shape[0]; ++n) {
          const double* map = x.data.data() + (n * channels + o / group_out * group_in + i) * in;
          const double* slope = g.data.data() + (n * filters + o) * out;
          double& sum = outputs[0].data[static_cast<size_t>((o * group_in + i) * taps + t)];
          join(attrs, x.shape, g.shape, tap_of(kernel, t),
               [&](int64_t wide, int64_t narrow) { sum += map[wide] * slope[narrow]; });
        }
}

// A product of matrices for every tap, over all voxels.
std::vector<ValueId> decompose_weights(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x(graph, node.inputs[0]), g(graph, node.inputs[1]);
  const Shape shape = x.shape(), out = g.shape(), kernel = node.attrs.integers("kernel");
  const size_t rank = kernel.size();
  const ConvAttrs attrs = conv_attrs(node, rank);
  std::vector<int64_t> pads(2 * shape.size(), 0);
  for (size_t a = 0; a < rank; ++a) {
    pads[a + 2] = attrs.pad_lo[a];
    pads[shape.size() + a + 2] = attrs.pad_hi[a];
  }
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p > 0; });
  const Value wide = padded ? pad(x, pads) : x;
  const Value slopes = reshape(g, {out[0], attrs.groups, out[1] / attrs.groups, voxels_of(out)});
  std::vector<Value> parts;
  for (int64_t t = 0; t < element_count(kernel); ++t) {
    const Shape tap = tap_of(kernel, t);
    std::vector<int64_t> starts(shape.size(), 0), ends = wide.shape(), steps(shape.size(), 1);
    for (size_t a = 0; a < rank; ++a) {
      starts[a + 2] = tap[a] * attrs.dilation[a];
      ends[a + 2] = starts[a + 2] + (out[a + 2] - 1) * attrs.stride[a] + 1;
      steps[a + 2] = attrs.stride[a];
    }
    const Value seen =
        reshape(slice(wide, starts, ends, steps), {shape[0], attrs.groups, shape[1] / attrs.groups, voxels_of(out)});
    Value part = matmul(slopes, seen, {.transpose_a = false, .transpose_b = true});
    if (shape[0] > 1) part = reduce_sum(part, {{0}, false});
    parts.push_back(reshape(part, {out[1], shape[1] / attrs.groups, 1}));
  }
  Shape result = {out[1], shape[1] / attrs.groups};
  result.insert(result.end(), kernel.begin(), kernel.end());
  return {reshape(parts.size() == 1 ? parts[0] : concat(parts, 2), result).id()};
}

double weights_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  return 2.0 * static_cast<double>(element_count(inputs[1].shape)) *
         static_cast<double>(outputs[0].shape[1] * element_count(kernel_of(outputs[0].shape)));
}

}  // namespace

std::vector<Value> conv_gradient(const Backward& back) {
  if (back.gradients.size() > 1 && back.gradients[1])
    fail(ErrorCode::Unsupported, back.node.label, "there is no gradient of the statistics that passes join to a conv");
  const Value x = back.inputs[0], weight = back.inputs[1], g = back.gradients[0];
  const size_t rank = x.shape().size() - 2;
  const ConvAttrs attrs = conv_attrs(back.node, rank);
  const Shape kernel = kernel_of(weight.shape());
  std::vector<Value> gradients(back.inputs.size());
  if (back.wanted[0]) {
    // Voxels at the end that no window reached.
    std::vector<int64_t> more;
    for (size_t a = 0; a < rank; ++a)
      more.push_back((x.shape()[a + 2] + attrs.pad_lo[a] + attrs.pad_hi[a] - (kernel[a] - 1) * attrs.dilation[a] - 1) %
                     attrs.stride[a]);
    gradients[0] = apply("conv_transpose", {g, weight},
                         {{"stride", attrs.stride},
                          {"dilation", attrs.dilation},
                          {"pads", pads_of(attrs)},
                          {"output_padding", more},
                          {"groups", attrs.groups}});
  }
  if (back.wanted[1]) gradients[1] = conv_weights(x, g, kernel, attrs);
  if (gradients.size() > 2 && back.wanted[2]) gradients[2] = summed_voxels(g);
  return gradients;
}

const OpDef kConvTranspose = {
    .name = "conv_transpose",
    .infer = infer_transpose,
    .reference = reference_transpose,
    .gradient = gradient_transpose,
    .decompose = decompose_transpose,
    .flops = transpose_flops,
};

const OpDef kConvWeights = {
    .name = "conv_weights",
    .infer = infer_weights,
    .reference = reference_weights,
    .layout = LayoutRule::ReadsMaps,
    .packs = [](const Graph&, const Node& node) { return node.attrs.integer("groups", 1) == 1; },
    .decompose = decompose_weights,
    .has_kernel = true,
    .flops = weights_flops,
};

}  // namespace gyrus
