#include "ops/recurrences.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

// Gradients make states again for as many steps of time together as have so many elements, or as `segment` says.
constexpr int64_t kKeptElements = int64_t{1} << 24;
// What no kernel takes is cut in time until it is as short, so that its states need not all be kept.
constexpr int64_t kShort = 64;

void expect_shape(const Node& node, const char* what, const TensorType& type, const Shape& shape) {
  if (type.dtype != DType::F32 || type.shape != shape)
    fail(ErrorCode::InvalidGraph, node.op, what, " is ", to_string(type.dtype), to_string(type.shape), ", expected f32",
         to_string(shape));
}

void expect_rank(const Node& node, const char* what, const TensorType& type, size_t rank) {
  if (type.dtype != DType::F32 || type.shape.size() != rank)
    fail(ErrorCode::InvalidGraph, node.op, what, " is ", to_string(type.dtype), to_string(type.shape),
         ", expected f32 of ", rank, " axes");
}

void check_segment(const Node& node) {
  if (const int64_t steps = node.attrs.integer("segment", 0); steps < 0)
    fail(ErrorCode::InvalidGraph, node.op, "segment is ", steps, ", expected steps of time, or 0 to leave it open");
}

Value operand(Graph& graph, const Node& node, size_t i) {
  return has_input(node, i, node.inputs.size()) ? Value(graph, node.inputs[i]) : Value{};
}

std::vector<Value> results_of(Graph& graph, const char* op, const std::vector<Value>& operands) {
  Node node;
  node.op = op;
  for (const Value& value : operands) node.inputs.push_back(value.id());
  while (node.inputs.back() == kNoValue) node.inputs.pop_back();
  std::vector<Value> made;
  for (ValueId id : graph.add_node(std::move(node))) made.emplace_back(graph, id);
  return made;
}

Value in_time(Value x, int64_t begin, int64_t end) { return slice_of(x, 1, begin, end); }

// Parts along time one after another: the carried state goes from each to the next.
std::vector<ValueId> halves(Graph& graph, const Node& node, const std::vector<size_t>& timed, size_t state) {
  const int64_t steps = graph.type(node.inputs[0]).shape[1], middle = steps / 2;
  std::vector<Value> ys;
  Value carried = operand(graph, node, state);
  for (const auto& [begin, end] : {std::pair{int64_t{0}, middle}, std::pair{middle, steps}}) {
    std::vector<Value> operands;
    for (size_t i = 0; i < state; ++i) {
      const Value x = operand(graph, node, i);
      const bool cut = std::find(timed.begin(), timed.end(), i) != timed.end();
      operands.push_back(cut ? in_time(x, begin, end) : x);
    }
    operands.push_back(carried);
    const std::vector<Value> made = results_of(graph, node.op.c_str(), operands);
    ys.push_back(made[0]);
    carried = made[1];
  }
  return {concat(ys, 1).id(), carried.id()};
}

std::vector<std::pair<int64_t, int64_t>> segments(const Node& node, int64_t steps, int64_t state_elements) {
  const int64_t asked = node.attrs.integer("segment", 0);
  const int64_t length =
      std::clamp<int64_t>(asked > 0 ? asked : kKeptElements / std::max<int64_t>(1, state_elements), 1, steps);
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t at = 0; at < steps; at += length) parts.emplace_back(at, std::min(steps, at + length));
  return parts;
}

// ---- Selective scan

struct SelectiveShape {
  int64_t batch, steps, channels, states;
};

SelectiveShape selective_shape(const Shape& x, const Shape& rates) { return {x[0], x[1], x[2], rates[1]}; }

std::vector<TensorType> infer_selective(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 5, 6, {"segment"});
  check_segment(node);
  expect_rank(node, "x", inputs[0], 3);
  expect_rank(node, "A", inputs[2], 2);
  const SelectiveShape s = selective_shape(inputs[0].shape, inputs[2].shape);
  expect_shape(node, "dt", inputs[1], inputs[0].shape);
  expect_shape(node, "A", inputs[2], {s.channels, s.states});
  expect_shape(node, "B", inputs[3], {s.batch, s.steps, s.states});
  expect_shape(node, "C", inputs[4], {s.batch, s.steps, s.states});
  if (has_input(node, inputs, 5)) expect_shape(node, "start", inputs[5], {s.batch, s.channels, s.states});
  if (element_count(inputs[0].shape) == 0 || s.states == 0)
    fail(ErrorCode::Unsupported, node.op, "x is ", to_string(inputs[0].shape), " with ", s.states,
         " states: nothing to go along");
  return {{DType::F32, inputs[0].shape, Layout::Plain}, {DType::F32, {s.batch, s.channels, s.states}, Layout::Plain}};
}

void reference_selective(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const SelectiveShape s = selective_shape(inputs[0]->shape, inputs[2]->shape);
  RefTensor& last = outputs[1];
  if (has_input(inputs, 5)) last.data = inputs[5]->data;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.steps; ++t)
      for (int64_t c = 0; c < s.channels; ++c) {
        const auto at = static_cast<size_t>((b * s.steps + t) * s.channels + c);
        const double dt = inputs[1]->data[at], x = inputs[0]->data[at];
        double y = 0;
        for (int64_t n = 0; n < s.states; ++n) {
          double& h = last.data[static_cast<size_t>((b * s.channels + c) * s.states + n)];
          const auto row = static_cast<size_t>((b * s.steps + t) * s.states + n);
          h = std::exp(dt * inputs[2]->data[static_cast<size_t>(c * s.states + n)]) * h + dt * inputs[3]->data[row] * x;
          y += inputs[4]->data[row] * h;
        }
        outputs[0].data[at] = y;
      }
}

// The linear recurrence of a stretch of time with all its states, [B,S,H,N].
struct Stretch {
  SelectiveShape s;
  Value dt, rates, b_row, factors, added, states;  // b_row [B,S,1,N]
};

Stretch stretch_of(Value x, Value dt, Value rates, Value b, Value start) {
  Stretch made;
  made.s = selective_shape(x.shape(), rates.shape());
  const auto& [batch, steps, channels, n] = made.s;
  made.rates = rates;
  made.dt = reshape(dt, {batch, steps, channels, 1});
  made.b_row = reshape(b, {batch, steps, 1, n});
  made.factors = exp(made.dt * rates);
  made.added = reshape(dt * x, {batch, steps, channels, 1}) * made.b_row;
  const Value first = start ? reshape(start, {batch, 1, channels, n}) : Value{};
  made.states = apply("linear_scan", {made.factors, made.added, first}, {{"axis", int64_t{1}}});
  return made;
}

std::vector<ValueId> decompose_selective(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x = operand(graph, node, 0), c = operand(graph, node, 4);
  if (x.shape()[1] > kShort) return halves(graph, node, {0, 1, 3, 4}, 5);
  const Stretch made =
      stretch_of(x, operand(graph, node, 1), operand(graph, node, 2), operand(graph, node, 3), operand(graph, node, 5));
  const auto& [batch, steps, channels, n] = made.s;
  const Value y = reduce_sum(made.states * reshape(c, {batch, steps, 1, n}), {{3}});
  return {y.id(), reshape(in_time(made.states, steps - 1, steps), {batch, channels, n}).id()};
}

// Gradients of one stretch of time, in the order of the op's operands.
struct SelectiveBack {
  Value x, dt, rates, b, c, before;  // before: of the state that came in, [B,1,H,N]
};

// `behind` is the gradient of the state that goes out, [B,1,H,N].
SelectiveBack stretch_back(const std::vector<Value>& in, Value start, Value dy, Value behind) {
  const Stretch f = stretch_of(in[0], in[1], in[2], in[3], start);
  const auto& [batch, steps, channels, n] = f.s;
  const Shape column{batch, steps, channels, 1}, flat{batch, steps, channels}, row{batch, steps, 1, channels};
  const Value direct = reshape(dy, column) * reshape(in[4], {batch, steps, 1, n});
  std::vector<int64_t> pads(8, 0);
  pads[5] = 1;
  const Value next = steps == 1 ? expand(scalar(dy, 1), f.factors.shape()) : pad(in_time(f.factors, 1, steps), pads, 1);
  const Value g = apply("linear_scan", {next, direct, behind}, {{"axis", int64_t{1}}, {"reverse", int64_t{1}}});
  const Value first = start ? reshape(start, {batch, 1, channels, n}) : zeros(dy, {batch, 1, channels, n});
  const Value before = steps == 1 ? first : concat({first, in_time(f.states, 0, steps - 1)}, 1);
  const Value slope = g * before * f.factors;  // of dt A
  const Value du = reshape(matmul(g, f.b_row, {.transpose_b = true}), flat);
  SelectiveBack out;
  out.x = du * in[1];
  out.dt = du * in[0] + reduce_sum(slope * f.rates, {{3}});
  out.rates = reduce_sum(slope * f.dt, {{0, 1}});
  out.b = reshape(matmul(reshape(in[1] * in[0], row), g), {batch, steps, n});
  out.c = reshape(matmul(reshape(dy, row), f.states), {batch, steps, n});
  out.before = in_time(f.factors, 0, 1) * in_time(g, 0, 1);
  return out;
}

std::vector<Value> gradient_selective(const Backward& back) {
  const SelectiveShape s = selective_shape(back.inputs[0].shape(), back.inputs[2].shape());
  Graph& graph = back.inputs[0].graph();
  const auto parts = segments(back.node, s.steps, s.batch * s.channels * s.states);
  const auto cut = [&](size_t part) {
    std::vector<Value> in;
    for (size_t i = 0; i < 5; ++i)
      in.push_back(i == 2 ? back.inputs[i] : in_time(back.inputs[i], parts[part].first, parts[part].second));
    return in;
  };
  std::vector<Value> starts = {back.inputs.size() > 5 ? back.inputs[5] : Value{}};
  for (size_t p = 0; p + 1 < parts.size(); ++p) {
    std::vector<Value> in = cut(p);
    in.push_back(starts.back());
    starts.push_back(results_of(graph, "selective_scan", in)[1]);
  }
  const Value any = back.gradients[0] ? back.gradients[0] : back.gradients[1];
  const Value dy = back.gradients[0] ? back.gradients[0] : zeros(any, back.inputs[0].shape());
  const Shape carried{s.batch, 1, s.channels, s.states};
  Value behind = back.gradients[1] ? reshape(back.gradients[1], carried) : zeros(any, carried);
  std::vector<std::vector<Value>> pieces(5);
  Value rates;
  for (size_t p = parts.size(); p-- > 0;) {
    const SelectiveBack made = stretch_back(cut(p), starts[p], in_time(dy, parts[p].first, parts[p].second), behind);
    behind = made.before;
    rates = rates ? rates + made.rates : made.rates;
    const std::vector<Value> found = {made.x, made.dt, {}, made.b, made.c};
    for (size_t i = 0; i < 5; ++i) pieces[i].insert(pieces[i].begin(), found[i]);
  }
  const auto joined = [&](size_t i) { return pieces[i].size() == 1 ? pieces[i][0] : concat(pieces[i], 1); };
  return {joined(0), joined(1), rates, joined(3), joined(4), reshape(behind, {s.batch, s.channels, s.states})};
}

double selective_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 8.0 * static_cast<double>(element_count(inputs[0].shape) * inputs[2].shape[1]);
}

// ---- Delta rule

struct DeltaShape {
  int64_t batch, steps, heads, keys, values;
};

DeltaShape delta_shape(const Shape& rows, const Shape& v) { return {rows[0], rows[1], rows[2], rows[3] / 5, v[3]}; }

DeltaShape check_delta(const Node& node, const std::vector<TensorType>& inputs) {
  expect_rank(node, "rows", inputs[0], 4);
  expect_rank(node, "v", inputs[1], 4);
  const DeltaShape s = delta_shape(inputs[0].shape, inputs[1].shape);
  if (inputs[0].shape[3] % 5 != 0)
    fail(ErrorCode::InvalidGraph, node.op, "rows are ", to_string(inputs[0].shape),
         ", expected 5 vectors of equal length along the last axis");
  expect_shape(node, "v", inputs[1], {s.batch, s.steps, s.heads, s.values});
  if (has_input(node, inputs, 2)) expect_shape(node, "start", inputs[2], {s.batch, s.heads, s.values, s.keys});
  if (element_count(inputs[0].shape) == 0 || s.values == 0)
    fail(ErrorCode::Unsupported, node.op, "rows are ", to_string(inputs[0].shape), " and v ",
         to_string(inputs[1].shape), ": nothing to go along");
  return s;
}

std::vector<TensorType> infer_delta(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {"segment"});
  check_segment(node);
  const DeltaShape s = check_delta(node, inputs);
  return {{DType::F32, inputs[1].shape, Layout::Plain},
          {DType::F32, {s.batch, s.heads, s.values, s.keys}, Layout::Plain}};
}

std::vector<TensorType> infer_states(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {"reverse"});
  flag(node, "reverse");
  const DeltaShape s = check_delta(node, inputs);
  return {{DType::F32, {s.batch, s.steps, s.heads, s.values, s.keys}, Layout::Plain}};
}

// One step on the rows of one head: `m` [V,K], the five vectors, v [V]; gives M r.
void delta_step(double* m, const double* rows, const double* v, double* y, const DeltaShape& s) {
  const auto keys = static_cast<size_t>(s.keys);
  const double *w = rows, *a = rows + keys, *b = a + keys, *k = b + keys, *r = k + keys;
  for (int64_t i = 0; i < s.values; ++i, m += keys) {
    double seen = 0, out = 0;
    for (size_t j = 0; j < keys; ++j) seen += m[j] * a[j];
    for (size_t j = 0; j < keys; ++j) {
      m[j] = m[j] * w[j] + seen * b[j] + v[i] * k[j];
      out += m[j] * r[j];
    }
    if (y) y[i] = out;
  }
}

// Calls each(step, batch and head, M behind it) in the order of the steps; y may be null.
template <class Each>
void run_delta(const std::vector<const RefTensor*>& inputs, bool reverse, double* y, Each each) {
  const DeltaShape s = delta_shape(inputs[0]->shape, inputs[1]->shape);
  const int64_t state = s.values * s.keys;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      std::vector<double> m(static_cast<size_t>(state), 0);
      if (has_input(inputs, 2)) std::copy_n(inputs[2]->data.begin() + (b * s.heads + h) * state, state, m.begin());
      for (int64_t i = 0; i < s.steps; ++i) {
        const int64_t t = reverse ? s.steps - 1 - i : i, at = (b * s.steps + t) * s.heads + h;
        delta_step(m.data(), inputs[0]->data.data() + at * 5 * s.keys, inputs[1]->data.data() + at * s.values,
                   y ? y + at * s.values : nullptr, s);
        each(at, b * s.heads + h, m);
      }
    }
}

void reference_delta(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  run_delta(inputs, false, outputs[0].data.data(), [&](int64_t, int64_t head, const std::vector<double>& m) {
    std::copy(m.begin(), m.end(), outputs[1].data.begin() + head * static_cast<int64_t>(m.size()));
  });
}

void reference_states(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  run_delta(inputs, flag(node, "reverse"), nullptr, [&](int64_t at, int64_t, const std::vector<double>& m) {
    std::copy(m.begin(), m.end(), outputs[0].data.begin() + at * static_cast<int64_t>(m.size()));
  });
}

// Vector i of the five, [B,S,H,K].
Value vector_of(Value rows, int64_t i) {
  const int64_t keys = rows.shape()[3] / 5;
  return slice_of(rows, 3, i * keys, (i + 1) * keys);
}

// M behind one step: rows [B,1,H,5K], v [B,1,H,V], m [B,H,V,K] or absent.
Value one_step(Value rows, Value v, Value m) {
  const DeltaShape s = delta_shape(rows.shape(), v.shape());
  const auto row = [&](int64_t i) { return reshape(vector_of(rows, i), {s.batch, s.heads, 1, s.keys}); };
  const Value added = reshape(v, {s.batch, s.heads, s.values, 1}) * row(3);
  if (!m) return added;
  const Value seen = reduce_sum(m * row(1), {{3}, true});
  return m * row(0) + seen * row(2) + added;
}

std::vector<ValueId> decompose_delta(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value rows = operand(graph, node, 0), v = operand(graph, node, 1);
  const DeltaShape s = delta_shape(rows.shape(), v.shape());
  if (s.steps > 1) return halves(graph, node, {0, 1}, 2);
  const Value m = one_step(rows, v, operand(graph, node, 2));
  const Value r = reshape(vector_of(rows, 4), {s.batch, s.heads, 1, s.keys});
  return {reshape(reduce_sum(m * r, {{3}}), v.shape()).id(), m.id()};
}

std::vector<ValueId> decompose_states(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value rows = operand(graph, node, 0), v = operand(graph, node, 1);
  const DeltaShape s = delta_shape(rows.shape(), v.shape());
  const bool reverse = flag(node, "reverse");
  std::vector<Value> all(static_cast<size_t>(s.steps));
  Value m = operand(graph, node, 2);
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = reverse ? s.steps - 1 - i : i;
    m = one_step(in_time(rows, t, t + 1), in_time(v, t, t + 1), m);
    all[static_cast<size_t>(t)] = reshape(m, {s.batch, 1, s.heads, s.values, s.keys});
  }
  return {(all.size() == 1 ? all[0] : concat(all, 1)).id()};
}

Value delta_states(Value rows, Value v, Value start, bool reverse) {
  return apply("delta_states", {rows, v, start}, {{"reverse", int64_t{reverse}}});
}

// x one step earlier in time, with `fill` as the last.
Value earlier(Value x, double fill) {
  const int64_t steps = x.shape()[1];
  if (steps == 1) return expand(scalar(x, fill), x.shape());
  std::vector<int64_t> pads(2 * x.shape().size(), 0);
  pads[x.shape().size() + 1] = 1;
  return pad(in_time(x, 1, steps), pads, fill);
}

struct DeltaBack {
  Value rows, v, before;
};

// The gradient of M runs back through the transposed transitions: the same rule with a and b exchanged, each one step
// later, r for k and the gradient of y for v. `behind` is that of the M that goes out.
DeltaBack delta_back(Value rows, Value v, Value start, Value dy, Value behind) {
  const DeltaShape s = delta_shape(rows.shape(), v.shape());
  const Value w = vector_of(rows, 0), a = vector_of(rows, 1), b = vector_of(rows, 2), k = vector_of(rows, 3),
              r = vector_of(rows, 4);
  const Value g = delta_states(concat({earlier(w, 1), earlier(b, 0), earlier(a, 0), r, r}, 3), dy, behind, true);
  const Value m = delta_states(rows, v, start, false);
  const Shape first_shape{s.batch, 1, s.heads, s.values, s.keys};
  const Value first = start ? reshape(start, first_shape) : zeros(dy, first_shape);
  const Value before = s.steps == 1 ? first : concat({first, in_time(m, 0, s.steps - 1)}, 1);
  const auto row = [](Value x) {
    Shape shape = x.shape();
    shape.insert(shape.end() - 1, 1);
    return reshape(x, shape);
  };
  const auto through = [&](Value matrix, Value x) {  // matrix x, as a row
    return matmul(row(x), matrix, {.transpose_b = true});
  };
  const auto flat = [](Value x, const Value& like) { return reshape(x, like.shape()); };
  const Value seen = through(before, a), seen_back = through(g, b);
  const Value dw = reduce_sum(g * before, {{3}});
  const Value da = flat(matmul(seen_back, before), a), db = flat(matmul(seen, g), b);
  const Value dk = flat(matmul(row(v), g), k), dr = flat(matmul(row(dy), m), r);
  const Value g0 = reshape(in_time(g, 0, 1), {s.batch, s.heads, s.values, s.keys});
  const auto at0 = [&](Value x) { return reshape(in_time(x, 0, 1), {s.batch, s.heads, 1, s.keys}); };
  const Value before_back = g0 * at0(w) + reduce_sum(g0 * at0(b), {{3}, true}) * at0(a);
  return {concat({dw, da, db, dk, dr}, 3), flat(through(g, k), v), before_back};
}

std::vector<Value> gradient_delta(const Backward& back) {
  const Value rows = back.inputs[0], v = back.inputs[1];
  const DeltaShape s = delta_shape(rows.shape(), v.shape());
  const auto parts = segments(back.node, s.steps, s.batch * s.heads * s.values * s.keys);
  std::vector<Value> starts = {back.inputs.size() > 2 ? back.inputs[2] : Value{}};
  const auto cut = [&](Value x, size_t p) { return in_time(x, parts[p].first, parts[p].second); };
  for (size_t p = 0; p + 1 < parts.size(); ++p)
    starts.push_back(results_of(rows.graph(), "delta_rule", {cut(rows, p), cut(v, p), starts.back()})[1]);
  const Value any = back.gradients[0] ? back.gradients[0] : back.gradients[1];
  const Value dy = back.gradients[0] ? back.gradients[0] : zeros(any, v.shape());
  const Shape state{s.batch, s.heads, s.values, s.keys};
  Value behind = back.gradients[1] ? back.gradients[1] : zeros(any, state);
  std::vector<Value> of_rows, of_v;
  for (size_t p = parts.size(); p-- > 0;) {
    const DeltaBack made = delta_back(cut(rows, p), cut(v, p), starts[p], cut(dy, p), behind);
    of_rows.insert(of_rows.begin(), made.rows);
    of_v.insert(of_v.begin(), made.v);
    behind = made.before;
  }
  const auto joined = [](const std::vector<Value>& all) { return all.size() == 1 ? all[0] : concat(all, 1); };
  return {joined(of_rows), joined(of_v), behind};
}

double delta_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const DeltaShape s = delta_shape(inputs[0].shape, inputs[1].shape);
  return 9.0 * static_cast<double>(s.batch * s.steps * s.heads * s.keys * s.values);
}

}  // namespace

const OpDef kSelectiveScan = {
    .name = "selective_scan",
    .infer = infer_selective,
    .reference = reference_selective,
    .gradient = gradient_selective,
    .decompose = decompose_selective,
    .has_kernel = true,
    .flops = selective_flops,
};

const OpDef kDeltaRule = {
    .name = "delta_rule",
    .infer = infer_delta,
    .reference = reference_delta,
    .gradient = gradient_delta,
    .decompose = decompose_delta,
    .has_kernel = true,
    .flops = delta_flops,
};

const OpDef kDeltaStates = {
    .name = "delta_states",
    .infer = infer_states,
    .reference = reference_states,
    .decompose = decompose_states,
    .has_kernel = true,
    .flops = delta_flops,
};

}  // namespace gyrus
