#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu/thread_pool.h"
#include "graph/op.h"

// How a node runs on the CPU: what is known before a run is prepared once, the rest is a function of memory.

namespace gyrus::cpu {

// The memory of a node's operands and results, plain and row-major; null for an operand that is absent.
struct Places {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* scratch = nullptr;  // as many bytes as were asked for
};

struct Prepared {
  std::string kernel;  // its name in profiles
  std::function<void(const Places&, ThreadPool&)> run;
  uint64_t scratch = 0;   // bytes that it needs while it runs
  uint64_t weights = 0;   // bytes that it keeps
  bool in_place = false;  // the first result may lie where an operand of the same bytes does, as its op says
};

struct KernelOptions {
  bool winograd = true;  // convolutions may use minimal filtering, which rounds a little more
};
using Prepare = Prepared (*)(const Graph& graph, const Node& node, const KernelOptions& options);

// The kernel of a node; where its op has none, its reference in doubles, named "generic OP".
Prepared prepare(const Graph& graph, const Node& node, const KernelOptions& options);

Prepared prepare_generic(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_elementwise(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_convolution(const Graph& graph, const Node& node, const KernelOptions& options);
Prepared prepare_conv_weights(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_conv_argmax(const Graph& graph, const Node& node, const KernelOptions& options);
Prepared prepare_norm_stats(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_norm_apply(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_product(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_block_product(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_block_rows(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_movement(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_rows(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_reduction(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_argmax(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_update_slice(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_gather(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_attention(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_scan(const Graph& graph, const Node& node, const KernelOptions& options);
Prepared prepare_selective_scan(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_delta_rule(const Graph& graph, const Node& node, const KernelOptions&);
Prepared prepare_recurrent(const Graph& graph, const Node& node, const KernelOptions&);

// Elements of a whole tensor that one call of a loop takes: enough to be worth a thread, few enough for the cache.
inline constexpr int64_t kGrain = 1 << 14;

// What errors of a run name.
inline const std::string& subject_of(const Node& node) { return node.label.empty() ? node.op : node.label; }

inline const float* floats(const std::byte* bytes) { return reinterpret_cast<const float*>(bytes); }
inline float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }
inline uint64_t bytes_of(const TensorType& type) {
  return static_cast<uint64_t>(element_count(type.shape)) * byte_size(type.dtype);
}

}  // namespace gyrus::cpu
