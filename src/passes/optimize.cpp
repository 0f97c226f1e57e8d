#include "passes/passes.h"

namespace gyrus {

Graph optimize(const Graph& graph, Precision precision,
               const std::function<void(const std::string& pass, const Graph&)>& observer) {
  verify(graph, "import");
  Graph current = without_dead_nodes(graph);  // passes count readers
  const auto step = [&](const char* name, Graph next) {
    current = std::move(next);
    if (observer) observer(name, current);
  };
  step("find_composites", find_composites(current));
  step("decompose", decompose(current));
  step("fold_constants", fold_constants(current));
  step("narrow_integers", narrow_integers(current));
  step("join_products", join_products(current));
  step("join_movement", join_movement(current));
  step("fold_scale", fold_scale(current));
  step("gather_statistics", gather_statistics(current));
  step("fuse_argmax", fuse_argmax(current));
  step("fuse_epilogues", fuse_epilogues(current));
  step("fuse_residual", fuse_residual(current));
  step("fuse_elementwise", fuse_elementwise(current));
  step("assign_layout", assign_layout(current));
  step("assign_precision", assign_precision(current, precision));
  return current;
}

}  // namespace gyrus
