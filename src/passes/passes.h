#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "gyrus/error.h"
#include "gyrus/target.h"

// The passes, in the order in which a graph meets them. Each takes a graph and gives a new one; `optimize` runs them
// all and verifies after each.

namespace gyrus {

// Makes one op of parts that models bring in its place (attention).
Graph find_composites(const Graph& graph);
// Replaces ops that decompose (group_norm, batch_norm, softmax …) by simpler ones.
Graph decompose(const Graph& graph);
// Computes nodes whose inputs are all constant, and turns constants that an op would read transposed.
Graph fold_constants(const Graph& graph);
// Makes i32 of i64 and bytes of truth values, ports included. Throws InvalidGraph where a constant does not fit.
Graph narrow_integers(const Graph& graph);
// The same of what goes through the ports: of a tensor, with `code` where an element does not fit, and back.
bool is_wide(DType dtype);  // has no place on devices as it is
Tensor narrow(const Tensor& tensor, const std::string& name, ErrorCode code);
Tensor widen(const Tensor& tensor, DType dtype);
// Makes one product of several of the same value with constants, whose results are moved anyway (q, k, v).
Graph join_products(const Graph& graph);
// Makes one op of several in a row that move elements, where strides can say what they do together.
Graph join_movement(const Graph& graph);
// Folds per-channel constant scale and shift behind a convolution into its weights and bias.
Graph fold_scale(const Graph& graph);
// Lets the convolution that makes a tensor gather the statistics of the norm that reads it.
Graph gather_statistics(const Graph& graph);
// A 1×1×1 convolution followed by an argmax over channels becomes one op.
Graph fuse_argmax(const Graph& graph);
// Moves elementwise ops into the body of the convolution, norm or matmul that they follow: those of one operand, and
// where its kernel reads further ones, such as a residual, those of more.
Graph fuse_epilogues(const Graph& graph);
// Lets a norm over rows add the two values itself whose sum it reads, and hand the sum on.
Graph fuse_residual(const Graph& graph);
// Joins chains of elementwise ops into one node each.
Graph fuse_elementwise(const Graph& graph);
// Gives every value its layout and inserts repack nodes where layouts meet.
Graph assign_layout(const Graph& graph);
// Where halves are asked for, stores packed feature maps so and lets products round their operands. Throws Unsupported
// for a precision that no kernel has.
Graph assign_precision(const Graph& graph, Precision precision);
// The same for a graph that stays plain, as the CPU runs it: of what convolutions, norms and elementwise ops behind
// them make, what no other op reads.
Graph store_halves(const Graph& graph);

// Sees the graph after each pass; may be empty.
using PassesObserver = std::function<void(const std::string& pass, const Graph&)>;
// Runs all passes.
Graph optimize(const Graph& graph, Precision precision, const PassesObserver& observer = {});
// Those before layouts are assigned: every value stays plain, as the CPU wants it.
Graph optimize_plain(const Graph& graph, const PassesObserver& observer = {});

}  // namespace gyrus
