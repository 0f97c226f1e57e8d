// Neighbourhoods of points: what is read and written row by row is cut between rows.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/common.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Memory for rows of 4-byte elements that no cut splits.
StoragePtr make_rows(Lowering& lowering, const Node& node, DType dtype, const Shape& shape) {
  return lowering.make_scratch({dtype, {1, 1, shape[0], shape[1]}, Layout::Plain}, label_of(node));
}

// The operand, or a copy of it where it is cut within rows.
StoragePtr rows_of(Lowering& lowering, const Node& node, size_t operand) {
  const StoragePtr storage = lowering.storage(node.inputs[operand]);
  const TensorType& type = lowering.graph().type(node.inputs[operand]);
  if (storage->is_whole()) return storage;
  StoragePtr copy = make_rows(lowering, node, type.dtype, type.shape);
  lowering.builder().copy(*storage, *copy);
  return copy;
}

StoragePtr make_result(Lowering& lowering, const Node& node, size_t result) {
  const TensorType& type = lowering.graph().type(node.outputs[result]);
  const StoragePtr storage = make_rows(lowering, node, type.dtype, type.shape);
  lowering.set_storage(node.outputs[result], storage);
  return storage;
}

// The rows from `first` on that lie in one window of each storage; throws where not even one does.
uint64_t rows_together(const std::vector<const Storage*>& storages, uint64_t first, uint64_t rows, const Limits& limits,
                       const std::string& label) {
  const auto fits = [&](uint64_t count) {
    return std::all_of(storages.begin(), storages.end(), [&](const Storage* s) {
      const uint64_t width = s->units / rows;
      return fits_window(*s, first * width, count * width, limits);
    });
  };
  uint64_t good = 0;
  for (uint64_t bad = rows - first + 1; bad - good > 1;) {
    const uint64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  if (good == 0)
    fail(ErrorCode::OverLimits, label, "one row of ", storages[0]->units / rows * 4,
         " bytes does not fit a binding of ", limits.max_storage_buffer_binding_size, ": make the rows shorter");
  return good;
}

Window window_of(const Storage& s, uint64_t first, uint64_t count, uint64_t rows, const Limits& limits) {
  return window(s, first * (s.units / rows), count * (s.units / rows), limits);
}

}  // namespace

void lower_nearest(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Limits& limits = lowering.limits();
  const Shape &queries_shape = graph.type(node.inputs[0]).shape, &points_shape = graph.type(node.inputs[1]).shape;
  const auto m = static_cast<uint64_t>(queries_shape[0]), n = static_cast<uint64_t>(points_shape[0]);
  const StoragePtr queries = rows_of(lowering, node, 0);
  const StoragePtr points = node.inputs[1] == node.inputs[0] ? queries : rows_of(lowering, node, 1);
  const StoragePtr indices = make_result(lowering, node, 0), distances = make_result(lowering, node, 1);
  const std::string label = label_of(node);
  for (uint64_t query = 0; query < m;) {
    const uint64_t together = rows_together({queries.get(), indices.get(), distances.get()}, query, m, limits, label);
    for (uint64_t point = 0; point < n;) {
      const uint64_t count = rows_together({points.get()}, point, n, limits, label);
      Kernel k(lowering, "nearest", label);
      k.workgroup(64).read("queries", *queries, window_of(*queries, query, together, m, limits));
      k.read("points", *points, window_of(*points, point, count, n, limits));
      k.write("indices", *indices, window_of(*indices, query, together, m, limits));
      k.write("distances", *distances, window_of(*distances, query, together, m, limits));
      k.param("query_begin", query).param("query_count", together).param("point_begin", point);
      k.param("point_count", count).param("d", queries_shape[1]).param("k", node.attrs.integer("k"));
      k.flag("dot", node.attrs.text("metric", "euclid") == "dot").flag("skip_self", flag(node, "skip_self"));
      k.checks_stored().text("store", k.stored(*distances, "distance"));
      const double pairs = static_cast<double>(together) * static_cast<double>(count);
      k.dispatch((together + k.workgroup() - 1) / k.workgroup(),
                 {3 * pairs * static_cast<double>(queries_shape[1]),
                  4.0 * static_cast<double>(together + count) * static_cast<double>(queries_shape[1])});
      point += count;
    }
    query += together;
  }
}

void lower_fuzzy_weights(Lowering& lowering, const Node& node) {
  const Limits& limits = lowering.limits();
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  const auto n = static_cast<uint64_t>(shape[0]);
  const StoragePtr distances = rows_of(lowering, node, 0);
  const StoragePtr rho = lowering.make_storage(node.outputs[0], node);
  const StoragePtr sigma = lowering.make_storage(node.outputs[1], node), weights = make_result(lowering, node, 2);
  for (uint64_t row = 0; row < n;) {
    const uint64_t count =
        rows_together({distances.get(), weights.get(), rho.get(), sigma.get()}, row, n, limits, label_of(node));
    Kernel k(lowering, "fuzzy_weights", label_of(node));
    k.workgroup(64).read("distances", *distances, window_of(*distances, row, count, n, limits));
    k.write("weights", *weights, window_of(*weights, row, count, n, limits));
    k.write("rho", *rho, window_of(*rho, row, count, n, limits));
    k.write("sigma", *sigma, window_of(*sigma, row, count, n, limits));
    k.param("begin", row).param("count", count).param("k", shape[1]);
    k.param("wanted", static_cast<float>(std::log2(static_cast<double>(shape[1] + 1))));
    const double elements = static_cast<double>(count) * static_cast<double>(shape[1]);
    k.dispatch((count + k.workgroup() - 1) / k.workgroup(), {64 * 4 * elements, 8 * elements});
    row += count;
  }
}

}  // namespace gyrus
