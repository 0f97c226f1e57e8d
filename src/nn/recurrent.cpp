#include "nn/recurrent.h"

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

// One step from the input's part of the gates [B, gates H].
using Step = RecurrentState (*)(Value gates, const RecurrentWeights& weights, const RecurrentState& state,
                                int64_t hidden);

Value gate(Value gates, int64_t index, int64_t hidden) {
  return slice_axis(gates, 1, index * hidden, (index + 1) * hidden);
}

RecurrentState lstm_layer_step(Value input, const RecurrentWeights& weights, const RecurrentState& state,
                               int64_t hidden) {
  const Value sums = input + linear(state.h, weights.hidden, weights.hidden_bias);
  const auto part = [&](int64_t index) { return gate(sums, index, hidden); };
  return lstm_step({part(0), part(1), part(2), part(3)}, state);
}

RecurrentState gru_layer_step(Value input, const RecurrentWeights& weights, const RecurrentState& state,
                              int64_t hidden) {
  const Value own = linear(state.h, weights.hidden, weights.hidden_bias);
  const auto sum = [&](int64_t index) { return gate(input, index, hidden) + gate(own, index, hidden); };
  return gru_step({sum(0), sum(1), [&](Value r) { return gate(input, 2, hidden) + r * gate(own, 2, hidden); }}, state);
}

// The start of one direction of one layer, [B, H].
Value start(Value given, size_t index, const Value& x, int64_t hidden) {
  const int64_t batch = x.shape()[0];
  if (!given) return x.graph().constant(Tensor(DType::F32, {batch, hidden}));
  const auto at = static_cast<int64_t>(index);
  return reshape(slice_axis(given, 0, at, at + 1), {batch, hidden});
}

RecurrentResult run(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options, Step step,
                    bool has_cell, const char* op) {
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
      RecurrentState first{start(options.h0, l + d, x, hidden), {}};
      if (has_cell) first.c = start(options.c0, l + d, x, hidden);
      const Unrolled made = unroll(length, d == 1, first, [&](int64_t t, const RecurrentState& state) {
        return step(reshape(slice_axis(all, 1, t, t + 1), {batch, all.shape()[2]}), w, state, hidden);
      });
      sides.push_back(stack(made.h, 1));
      last_h.push_back(made.last.h);
      if (has_cell) last_c.push_back(made.last.c);
    }
    x = sides.size() == 1 ? sides[0] : concat(sides, 2);
  }
  return {x, stack(last_h, 0), has_cell ? stack(last_c, 0) : Value{}};
}

}  // namespace

RecurrentState lstm_step(const LstmSums& sums, const RecurrentState& state, const LstmWays& ways) {
  const auto seen = [](Value sum, Value peephole, Value cell) { return peephole ? sum + peephole * cell : sum; };
  const Value in = ways.gate(seen(sums.input, ways.input_peephole, state.c));
  const Value kept = ways.coupled ? 1.0 - in : ways.gate(seen(sums.forget, ways.forget_peephole, state.c));
  const Value c = kept * state.c + in * ways.cell(sums.cell);
  return {ways.gate(seen(sums.output, ways.output_peephole, c)) * ways.output(c), c};
}

RecurrentState gru_step(const GruSums& sums, const RecurrentState& state, const GruWays& ways) {
  const Value r = ways.gate(sums.reset), z = ways.gate(sums.update), n = ways.cell(sums.candidate(r));
  return {n + z * (state.h - n), {}};
}

Unrolled unroll(int64_t steps, bool backwards, RecurrentState state,
                const std::function<RecurrentState(int64_t t, const RecurrentState&)>& step,
                const std::function<Value(int64_t t)>& running) {
  Unrolled made;
  made.h.resize(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backwards ? steps - 1 - i : i;
    RecurrentState next = step(t, state);
    Value y = next.h;
    if (const Value on = running ? running(t) : Value{}) {
      y = where(on, next.h, scalar(next.h, 0));
      next.h = where(on, next.h, state.h);
      if (next.c) next.c = where(on, next.c, state.c);
    }
    made.h[static_cast<size_t>(t)] = y;
    state = next;
  }
  made.last = state;
  return made;
}

RecurrentResult lstm(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, lstm_layer_step, true, "lstm");
}

RecurrentResult gru(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, gru_layer_step, false, "gru");
}

}  // namespace gyrus
