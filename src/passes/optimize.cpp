#include "passes/passes.h"

namespace gyrus {

Graph optimize_plain(const Graph& graph, const PassesObserver& observer) {
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
  return current;
}

Graph optimize(const Graph& graph, Precision precision, const PassesObserver& observer) {
  Graph current = assign_layout(optimize_plain(graph, observer));
  if (observer) observer("assign_layout", current);
  current = assign_precision(current, precision);
  if (observer) observer("assign_precision", current);
  return current;
}

}  // namespace gyrus
