#pragma once
#include "common.h"
#include "core/text.h"
#include "gyrus/nn.h"

namespace gyrus::bench {

// An encoder of `layers` blocks, normalised first, with heads of 64. `apart`: queries, keys and values are three
// products, which a pass makes one.
inline Graph encoder(int64_t layers, int64_t tokens, int64_t width, bool apart) {
  Graph graph;
  const int64_t heads = width / 64;
  const auto linear_of = [&](Value x, int64_t out, const std::string& name) {
    const int64_t in = x.shape().back();
    return linear(x, Value(graph, constant(graph, {out, in}, name + ".w")),
                  Value(graph, constant(graph, {out}, name + ".b")));
  };
  const auto split_heads = [&](Value part) { return transpose(reshape(part, {1, tokens, heads, 64}), {0, 2, 1, 3}); };
  Value x = graph.input("x", DType::F32, {1, tokens, width});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = cat("layer", i);
    const Value normed = layer_norm(x);
    std::vector<Value> qkv;
    for (const char* part : {".q", ".k", ".v"})
      if (apart) qkv.push_back(linear_of(normed, width, name + part));
    if (!apart) qkv = split(linear_of(normed, 3 * width, name + ".qkv"), {width, width, width}, -1);
    const Value seen = attention(split_heads(qkv[0]), split_heads(qkv[1]), split_heads(qkv[2]));
    const Value together = reshape(transpose(seen, {0, 2, 1, 3}), {1, tokens, width});
    x = x + linear_of(together, width, name + ".out");
    x = x + linear_of(gelu(linear_of(layer_norm(x), 4 * width, name + ".up")), width, name + ".down");
  }
  graph.output("y", x);
  return graph;
}

}  // namespace gyrus::bench
