// Rows grouped by expert, and products with the matrix of their group.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/grouped.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Tiles of 4 × 4 results a lane: as many lanes as the limits allow, fewer where an expert has few rows.
struct Tiles {
  uint32_t side = 8, depth = 8;
  uint64_t tile() const { return 4 * side; }
  uint64_t shared_bytes() const { return 2 * 4 * tile() * depth + 4 * tile() + 16; }
};

bool allows(const Tiles& tiles, const Limits& limits) {
  return workgroup_size(limits, tiles.side * tiles.side) == tiles.side * tiles.side &&
         tiles.shared_bytes() <= limits.max_compute_workgroup_storage_size;
}

Tiles tiles_for(const Limits& limits, uint64_t rows, uint64_t experts) {
  const Tiles large{16, 16};
  return allows(large, limits) && rows >= 32 * experts ? large : Tiles{};
}

bool fit_whole(const Graph& graph, const Node& node, const Limits& limits) {
  const auto fits = [&](ValueId id) {
    return 4 * static_cast<uint64_t>(element_count(graph.type(id).shape)) + 512 <=
           std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), fits) && fits(node.outputs[0]);
}

uint64_t extent_of(const Shape& shape, size_t axis) { return static_cast<uint64_t>(shape[axis]); }
uint64_t pieces(uint64_t count, uint64_t size) { return (count + size - 1) / size; }

Kernel tiled(Lowering& lowering, const Node& node, const char* file, const Tiles& tiles) {
  Kernel k(lowering, file, label_of(node));
  k.workgroup(tiles.side * tiles.side).constant("side", tiles.side).constant("depth", tiles.depth);
  k.constant("tile", static_cast<int64_t>(tiles.tile()));
  k.shared("x_tile", wgsl::f32, tiles.tile() * tiles.depth).shared("w_tile", wgsl::f32, tiles.tile() * tiles.depth);
  k.shared("found", wgsl::u32, 3);
  return k.read("groups", *lowering.storage(node.inputs[2]));
}

}  // namespace

bool suits_group_rows(const Graph& graph, const Node& node, const Target& target, const PlanOptions&) {
  return target.limits.max_storage_buffers_per_shader_stage >= 3 &&
         4 * uint64_t{workgroup_size(target.limits, 256)} <= target.limits.max_compute_workgroup_storage_size &&
         fit_whole(graph, node, target.limits);
}

void lower_group_rows(Lowering& lowering, const Node& node) {
  const Shape rows = lowering.graph().type(node.inputs[0]).shape;
  const int64_t experts = node.attrs.integer("groups");
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  Kernel k(lowering, "group_rows", label_of(node));
  k.workgroup(256).read("expert", *lowering.storage(node.inputs[0])).write("output", *out).reports(ReportKind::Index);
  k.param("rows", rows[0]).param("experts", experts).shared("stage", wgsl::u32, k.workgroup());
  k.dispatch(static_cast<uint64_t>(experts), {0, 8.0 * static_cast<double>(experts * rows[0])});
}

bool suits_grouped(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  return 4u + (options.check_finite ? 1u : 0u) <= target.limits.max_storage_buffers_per_shader_stage &&
         allows(Tiles{}, target.limits) && fit_whole(graph, node, target.limits);
}

void lower_grouped_matmul(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape x = graph.type(node.inputs[0]).shape, weight = graph.type(node.inputs[1]).shape;
  const uint64_t rows = extent_of(x, 0), depth = extent_of(x, 1), experts = extent_of(weight, 0);
  const uint64_t width = extent_of(graph.type(node.outputs[0]).shape, 1);
  const Tiles tiles = tiles_for(lowering.limits(), rows, experts);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  Kernel k = tiled(lowering, node, "grouped_matmul", tiles);
  const bool quads = depth % 4 == 0 && width % 4 == 0;
  const auto view = [&](const StoragePtr& storage) { return quads ? quad_view(*storage) : *storage; };
  k.read("x", view(lowering.storage(node.inputs[0]))).read("weight", view(lowering.storage(node.inputs[1])));
  k.checks_stored().write("output", view(out)).shared("own_rows", wgsl::u32, tiles.tile()).flag("quads", quads);
  const uint64_t column_tiles = pieces(width, tiles.tile());
  k.param("column_tiles", column_tiles).param("experts", experts).param("depth", depth).param("width", width);
  k.flag("transpose", flag(node, "transpose")).text("store", k.stored(view(out), "number"));
  // The last tile of each expert may be a part of one.
  const uint64_t row_tiles = std::min(rows, rows / tiles.tile() + experts);
  const auto sums = static_cast<double>(rows * width);
  k.dispatch(row_tiles * column_tiles, {2 * sums * static_cast<double>(depth),
                                        4 * (sums + static_cast<double>(rows * depth + experts * depth * width))});
}

void lower_grouped_weights(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape x = graph.type(node.inputs[0]).shape, out_shape = graph.type(node.outputs[0]).shape;
  const uint64_t experts = extent_of(out_shape, 0), depth = extent_of(out_shape, 1), width = extent_of(out_shape, 2);
  const Tiles tiles = tiles_for(lowering.limits(), extent_of(x, 0), experts);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  Kernel k = tiled(lowering, node, "grouped_weights", tiles);
  k.read("x", *lowering.storage(node.inputs[0]))
      .read("y", *lowering.storage(node.inputs[1]))
      .checks_stored()
      .write("output", *out);
  const uint64_t row_tiles = pieces(depth, tiles.tile()), column_tiles = pieces(width, tiles.tile());
  k.param("column_tiles", column_tiles).param("row_tiles", row_tiles).param("experts", experts);
  k.param("depth", depth).param("width", width).text("store", k.stored(*out, "number"));
  const auto sums = static_cast<double>(extent_of(x, 0));
  k.dispatch(experts * row_tiles * column_tiles,
             {2 * sums * static_cast<double>(depth * width), 4 * static_cast<double>(experts * depth * width)});
}

}  // namespace gyrus
