#include "nn/recurrent.h"

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

// The start of one direction of one layer, [B, H].
Value start(Value given, size_t index, const Value& x, int64_t hidden) {
  const int64_t batch = x.shape()[0];
  if (!given) return x.graph().constant(Tensor(DType::F32, {batch, hidden}));
  const auto at = static_cast<int64_t>(index);
  return reshape(slice_axis(given, 0, at, at + 1), {batch, hidden});
}

// One direction of one layer: x [B, S, I] to all h [B, S, H], and the last h and c.
struct Direction {
  Value h, last_h, last_c;
};

Direction direction(Value x, const RecurrentWeights& w, Value h0, Value c0, bool backwards, bool lstm) {
  const int64_t hidden = w.hidden.shape().at(1), last = backwards ? 0 : x.shape()[1] - 1;
  Value gates = linear(x, w.input, w.input_bias);
  if (lstm && w.hidden_bias) gates = gates + w.hidden_bias;
  Value weight = transpose(w.hidden, {1, 0});
  if (!lstm && w.hidden_bias) weight = concat({weight, reshape(w.hidden_bias, {1, 3 * hidden})}, 0);
  const Value all = recurrent_steps(gates, weight, lstm ? concat({h0, c0}, 1) : h0, backwards, lstm);
  const auto at_end = [&](Value y) { return reshape(slice_axis(y, 1, last, last + 1), h0.shape()); };
  if (!lstm) return {all, at_end(all), {}};
  const Value h = slice_axis(all, 2, 0, hidden);
  return {h, at_end(h), at_end(slice_axis(all, 2, hidden, 2 * hidden))};
}

RecurrentResult run(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options, bool lstm) {
  const size_t directions = options.bidirectional ? 2 : 1;
  if (!x || x.shape().size() != 3 || layers.empty() || layers.size() % directions != 0)
    fail(ErrorCode::InvalidGraph, lstm ? "lstm" : "gru", "expected x [B, S, I] and weights for ", directions,
         " direction(s) of each layer");
  std::vector<Value> last_h, last_c;
  for (size_t l = 0; l < layers.size(); l += directions) {
    std::vector<Value> sides;
    for (size_t d = 0; d < directions; ++d) {
      const RecurrentWeights& w = layers[l + d];
      const int64_t hidden = w.hidden.shape().at(1);
      const Direction made = direction(x, w, start(options.h0, l + d, x, hidden),
                                       lstm ? start(options.c0, l + d, x, hidden) : Value{}, d == 1, lstm);
      sides.push_back(made.h);
      last_h.push_back(made.last_h);
      last_c.push_back(made.last_c);
    }
    x = sides.size() == 1 ? sides[0] : concat(sides, 2);
  }
  return {x, stack(last_h, 0), lstm ? stack(last_c, 0) : Value{}};
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

Value recurrent_steps(Value gates, Value weight, Value start, bool backwards, bool lstm) {
  return apply(lstm ? "lstm_steps" : "gru_steps", {gates, weight, start}, {{"reverse", int64_t{backwards}}});
}

RecurrentResult lstm(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, true);
}

RecurrentResult gru(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options) {
  return run(x, layers, options, false);
}

}  // namespace gyrus
