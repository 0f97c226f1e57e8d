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
      for (size_t pass = 0; pass < passes(); ++pass) emit(result, pass);
  }

 private:
  std::vector<Window> all_windows(ValueId id) {
    const StoragePtr storage = lowering_.storage(id);
    return windows(*storage, 0, storage->units, lowering_.limits());
  }
  size_t passes() const { return inputs_.size() * weights_.size(); }

  void add_params(Params& params, const Window& result, const Window& in, const Window& w) const {
    params.add("out_begin", result.first);
    params.add("out_count", result.count);
    params.add("out_shift", result.skip - result.first);
    params.add("in_begin", in.first);
    params.add("in_count", in.count);
    params.add("in_shift", in.skip - in.first);
    params.add("weight_begin", w.first);
    params.add("weight_count", w.count);
    params.add("weight_shift", w.skip - w.first);
    for (size_t a = 0; a < 3; ++a) {
      params.add(cat("kernel_", kAxes[a]), static_cast<uint64_t>(g_.kernel[a]));
      params.add(cat("dilation_", kAxes[a]), static_cast<uint64_t>(g_.dilation[a]));
      params.add(cat("pad_", kAxes[a]), static_cast<uint64_t>(g_.pad[a]));
    }
  }

  // The bias is bound on the first pass only; the sums of later ones hold it already.
  void bind_bias(DispatchSpec& d, KernelVars& vars) {
    const StoragePtr bias = lowering_.storage(node_.inputs[2]);
    const Window b = window(*bias, 0, bias->units, lowering_.limits());
    d.params.add("bias_skip", b.skip);
    d.reads.push_back(b.range);
    vars["bindings"] += declare_binding(3, "bias", "f32", false);
    vars["bias"] = "1";
  }

  std::string text(const DispatchSpec& d, KernelVars vars, bool first, bool last) const {
    const BodyText body = body_wgsl(node_, {"x"}, wgsl::f32);
    vars["params"] = d.params.declaration();
    vars["T"] = "f32";
    vars["first"] = first ? "1" : "";
    vars["last"] = last ? "1" : "";
    vars["epilogue"] = body.statements + "  return " + body.result() + ";\n";
    vars["wg"] = std::to_string(d.workgroup);
    vars["channels"] = std::to_string(g_.in_channels);
    vars["outputs"] = std::to_string(g_.out_channels);
    vars["group_in"] = std::to_string(g_.in_channels / g_.groups);
    vars["group_out"] = std::to_string(g_.out_channels / g_.groups);
    for (size_t a = 0; a < 3; ++a) {
      vars[cat("in_", kAxes[a])] = std::to_string(g_.in[a]);
      vars[cat("out_", kAxes[a])] = std::to_string(g_.out[a]);
      vars[cat("stride_", kAxes[a])] = std::to_string(g_.stride[a]);
    }
    return expand_kernel("conv_plain", vars);
  }

  void emit(const Window& result, size_t pass) {
    const Window& in = inputs_[pass / weights_.size()];
    const Window& w = weights_[pass % weights_.size()];
    const bool first = pass == 0;
    DispatchSpec d;
    d.name = "conv_plain";
    d.label = label_of(node_);
    d.workgroup = lowering_.workgroup(64);
    d.params = PlanBuilder::begin_params();
    add_params(d.params, result, in, w);
    d.reads = {in.range, w.range};
    KernelVars vars;
    vars["bias"] = "";
    vars["bindings"] = declare_binding(1, "input", "f32", false) + declare_binding(2, "weight", "f32", false);
    if (first && node_.inputs.size() > 2) bind_bias(d, vars);
    d.writes = {result.range};
    vars["bindings"] += declare_binding(d.reads.size() + 1, "output", "f32", true);
    d.wgsl = text(d, std::move(vars), first, pass + 1 == passes());
    d.groups = (result.count + d.workgroup - 1) / d.workgroup;
    const int64_t products = g_.in_channels / g_.groups * g_.kernel[0] * g_.plane_taps();
    d.flops = 2.0 * static_cast<double>(result.count) * static_cast<double>(products) / static_cast<double>(passes());
    d.bytes = static_cast<double>(in.range.size + w.range.size + result.range.size);
    lowering_.builder().dispatch(d);
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
