// A pointwise convolution and the argmax of its classes. Where a window holds all channels of a plane, one kernel does
// both and no logits exist; else the logits of a few planes at a time go through scratch memory.
#include <algorithm>
#include <limits>

#include "core/error.h"
#include "plan/lower_conv.h"

namespace gyrus {
namespace {

constexpr int64_t kMostQuads = 16;  // of input channels; more would not stay in registers

constexpr int64_t kQuadsTogether = 8;  // of which registers hold those of several voxels

class ConvArgmaxEmitter {
 public:
  ConvArgmaxEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        conv_(packed_conv(lowering, node, logits_shape(lowering.graph(), node))),
        g_(conv_.geometry),
        labels_(lowering.make_storage(node.outputs[0], node)),
        per_word_(4 / byte_size(labels_->dtype)),
        plane_(static_cast<uint64_t>(g_.out[1] * g_.out[2])),
        voxels_(static_cast<uint64_t>(g_.out[0]) * plane_),
        quads_(static_cast<uint64_t>(g_.in_quads())) {
    pack_weights();
  }

  void run() {
    for (int64_t image = 0; image < g_.images; ++image) {
      choose(static_cast<uint64_t>(image));
      for (uint64_t plane = 0; plane < static_cast<uint64_t>(g_.out[0]);) {
        const uint64_t planes = longest(plane);
        const Part part{plane * plane_, planes * plane_};
        if (fused_)
          emit_fused(part);
        else
          emit_by_scratch(part);
        plane += planes;
      }
    }
  }

 private:
  // Some voxels of the image at hand.
  struct Part {
    uint64_t voxel = 0;
    uint64_t count = 0;
  };

  static Shape logits_shape(const Graph& graph, const Node& node) {
    Shape shape = graph.type(node.inputs[0]).shape;
    shape[1] = graph.type(node.inputs[1]).shape[0];
    return shape;
  }

  const Limits& limits() const { return lowering_.limits(); }
  // All quads of some planes.
  UnitRange in_range(uint64_t plane, uint64_t planes) const {
    const uint64_t stride = quads_ * plane_;
    return {(image_ * static_cast<uint64_t>(g_.in[0]) + plane) * stride, planes * stride};
  }
  bool in_fits(uint64_t plane, uint64_t planes) const {
    const UnitRange units = in_range(plane, planes);
    return fits_window(*conv_.in, units.first, units.count, limits());
  }
  uint64_t first_label(uint64_t voxel) const { return image_ * voxels_ + voxel; }
  uint64_t logits_plane_bytes() const { return static_cast<uint64_t>(g_.out_quads()) * plane_ * kVec4Bytes; }
  uint64_t most_logits_bytes() const {
    return std::min(limits().max_storage_buffer_binding_size, limits().max_buffer_size);
  }

  // Weights [output quad][input lane] of vec4, then biases.
  void pack_weights() {
    const int64_t lanes = g_.in_quads() * 4;
    weights_.assign(static_cast<size_t>(g_.out_quads() * (lanes + 1) * 4), 0.0f);
    const auto put = [this](int64_t row, int64_t lane, double value) {
      weights_[static_cast<size_t>(row * 4 + lane)] = static_cast<float>(value);
    };
    for (int64_t o = g_.out_channels; o < g_.out_quads() * 4; ++o)
      put(g_.out_quads() * lanes + o / 4, o % 4, -std::numeric_limits<double>::infinity());
    for (int64_t o = 0; o < g_.out_channels; ++o) {
      for (int64_t c = 0; c < g_.in_channels; ++c)
        put(o / 4 * lanes + c, o % 4, get(*conv_.weight, o * g_.in_channels + c));
      if (conv_.bias) put(g_.out_quads() * lanes + o / 4, o % 4, get(*conv_.bias, o));
    }
  }

  // How the image is made: by one kernel, or through scratch memory.
  void choose(uint64_t image) {
    image_ = image;
    fused_ = quads_ <= kMostQuads;
    for (uint64_t plane = 0; fused_ && plane < static_cast<uint64_t>(g_.out[0]); ++plane) fused_ = in_fits(plane, 1);
    if (!fused_ && logits_plane_bytes() > most_logits_bytes())
      fail(ErrorCode::OverLimits, conv_.label, "the classes of one plane need ", logits_plane_bytes(),
           " bytes; a binding may have ", most_logits_bytes());
  }

  bool fits(uint64_t plane, uint64_t planes) const {
    if (!fits_window(*labels_, first_label(plane * plane_), planes * plane_, limits())) return false;
    return fused_ ? in_fits(plane, planes) : planes * logits_plane_bytes() <= most_logits_bytes();
  }

  // As many planes from `plane` on as fit every window.
  uint64_t longest(uint64_t plane) const {
    uint64_t planes = static_cast<uint64_t>(g_.out[0]) - plane;
    while (planes > 1 && !fits(plane, planes)) planes = (planes + 1) / 2;
    if (!fits(plane, planes))
      fail(ErrorCode::OverLimits, conv_.label, "one plane of the volume does not fit a binding");
    return planes;
  }

  // What both kernels say about the labels that a dispatch makes.
  void bind_labels(DispatchSpec& d, const Part& part) {
    const uint64_t first = first_label(part.voxel);
    const Window out = window(*labels_, first, part.count, limits());
    const uint64_t first_word = first / per_word_;
    const uint64_t words = (first + part.count + per_word_ - 1) / per_word_ - first_word;
    d.label = conv_.label;
    d.workgroup = lowering_.workgroup(128);
    d.params.add("words", words);
    d.params.add("first_word", first_word);
    // The window starts on a whole word.
    d.params.add("word_skip", first_word - (out.first - out.skip) / per_word_);
    d.params.add("begin", first);
    d.params.add("end", first + part.count);
    d.params.add("per_word", per_word_);
    d.params.add("label_bits", 32 / per_word_);
    d.params.add("classes", static_cast<uint64_t>(g_.out_channels));
    d.writes = {out.range};
    d.groups = (words + d.workgroup - 1) / d.workgroup;
    d.bytes += static_cast<double>(part.count * labels_->unit_bytes());
  }

  void bind_input(DispatchSpec& d, KernelVars& vars, const Part& part) {
    const UnitRange units = in_range(part.voxel / plane_, part.count / plane_);
    const Window w = window(*conv_.in, units.first, units.count, limits());
    d.params.add("in_skip", w.skip);
    d.reads.push_back(w.range);
    vars["bindings"] += declare_binding(d.reads.size(), "input", array_type(*conv_.in), false);
    vars["unpack"] = unpack_unit(*conv_.in, "raw");
    vars["plane"] = std::to_string(plane_);
    d.bytes = static_cast<double>(units.count * conv_.in->unit_bytes());
  }

  void emit_fused(const Part& part) {
    DispatchSpec d;
    KernelVars vars;
    d.params = PlanBuilder::begin_params();
    bind_input(d, vars, part);
    d.reads.push_back(lowering_.builder().add_constant_floats(weights_, conv_.label + ".weight"));
    vars["bindings"] += declare_binding(d.reads.size(), "weights", "vec4<f32>", false);
    vars["bindings"] += declare_binding(d.reads.size() + 1, "labels", "u32", true);
    bind_labels(d, part);
    d.params.add("bias", static_cast<uint64_t>(g_.out_quads()) * quads_ * 4);
    d.flops = 2.0 * static_cast<double>(part.count) * static_cast<double>(g_.in_channels * g_.out_channels);
    vars["params"] = d.params.declaration();
    vars["wg"] = std::to_string(d.workgroup);
    vars["quads"] = std::to_string(quads_);
    vars["per_word"] = std::to_string(per_word_);
    vars["together"] = std::to_string(quads_ <= kQuadsTogether ? per_word_ : 1);
    vars["inputs_padded"] = std::to_string(quads_ * 4);
    d.name = cat("conv_argmax ", g_.in_channels, "→", g_.out_channels);
    d.wgsl = expand_kernel("conv_argmax", vars);
    lowering_.builder().dispatch(d);
  }

  // The logits of the part's planes, packed, in memory of their own.
  StoragePtr emit_logits(const Part& part) {
    PackedConv conv = conv_;
    conv.image = static_cast<int64_t>(image_);
    conv.out_image = 0;
    conv.plane_begin = conv.plane_origin = static_cast<int64_t>(part.voxel / plane_);
    conv.plane_end = conv.plane_begin + static_cast<int64_t>(part.count / plane_);
    conv.epilogue = "  return x;\n";
    const Shape shape = {1, g_.out_channels, conv.plane_end - conv.plane_begin, g_.out[1], g_.out[2]};
    conv.out = lowering_.make_scratch({DType::F32, shape, Layout::Packed}, conv_.label + ".logits");
    emit_packed_conv(lowering_, conv, nullptr);
    return conv.out;
  }

  void emit_by_scratch(const Part& part) {
    const StoragePtr logits = emit_logits(part);
    DispatchSpec d;
    d.params = PlanBuilder::begin_params();
    d.reads = {window(*logits, 0, logits->units, limits()).range};
    bind_labels(d, part);
    KernelVars vars;
    vars["plane"] = std::to_string(plane_);
    vars["quads"] = std::to_string(g_.out_quads());
    vars["params"] = d.params.declaration();
    vars["wg"] = std::to_string(d.workgroup);
    d.name = "argmax_packed";
    d.wgsl = expand_kernel("argmax_packed", vars);
    d.bytes += static_cast<double>(logits->bytes());
    lowering_.builder().dispatch(d);
  }

  Lowering& lowering_;
  PackedConv conv_;
  const ConvGeometry& g_;
  StoragePtr labels_;
  uint64_t per_word_;  // labels
  uint64_t plane_;     // voxels
  uint64_t voxels_;    // of one image
  uint64_t quads_;     // of input channels
  std::vector<float> weights_;
  uint64_t image_ = 0;
  bool fused_ = false;
};

}  // namespace

void lower_conv_argmax(Lowering& lowering, const Node& node) { ConvArgmaxEmitter(lowering, node).run(); }

}  // namespace gyrus
