#pragma once
#include <string>

#include "gyrus/train.h"

namespace gyrus {

// A parameter in the making of its update.
struct Training {
  std::string name;
  Value parameter, gradient;
  double weight_decay = 0;
};

// Adds the states of the optimiser for one parameter, "optimizer/SLOT/NAME" with the slots of PyTorch, and their
// updates; gives what the parameter becomes. `rate` and `step` are scalars. Where the truth value `good` is false,
// everything stays as it is.
Value add_update(const Optimizer& optimizer, const Training& training, Value rate, Value step, Value good);

}  // namespace gyrus
