#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

struct State {
  Value h, c;
};

// One step from the input's part of the gates [B, gates H].
using Step = State (*)(Value gates, const RecurrentWeights& weights, State state, int64_t hidden);

Value gate(Value gates, int64_t index, int64_t hidden) {
  return slice_axis(gates, 1, index * hidden, (index + 1) * hidden);
}

State lstm_step(Value input, const RecurrentWeights& weights, State state, int64_t hidden) {
  const Value gates = input + linear(state.h, weights.hidden, weights.hidden_bias);
  const Value kept = sigmoid(gate(gates, 1, hidden)) * state.c;
  const Value c = kept + sigmoid(gate(gates, 0, hidden)) * tanh(gate(gates, 2, hidden));
  return {sigmoid(gate(gates, 3, hidden)) * tanh(c), c};
}

State gru_step(Value input, const RecurrentWeights& weights, State state, int64_t hidden) {
  const Value own = linear(state.h, weights.hidden, weights.hidden_bias);
  const Value r = sigmoid(gate(input, 0, hidden) + gate(own, 0, hidden));
  const Value z = sigmoid(gate(input, 1, hidden) + gate(own, 1, hidden));
  const Value n = tanh(gate(input, 2, hidden) + r * gate(own, 2, hidden));
  return {n + z * (state.h - n), {}};
}

// The start of one direction of one layer, [B, H].
Value start(Value given, size_t index, const Value& x, int64_t hidden) {
  const int64_t batch = x.shape()[0];
  if (!given) return x.graph().constant(Tensor(DType::F32, {batch, hidden}));
  const auto at = static_cast<int64_t>(index);
  return reshape(slice_axis(given, 0, at, at + 1), {batch, hidden});
}

RecurrentResult run(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options, Step step,
                    const char* op) {
  const size_t directions = options.bidirectional ? 2 : 1;
  if (!x || x.shape().size() != 3 || layers.empty() || layers.size() % directions != 0)
    fail(ErrorCode::InvalidGraph, op, "expected x [B, S, I] and weights for ", directions,
         " direction(s) of each layer");
  const int64_t batch = x.shape()[0], length = x.shape()[1];
  std::vector<Value> last_h, last_c;
  for (size_t l = 0; l < layers.size(); l += directions) {
    std::vector<Value> sides;
    for (size_t d = 0; d < directions; ++d) {
      const RecurrentWeights& w = layers[l + d];
      const int64_t hidden = w.hidden.shape().at(1);
      const Value all = linear(x, w.input, w.input_bias);
      State state{start(options.h0, l + d, x, hidden), start(options.c0, l + d, x, hidden)};
      std::vector<Value> steps(static_cast<size_t>(length));
      for (int64_t i = 0; i < length; ++i) {
        const int64_t t = d == 0 ? i : length - 1 - i;
        const Value gates = reshape(slice_axis(all, 1, t, t + 1), {batch, all.shape()[2]});
        state = step(gates, w, state, hidden);
        steps[static_cast<size_t>(t)] = state.h;
      }
      sides.push_back(stack(steps, 1));
      last_h.push_back(state.h);
      if (state.c) last_c.push_back(state.c);
    }
    x = sides.size() == 1 ? sides[0] : concat(sides, 2);
  }
  return {x, stack(last_h, 0), last_c.empty() ? Value{} : stack(last_c, 0)};
}

}  // namespace

RecurrentResult lstm(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, lstm_step, "lstm");
}

RecurrentResult gru(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, gru_step, "gru");
}

}  // namespace gyrus
