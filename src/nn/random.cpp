#include "gyrus/random.h"

#include <limits>

#include "core/error.h"
#include "graph/graph.h"

namespace gyrus {
namespace {

const std::string kKeyLabel = "random key";  // nodes that have to do with it are found again by it

// One word of a key. Those of random_key are taken as they are, others are cut out once.
Value word(Value key, int64_t at) {
  if (key.dtype() != DType::I32 || key.shape() != Shape{2})
    fail(ErrorCode::InvalidGraph, "random", "the key is ", to_string(key.dtype()), to_string(key.shape()),
         ", expected i32[2]: a seed and a step");
  Graph& graph = key.graph();
  const std::string name = kKeyLabel + (at == 0 ? ".seed" : ".step");
  for (const Node& node : graph.nodes()) {
    if (node.label == kKeyLabel && node.outputs.front() == key.id())
      return reshape({graph, node.inputs.at(static_cast<size_t>(at))}, {});
    if (node.label == name && node.inputs.front() == key.id()) return reshape({graph, node.outputs.front()}, {});
  }
  const std::string label = graph.label();
  graph.set_label(name);
  const Value made = slice(key, {at}, {at + 1});
  graph.set_label(label);
  return reshape(made, {});
}

Value drawn(const char* op, Value like, Value key, int64_t stream) {
  return apply(op, {like, word(key, 0), word(key, 1)}, {{"stream", static_cast<double>(stream)}});
}

Value drawn(const char* op, const Shape& shape, Value key, int64_t stream) {
  Tensor zero(DType::F32, {});
  return drawn(op, expand(key.graph().constant(std::move(zero)), shape), key, stream);
}

}  // namespace

Value random_key(Graph& graph) {
  const auto argument = [&](const char* name) -> Value {
    for (const Argument& a : graph.arguments())
      if (a.name == name) return {graph, a.value};
    return graph.argument(name, DType::I32, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  };
  const Value seed = argument(kRandomSeed), step = argument(kRandomStep);
  for (const Node& node : graph.nodes())
    if (node.label == kKeyLabel) return {graph, node.outputs.front()};
  const std::string label = graph.label();
  graph.set_label(kKeyLabel + ".words");
  const Value first = reshape(seed, {1}), second = reshape(step, {1});
  graph.set_label(kKeyLabel);
  const Value key = concat({first, second}, 0);
  graph.set_label(label);
  return key;
}

Value random_uniform(Value key, int64_t stream, const Shape& shape) {
  return drawn("random_uniform", shape, key, stream);
}
Value random_normal(Value key, int64_t stream, const Shape& shape) {
  return drawn("random_normal", shape, key, stream);
}
Value random_bits(Value key, int64_t stream, const Shape& shape) { return drawn("random_bits", shape, key, stream); }

Value random_integers(Value key, int64_t stream, const Shape& shape, int64_t count) {
  if (count < 1 || count > std::numeric_limits<int32_t>::max())
    fail(ErrorCode::InvalidInput, "random_integers", "count is ", count, ", expected 1 to 2147483647");
  const Value bits = random_bits(key, stream, shape);
  return cast(mod(bits, scalar(bits, static_cast<double>(count))), DType::I32);
}

Value random_uniform(Value key, int64_t stream, Value like) { return drawn("random_uniform", like, key, stream); }
Value random_normal(Value key, int64_t stream, Value like) { return drawn("random_normal", like, key, stream); }

Value dropout(Value x, Value key, int64_t stream, double p) {
  return apply("dropout", {x, word(key, 0), word(key, 1)}, {{"stream", static_cast<double>(stream)}, {"p", p}});
}

Value dropout_channels(Value x, Value key, int64_t stream, double p) {
  const size_t rank = x.shape().size();
  if (rank < 2) fail(ErrorCode::InvalidGraph, "dropout_channels", "x is ", to_string(x.shape()), ", expected [N,C,…]");
  // Ones of each channel, in a shape that follows that of x.
  std::vector<int64_t> ends(rank, 1);
  ends[0] = ends[1] = std::numeric_limits<int32_t>::max();
  const Value first = slice(x, std::vector<int64_t>(rank, 0), ends);
  return x * dropout(affine(step(first), 0, 1), key, stream, p);
}

}  // namespace gyrus
