#include "plan/lower_conv.h"

#include <algorithm>

#include "core/error.h"
#include "graph/op.h"
#include "ops/conv.h"
#include "ops/fused.h"

namespace gyrus {
namespace {

void lower_packed(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape& out_shape = graph.type(node.outputs[0]).shape;
  PackedConv conv = packed_conv(lowering, node, out_shape);
  conv.out = lowering.make_storage(node.outputs[0], node);
  conv.epilogue = epilogue_text(node);
  conv.keeps_zero = body_keeps_zero(node);
  conv.stats = node.outputs.size() > 1;
  StoragePtr statistics = conv.stats ? lowering.make_storage(node.outputs[1], node) : nullptr;
  const ConvKernel& kernel = conv_kernel(conv_site(lowering.target(), lowering.options(), conv));
  const int64_t channels = conv.geometry.out_channels;
  if (kernel.all_images) {
    kernel.emit(lowering, conv, nullptr);
    if (conv.stats) emit_norm_stats(lowering, *conv.out, conv.geometry.images, channels, *statistics, conv.label);
    return;
  }
  for (int64_t image = 0; image < conv.geometry.images; ++image) {
    conv.image = conv.out_image = image;
    StatsTarget target;
    kernel.emit(lowering, conv, conv.stats ? &target : nullptr);
    if (!conv.stats) continue;
    const Interval slabs{image * conv.geometry.out[0], (image + 1) * conv.geometry.out[0]};
    if (target.parts == 0) target = emit_norm_partials(lowering, *conv.out, slabs, 1, channels, conv.label);
    emit_norm_finalize(lowering, target, {image, image + 1}, channels, *statistics, conv.label);
  }
}

}  // namespace

ConvGeometry conv_geometry(const Graph& graph, const Node& node, const Shape& out_shape) {
  const Shape& x = graph.type(node.inputs[0]).shape;
  const Shape& w = graph.type(node.inputs[1]).shape;
  const size_t rank = x.size() - 2;
  const ConvAttrs attrs = conv_attrs(node, rank);
  ConvGeometry g;
  g.images = x[0];
  g.in_channels = x[1];
  g.out_channels = w[0];
  g.groups = attrs.groups;
  g.in.fill(1);
  g.out.fill(1);
  g.kernel.fill(1);
  g.stride.fill(1);
  g.dilation.fill(1);
  g.pad.fill(0);
  for (size_t axis = 0; axis < rank; ++axis) {
    // The slowest axis becomes the axis of planes; of two axes the second becomes rows.
    const size_t to = rank == 2 && axis == 1 ? 2 : axis;
    g.in[to] = x[axis + 2];
    g.out[to] = out_shape[axis + 2];
    g.kernel[to] = w[axis + 2];
    g.stride[to] = attrs.stride[axis];
    g.dilation[to] = attrs.dilation[axis];
    g.pad[to] = attrs.pad_lo[axis];
  }
  return g;
}

PackedConv packed_conv(Lowering& lowering, const Node& node, const Shape& out_shape) {
  PackedConv conv;
  conv.geometry = conv_geometry(lowering.graph(), node, out_shape);
  conv.in = lowering.storage(node.inputs[0]);
  const size_t end = own_inputs(node);
  const size_t uniforms = end - static_cast<size_t>(node.attrs.integer("uniforms"));
  for (size_t i = op(node.op).own_inputs; i < uniforms; ++i)
    conv.weights.push_back(std::make_shared<Storage>(quad_view(*lowering.storage(node.inputs[i]))));
  if (uniforms < end) conv.last_point = lowering.uniform(node.inputs[uniforms]);
  conv.plane_end = conv.geometry.out[0];
  conv.label = label_of(node);
  return conv;
}

const ConvKernel& conv_kernel(const ConvSite& site) {
  for (const ConvKernel* kernel : {&kMatrixConv, &kWinogradConv, &kTiledConv, &kDirectConv})
    if (kernel->suits(site)) return *kernel;
  fail(ErrorCode::Unsupported, "conv", "no kernel suits");
}

ConvSite conv_site(const Target& target, const PlanOptions& options, const PackedConv& conv) {
  return {target, options, conv.geometry, *conv.in, *conv.out, conv.stats, conv.last_point.has_value()};
}

void lower_conv(Lowering& lowering, const Node& node) {
  if (lowering.graph().type(node.outputs[0]).layout == Layout::Plain) return lower_plain_conv(lowering, node);
  lower_packed(lowering, node);
}

WeightOrders order_conv(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const TensorType& out = graph.type(node.outputs[0]);
  if (out.layout == Layout::Plain) return {};
  const ConvSite site{target,
                      options,
                      conv_geometry(graph, node, out.shape),
                      laid_out(graph.type(node.inputs[0]), target.limits, label_of(node)),
                      laid_out(out, target.limits, label_of(node)),
                      node.outputs.size() > 1,
                      graph.is_constant(node.inputs[1])};
  return conv_kernel(site).orders(site);
}

}  // namespace gyrus
