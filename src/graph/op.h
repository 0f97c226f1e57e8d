#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

// The contract of an op: one OpDef each, defined in src/ops and listed once in src/ops/registry.cpp.

namespace gyrus {

// How the planner turns a node into dispatches.
enum class KernelFamily {
  Elementwise,  // out[i] = f(in0[i], in1[i], …) after broadcasting; `OpDef::elementwise` says what f is
  Movement,     // out[i] = in[map(i)]: transpose, slice, concat, pad, expand
  Alias,        // same bytes under another shape: reshape
  Reduce,       // over some axes
  Conv,
  NormStats,
  Norm,
  ConvArgmax,
  Repack,     // between layouts
  Composite,  // never reaches the planner: a pass rewrites it into other ops
};

// A tensor of the reference executor: every value a double, so that nothing rounds on the way.
struct RefTensor {
  Shape shape;
  std::vector<double> data;
};

struct Elementwise;
struct IndexMap;

struct OpDef {
  std::string_view name;
  KernelFamily family = KernelFamily::Composite;

  // Output types from the node and the types of its inputs. Throws InvalidGraph or Unsupported with "[name] …".
  std::vector<TensorType> (*infer)(const Node& node, const std::vector<TensorType>& inputs) = nullptr;

  // The slow, readable definition of the op. `outputs` arrive with their shapes set and data sized (zeros).
  void (*reference)(const Node& node, const std::vector<const RefTensor*>& inputs,
                    std::vector<RefTensor>& outputs) = nullptr;

  // Ops that only move elements: one map for each input (ops/index_map.h), for the reference and the kernel alike.
  std::vector<IndexMap> (*index_maps)(const Node& node, const std::vector<Shape>& inputs,
                                      const Shape& output) = nullptr;

  // Whether a node of this op may carry a body as it stands; null: none may. The body's operands are the raw result of
  // the op (not of "fused", which has none: `body_only`), then the node's inputs beyond the first `own_inputs`.
  bool (*takes_body)(const Node& node) = nullptr;
  size_t own_inputs = 0;
  bool body_only = false;

  // Elementwise ops only: the row of the table that says what is computed (ops/elementwise.h).
  const Elementwise* elementwise = nullptr;

  // Adds to `graph` the nodes that give the gradient of every input from that of every output; kNoValue where an
  // input has none. Null where the op has no gradient yet.
  std::vector<ValueId> (*gradient)(Graph& graph, const Node& node,
                                   const std::vector<ValueId>& output_gradients) = nullptr;

  // Rewrites a Composite node into simpler ones inside `graph`; returns the value that replaces its output.
  ValueId (*decompose)(Graph& graph, const Node& node) = nullptr;

  // Floating-point operations of the node (a multiply-add counts two).
  double (*flops)(const Node& node, const std::vector<TensorType>& inputs,
                  const std::vector<TensorType>& outputs) = nullptr;
};

// The op of that name, or null.
const OpDef* find_op(std::string_view name);
// The op of that name; throws Unsupported where there is none.
const OpDef& op(std::string_view name);
// How many of the node's inputs are the op's own, before further operands of its body: as many as the op takes, and
// behind them `arranged` copies of its weights in the order that the planner wants (ops/arrange.h).
size_t own_inputs(const Node& node);
// How many operands the body of the node has.
size_t body_operands(const Node& node);
// All ops, in the order of the registry.
const std::vector<const OpDef*>& all_ops();

}  // namespace gyrus
