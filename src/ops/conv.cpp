#include "ops/conv.h"

#include <algorithm>
#include <array>

#include "ops/common.h"
#include "ops/conv_backward.h"
#include "ops/conv_joins.h"
#include "ops/fused.h"
#include "ops/norm.h"

namespace gyrus {
namespace {

std::vector<int64_t> axis_list(const Node& node, const char* name, size_t size, int64_t fallback, int64_t least) {
  std::vector<int64_t> list = node.attrs.integers(name, std::vector<int64_t>(size, fallback));
  if (list.size() != size)
    fail(ErrorCode::InvalidGraph, node.op, name, " has ", list.size(), " numbers, expected ", size);
  for (int64_t v : list)
    if (v < least || v > INT32_MAX)
      fail(ErrorCode::InvalidGraph, node.op, name, " is ", to_string(list), ", expected numbers from ", least,
           " to 2^31-1");
  return list;
}

void check_weights(const Node& node, const std::vector<TensorType>& inputs, int64_t groups) {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  if (w.size() != x.size())
    fail(ErrorCode::InvalidGraph, node.op, "weight is ", to_string(w), " but input is ", to_string(x),
         ": expected as many axes");
  if (x[1] < 1 || w[0] < 1)
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(x), " and weight is ", to_string(w),
         ": expected at least one channel");
  if (x[1] % groups != 0 || w[0] % groups != 0)
    fail(ErrorCode::InvalidGraph, node.op, x[1], " input and ", w[0], " output channels do not divide into ", groups,
         " groups");
  if (w[1] != x[1] / groups)
    fail(ErrorCode::InvalidGraph, node.op, "weight is ", to_string(w), " but input has ", x[1], " channels in ", groups,
         groups == 1 ? " group" : " groups", ": expected [O,", x[1] / groups, ",…]");
  if (has_input(node, inputs, 2) && inputs[2].shape != Shape{w[0]})
    fail(ErrorCode::InvalidGraph, node.op, "bias is ", to_string(inputs[2].shape), " but there are ", w[0],
         " output channels: expected [", w[0], "]");
}

// [N,O,sp…] after checking everything that conv and conv_argmax share.
Shape result_shape(const Node& node, const std::vector<TensorType>& inputs) {
  const Shape& x = inputs[0].shape;
  if (x.size() < 3 || x.size() > 5)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(x), ", expected [N,C,…] with 1 to 3 spatial axes");
  for (size_t i = 0; i < 3; ++i)
    if (has_input(node, inputs, i)) expect_float(node, inputs[i], "an input");
  const ConvAttrs attrs = conv_attrs(node, x.size() - 2);
  check_weights(node, inputs, attrs.groups);
  const Shape& w = inputs[1].shape;
  Shape result = {x[0], w[0]};
  for (size_t a = 0; a < attrs.stride.size(); ++a) {
    const int64_t reach = checked_mul(w[a + 2] - 1, attrs.dilation[a], "conv");
    const int64_t padded = x[a + 2] + attrs.pad_lo[a] + attrs.pad_hi[a];
    if (reach + 1 > padded)
      fail(ErrorCode::InvalidGraph, node.op, "the kernel reaches over ", reach + 1, " voxels of spatial axis ", a,
           " but the padded input has ", padded, ": expected a smaller kernel or dilation, or more padding");
    result.push_back((padded - reach - 1) / attrs.stride[a] + 1);
  }
  return result;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 2, own_inputs(node),
                       {"stride", "dilation", "pads", "groups", "stats", "arranged", "uniforms"});
  const TensorType raw{inputs[0].dtype, result_shape(node, inputs), Layout::Plain};
  if (!flag(node, "stats")) return infer_behind(node, raw, inputs);
  if (node.attrs.integer("groups", 1) != 1)
    fail(ErrorCode::Unsupported, node.op, "gives no statistics of channels in groups; use norm_stats behind it");
  if (!node.body.empty())
    fail(ErrorCode::InvalidGraph, node.op,
         "has both stats=1 and a body; the statistics are of the raw result, so "
         "apply the steps after the normalisation");
  return {raw, {DType::F32, {raw.shape[0], raw.shape[1], 2}, Layout::Plain}};
}

std::vector<TensorType> infer_argmax(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, own_inputs(node),
             {"stride", "dilation", "pads", "groups", "dtype", "arranged", "uniforms"});
  Shape shape = result_shape(node, inputs);
  const DType dtype = conv_attrs(node, shape.size() - 2).argmax;
  if (dtype == DType::U8 && shape[1] > 256)
    fail(ErrorCode::InvalidGraph, node.op, shape[1], " output channels do not fit labels of u8; use dtype u32");
  shape.erase(shape.begin() + 1);
  return {{dtype, shape, Layout::Plain}};
}

double conv_flops(const std::vector<TensorType>& inputs, int64_t voxels) {
  const Shape& w = inputs[1].shape;
  const double macs = static_cast<double>(voxels) * static_cast<double>(element_count(w));
  return 2 * macs;
}

double flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  const Shape& out = outputs[0].shape;
  const double body = static_cast<double>(element_count(out)) * static_cast<double>(node.body.size());
  return conv_flops(inputs, element_count(out) / out[1]) + body;
}

double argmax_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  return conv_flops(inputs, element_count(outputs[0].shape));
}

// Everything as three spatial axes: missing ones are added in front with extent 1.
struct Geometry {
  int64_t batch, channels, filters, groups;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
};

Geometry geometry(const Node& node, const Shape& x, const Shape& w, const Shape& out) {
  const size_t rank = x.size() - 2;
  const ConvAttrs attrs = conv_attrs(node, rank);
  Geometry g{x[0], x[1], w[0], attrs.groups};
  for (size_t a = 0; a < rank; ++a) {
    const size_t to = 3 - rank + a;
    g.in[to] = x[a + 2];
    g.out[to] = out[a + 2];
    g.kernel[to] = w[a + 2];
    g.stride[to] = attrs.stride[a];
    g.dilation[to] = attrs.dilation[a];
    g.pad[to] = attrs.pad_lo[a];
  }
  return g;
}

// The output positions [lo, hi) of one axis whose input position o*stride + shift lies inside the input.
struct Span {
  int64_t lo, hi, shift;
};

Span valid_span(const Geometry& g, size_t axis, int64_t tap) {
  const int64_t shift = tap * g.dilation[axis] - g.pad[axis];
  const int64_t stride = g.stride[axis];
  const int64_t lo = shift < 0 ? ceil_div(-shift, stride) : 0;
  const int64_t last = g.in[axis] - 1 - shift;  // of o*stride
  const int64_t hi = last < 0 ? 0 : std::min(g.out[axis], last / stride + 1);
  return {lo, hi, shift};
}

// out += weight * x, both one channel, for one tap of the kernel.
void add_tap(const Geometry& g, const std::array<int64_t, 3>& tap, double weight, const double* x, double* out) {
  const Span z = valid_span(g, 0, tap[0]), y = valid_span(g, 1, tap[1]), s = valid_span(g, 2, tap[2]);
  for (int64_t d = z.lo; d < z.hi; ++d)
    for (int64_t h = y.lo; h < y.hi; ++h) {
      const double* row = x + ((d * g.stride[0] + z.shift) * g.in[1] + h * g.stride[1] + y.shift) * g.in[2] + s.shift;
      double* sum = out + (d * g.out[1] + h) * g.out[2];
      for (int64_t i = s.lo; i < s.hi; ++i) sum[i] += weight * row[i * g.stride[2]];
    }
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  convolve(node, inputs, outputs[0]);
  if (outputs.size() == 2) channel_stats(outputs[0], outputs[1]);
  if (!node.body.empty()) outputs = reference_behind(node, std::move(outputs[0]), inputs);
}

void reference_argmax(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  RefTensor scores;
  scores.shape = outputs[0].shape;
  scores.shape.insert(scores.shape.begin() + 1, inputs[1]->shape[0]);
  scores.data.resize(static_cast<size_t>(element_count(scores.shape)));
  convolve(node, inputs, scores);
  const int64_t batch = scores.shape[0], channels = scores.shape[1],
                voxels = element_count(Shape(scores.shape.begin() + 2, scores.shape.end()));
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t v = 0; v < voxels; ++v) {
      const double* column = scores.data.data() + n * channels * voxels + v;
      int64_t best = 0;
      for (int64_t c = 1; c < channels; ++c)
        if (column[c * voxels] > column[best * voxels]) best = c;
      outputs[0].data[static_cast<size_t>(n * voxels + v)] = static_cast<double>(best);
    }
}

// The general form; a pass joins the two again where one kernel does both.
std::vector<ValueId> decompose_argmax(Graph& graph, const Node& node) {
  Attrs attrs = node.attrs;
  attrs.erase("dtype");
  const ValueId scores = graph.add("conv", node.inputs, attrs, node.label);
  return {graph.add("argmax", {scores}, {{"axis", int64_t{1}}, {"dtype", node.attrs.text("dtype")}}, node.label)};
}

}  // namespace

ConvAttrs conv_attrs(const Node& node, size_t spatial_rank) {
  ConvAttrs attrs;
  attrs.stride = axis_list(node, "stride", spatial_rank, 1, 1);
  attrs.dilation = axis_list(node, "dilation", spatial_rank, 1, 1);
  const std::vector<int64_t> pads = axis_list(node, "pads", 2 * spatial_rank, 0, 0);
  attrs.pad_lo.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial_rank));
  attrs.pad_hi.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial_rank), pads.end());
  attrs.groups = node.attrs.integer("groups", 1);
  if (attrs.groups < 1) fail(ErrorCode::InvalidGraph, node.op, "groups is ", attrs.groups, ", expected 1 or more");
  attrs.stats = node.attrs.integer("stats", 0) != 0;
  if (node.op == kConvArgmax.name) {
    attrs.argmax = dtype_from_string(node.attrs.text("dtype"));
    if (attrs.argmax != DType::U8 && attrs.argmax != DType::U32)
      fail(ErrorCode::InvalidGraph, node.op, "dtype is ", to_string(attrs.argmax), ", expected u8 or u32");
  }
  return attrs;
}

void convolve(const Node& node, const std::vector<const RefTensor*>& inputs, RefTensor& out) {
  const RefTensor& x = *inputs[0];
  const RefTensor& w = *inputs[1];
  const Geometry g = geometry(node, x.shape, w.shape, out.shape);
  const int64_t in_voxels = g.in[0] * g.in[1] * g.in[2], out_voxels = g.out[0] * g.out[1] * g.out[2];
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const int64_t group_in = g.channels / g.groups, group_out = g.filters / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.filters; ++o) {
      double* result = out.data.data() + (n * g.filters + o) * out_voxels;
      std::fill(result, result + out_voxels, has_input(inputs, 2) ? inputs[2]->data[static_cast<size_t>(o)] : 0.0);
      for (int64_t i = 0; i < group_in; ++i) {
        const int64_t c = o / group_out * group_in + i;
        const double* channel = x.data.data() + (n * g.channels + c) * in_voxels;
        const double* weight = w.data.data() + (o * group_in + i) * taps;
        for (int64_t d = 0; d < g.kernel[0]; ++d)
          for (int64_t h = 0; h < g.kernel[1]; ++h)
            for (int64_t k = 0; k < g.kernel[2]; ++k) add_tap(g, {d, h, k}, *weight++, channel, result);
      }
    }
}

const OpDef kConv = {
    .name = "conv",
    .infer = infer,
    .reference = reference,
    .takes_body = [](const Node& node) { return node.attrs.integer("stats", 0) == 0; },
    .own_inputs = 3,
    .layout = LayoutRule::Maps,
    .packs = conv_joins::packs,
    .with_statistics = conv_joins::with_statistics,
    .with_affine = conv_joins::with_affine,
    .with_argmax = conv_joins::with_argmax,
    .gradient = conv_gradient,
    .flops = flops,
};

const OpDef kConvArgmax = {
    .name = "conv_argmax",
    .infer = infer_argmax,
    .reference = reference_argmax,
    .own_inputs = 3,
    .layout = LayoutRule::ReadsPacked,
    .decompose = decompose_argmax,
    .flops = argmax_flops,
};

}  // namespace gyrus
