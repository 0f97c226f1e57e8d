// Recurrent networks, unrolled over their steps.

#include <algorithm>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

// An activation by its ONNX name, with its numbers.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  bool has_alpha = false, has_beta = false;

  Val operator()(Val x) const {
    const double a = alpha, b = beta;
    if (name == "sigmoid") return op("sigmoid", {x});
    if (name == "tanh") return op("tanh", {x});
    if (name == "relu") return op("relu", {x});
    if (name == "affine") return x * (has_alpha ? a : 1) + b;
    if (name == "leakyrelu") return op("leaky_relu", {x}, {{"alpha", has_alpha ? a : 0.01}});
    if (name == "thresholdedrelu") return op("thresholded_relu", {x}, {{"alpha", has_alpha ? a : 1}});
    if (name == "scaledtanh") return op("tanh", {x * (has_beta ? b : 1)}) * (has_alpha ? a : 1);
    if (name == "hardsigmoid")
      return op("hard_sigmoid", {x}, {{"alpha", has_alpha ? a : 0.2}, {"beta", has_beta ? b : 0.5}});
    if (name == "elu") return op("elu", {x}, {{"alpha", has_alpha ? a : 1}});
    if (name == "softsign") return op("softsign", {x});
    if (name == "softplus") return op("softplus", {x});
    unsupported(cat("activation ", in_quotes(name)));
  }
};

struct Recurrent {
  Ctx& c;
  int64_t gates;
  Val x;  // [S,B,I]
  int64_t steps = 0, batch = 0, hidden = 0, directions = 1;
  bool batch_first = false;
  std::vector<Activation> activations;  // as many for each direction
  double clip = 0;

  Recurrent(Ctx& context, int64_t gate_count, const std::vector<std::string>& defaults)
      : c(context), gates(gate_count) {
    x = c.in(0);
    batch_first = c.integer("layout", 0) != 0;
    if (batch_first) x = swap_axes(x, 0, 1);
    steps = x.extent(0);
    batch = x.extent(1);
    hidden = c.in(2).extent(2);
    const std::string direction = c.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      invalid(cat("direction is ", in_quotes(direction)));
    directions = direction == "bidirectional" ? 2 : 1;
    clip = c.number("clip", 0);
    std::vector<std::string> names = c.texts("activations");
    const std::vector<double> alphas = c.numbers("activation_alpha"), betas = c.numbers("activation_beta");
    for (size_t i = 0; i < defaults.size() * static_cast<size_t>(directions); ++i) {
      Activation a;
      a.name = i < names.size() ? names[i] : defaults[i % defaults.size()];
      std::transform(a.name.begin(), a.name.end(), a.name.begin(),
                     [](char ch) { return ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch - 'A' + 'a') : ch; });
      a.has_alpha = i < alphas.size();
      a.has_beta = i < betas.size();
      a.alpha = a.has_alpha ? alphas[i] : 0;
      a.beta = a.has_beta ? betas[i] : 0;
      activations.push_back(a);
    }
  }

  bool backwards(int64_t d) const { return c.text("direction", "forward") == "reverse" || d == 1; }
  // Row d of an operand with one row for each direction.
  Val row(size_t operand, int64_t d) const { return squeeze(slice(c.in(operand), 0, d, d + 1), 0); }
  Val start(size_t operand, int64_t d) const {
    if (!c.has(operand)) return filled(x, {batch, hidden}, 0);
    const Val given = batch_first ? swap_axes(c.in(operand), 0, 1) : c.in(operand);
    return squeeze(slice(given, 0, d, d + 1), 0);
  }
  Val clipped(Val v) const {
    if (clip <= 0) return v;
    return op("min", {op("max", {v, scalar(v, -clip)}), scalar(v, clip)});
  }
  // x Wᵀ + b for all steps at once: [S,B,gates·H]; halves of the bias for input and state.
  Val inputs(int64_t d) const {
    Val y = matmul(x, unsqueeze(row(1, d), 0), false, true);
    if (c.has(3)) y = y + slice(row(3, d), 0, 0, gates * hidden);
    return y;
  }
  Val state_bias(int64_t d) const { return c.has(3) ? slice(row(3, d), 0, gates * hidden, 2 * gates * hidden) : Val{}; }
  Val gate(Val all, int64_t k) const { return slice(all, all.rank() - 1, k * hidden, (k + 1) * hidden); }
  // Where a sequence has ended, what was before stays.
  Val running(int64_t t) const {
    if (!c.has(4)) return {};
    if (c.in(4).is_constant()) {
      const Ints lengths = integers(c.in(4).constant());
      if (std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n >= steps; })) return {};
    }
    const Val length = cast(c.in(4), Elem::I32);
    return reshape(op("greater", {length, scalar(length, static_cast<double>(t))}), {batch, 1});
  }

  // y [S,D,B,H] from the rows of each direction, and the last states [D,B,H].
  Val sequence(const std::vector<Vals>& rows) const {
    Vals all;
    for (const Vals& direction : rows) {
      Vals parts;
      for (const Val& part : direction) parts.push_back(reshape(part, {1, 1, batch, hidden}));
      all.push_back(concat(parts, 0));
    }
    const Val y = concat(all, 1);
    return batch_first ? transpose(y, {2, 0, 1, 3}) : y;
  }
  Val last(const Vals& states) const {
    Vals all;
    for (const Val& state : states) all.push_back(unsqueeze(state, 0));
    const Val y = concat(all, 0);
    return batch_first ? swap_axes(y, 0, 1) : y;
  }

  // step(d, t, h, c) gives the new pair; c is absent for networks without a cell.
  template <class Step>
  Vals run(bool has_cell, Step step) const {
    std::vector<Vals> rows;
    Vals last_h, last_c;
    for (int64_t d = 0; d < directions; ++d) {
      Val h = start(5, d), cell = has_cell ? start(6, d) : Val{};
      Vals outputs(static_cast<size_t>(steps));
      auto one = step(d);
      for (int64_t i = 0; i < steps; ++i) {
        const int64_t t = backwards(d) ? steps - 1 - i : i;
        auto [next_h, next_c] = one(t, h, cell);
        Val y = next_h;
        if (const Val on = running(t)) {
          y = where(on, next_h, scalar(next_h, 0));
          next_h = where(on, next_h, h);
          if (has_cell) next_c = where(on, next_c, cell);
        }
        outputs[static_cast<size_t>(t)] = y;
        h = next_h;
        cell = next_c;
      }
      rows.push_back(std::move(outputs));
      last_h.push_back(h);
      last_c.push_back(cell);
    }
    Vals results = {sequence(rows), last(last_h)};
    if (has_cell) results.push_back(last(last_c));
    return results;
  }
};

Vals rnn(Ctx& c) {
  const Recurrent r(c, 1, {"Tanh"});
  return r.run(false, [&](int64_t d) {
    const Val x = r.inputs(d), w = r.row(2, d), bias = r.state_bias(d);
    const Activation f = r.activations[static_cast<size_t>(d)];
    return [=, &r](int64_t t, Val h, Val) {
      Val sum = squeeze(slice(x, 0, t, t + 1), 0) + matmul(h, w, false, true);
      if (bias) sum = sum + bias;
      return std::pair<Val, Val>{f(r.clipped(sum)), {}};
    };
  });
}

Vals gru(Ctx& c) {
  const Recurrent r(c, 3, {"Sigmoid", "Tanh"});
  const bool linear_first = c.integer("linear_before_reset", 0) != 0;
  return r.run(false, [&, linear_first](int64_t d) {
    const Val x = r.inputs(d), w = r.row(2, d);
    Val bias = r.state_bias(d);
    if (!bias) bias = filled(r.x, {3 * r.hidden}, 0);
    const Activation f = r.activations[static_cast<size_t>(2 * d)], g = r.activations[static_cast<size_t>(2 * d + 1)];
    return [=, &r](int64_t t, Val h, Val) {
      const Val xt = squeeze(slice(x, 0, t, t + 1), 0);
      const int64_t n = r.hidden;
      const Val zr = matmul(h, slice(w, 0, 0, 2 * n), false, true) + slice(bias, 0, 0, 2 * n);
      const Val z = f(r.clipped(r.gate(xt, 0) + r.gate(zr, 0))), reset = f(r.clipped(r.gate(xt, 1) + r.gate(zr, 1)));
      const Val wh = slice(w, 0, 2 * n, 3 * n), bh = slice(bias, 0, 2 * n, 3 * n);
      const Val inner =
          linear_first ? reset * (matmul(h, wh, false, true) + bh) : matmul(reset * h, wh, false, true) + bh;
      const Val candidate = g(r.clipped(r.gate(xt, 2) + inner));
      return std::pair<Val, Val>{(1.0 - z) * candidate + z * h, {}};
    };
  });
}

Vals lstm(Ctx& c) {
  const Recurrent r(c, 4, {"Sigmoid", "Tanh", "Tanh"});
  const bool coupled = c.integer("input_forget", 0) != 0;
  return r.run(true, [&, coupled](int64_t d) {
    const Val x = r.inputs(d), w = r.row(2, d), bias = r.state_bias(d);
    const Val peephole = c.has(7) ? r.row(7, d) : Val{};
    const size_t at = static_cast<size_t>(3 * d);
    const Activation f = r.activations[at], g = r.activations[at + 1], out = r.activations[at + 2];
    return [=, &r](int64_t t, Val h, Val cell) {
      Val all = squeeze(slice(x, 0, t, t + 1), 0) + matmul(h, w, false, true);
      if (bias) all = all + bias;
      const auto peep = [&](Val sum, int64_t k, Val of) {
        return peephole ? sum + slice(peephole, 0, k * r.hidden, (k + 1) * r.hidden) * of : sum;
      };
      const Val i = f(r.clipped(peep(r.gate(all, 0), 0, cell)));
      const Val forget = coupled ? 1.0 - i : f(r.clipped(peep(r.gate(all, 2), 2, cell)));
      const Val next = forget * cell + i * g(r.clipped(r.gate(all, 3)));
      const Val o = f(r.clipped(peep(r.gate(all, 1), 1, next)));
      return std::pair<Val, Val>{o * out(next), next};
    };
  });
}

}  // namespace

void add_recurrent_ops(OpTable& t) {
  t["RNN"] = rnn;
  t["GRU"] = gru;
  t["LSTM"] = lstm;
}

}  // namespace gyrus::onnx
