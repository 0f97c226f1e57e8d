#include "gyrus/scans.h"

#include <cmath>

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

void expect(const char* op, const char* what, Value x, const Shape& shape) {
  if (!x) fail(ErrorCode::InvalidGraph, op, what, " is missing");
  if (x.shape() != shape)
    fail(ErrorCode::InvalidGraph, op, what, " is ", to_string(x.shape()), ", expected ", to_string(shape));
}

void expect_rank(const char* op, const char* what, Value x, size_t rank) {
  if (!x || x.shape().size() != rank)
    fail(ErrorCode::InvalidGraph, op, what, " is ", x ? to_string(x.shape()) : "missing", ", expected ", rank, " axes");
}

CarriedResult carried(const char* op, const std::vector<Value>& operands) {
  Node node;
  node.op = op;
  for (const Value& value : operands) node.inputs.push_back(value.id());
  while (node.inputs.back() == kNoValue) node.inputs.pop_back();
  Graph& graph = operands[0].graph();
  const std::vector<ValueId> made = graph.add_node(std::move(node));
  return {{graph, made[0]}, {graph, made[1]}};
}

using Combine = std::function<Tuple(const Tuple&, const Tuple&)>;

template <class F>
Tuple each(const Tuple& tuple, F f) {
  Tuple made;
  for (const Value& x : tuple) made.push_back(f(x));
  return made;
}

// a0 b0 a1 b1 …, and one more of a where it has one.
Value interleaved(Value a, Value b, size_t axis) {
  const int64_t pairs = b.shape()[axis];
  Shape joined = b.shape();
  joined[axis] = 2 * pairs;
  const Value both = reshape(stack({slice_axis(a, axis, 0, pairs), b}, static_cast<int64_t>(axis) + 1), joined);
  if (a.shape()[axis] == pairs) return both;
  return concat({both, slice_axis(a, axis, pairs, pairs + 1)}, static_cast<int64_t>(axis));
}

// Of pairs of neighbours first; what stands between them is joined with the pairs before it.
Tuple running(const Tuple& x, size_t axis, const Combine& combine) {
  const int64_t extent = x.at(0).shape()[axis], pairs = extent / 2;
  if (extent <= 1) return x;
  const auto strided = [&](int64_t first) {
    return each(x, [&](Value v) { return slice_axis(v, axis, first, 2 * pairs, 2); });
  };
  const Tuple odd = running(combine(strided(0), strided(1)), axis, combine);
  const auto first_of = [&](Value v) { return slice_axis(v, axis, 0, 1); };
  if (extent == 2) {
    Tuple made;
    for (size_t i = 0; i < x.size(); ++i) made.push_back(concat({first_of(x[i]), odd[i]}, static_cast<int64_t>(axis)));
    return made;
  }
  const int64_t between = (extent - 1) / 2;
  const Tuple even = combine(each(odd, [&](Value v) { return slice_axis(v, axis, 0, between); }),
                             each(x, [&](Value v) { return slice_axis(v, axis, 2, extent, 2); }));
  Tuple made;
  for (size_t i = 0; i < x.size(); ++i)
    made.push_back(interleaved(concat({first_of(x[i]), even[i]}, static_cast<int64_t>(axis)), odd[i], axis));
  return made;
}

// x [B,S,H] as one number for each vector of [B,S,H,K].
Value per_vector(Value x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}

Value normalized(Value x) { return x / sqrt(reduce_sum(square(x), {{-1}, true}) + 1e-6); }

}  // namespace

Value linear_scan(Value a, Value b, int64_t axis, Value start, bool reverse) {
  return apply("linear_scan", {a, b, start}, {{"axis", axis}, {"reverse", int64_t{reverse}}});
}

Tuple scan(const Tuple& x, int64_t axis, const Combine& combine, const ScanOptions& options) {
  if (x.empty() || !x[0]) fail(ErrorCode::InvalidGraph, "scan", "has no operand");
  const size_t along = front_axis(x[0], axis, "scan");
  for (const Value& v : x) expect("scan", "an operand", v, x[0].shape());
  if (!options.start.empty() && options.start.size() != x.size())
    fail(ErrorCode::InvalidGraph, "scan", "starts from ", options.start.size(), " values, expected ", x.size());
  const Combine checked = [&](const Tuple& before, const Tuple& after) {
    Tuple made = combine(before, after);
    if (made.size() != x.size())
      fail(ErrorCode::InvalidGraph, "scan", "combine gives ", made.size(), " values of ", x.size());
    for (const Value& v : made) expect("scan", "what combine gives", v, after[0].shape());
    return made;
  };
  const auto turned = [&](const Tuple& tuple) {
    return options.reverse ? each(tuple, [&](Value v) { return flip(v, {axis}); }) : tuple;
  };
  Tuple made = turned(running(turned(x), along, checked));
  if (options.start.empty() || x[0].shape()[along] == 0) return made;
  Shape first = x[0].shape();
  first[along] = 1;
  for (const Value& v : options.start) expect("scan", "start", v, first);
  return checked(each(options.start, [&](Value v) { return expand(v, x[0].shape()); }), made);
}

CarriedResult selective_scan(Value x, Value dt, Value rates, Value b, Value c, const SelectiveScanOptions& options) {
  expect_rank("selective_scan", "x", x, 3);
  const int64_t channels = x.shape()[2];
  expect("selective_scan", "dt", dt, x.shape());
  if (options.dt_bias) {
    expect("selective_scan", "dt_bias", options.dt_bias, {channels});
    dt = dt + options.dt_bias;
  }
  if (options.softplus) dt = softplus(dt);
  CarriedResult made = carried("selective_scan", {x, dt, rates, b, c, options.start});
  if (options.skip) {
    expect("selective_scan", "skip", options.skip, {channels});
    made.y = made.y + options.skip * x;
  }
  if (options.gate) {
    expect("selective_scan", "gate", options.gate, x.shape());
    made.y = made.y * silu(options.gate);
  }
  return made;
}

// The state is kept transposed. With M of it, M = M exp(g) (1 - beta k kᵀ) + beta v kᵀ.
CarriedResult gated_delta_rule(Value q, Value k, Value v, Value g, Value beta, const DeltaRuleOptions& options) {
  const char* op = "gated_delta_rule";
  expect_rank(op, "q", q, 4);
  expect_rank(op, "v", v, 4);
  const Shape s = q.shape();
  expect(op, "k", k, s);
  expect(op, "v", v, {s[0], s[1], s[2], v.shape()[3]});
  expect(op, "g", g, {s[0], s[1], s[2]});
  expect(op, "beta", beta, {s[0], s[1], s[2]});
  if (options.normalize) {
    q = normalized(q);
    k = normalized(k);
  }
  q = q * options.scale.value_or(1 / std::sqrt(static_cast<double>(s[3])));
  const Value decay = exp(g), beside = per_vector(neg(beta * decay));
  const Value rows = concat({expand(per_vector(decay), s), k, k * beside, k, q}, 3);
  Value start = options.start;
  if (start) {
    expect(op, "start", start, {s[0], s[2], s[3], v.shape()[3]});
    start = transpose(start, {0, 1, 3, 2});
  }
  CarriedResult made = carried("delta_rule", {rows, v * per_vector(beta), start});
  made.last = transpose(made.last, {0, 1, 3, 2});
  return made;
}

CarriedResult rwkv7(Value r, Value w, Value k, Value v, Value a, Value b, Value start) {
  expect_rank("rwkv7", "r", r, 4);
  expect("rwkv7", "w", w, r.shape());
  expect("rwkv7", "k", k, r.shape());
  expect("rwkv7", "a", a, r.shape());
  expect("rwkv7", "b", b, r.shape());
  return carried("delta_rule", {concat({w, a, b, k, r}, 3), v, start});
}

}  // namespace gyrus
