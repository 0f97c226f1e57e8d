// Convolutions over plain tensors: one thread an output, sums over windows of input and weights.
#include "core/error.h"
#include "ops/fused.h"
#include "plan/lower_conv.h"

namespace gyrus {
namespace {

constexpr const char* kAxes[] = {"d", "h", "w"};

class PlainConvEmitter {
 public:
  PlainConvEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        node_(node),
        g_(conv_geometry(lowering.graph(), node, lowering.graph().type(node.outputs[0]).shape)),
        inputs_(all_windows(node.inputs[0])),
        weights_(all_windows(node.inputs[1])) {}

  void run() {
    const StoragePtr out = lowering_.make_storage(node_.outputs[0], node_);
    for (const Window& result : windows(*out, 0, out->units, lowering_.limits()))
      for (size_t pass = 0; pass < passes(); ++pass) emit(*out, result, pass);
  }

 private:
  std::vector<Window> all_windows(ValueId id) {
    const StoragePtr storage = lowering_.storage(id);
    return windows(*storage, 0, storage->units, lowering_.limits());
  }
  size_t passes() const { return inputs_.size() * weights_.size(); }

  void add_geometry(Kernel& k) const {
    for (size_t a = 0; a < 3; ++a) {
      k.param(cat("in_", kAxes[a]), g_.in[a]).param(cat("out_", kAxes[a]), g_.out[a]);
      k.param(cat("kernel_", kAxes[a]), g_.kernel[a]).param(cat("stride_", kAxes[a]), g_.stride[a]);
      k.param(cat("dilation_", kAxes[a]), g_.dilation[a]).param(cat("pad_", kAxes[a]), g_.pad[a]);
    }
    k.param("channels", g_.in_channels).param("outputs", g_.out_channels);
    k.param("group_in", g_.in_channels / g_.groups).param("group_out", g_.out_channels / g_.groups);
  }

  void emit(const Storage& out, const Window& result, size_t pass) {
    const Window& in = inputs_[pass / weights_.size()];
    const Window& w = weights_[pass % weights_.size()];
    const bool first = pass == 0;
    const bool last = pass + 1 == passes();
    Kernel k(lowering_, "conv_plain", label_of(node_));
    k.workgroup(64).read("input", *lowering_.storage(node_.inputs[0]), in);
    k.read("weight", *lowering_.storage(node_.inputs[1]), w);
    k.param("in_begin", in.first).param("in_count", in.count);
    k.param("weight_begin", w.first).param("weight_count", w.count);
    // The bias is bound on the first pass only; the sums of later ones hold it already.
    const bool bias = first && has_operand(node_, 2);
    if (bias) k.read("bias", *lowering_.storage(node_.inputs[2]));
    k.write("output", out, result).param("out_begin", result.first).param("out_count", result.count);
    if (last) k.checks_stored();
    add_geometry(k);
    const BodyText body = epilogue(node_, "x", wgsl::f32);
    k.text("epilogue", body.statements + "  return " + body.result() + ";\n").text("T", "f32");
    k.text("store", k.stored(out, "epilogue(sum)")).flag("first", first).flag("last", last).flag("bias", bias);
    const int64_t products = g_.in_channels / g_.groups * g_.kernel[0] * g_.plane_taps();
    k.dispatch((result.count + k.workgroup() - 1) / k.workgroup(),
               {2.0 * static_cast<double>(result.count) * static_cast<double>(products) / static_cast<double>(passes()),
                static_cast<double>(in.range.size + w.range.size + result.range.size)});
  }

  Lowering& lowering_;
  const Node& node_;
  ConvGeometry g_;
  std::vector<Window> inputs_;
  std::vector<Window> weights_;
};

}  // namespace

void lower_plain_conv(Lowering& lowering, const Node& node) { PlainConvEmitter(lowering, node).run(); }

}  // namespace gyrus
