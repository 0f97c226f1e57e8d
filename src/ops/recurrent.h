#pragma once
#include "graph/op.h"

// Layers of recurrent networks over all steps of time, [B,S,…]; reverse = 1: from the last step to the first. Operands
// are f32. What the input adds to the gates is given, so that it is one product for all steps.

namespace gyrus {

// gates [B,S,4H] in the order i, f, g, o, weight [H,4H], start [B,2H] (h, then c) -> [B,S,2H], h and c behind each
// step:
//   i, f, o = sigmoid, g = tanh of gates + h weight;  c = f c + i g;  h = o tanh(c).
extern const OpDef kLstmSteps;
// gates [B,S,3H] in the order r, z, n, weight [H,3H] or [H+1,3H] with a row that is added, start [B,H] -> h [B,S,H]:
//   s = h weight;  r, z = sigmoid(gates + s);  n = tanh(gates + r s);  h = n + z (h - n).
extern const OpDef kGruSteps;
// Their way back, against the direction of the layer. slopes [B,S,6H], gradients [B,S,2H] of h and c, weight [H,4H] ->
// [B,S,5H], the gradients of the sums of i, f, g, o, and of c before the step:
//   dh += weight · sums of the step behind;  dc += dh slopes[4] + that of c;  sums = dc slopes[0…2], dh slopes[3];
//   of c: dc slopes[5].
extern const OpDef kLstmBack;
// slopes [B,S,5H], gradients [B,S,H], weight as above -> [B,S,5H]: those of s for r, z and n, of the gate n, and of h
// before the step past the weights: dn = dh slopes[2];  dr = dn slopes[0];  dz = dh slopes[1];  s of n: dn slopes[3];
// of h: dh slopes[4].
extern const OpDef kGruBack;

// What these ops are about.
struct RecurrentAttrs {
  int64_t batch = 0, steps = 0, hidden = 0, gates = 0;  // gates: 4 or 3
  bool lstm = false, back = false, bias = false, reverse = false;
};
RecurrentAttrs recurrent_attrs(const Node& node, const std::vector<Shape>& inputs);

}  // namespace gyrus
