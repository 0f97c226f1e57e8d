#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "gyrus/ops.h"

// What goes along an axis and carries something: running results, recurrences of state space models and of linear
// attention. On a device the axis is cut into parts that run at the same time; the results are those of one run from
// the first to the last. docs/library.md tells more.

namespace gyrus {

// The largest of all elements up to each; cumsum and cumprod are in gyrus/ops.h.
inline Value cummax(Value x, int64_t axis, bool exclusive = false, bool reverse = false) {
  return apply("cummax", {x}, {{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}});
}

// h[t] = a[t] h[t-1] + b[t] along an axis, all h (reverse: h[t] = a[t] h[t+1] + b[t]); f32. `start`, with an extent of
// 1 there, is what h was before; zeros where absent.
Value linear_scan(Value a, Value b, int64_t axis, Value start = {}, bool reverse = false);

// Running results of tuples of values that `combine` joins, an associative function of two stretches, the earlier one
// first: elementwise ops, on tensors of any extent along the axis. Tuples have one value or more, of one shape. Becomes
// about 2 log2(extent) kernels, with gradients where the ops of `combine` have them.
using Tuple = std::vector<Value>;
struct ScanOptions {
  bool reverse = false;
  Tuple start{};  // what came before, with an extent of 1 along the axis; nothing where empty
};
Tuple scan(const Tuple& x, int64_t axis, const std::function<Tuple(const Tuple& before, const Tuple& after)>& combine,
           const ScanOptions& options = {});

// The results of a recurrence at all steps, and the state behind the last: `start` of a run that goes on.
struct CarriedResult {
  Value y, last;
};

// The selective scan of Mamba: x, dt [B,S,H], rates A [H,N], B and C [B,S,N], state h [B,H,N]. Each step
//   h = exp(dt A) h + dt B x;  y = Σ_n C h.
struct SelectiveScanOptions {
  Value skip{};           // D [H]: y += D x
  Value gate{};           // z [B,S,H]: y *= silu(z), behind that
  Value dt_bias{};        // [H], added to dt
  bool softplus = false;  // of dt, behind that
  Value start{};          // h before the first step; zeros where absent
};
CarriedResult selective_scan(Value x, Value dt, Value rates, Value b, Value c,
                             const SelectiveScanOptions& options = {});

// The gated delta rule: q, k [B,S,H,K], v [B,S,H,V], g (the logarithm of the decay) and beta [B,S,H], state [B,H,K,V].
// Each step S = exp(g) S;  S += k ⊗ beta (v - Sᵀ k);  y = Sᵀ q scale.
struct DeltaRuleOptions {
  std::optional<double> scale{};  // 1/sqrt(K)
  bool normalize = false;         // q and k are first divided by sqrt(Σ squares + 1e-6)
  Value start{};
};
CarriedResult gated_delta_rule(Value q, Value k, Value v, Value g, Value beta, const DeltaRuleOptions& options = {});

// RWKV-7: r, w, k, a, b [B,S,H,K], v [B,S,H,V], state [B,H,V,K]; w are the decays themselves. Each step
//   S = S (diag(w) + aᵀ b) + vᵀ k;  y = S r.
CarriedResult rwkv7(Value r, Value w, Value k, Value v, Value a, Value b, Value start = {});

}  // namespace gyrus
