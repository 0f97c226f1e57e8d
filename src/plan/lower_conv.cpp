#include "plan/lower_conv.h"

#include <algorithm>

#include "core/error.h"
#include "ops/conv.h"
#include "ops/fused.h"

namespace gyrus {
namespace {

std::string label_of(const Node& node) { return node.label.empty() ? node.op : node.label; }

PackedConv packed_conv(Lowering& lowering, const Node& node, const Shape& out_shape) {
  const Graph& graph = lowering.graph();
  PackedConv conv;
  conv.geometry = conv_geometry(graph, node, out_shape);
  conv.in = lowering.storage(node.inputs[0]);
  conv.weight = &graph.constant(node.inputs[1]);
  conv.bias = node.inputs.size() > 2 ? &graph.constant(node.inputs[2]) : nullptr;
  conv.plane_end = conv.geometry.out[0];
  conv.label = label_of(node);
  return conv;
}

void lower_packed(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape& out_shape = graph.type(node.outputs[0]).shape;
  PackedConv conv = packed_conv(lowering, node, out_shape);
  conv.out = lowering.make_storage(node.outputs[0], node);
  conv.epilogue = epilogue_text(node);
  conv.keeps_zero = body_keeps_zero(node);
  conv.stats = node.outputs.size() > 1;
  StoragePtr statistics = conv.stats ? lowering.make_storage(node.outputs[1], node) : nullptr;
  for (int64_t image = 0; image < conv.geometry.images; ++image) {
    conv.image = conv.out_image = image;
    StatsTarget target;
    emit_packed_conv(lowering, conv, conv.stats ? &target : nullptr);
    if (!conv.stats) continue;
    if (target.parts == 0) target = emit_norm_partials(lowering, *conv.out, image, conv.geometry.out_channels, conv.label);
    emit_norm_finalize(lowering, target, image, conv.geometry.out_channels, *statistics, conv.label);
  }
}

// Channels in groups: plain tensors, one thread an output, sums over windows of input and weights.
void lower_grouped(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const ConvGeometry g = conv_geometry(graph, node, graph.type(node.outputs[0]).shape);
  StoragePtr x = lowering.storage(node.inputs[0]);
  StoragePtr weight = lowering.storage(node.inputs[1]);
  StoragePtr bias = node.inputs.size() > 2 ? lowering.storage(node.inputs[2]) : nullptr;
  StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const Limits& limits = lowering.limits();
  const std::vector<Window> inputs = windows(*x, 0, x->units, limits);
  const std::vector<Window> weights = windows(*weight, 0, weight->units, limits);
  const size_t passes = inputs.size() * weights.size();
  for (const Window& result : windows(*out, 0, out->units, limits)) {
    for (size_t pass = 0; pass < passes; ++pass) {
      const Window& in = inputs[pass / weights.size()];
      const Window& w = weights[pass % weights.size()];
      const bool first = pass == 0;
      DispatchSpec d;
      d.name = "conv_plain";
      d.label = label_of(node);
      d.workgroup = lowering.workgroup(64);
      d.params = PlanBuilder::begin_params();
      d.params.add("out_begin", result.first);
      d.params.add("out_count", result.count);
      d.params.add("out_shift", result.skip - result.first);
      d.params.add("in_begin", in.first);
      d.params.add("in_count", in.count);
      d.params.add("in_shift", in.skip - in.first);
      d.params.add("weight_begin", w.first);
      d.params.add("weight_count", w.count);
      d.params.add("weight_shift", w.skip - w.first);
      const char* axes[] = {"d", "h", "w"};
      for (size_t a = 0; a < 3; ++a) {
        d.params.add(cat("kernel_", axes[a]), static_cast<uint64_t>(g.kernel[a]));
        d.params.add(cat("dilation_", axes[a]), static_cast<uint64_t>(g.dilation[a]));
        d.params.add(cat("pad_", axes[a]), static_cast<uint64_t>(g.pad[a]));
      }
      d.reads = {in.range, w.range};
      KernelVars vars;
      vars["bias"] = "";
      vars["bindings"] = declare_binding(1, "input", "f32", false) + declare_binding(2, "weight", "f32", false);
      if (bias && first) {
        const Window b = window(*bias, 0, bias->units, limits);
        d.params.add("bias_skip", b.skip);
        d.reads.push_back(b.range);
        vars["bindings"] += declare_binding(3, "bias", "f32", false);
        vars["bias"] = "1";
      }
      d.writes = {result.range};
      vars["bindings"] += declare_binding(d.reads.size() + 1, "output", "f32", true);
      vars["params"] = d.params.declaration();
      vars["T"] = "f32";
      vars["first"] = first ? "1" : "";
      vars["last"] = pass + 1 == passes ? "1" : "";
      const BodyText body = body_wgsl(node, {"x"}, "f32");
      vars["epilogue"] = body.statements + "  return " + body.result + ";\n";
      vars["wg"] = std::to_string(d.workgroup);
      vars["channels"] = std::to_string(g.in_channels);
      vars["outputs"] = std::to_string(g.out_channels);
      vars["group_in"] = std::to_string(g.in_channels / g.groups);
      vars["group_out"] = std::to_string(g.out_channels / g.groups);
      for (size_t a = 0; a < 3; ++a) {
        vars[cat("in_", axes[a])] = std::to_string(g.in[a]);
        vars[cat("out_", axes[a])] = std::to_string(g.out[a]);
        vars[cat("stride_", axes[a])] = std::to_string(g.stride[a]);
      }
      d.wgsl = expand_kernel("conv_plain", vars);
      d.groups = (result.count + d.workgroup - 1) / d.workgroup;
      d.flops = 2.0 * static_cast<double>(result.count) * static_cast<double>(g.in_channels / g.groups) *
                static_cast<double>(g.kernel[0] * g.plane_taps()) / static_cast<double>(passes);
      d.bytes = static_cast<double>(in.range.size + w.range.size + result.range.size);
      lowering.builder().dispatch(d);
    }
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

void lower_conv(Lowering& lowering, const Node& node) {
  if (lowering.graph().type(node.outputs[0]).layout == Layout::Plain) return lower_grouped(lowering, node);
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (!lowering.graph().is_constant(node.inputs[i]))
      fail(ErrorCode::Unsupported, label_of(node), "weights that are computed at run time need a plain convolution");
  lower_packed(lowering, node);
}

void lower_conv_argmax(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Limits& limits = lowering.limits();
  Shape logits_shape = graph.type(node.inputs[0]).shape;
  logits_shape[1] = graph.type(node.inputs[1]).shape[0];
  PackedConv conv = packed_conv(lowering, node, logits_shape);
  const ConvGeometry& g = conv.geometry;
  StoragePtr labels = lowering.make_storage(node.outputs[0], node);
  const uint64_t per_word = 4 / byte_size(labels->dtype);
  const uint64_t voxels = conv.in->slab_units;
  const int64_t quads = g.in_quads();
  constexpr int64_t kMostQuads = 16;  // more would not stay in registers
  const bool enough_bindings = quads + 2 <= limits.max_storage_buffers_per_shader_stage;
  // Weights [output quad][input lane] of vec4, then biases.
  std::vector<float> values(static_cast<size_t>(g.out_quads() * (quads * 4 + 1) * 4), 0.0f);
  for (int64_t o = 0; o < g.out_channels; ++o) {
    for (int64_t c = 0; c < g.in_channels; ++c)
      values[static_cast<size_t>((o / 4 * quads * 4 + c) * 4 + o % 4)] = static_cast<float>(get(*conv.weight, o * g.in_channels + c));
    if (conv.bias) values[static_cast<size_t>((g.out_quads() * quads * 4 + o / 4) * 4 + o % 4)] = static_cast<float>(get(*conv.bias, o));
  }
  const auto common = [&](DispatchSpec& d, const Window& out, uint64_t first_label, uint64_t count) {
    const uint64_t first_word = first_label / per_word;
    const uint64_t words = (first_label + count + per_word - 1) / per_word - first_word;
    d.label = conv.label;
    d.workgroup = lowering.workgroup(128);
    d.params.add("words", words);
    d.params.add("first_word", first_word);
    // The window starts on a whole word.
    d.params.add("word_skip", first_word - (out.first - out.skip) / per_word);
    d.params.add("begin", first_label);
    d.params.add("end", first_label + count);
    d.params.add("per_word", per_word);
    d.params.add("label_bits", 32 / per_word);
    d.params.add("classes", static_cast<uint64_t>(g.out_channels));
    d.writes = {out.range};
    d.groups = (words + d.workgroup - 1) / d.workgroup;
    d.bytes += static_cast<double>(count * labels->unit_bytes());
  };

  const auto fused = [&](int64_t image, const Window& out, uint64_t voxel, uint64_t count) {
    DispatchSpec d;
    KernelVars vars;
    d.params = PlanBuilder::begin_params();
    const uint64_t first_slab = static_cast<uint64_t>(image * quads);
    const uint64_t span = static_cast<uint64_t>(quads - 1) * voxels + count;
    const bool whole = fits_window(*conv.in, first_slab * voxels + voxel, span, limits);
    std::string bindings;
    std::string loads;
    for (int64_t q = 0; q < quads; ++q) {
      const uint64_t first = (first_slab + static_cast<uint64_t>(q)) * voxels + voxel;
      const std::string array = whole ? "in0" : cat("in", q);
      std::string index = cat("P.", array, "_skip + v");
      if (!whole || q == 0) {
        const Window w = window(*conv.in, first, whole ? span : count, limits);
        d.params.add(array + "_skip", w.skip);
        d.reads.push_back(w.range);
        bindings += declare_binding(d.reads.size(), array, array_type(*conv.in), false);
      }
      if (whole) index += cat(" + ", static_cast<uint64_t>(q) * voxels, "u");
      loads += cat("fn load", q, "(v: u32) -> vec4<f32> {\n  let raw = ", array, "[", index, "];\n  return ",
                   unpack_unit(*conv.in, "raw"), ";\n}\n");
    }
    const BufferRange weights = lowering.builder().add_constant_floats(values, conv.label + ".weight");
    d.reads.push_back(weights);
    bindings += declare_binding(d.reads.size(), "weights", "vec4<f32>", false);
    bindings += declare_binding(d.reads.size() + 1, "labels", "u32", true);
    d.bytes = static_cast<double>(count * static_cast<uint64_t>(quads) * conv.in->unit_bytes());
    common(d, out, static_cast<uint64_t>(image) * voxels + voxel, count);
    d.params.add("weights", 0);
    d.params.add("bias", static_cast<uint64_t>(g.out_quads() * quads * 4));
    d.flops = 2.0 * static_cast<double>(count) * static_cast<double>(g.in_channels * g.out_channels);
    vars["params"] = d.params.declaration();
    vars["bindings"] = bindings;
    vars["loads"] = loads;
    vars["wg"] = std::to_string(d.workgroup);
    vars["quads"] = std::to_string(quads);
    vars["per_word"] = std::to_string(per_word);
    vars["inputs_padded"] = std::to_string(quads * 4);
    d.name = cat("conv_argmax ", g.in_channels, "→", g.out_channels);
    d.wgsl = expand_kernel("conv_argmax", vars);
    lowering.builder().dispatch(d);
  };

  // Too many inputs for the bindings: logits of a few planes at a time, in scratch memory, then their argmax.
  const auto by_scratch = [&](int64_t image, const Window& out, uint64_t voxel, uint64_t count) {
    const int64_t plane = g.out[1] * g.out[2];
    PackedConv part = conv;
    part.image = image;
    part.out_image = 0;
    part.plane_begin = part.plane_origin = static_cast<int64_t>(voxel) / plane;
    part.plane_end = part.plane_begin + static_cast<int64_t>(count) / plane;
    part.epilogue = "  return x;\n";
    Shape shape = {1, g.out_channels, part.plane_end - part.plane_begin, g.out[1], g.out[2]};
    part.out = lowering.make_scratch({DType::F32, shape, Layout::Packed}, conv.label + ".logits");
    emit_packed_conv(lowering, part, nullptr);
    DispatchSpec d;
    d.params = PlanBuilder::begin_params();
    const Window logits = window(*part.out, 0, part.out->units, limits);
    d.reads = {logits.range};
    common(d, out, static_cast<uint64_t>(image) * voxels + voxel, count);
    d.params.add("stride", part.out->slab_units);
    KernelVars vars;
    vars["params"] = d.params.declaration();
    vars["wg"] = std::to_string(d.workgroup);
    d.name = "argmax_packed";
    d.wgsl = expand_kernel("argmax_packed", vars);
    d.bytes += static_cast<double>(part.out->bytes());
    lowering.builder().dispatch(d);
  };

  const uint64_t plane = static_cast<uint64_t>(g.out[1] * g.out[2]);
  const uint64_t scratch_plane_bytes = static_cast<uint64_t>(g.out_quads()) * plane * 16;
  const uint64_t most_bytes = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  for (int64_t image = 0; image < g.images; ++image) {
    const bool whole = fits_window(*conv.in, static_cast<uint64_t>(image * quads) * voxels, static_cast<uint64_t>(quads) * voxels, limits);
    const bool use_fused = quads <= kMostQuads && (whole || enough_bindings);
    if (!use_fused && scratch_plane_bytes > most_bytes)
      fail(ErrorCode::OverLimits, conv.label, "the classes of one plane need ", scratch_plane_bytes, " bytes; a binding may have ", most_bytes);
    for (uint64_t plane_at = 0; plane_at < static_cast<uint64_t>(g.out[0]);) {
      // As many planes as fit every window.
      uint64_t planes = static_cast<uint64_t>(g.out[0]) - plane_at;
      const auto fits = [&](uint64_t n) {
        const uint64_t voxel = plane_at * plane;
        if (!fits_window(*labels, static_cast<uint64_t>(image) * voxels + voxel, n * plane, limits)) return false;
        if (!use_fused) return n * scratch_plane_bytes <= most_bytes;
        if (whole) return true;
        for (int64_t q = 0; q < quads; ++q)
          if (!fits_window(*conv.in, static_cast<uint64_t>(image * quads + q) * voxels + voxel, n * plane, limits)) return false;
        return true;
      };
      while (planes > 1 && !fits(planes)) planes = (planes + 1) / 2;
      if (!fits(planes)) fail(ErrorCode::OverLimits, conv.label, "one plane of the volume does not fit a binding");
      const uint64_t first_label = static_cast<uint64_t>(image) * voxels + plane_at * plane;
      const Window out = window(*labels, first_label, planes * plane, limits);
      if (use_fused) fused(image, out, plane_at * plane, planes * plane);
      else by_scratch(image, out, plane_at * plane, planes * plane);
      plane_at += planes;
    }
  }
}

}  // namespace gyrus
