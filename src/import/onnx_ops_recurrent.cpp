// Recurrent networks: by one kernel over all steps where they are plain, else unrolled over their steps.

#include <algorithm>

#include "import/onnx_ops.h"
#include "nn/recurrent.h"
#include "nn/taps.h"

namespace gyrus::onnx {
namespace {

// An activation by its ONNX name, with its numbers.
struct Named {
  std::string name;
  double alpha = 0, beta = 0;
  bool has_alpha = false, has_beta = false;

  Value operator()(Value x) const {
    const double a = alpha, b = beta;
    if (name == "sigmoid") return sigmoid(x);
    if (name == "tanh") return tanh(x);
    if (name == "relu") return relu(x);
    if (name == "affine") return x * (has_alpha ? a : 1) + b;
    if (name == "leakyrelu") return apply("leaky_relu", {x}, {{"alpha", has_alpha ? a : 0.01}});
    if (name == "thresholdedrelu") return apply("thresholded_relu", {x}, {{"alpha", has_alpha ? a : 1}});
    if (name == "scaledtanh") return tanh(x * (has_beta ? b : 1)) * (has_alpha ? a : 1);
    if (name == "hardsigmoid") return hard_sigmoid(x, has_alpha ? a : 0.2, has_beta ? b : 0.5);
    if (name == "elu") return apply("elu", {x}, {{"alpha", has_alpha ? a : 1}});
    if (name == "softsign") return apply("softsign", {x});
    if (name == "softplus") return apply("softplus", {x});
    unsupported(cat("activation ", in_quotes(name)));
  }
};

// One node: what its attributes say, and its operands as functions of gyrus/nn.h take them.
struct Recurrent {
  Ctx& c;
  int64_t gates;
  int64_t steps = 0, batch = 0, hidden = 0, directions = 1;
  bool batch_first = false, reverse = false, lengths_matter = false;
  std::vector<Named> names;  // as many for each direction
  double clip = 0;
  Values in;  // the operands; x is [S,B,I]

  Recurrent(Ctx& context, int64_t gate_count, const std::vector<std::string>& defaults)
      : c(context), gates(gate_count) {
    batch_first = c.integer("layout", 0) != 0;
    steps = c.in(0).extent(batch_first ? 1 : 0);
    batch = c.in(0).extent(batch_first ? 0 : 1);
    hidden = c.in(2).extent(2);
    const std::string direction = c.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      invalid(cat("direction is ", in_quotes(direction)));
    directions = direction == "bidirectional" ? 2 : 1;
    reverse = direction == "reverse";
    clip = c.number("clip", 0);
    lengths_matter = c.has(4);
    if (c.has(4) && c.in(4).is_constant()) {
      const Ints lengths = integers(c.in(4).constant());
      lengths_matter = !std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n >= steps; });
    }
    read_activations(defaults);
  }

  void read_activations(const std::vector<std::string>& defaults) {
    const std::vector<std::string> given = c.texts("activations");
    const std::vector<double> alphas = c.numbers("activation_alpha"), betas = c.numbers("activation_beta");
    for (size_t i = 0; i < defaults.size() * static_cast<size_t>(directions); ++i) {
      Named a;
      a.name = i < given.size() ? given[i] : defaults[i % defaults.size()];
      std::transform(a.name.begin(), a.name.end(), a.name.begin(),
                     [](char ch) { return ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch - 'A' + 'a') : ch; });
      a.has_alpha = i < alphas.size();
      a.has_beta = i < betas.size();
      a.alpha = a.has_alpha ? alphas[i] : 0;
      a.beta = a.has_beta ? betas[i] : 0;
      names.push_back(a);
    }
  }

  // The k-th activation of a direction, of a clipped sum.
  Activation activation(int64_t d, size_t k, bool clips = true) const {
    const Named named = names[static_cast<size_t>(d) * names.size() / static_cast<size_t>(directions) + k];
    return [named, limit = clips ? clip : 0](Value x) {
      if (limit > 0) x = min(max(x, scalar(x, -limit)), scalar(x, limit));
      return named(x);
    };
  }

  static std::vector<std::string> defaults_of(bool lstm) {
    return lstm ? std::vector<std::string>{"sigmoid", "tanh", "tanh"} : std::vector<std::string>{"sigmoid", "tanh"};
  }

  bool has(size_t i) const { return i < in.size() && in[i]; }
  // Row d of a value with one row for each direction.
  static Value row(Value x, int64_t d) {
    Shape shape = x.shape();
    shape.erase(shape.begin());
    return reshape(slice_axis(x, 0, d, d + 1), shape);
  }
  Value rows(size_t operand, int64_t d, int64_t first, int64_t count) const {
    return slice_axis(row(in[operand], d), 0, first * hidden, (first + count) * hidden);
  }
  Value swapped(Value x) const {
    std::vector<int64_t> perm = range(static_cast<int64_t>(x.shape().size()));
    std::swap(perm[0], perm[1]);
    return batch_first ? transpose(x, perm) : x;
  }
  Value start(size_t operand, int64_t d) const {
    if (has(operand)) return row(swapped(in[operand]), d);
    return in[0].graph().constant(Tensor(in[0].dtype(), {batch, hidden}));
  }
  // x Wᵀ + b of all steps: [S,B,gates·H]. The other half of the bias is the state's.
  Value inputs(int64_t d) const { return linear(swapped(in[0]), row(in[1], d), bias(d, 0, gates)); }
  Value bias(int64_t d, int64_t first, int64_t count) const { return has(3) ? rows(3, d, first, count) : Value{}; }
  Value at(Value all, int64_t t) const { return row(all, t); }
  Value gate(Value sums, int64_t k) const { return slice_axis(sums, 1, k * hidden, (k + 1) * hidden); }
  // Which sequences have not ended, [B,1].
  Value running(int64_t t) const {
    const Value length = cast(in[4], DType::I32);
    return reshape(greater(length, scalar(length, static_cast<double>(t))), {batch, 1});
  }

  using Step = std::function<RecurrentState(int64_t t, const RecurrentState&)>;

  // Whether a direction is what the op of gyrus computes.
  bool is_plain(int64_t d, const std::vector<std::string>& defaults) const {
    if (lengths_matter || clip > 0 || has(7) || in[0].dtype() != DType::F32 || steps * batch * hidden == 0)
      return false;
    for (size_t k = 0; k < defaults.size(); ++k)
      if (names[static_cast<size_t>(d) * defaults.size() + k].name != defaults[k]) return false;
    return true;
  }
  // Gates of an operand in the order of gyrus, of so many rows on.
  Value ordered(size_t operand, int64_t d, int64_t first, const std::vector<int64_t>& order) const {
    Values parts;
    for (const int64_t q : order) parts.push_back(rows(operand, d, first + q, 1));
    return gyrus::concat(parts, 0);
  }
  // All h of a direction, [S,B,H], and its last state.
  Unrolled at_once(int64_t d, const std::vector<int64_t>& order, bool lstm) const {
    const Value x = batch_first ? in[0] : transpose(in[0], {1, 0, 2});
    Value weight = transpose(ordered(2, d, 0, order), {1, 0}), bias = has(3) ? ordered(3, d, 0, order) : Value{};
    if (has(3) && lstm) bias = bias + ordered(3, d, gates, order);
    if (has(3) && !lstm) weight = gyrus::concat({weight, reshape(ordered(3, d, gates, order), {1, gates * hidden})}, 0);
    const Value first = lstm ? gyrus::concat({start(5, d), start(6, d)}, 1) : start(5, d);
    const bool backwards = reverse || d == 1;
    const Value all = recurrent_steps(linear(x, ordered(1, d, 0, order), bias), weight, first, backwards, lstm);
    const int64_t last = backwards ? 0 : steps - 1;
    const auto part = [&](int64_t q) { return slice_axis(all, 2, q * hidden, (q + 1) * hidden); };
    const auto at_end = [&](Value y) { return reshape(slice_axis(y, 1, last, last + 1), {batch, hidden}); };
    Unrolled made;
    made.h = {transpose(part(0), {1, 0, 2})};
    made.last = {at_end(part(0)), lstm ? at_end(part(1)) : Value{}};
    return made;
  }

  // `direction(d)` gives the step of direction d; `order` is that of the op's gates in the file's, where there is such
  // an op. y [S,D,B,H], and the last states [D,B,H].
  Vals run(bool has_cell, const std::function<Step(int64_t d)>& direction, const std::vector<int64_t>& order = {}) {
    return built_all(c.all(), [&](const Values& given) {
      in = given;
      Values sides, last_h, last_c;
      for (int64_t d = 0; d < directions; ++d) {
        if (!order.empty() && is_plain(d, defaults_of(has_cell))) {
          const Unrolled made = at_once(d, order, has_cell);
          sides.push_back(made.h[0]);
          last_h.push_back(made.last.h);
          last_c.push_back(made.last.c);
          continue;
        }
        const RecurrentState first{start(5, d), has_cell ? start(6, d) : Value{}};
        std::function<Value(int64_t)> on;
        if (lengths_matter) on = [this](int64_t t) { return running(t); };
        const Unrolled made = unroll(steps, reverse || d == 1, first, direction(d), on);
        sides.push_back(stack(made.h, 0));
        last_h.push_back(made.last.h);
        last_c.push_back(made.last.c);
      }
      const Value y = stack(sides, 1);
      Values results = {batch_first ? transpose(y, {2, 0, 1, 3}) : y, swapped(stack(last_h, 0))};
      if (has_cell) results.push_back(swapped(stack(last_c, 0)));
      return results;
    });
  }
};

Vals rnn(Ctx& c) {
  Recurrent r(c, 1, {"Tanh"});
  return r.run(false, [&](int64_t d) {
    const Value x = r.inputs(d), w = Recurrent::row(r.in[2], d), bias = r.bias(d, 1, 1);
    return [&r, x, w, bias, f = r.activation(d, 0)](int64_t t, const RecurrentState& state) {
      return RecurrentState{f(r.at(x, t) + linear(state.h, w, bias)), {}};
    };
  });
}

// Gates in the order update, reset, candidate.
Vals gru(Ctx& c) {
  Recurrent r(c, 3, {"Sigmoid", "Tanh"});
  const bool reset_first = c.integer("linear_before_reset", 0) == 0;
  return r.run(
      false,
      [&, reset_first](int64_t d) {
        // Where the state is reset before the candidate's weights see it, they cannot be multiplied with the others.
        const int64_t together = reset_first ? 2 : 3;
        const Value x = r.inputs(d), w = r.rows(2, d, 0, together), bias = r.bias(d, 3, together);
        const Value last = r.rows(2, d, 2, 1), last_bias = r.bias(d, 5, 1);
        const GruWays ways{r.activation(d, 0), r.activation(d, 1)};
        return [&r, reset_first, x, w, bias, last, last_bias, ways](int64_t t, const RecurrentState& state) {
          const Value in = r.at(x, t), own = linear(state.h, w, bias);
          const auto candidate = [&](Value reset) {
            return r.gate(in, 2) + (reset_first ? linear(reset * state.h, last, last_bias) : reset * r.gate(own, 2));
          };
          return gru_step({r.gate(in, 1) + r.gate(own, 1), r.gate(in, 0) + r.gate(own, 0), candidate}, state, ways);
        };
      },
      reset_first ? std::vector<int64_t>{} : std::vector<int64_t>{1, 0, 2});
}

// Gates in the order input, output, forget, cell.
Vals lstm(Ctx& c) {
  Recurrent r(c, 4, {"Sigmoid", "Tanh", "Tanh"});
  return r.run(
      true,
      [&](int64_t d) {
        const Value x = r.inputs(d), w = Recurrent::row(r.in[2], d), bias = r.bias(d, 4, 4);
        LstmWays ways{r.activation(d, 0), r.activation(d, 1), r.activation(d, 2, /*clips=*/false)};
        if (r.has(7)) {
          ways.input_peephole = r.rows(7, d, 0, 1);
          ways.output_peephole = r.rows(7, d, 1, 1);
          ways.forget_peephole = r.rows(7, d, 2, 1);
        }
        ways.coupled = c.integer("input_forget", 0) != 0;
        return [&r, x, w, bias, ways](int64_t t, const RecurrentState& state) {
          const Value sums = r.at(x, t) + linear(state.h, w, bias);
          return lstm_step({r.gate(sums, 0), r.gate(sums, 2), r.gate(sums, 3), r.gate(sums, 1)}, state, ways);
        };
      },
      c.integer("input_forget", 0) != 0 ? std::vector<int64_t>{} : std::vector<int64_t>{0, 2, 3, 1});
}

}  // namespace

void add_recurrent_ops(OpTable& t) {
  t["RNN"] = rnn;
  t["GRU"] = gru;
  t["LSTM"] = lstm;
}

}  // namespace gyrus::onnx
