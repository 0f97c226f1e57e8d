#pragma once
#include <string>
#include <vector>

#include "graph/op.h"
#include "gyrus/ops.h"

// What gradients and decompositions of ops are written with, besides gyrus/ops.h.

namespace gyrus {

// While it lives, nodes carry the label of a node.
class Labelled {
 public:
  Labelled(Graph& graph, const Node& node) : graph_(graph), before_(graph.label()) { graph.set_label(node.label); }
  ~Labelled() { graph_.set_label(before_); }
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;

 private:
  Graph& graph_;
  std::string before_;
};

// The gradient of something that was broadcast from `shape`: summed over what was repeated.
Value sum_to(Value gradient, const Shape& shape);
// Zeros in the element type of `like`.
Value zeros(Value like, const Shape& shape);
// [0, count) as i32.
Value counted(Graph& graph, int64_t count);
// Elements of an axis `step` apart, with zeros between them and none behind the last.
Value spread(Value x, size_t axis, int64_t step);
// x from `begin` to `end` along one axis.
Value slice_of(Value x, size_t axis, int64_t begin, int64_t end);
// The axes from `first` on.
std::vector<int64_t> axes_from(size_t first, size_t rank);

}  // namespace gyrus
