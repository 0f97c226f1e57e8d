#include "ops/recurrent.h"

#include <cmath>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<Shape> shapes_of(const std::vector<TensorType>& types) {
  std::vector<Shape> shapes;
  for (const TensorType& type : types) shapes.push_back(type.shape);
  return shapes;
}

std::vector<Shape> shapes_of(const std::vector<const RefTensor*>& tensors) {
  std::vector<Shape> shapes;
  for (const RefTensor* tensor : tensors) shapes.push_back(tensor->shape);
  return shapes;
}

void expect(const Node& node, const char* what, const TensorType& type, const Shape& shape) {
  if (type.dtype != DType::F32 || type.shape != shape)
    fail(ErrorCode::InvalidGraph, node.op, what, " is ", to_string(type.dtype), to_string(type.shape), ", expected f32",
         to_string(shape));
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"reverse"});
  flag(node, "reverse");
  const size_t matrix = node.op == kLstmBack.name || node.op == kGruBack.name ? 2 : 1;
  if (inputs[0].shape.size() != 3 || inputs[matrix].shape.size() != 2)
    fail(ErrorCode::InvalidGraph, node.op, "its operands are ", to_string(inputs[0].shape), " and a weight ",
         to_string(inputs[matrix].shape), ", expected three and two axes");
  const RecurrentAttrs r = recurrent_attrs(node, shapes_of(inputs));
  if (r.batch * r.steps * r.hidden == 0)
    fail(ErrorCode::Unsupported, node.op, "has ", r.steps, " steps of ", r.batch, " sequences: nothing to go along");
  const int64_t kept = r.lstm ? 2 * r.hidden : r.hidden;
  expect(node, "weight", inputs[matrix], {r.hidden + (r.bias ? 1 : 0), r.gates * r.hidden});
  if (r.back) {
    expect(node, "slopes", inputs[0], {r.batch, r.steps, (r.lstm ? 6 : 5) * r.hidden});
    expect(node, "gradients", inputs[1], {r.batch, r.steps, kept});
    return {{DType::F32, {r.batch, r.steps, 5 * r.hidden}, Layout::Plain}};
  }
  expect(node, "gates", inputs[0], {r.batch, r.steps, r.gates * r.hidden});
  expect(node, "start", inputs[2], {r.batch, kept});
  return {{DType::F32, {r.batch, r.steps, kept}, Layout::Plain}};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// The step that comes k-th, and where its rows of `width` begin.
size_t row_of(const RecurrentAttrs& r, int64_t b, int64_t k, bool reverse, int64_t width) {
  return static_cast<size_t>((b * r.steps + (reverse ? r.steps - 1 - k : k)) * width);
}

void reference_steps(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RecurrentAttrs r = recurrent_attrs(node, shapes_of(inputs));
  const auto n = static_cast<size_t>(r.hidden), wide = static_cast<size_t>(r.gates) * n;
  const size_t kept = r.lstm ? 2 * n : n;
  for (int64_t b = 0; b < r.batch; ++b) {
    const auto first = inputs[2]->data.begin() + b * static_cast<int64_t>(kept);
    std::vector<double> state(first, first + static_cast<int64_t>(kept)), sums(wide);
    for (int64_t k = 0; k < r.steps; ++k) {
      const double* gates = inputs[0]->data.data() + row_of(r, b, k, r.reverse, static_cast<int64_t>(wide));
      for (size_t j = 0; j < wide; ++j) {
        sums[j] = r.bias ? inputs[1]->data[n * wide + j] : 0;
        for (size_t i = 0; i < n; ++i) sums[j] += state[i] * inputs[1]->data[i * wide + j];
      }
      for (size_t u = 0; u < n; ++u) {
        if (r.lstm) {
          const double in = sigmoid_of(gates[u] + sums[u]), keep = sigmoid_of(gates[n + u] + sums[n + u]);
          const double cell = std::tanh(gates[2 * n + u] + sums[2 * n + u]);
          state[n + u] = keep * state[n + u] + in * cell;
          state[u] = sigmoid_of(gates[3 * n + u] + sums[3 * n + u]) * std::tanh(state[n + u]);
        } else {
          const double reset = sigmoid_of(gates[u] + sums[u]), z = sigmoid_of(gates[n + u] + sums[n + u]);
          const double fresh = std::tanh(gates[2 * n + u] + reset * sums[2 * n + u]);
          state[u] = fresh + z * (state[u] - fresh);
        }
      }
      std::copy(state.begin(), state.end(),
                outputs[0].data.begin() + static_cast<int64_t>(row_of(r, b, k, r.reverse, static_cast<int64_t>(kept))));
    }
  }
}

void reference_back(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RecurrentAttrs r = recurrent_attrs(node, shapes_of(inputs));
  const auto n = static_cast<size_t>(r.hidden), wide = static_cast<size_t>(r.gates) * n;
  for (int64_t b = 0; b < r.batch; ++b) {
    std::vector<double> behind(5 * n, 0);
    for (int64_t k = 0; k < r.steps; ++k) {
      const double* s = inputs[0]->data.data() + row_of(r, b, k, !r.reverse, (r.lstm ? 6 : 5) * r.hidden);
      const double* g = inputs[1]->data.data() + row_of(r, b, k, !r.reverse, (r.lstm ? 2 : 1) * r.hidden);
      double* out = outputs[0].data.data() + row_of(r, b, k, !r.reverse, 5 * r.hidden);
      for (size_t u = 0; u < n; ++u) {
        double dh = g[u];
        for (size_t j = 0; j < wide; ++j) dh += inputs[2]->data[u * wide + j] * behind[j];
        if (r.lstm) {
          const double dc = g[n + u] + dh * s[4 * n + u] + behind[4 * n + u];
          for (size_t q = 0; q < 3; ++q) out[q * n + u] = dc * s[q * n + u];
          out[3 * n + u] = dh * s[3 * n + u];
          out[4 * n + u] = dc * s[5 * n + u];
        } else {
          dh += behind[4 * n + u];
          const double fresh = dh * s[2 * n + u];
          out[u] = fresh * s[u];
          out[n + u] = dh * s[n + u];
          out[2 * n + u] = fresh * s[3 * n + u];
          out[3 * n + u] = fresh;
          out[4 * n + u] = dh * s[4 * n + u];
        }
      }
      std::copy(out, out + 5 * n, behind.begin());
    }
  }
}

// Part q of an axis that holds parts of H.
Value part(Value x, int64_t q, int64_t hidden) {
  return slice_of(x, x.shape().size() - 1, q * hidden, (q + 1) * hidden);
}

Value at_step(Value x, int64_t t) { return reshape(slice_of(x, 1, t, t + 1), {x.shape()[0], x.shape()[2]}); }

Value joined_steps(const std::vector<Value>& steps) {
  std::vector<Value> rows;
  for (const Value& x : steps) rows.push_back(reshape(x, {x.shape()[0], 1, x.shape()[1]}));
  return rows.size() == 1 ? rows[0] : concat(rows, 1);
}

struct Operands {
  RecurrentAttrs r;
  Value first, second, weight, bias;  // weight [H, gates H]
};

Operands operands_of(Graph& graph, const Node& node) {
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(graph.type(id).shape);
  Operands o;
  o.r = recurrent_attrs(node, shapes);
  o.first = Value(graph, node.inputs[0]);
  o.second = Value(graph, node.inputs[o.r.back ? 1 : 2]);
  o.weight = Value(graph, node.inputs[o.r.back ? 2 : 1]);
  if (o.r.bias) {
    o.bias = slice_of(o.weight, 0, o.r.hidden, o.r.hidden + 1);
    o.weight = slice_of(o.weight, 0, 0, o.r.hidden);
  }
  return o;
}

// A node for every step.
std::vector<ValueId> decompose_steps(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Operands o = operands_of(graph, node);
  const int64_t n = o.r.hidden;
  Value h = part(o.second, 0, n), c = o.r.lstm ? part(o.second, 1, n) : Value{};
  std::vector<Value> all(static_cast<size_t>(o.r.steps));
  for (int64_t k = 0; k < o.r.steps; ++k) {
    const int64_t t = o.r.reverse ? o.r.steps - 1 - k : k;
    const Value gates = at_step(o.first, t);
    Value own = matmul(h, o.weight);
    if (o.bias) own = own + o.bias;
    const auto sum = [&](int64_t q) { return part(gates, q, n) + part(own, q, n); };
    if (o.r.lstm) {
      c = sigmoid(sum(1)) * c + sigmoid(sum(0)) * tanh(sum(2));
      h = sigmoid(sum(3)) * tanh(c);
    } else {
      const Value fresh = tanh(part(gates, 2, n) + sigmoid(sum(0)) * part(own, 2, n));
      h = fresh + sigmoid(sum(1)) * (h - fresh);
    }
    all[static_cast<size_t>(t)] = o.r.lstm ? concat({h, c}, 1) : h;
  }
  return {joined_steps(all).id()};
}

std::vector<ValueId> decompose_back(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Operands o = operands_of(graph, node);
  const int64_t n = o.r.hidden;
  std::vector<Value> all(static_cast<size_t>(o.r.steps));
  Value behind;
  for (int64_t k = 0; k < o.r.steps; ++k) {
    const int64_t t = o.r.reverse ? k : o.r.steps - 1 - k;
    const Value s = at_step(o.first, t), g = at_step(o.second, t);
    const auto slope = [&](int64_t q) { return part(s, q, n); };
    Value dh = part(g, 0, n);
    if (behind) dh = dh + matmul(slice_of(behind, 1, 0, o.r.gates * n), o.weight, {.transpose_b = true});
    std::vector<Value> out;
    if (o.r.lstm) {
      Value dc = part(g, 1, n) + dh * slope(4);
      if (behind) dc = dc + part(behind, 4, n);
      out = {dc * slope(0), dc * slope(1), dc * slope(2), dh * slope(3), dc * slope(5)};
    } else {
      if (behind) dh = dh + part(behind, 4, n);
      const Value fresh = dh * slope(2);
      out = {fresh * slope(0), dh * slope(1), fresh * slope(3), fresh, dh * slope(4)};
    }
    all[static_cast<size_t>(t)] = behind = concat(out, 1);
  }
  return {joined_steps(all).id()};
}

// What was before each step of [B,S,…]: `start` [B,…] before the first.
Value before_steps(Value all, Value start, bool reverse) {
  const int64_t steps = all.shape()[1];
  const Value first = reshape(start, {start.shape()[0], 1, start.shape()[1]});
  if (steps == 1) return first;
  return reverse ? concat({slice_of(all, 1, 1, steps), first}, 1) : concat({first, slice_of(all, 1, 0, steps - 1)}, 1);
}

struct WayBack {
  Value sums, gates, past;  // gradients of h weight, of the gates, and of the state past the weights at the first step
};

WayBack back_lstm(const Operands& o, Value before, Value out, Value gradient, Value weight) {
  const int64_t n = o.r.hidden;
  const Value sums = o.first + matmul(part(before, 0, n), o.weight);
  const Value i = sigmoid(part(sums, 0, n)), f = sigmoid(part(sums, 1, n)), g = tanh(part(sums, 2, n)),
              s = sigmoid(part(sums, 3, n)), cell = tanh(part(out, 1, n));
  const Value slopes = concat({g * i * (1.0 - i), part(before, 1, n) * f * (1.0 - f), i * (1.0 - g * g),
                               cell * s * (1.0 - s), s * (1.0 - cell * cell), f},
                              2);
  const Value back = apply("lstm_back", {slopes, gradient, weight}, {{"reverse", int64_t{o.r.reverse}}});
  const Value of_sums = slice_of(back, 2, 0, 4 * n);
  return {of_sums, of_sums, part(back, 4, n)};
}

WayBack back_gru(const Operands& o, Value before, Value gradient, Value weight) {
  const int64_t n = o.r.hidden;
  Value own = matmul(before, o.weight);
  if (o.bias) own = own + o.bias;
  const Value fresh_own = part(own, 2, n);
  const Value r = sigmoid(part(o.first, 0, n) + part(own, 0, n)), z = sigmoid(part(o.first, 1, n) + part(own, 1, n)),
              fresh = tanh(part(o.first, 2, n) + r * fresh_own);
  const Value slopes =
      concat({fresh_own * r * (1.0 - r), (before - fresh) * z * (1.0 - z), (1.0 - z) * (1.0 - fresh * fresh), r, z}, 2);
  const Value back = apply("gru_back", {slopes, gradient, weight}, {{"reverse", int64_t{o.r.reverse}}});
  return {slice_of(back, 2, 0, 3 * n), concat({slice_of(back, 2, 0, 2 * n), part(back, 3, n)}, 2), part(back, 4, n)};
}

std::vector<Value> gradient_steps(const Backward& back) {
  const Operands o = operands_of(back.inputs[0].graph(), back.node);
  const int64_t n = o.r.hidden, wide = o.r.gates * n, rows = o.r.batch * o.r.steps;
  const Value before = before_steps(back.outputs[0], o.second, o.r.reverse);
  const WayBack way = o.r.lstm ? back_lstm(o, before, back.outputs[0], back.gradients[0], back.inputs[1])
                               : back_gru(o, before, back.gradients[0], back.inputs[1]);
  const Value flat = reshape(way.sums, {rows, wide});
  Value weight = matmul(reshape(part(before, 0, n), {rows, n}), flat, {.transpose_a = true});
  if (o.bias) weight = concat({weight, reduce_sum(flat, {{0}, true})}, 0);
  const int64_t first = o.r.reverse ? o.r.steps - 1 : 0;
  const Value through = matmul(at_step(way.sums, first), o.weight, {.transpose_b = true});
  const Value past = at_step(way.past, first);
  return {way.gates, weight, o.r.lstm ? concat({through, past}, 1) : through + past};
}

double flops_of(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const RecurrentAttrs r = recurrent_attrs(node, shapes_of(inputs));
  return 2.0 * static_cast<double>(r.batch * r.steps * r.gates) * static_cast<double>(r.hidden * r.hidden);
}

}  // namespace

RecurrentAttrs recurrent_attrs(const Node& node, const std::vector<Shape>& inputs) {
  RecurrentAttrs r;
  r.lstm = node.op == kLstmSteps.name || node.op == kLstmBack.name;
  r.back = node.op == kLstmBack.name || node.op == kGruBack.name;
  r.gates = r.lstm ? 4 : 3;
  r.batch = inputs[0][0];
  r.steps = inputs[0][1];
  const Shape& weight = inputs[r.back ? 2 : 1];
  r.hidden = weight[1] / r.gates;
  r.bias = !r.lstm && weight[0] == r.hidden + 1;
  r.reverse = flag(node, "reverse");
  return r;
}

const OpDef kLstmSteps = {
    .name = "lstm_steps",
    .infer = infer,
    .reference = reference_steps,
    .gradient = gradient_steps,
    .decompose = decompose_steps,
    .has_kernel = true,
    .flops = flops_of,
};

const OpDef kGruSteps = {
    .name = "gru_steps",
    .infer = infer,
    .reference = reference_steps,
    .gradient = gradient_steps,
    .decompose = decompose_steps,
    .has_kernel = true,
    .flops = flops_of,
};

const OpDef kLstmBack = {
    .name = "lstm_back",
    .infer = infer,
    .reference = reference_back,
    .decompose = decompose_back,
    .has_kernel = true,
    .flops = flops_of,
};

const OpDef kGruBack = {
    .name = "gru_back",
    .infer = infer,
    .reference = reference_back,
    .decompose = decompose_back,
    .has_kernel = true,
    .flops = flops_of,
};

}  // namespace gyrus
