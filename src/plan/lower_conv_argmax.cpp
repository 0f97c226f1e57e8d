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

Shape logits_shape(const Graph& graph, const Node& node) {
  Shape shape = graph.type(node.inputs[0]).shape;
  shape[1] = graph.type(node.inputs[1]).shape[0];
  return shape;
}

// One kernel makes the labels where registers hold all channels of a voxel and a window those of a plane.
bool fits_one_kernel(const Storage& in, const ConvGeometry& g, const Limits& limits) {
  // Input, weights, labels and the report take a binding each.
  if (g.in_quads() > kMostQuads || limits.max_storage_buffers_per_shader_stage < 4) return false;
  for (uint64_t slab = 0; slab < in.slabs(); ++slab)
    if (!fits_window(in, slab * in.slab_units, in.slab_units, limits)) return false;
  return true;
}

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
        quads_(static_cast<uint64_t>(g_.in_quads())),
        fused_(fits_one_kernel(*conv_.in, g_, lowering.limits())) {
    if (!fused_ && logits_plane_bytes() > most_logits_bytes())
      fail(ErrorCode::OverLimits, conv_.label, "the classes of one plane need ", logits_plane_bytes(),
           " bytes; a binding may have ", most_logits_bytes());
  }

  void run() {
    for (int64_t image = 0; image < g_.images; ++image) {
      image_ = static_cast<uint64_t>(image);
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

  // What both kernels say about the labels that a dispatch makes; returns its workgroups.
  uint64_t bind_labels(Kernel& k, const Part& part) {
    const uint64_t first = first_label(part.voxel);
    const Window out = window(*labels_, first, part.count, limits());
    const uint64_t first_word = first / per_word_;
    const uint64_t words = (first + part.count + per_word_ - 1) / per_word_ - first_word;
    // The window starts on a whole word.
    k.write("labels", out.range, wgsl::u32).param("word_skip", first_word - (out.first - out.skip) / per_word_);
    k.param("words", words).param("first_word", first_word).param("begin", first).param("end", first + part.count);
    k.param("classes", g_.out_channels).constant("per_word", static_cast<int64_t>(per_word_));
    k.constant("label_bits", static_cast<int64_t>(32 / per_word_)).literal("plane", plane_);
    k.reports(ReportKind::Finite);
    return (words + k.workgroup() - 1) / k.workgroup();
  }

  void emit_fused(const Part& part) {
    const UnitRange units = in_range(part.voxel / plane_, part.count / plane_);
    Kernel k(lowering_, "conv_argmax", conv_.label);
    k.name(cat("conv_argmax ", g_.in_channels, "→", g_.out_channels)).workgroup(128);
    k.read("input", *conv_.in, window(*conv_.in, units.first, units.count, limits())).param("in_first", units.first);
    k.read("weights", *conv_.weights[0]);
    const uint64_t groups = bind_labels(k, part);
    k.param("bias", static_cast<uint64_t>(g_.out_quads()) * quads_ * 4);
    k.text("unpack", unpack_unit(*conv_.in, "raw")).constant("quads", static_cast<int64_t>(quads_));
    k.constant("together", static_cast<int64_t>(quads_ <= kQuadsTogether ? per_word_ : 1));
    k.dispatch(groups,
               {2.0 * static_cast<double>(part.count) * static_cast<double>(g_.in_channels * g_.out_channels),
                static_cast<double>(units.count * conv_.in->unit_bytes() + part.count * labels_->unit_bytes())});
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
    kDirectConv.emit(lowering_, conv, nullptr);
    return conv.out;
  }

  void emit_by_scratch(const Part& part) {
    const StoragePtr logits = emit_logits(part);
    Kernel k(lowering_, "argmax_packed", conv_.label);
    k.workgroup(128).read("logits", *logits);
    const uint64_t groups = bind_labels(k, part);
    k.constant("quads", g_.out_quads());
    k.dispatch(groups, {0, static_cast<double>(logits->bytes() + part.count * labels_->unit_bytes())});
  }

  Lowering& lowering_;
  PackedConv conv_;
  const ConvGeometry& g_;
  StoragePtr labels_;
  uint64_t per_word_;  // labels
  uint64_t plane_;     // voxels
  uint64_t voxels_;    // of one image
  uint64_t quads_;     // of input channels
  uint64_t image_ = 0;
  bool fused_;
};

}  // namespace

void lower_conv_argmax(Lowering& lowering, const Node& node) { ConvArgmaxEmitter(lowering, node).run(); }

WeightOrders order_conv_argmax(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Shape shape = logits_shape(graph, node);
  const Storage in = laid_out(graph.type(node.inputs[0]), target.limits, label_of(node));
  const ConvGeometry g = conv_geometry(graph, node, shape);
  if (fits_one_kernel(in, g, target.limits)) {
    WeightOrders result;
    result.storage.push_back({{"kernel", std::string("argmax")},
                              {"begin", int64_t{0}},
                              {"end", g.out_quads()},
                              {"lanes", g.in_quads() * 4}});
    return result;
  }
  const TensorType one_plane{DType::F32, {1, shape[1], 1, g.out[1], g.out[2]}, Layout::Packed};
  const ConvSite site{target, options, g, in, laid_out(one_plane, target.limits, label_of(node)), false, false};
  return kDirectConv.orders(site);
}

}  // namespace gyrus
