#pragma once
#include <functional>
#include <vector>

#include "gyrus/nn.h"

// The steps of recurrent layers, from which gyrus/nn.h and the importer of ONNX put theirs together.

namespace gyrus {

struct RecurrentState {
  Value h, c{};  // [B, H]; c of LSTMs alone
};

// What a gate's sum goes through.
using Activation = std::function<Value(Value)>;

// An LSTM's sums [B, H] of input and state for each gate.
struct LstmSums {
  Value input, forget, cell, output;
};
struct LstmWays {
  Activation gate = [](Value x) { return sigmoid(x); };
  Activation cell = [](Value x) { return tanh(x); };
  Activation output = [](Value x) { return tanh(x); };           // of the new cell
  Value input_peephole{}, forget_peephole{}, output_peephole{};  // [H]: the cell's weights in the gates
  bool coupled = false;                                          // what is not let in is kept
};
RecurrentState lstm_step(const LstmSums& sums, const RecurrentState& state, const LstmWays& ways = {});

// A GRU's sums [B, H] of input and state for its gates; that of the candidate, which the reset gate takes part in, is
// made by a function of it.
struct GruSums {
  Value reset, update;
  std::function<Value(Value reset)> candidate;
};
struct GruWays {
  Activation gate = [](Value x) { return sigmoid(x); };
  Activation cell = [](Value x) { return tanh(x); };
};
RecurrentState gru_step(const GruSums& sums, const RecurrentState& state, const GruWays& ways = {});

// One direction of an LSTM or a GRU over all steps by one kernel, [B, S, …]: the ops of ops/recurrent.h.
Value recurrent_steps(Value gates, Value weight, Value start, bool backwards, bool lstm);

// One direction: step(t, state) for every t, first to last or backwards. Where `running` is given it says for each
// sequence of the batch, [B, 1], whether step t belongs to it: if not, the state stays and the result is 0.
struct Unrolled {
  std::vector<Value> h;  // by t
  RecurrentState last;
};
Unrolled unroll(int64_t steps, bool backwards, RecurrentState state,
                const std::function<RecurrentState(int64_t t, const RecurrentState&)>& step,
                const std::function<Value(int64_t t)>& running = {});

}  // namespace gyrus
