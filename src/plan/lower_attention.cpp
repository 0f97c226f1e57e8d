#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/common.h"
#include "plan/matrix_units.h"

namespace gyrus {
namespace {

// How a workgroup cuts its work: queries and keys of a tile, quads of queries and keys of a thread, depth and values
// held at a time.
struct AttentionTile {
  uint32_t rows, columns, quads, keys, deep, held;
  uint32_t across() const { return columns / keys; }
  uint32_t lanes() const { return rows / 4 / quads * across(); }
  // vec4 of the values that a thread makes.
  uint32_t wide(const AttentionAttrs& a) const {
    return static_cast<uint32_t>(ceil_div(ceil_div(a.value_depth, 4), across()));
  }
  // vec4 of workgroup memory.
  uint64_t queries(const AttentionAttrs& a) const { return static_cast<uint64_t>(a.depth) * (rows / 4); }
  uint64_t pool(const AttentionAttrs& a) const {
    return std::max<uint64_t>(uint64_t{deep} * (columns + 1), uint64_t{held} * across() * wide(a));
  }
  uint64_t parts() const { return uint64_t{columns} * (rows / 4 + 1); }
  uint64_t best() const { return uint64_t{rows / 4} * (across() + 1); }
  uint64_t bytes(const AttentionAttrs& a) const { return 16 * (queries(a) + pool(a) + parts() + best()); }
};

// The largest first.
constexpr AttentionTile kTiles[] = {{64, 64, 1, 4, 8, 32}, {64, 32, 1, 2, 8, 16}, {32, 32, 1, 4, 4, 8},
                                    {16, 16, 1, 4, 2, 4},  {8, 8, 1, 4, 1, 1},    {4, 4, 1, 4, 1, 1}};
constexpr uint32_t kMostWide = 8;
constexpr int64_t kFewQueries = 8;  // with fewer matrices are mostly empty
constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLowest = -3.4028234663852886e38;

const AttentionTile* tile_for(const AttentionAttrs& a, const Target& target) {
  for (const AttentionTile& tile : kTiles)
    if (workgroup_size(target.limits, tile.lanes()) == tile.lanes() && tile.wide(a) * tile.quads <= kMostWide &&
        tile.bytes(a) <= target.limits.max_compute_workgroup_storage_size)
      return &tile;
  return nullptr;
}

// A workgroup of subgroups with matrix units; a subgroup makes as many queries as a matrix has rows, with so many keys
// at a time.
struct MatrixTile {
  int64_t subgroups, columns;
  MatrixShape shape{};
  int64_t lanes = 0;  // of a subgroup
  int64_t rows() const { return subgroups * shape.m; }
  int64_t shares() const { return lanes / shape.m; }  // lanes that have scores of the same query
  // Eights of a query or key and of a value, whole matrices; then vec4 of workgroup memory.
  int64_t depth(const AttentionAttrs& a) const { return ceil_div(a.depth, int64_t{shape.k}) * shape.k / 8; }
  int64_t values(const AttentionAttrs& a) const { return ceil_div(a.value_depth, int64_t{shape.n}) * shape.n / 8; }
  int64_t queries(const AttentionAttrs& a) const { return rows() * (depth(a) + 1); }
  int64_t pool(const AttentionAttrs& a) const { return columns * (std::max(depth(a), values(a)) + 1); }
  int64_t sums() const { return rows() * (columns / 4 + 1); }
  int64_t parts() const { return rows() * (columns / 8 + 1); }
  int64_t bytes(const AttentionAttrs& a) const {
    return 16 * (queries(a) + pool(a) + sums() + parts()) + round_up(4 * rows() * shares(), 16) +
           round_up(4 * subgroups, 16);
  }
};
// The largest first. Keys in tiles of 32 leave room for more queries where they are long.
constexpr MatrixTile kMatrixTiles[] = {{4, 64}, {4, 32}, {2, 64}, {2, 32}, {1, 32}, {2, 16}, {1, 16}, {1, 8}};
constexpr int64_t kMostLaneSums = 128;  // of the result, that a lane holds

bool suits(const MatrixTile& tile, const AttentionAttrs& a, const Limits& limits) {
  const MatrixShape& s = tile.shape;
  if (tile.lanes % s.m != 0 || tile.columns % s.n != 0 || tile.columns % s.k != 0) return false;
  if (tile.columns / 8 % tile.shares() != 0 || s.m * tile.values(a) * 8 > kMostLaneSums * tile.lanes) return false;
  const auto lanes = static_cast<uint32_t>(tile.subgroups * tile.lanes);
  return workgroup_size(limits, lanes) == lanes &&
         tile.bytes(a) <= static_cast<int64_t>(limits.max_compute_workgroup_storage_size);
}

std::optional<MatrixTile> matrix_tile_for(const Node& node, const AttentionAttrs& a, const Target& target,
                                          const PlanOptions& options) {
  const uint32_t bindings = 5 + (has_operand(node, 3) ? 1 : 0) + (has_operand(node, 4) ? 1 : 0);
  if (!may_round(node) || !wants_matrix_units(target, options, a.queries >= kFewQueries) ||
      bindings > target.limits.max_storage_buffers_per_shader_stage)
    return {};
  const std::vector<MatrixShape> shapes = matrices_of_halves(target);
  for (MatrixTile tile : kMatrixTiles)
    for (const MatrixShape& shape : shapes) {
      tile.shape = shape;
      tile.lanes = target.subgroup_max_size;
      // Half of the queries of a tile at least are there.
      if ((tile.subgroups == 1 || tile.rows() < 2 * a.queries) && suits(tile, a, target.limits)) return tile;
    }
  return {};
}

AttentionAttrs attrs_of(const Graph& graph, const Node& node) {
  return attention_attrs(node, graph.type(node.inputs[0]).shape, graph.type(node.inputs[1]).shape,
                         graph.type(node.inputs[2]).shape);
}

class AttentionEmitter {
 public:
  AttentionEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        node_(node),
        a_(attrs_of(lowering.graph(), node)),
        tile_(*tile_for(a_, lowering.target())),
        matrix_tile_(matrix_tile_for(node, a_, lowering.target(), lowering.options())),
        label_(label_of(node)) {}

  void run() {
    q_ = heads_of(0, a_.heads, a_.queries, a_.depth);
    k_ = heads_of(1, a_.kv_heads, a_.keys, a_.depth);
    v_ = heads_of(2, a_.kv_heads, a_.keys, a_.value_depth);
    const StoragePtr out = lowering_.make_scratch(head_type(a_.heads, a_.queries * a_.value_depth), label_);
    lowering_.set_storage(node_.outputs[0], out);
    out_ = quad_view(*out);
    const int64_t all = a_.batch * a_.heads;
    if (fits(0, all)) return emit(0, all);
    for (int64_t head = 0; head < all; ++head) emit(head, 1);
  }

 private:
  // Cuts never split a plane, so that a head never lies in two buffers.
  TensorType head_type(int64_t heads, int64_t elements) const {
    return {DType::F32, {1, 1, a_.batch * heads, elements}, Layout::Plain};
  }

  Storage heads_of(size_t i, int64_t heads, int64_t length, int64_t depth) {
    const StoragePtr in = lowering_.storage(node_.inputs[i]);
    const auto elements = static_cast<uint64_t>(length * depth);
    const bool whole = std::all_of(in->chunks.begin(), in->chunks.end(), [&](const Chunk& chunk) {
      return chunk.first % elements == 0 && chunk.byte_offset % 16 == 0;
    });
    if (whole) return quad_view(*in);
    const StoragePtr copy = lowering_.make_scratch(head_type(heads, length * depth), label_);
    lowering_.builder().copy(*in, *copy);
    return quad_view(*copy);
  }

  // The units of some heads of the queries, and of the heads of keys or values that they read.
  UnitRange query_units(int64_t first, int64_t count, int64_t depth) const {
    const auto head = static_cast<uint64_t>(a_.queries * depth / 4);
    return {static_cast<uint64_t>(first) * head, static_cast<uint64_t>(count) * head};
  }
  UnitRange key_units(int64_t first, int64_t count, int64_t depth) const {
    const auto read = [this](int64_t head) {
      return head / a_.heads * a_.kv_heads + head % a_.heads * a_.kv_heads / a_.heads;
    };
    const auto head = static_cast<uint64_t>(a_.keys * depth / 4);
    const int64_t begin = read(first), end = read(first + count - 1) + 1;
    return {static_cast<uint64_t>(begin) * head, static_cast<uint64_t>(end - begin) * head};
  }

  bool fits(int64_t first, int64_t count) const {
    const auto in = [this](const Storage& storage, const UnitRange& units) {
      return fits_window(storage, units.first, units.count, lowering_.limits());
    };
    return in(q_, query_units(first, count, a_.depth)) && in(k_, key_units(first, count, a_.depth)) &&
           in(v_, key_units(first, count, a_.value_depth)) && in(out_, query_units(first, count, a_.value_depth));
  }

  // An operand that broadcasts to the scores.
  void add_spread(Kernel& k, size_t input, const std::string& name) {
    const StoragePtr storage = lowering_.storage(node_.inputs[input]);
    k.read(name, *storage);
    const std::vector<int64_t> strides =
        broadcast_strides(lowering_.graph().type(node_.inputs[input]).shape, {a_.batch, a_.heads, a_.queries, a_.keys});
    k.param(name + "_batch", strides[0]).param(name + "_head", strides[1]);
    k.param(name + "_query", strides[2]).param(name + "_key", strides[3]);
    if (name == "mask") k.text("mask_element", element_text(*storage, "mask", "element"));
  }

  void emit(int64_t first, int64_t count) {
    if (matrix_tile_)
      emit_matrices(first, count);
    else
      emit_tiles(first, count);
  }

  // What both kernels are told, with operands bound.
  void add_operands(Kernel& k, int64_t first, int64_t count) {
    const auto bound = [this](const Storage& storage, const UnitRange& units) {
      return window(storage, units.first, units.count, lowering_.limits());
    };
    const bool mask = has_operand(node_, 3), bias = has_operand(node_, 4);
    k.read("q", q_, bound(q_, query_units(first, count, a_.depth)));
    k.read("k", k_, bound(k_, key_units(first, count, a_.depth)));
    k.read("v", v_, bound(v_, key_units(first, count, a_.value_depth)));
    if (mask) add_spread(k, 3, "mask");
    if (bias) add_spread(k, 4, "bias");
    k.write("result", out_, bound(out_, query_units(first, count, a_.value_depth)));
    if (matrix_tile_)
      checks_rounded(k, lowering_.options());
    else
      k.checks_stored();
    k.param("first_head", first).param("heads", count).param("all_heads", a_.heads).param("kv_heads", a_.kv_heads);
    k.param("queries", a_.queries).param("keys", a_.keys).param("depth", a_.depth / 4);
    k.param("value_depth", a_.value_depth / 4).param("window", a_.window);
    // Scores times log2(e); those under a cap get that behind it.
    const bool cap = a_.softcap > 0;
    k.param("scale", static_cast<float>(cap ? a_.scale / a_.softcap : a_.scale * kLog2E));
    k.param("softcap", static_cast<float>(a_.softcap * kLog2E));
    const bool hidden = mask && std::isfinite(a_.hidden);
    if (hidden) k.param("hidden", static_cast<float>(std::max(a_.hidden * kLog2E, kLowest)));
    k.flag("hidden", hidden);
    k.flag("causal", a_.causal).flag("window", a_.window > 0).flag("softcap", cap);
    k.flag("mask", mask).flag("bias", bias).text("store", k.stored(out_, "y"));
    k.constant("four", 4).text("T", "vec4<f32>");
  }

  void dispatch(Kernel& k, int64_t count, int64_t rows) const {
    const auto tiles = static_cast<uint64_t>(ceil_div(a_.queries, rows));
    const double share = static_cast<double>(count) / static_cast<double>(a_.batch * a_.heads);
    const double pairs = static_cast<double>(a_.batch * a_.heads * a_.queries) * static_cast<double>(a_.keys);
    const double read = static_cast<double>(a_.batch * (a_.heads * a_.queries + a_.kv_heads * a_.keys));
    k.dispatch(static_cast<uint64_t>(count) * tiles,
               {2 * share * pairs * static_cast<double>(a_.depth + a_.value_depth),
                4 * share * read * static_cast<double>(a_.depth + a_.value_depth)});
  }

  void emit_tiles(int64_t first, int64_t count) {
    Kernel k(lowering_, "attention", label_);
    k.workgroup(tile_.lanes());
    add_operands(k, first, count);
    k.constant("rows", tile_.rows).constant("columns", tile_.columns).constant("across", tile_.across());
    k.flag("whole", a_.depth / 4 % tile_.deep == 0);
    k.constant("quads", tile_.quads).constant("keys", tile_.keys).constant("deep", tile_.deep);
    const auto loads = [&](uint64_t units) {
      return static_cast<int64_t>((units + tile_.lanes() - 1) / tile_.lanes());
    };
    k.constant("key_loads", loads(uint64_t{tile_.columns} * tile_.deep));
    k.constant("value_loads", loads(uint64_t{tile_.held} * tile_.across() * tile_.wide(a_)));
    k.constant("held", tile_.held).constant("wide", tile_.wide(a_));
    k.flag("picky", a_.causal || a_.window > 0 || has_operand(node_, 3) || has_operand(node_, 4));
    k.shared("qs", wgsl::vec4f, tile_.queries(a_)).shared("pool", wgsl::vec4f, tile_.pool(a_));
    k.shared("ps", wgsl::vec4f, tile_.parts()).shared("best", wgsl::vec4f, tile_.best());
    dispatch(k, count, tile_.rows);
  }

  void emit_matrices(int64_t first, int64_t count) {
    const MatrixTile& t = *matrix_tile_;
    const int64_t lanes = t.subgroups * t.lanes;
    Kernel k(lowering_, "attention_matrix", label_);
    k.workgroup(static_cast<uint32_t>(lanes)).matrices();
    add_operands(k, first, count);
    k.flag("spread", has_operand(node_, 3) || has_operand(node_, 4));
    k.constant("m", t.shape.m).constant("n", t.shape.n).constant("k", t.shape.k);
    k.constant("rows", t.rows()).constant("columns", t.columns).constant("shares", t.shares());
    k.constant("subgroups", t.subgroups).constant("lane_eights", t.columns / 8 / t.shares());
    k.constant("depth_eights", t.depth(a_)).constant("value_eights", t.values(a_));
    k.constant("matrices_s", t.columns / t.shape.n).constant("matrices_v", t.values(a_) * 8 / t.shape.n);
    k.constant("key_loads", ceil_div(t.columns * t.depth(a_), lanes));
    k.constant("value_loads", ceil_div(t.columns * t.values(a_), lanes));
    const WgslType eights{Scalar::U32, 4};
    k.shared("qs", eights, static_cast<uint64_t>(t.queries(a_)))
        .shared("pool", eights, static_cast<uint64_t>(t.pool(a_)));
    k.shared("sums", wgsl::vec4f, static_cast<uint64_t>(t.sums()));
    k.shared("parts", eights, static_cast<uint64_t>(t.parts()));
    k.shared("best", wgsl::f32, static_cast<uint64_t>(t.rows() * t.shares()));
    k.shared("moved", wgsl::u32, static_cast<uint64_t>(t.subgroups));
    dispatch(k, count, t.rows());
  }

  Lowering& lowering_;
  const Node& node_;
  AttentionAttrs a_;
  AttentionTile tile_;
  std::optional<MatrixTile> matrix_tile_;
  std::string label_;
  Storage q_, k_, v_, out_;
};

}  // namespace

bool suits_attention(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const AttentionAttrs a = attrs_of(graph, node);
  const Limits& limits = target.limits;
  if (a.depth % 4 != 0 || a.value_depth % 4 != 0 || a.depth == 0 || a.value_depth == 0) return false;
  if (a.queries == 0 || a.keys == 0 || a.batch * a.heads == 0 || !tile_for(a, target)) return false;
  uint32_t bindings = 4 + (options.check_finite ? 1 : 0);
  const auto most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  for (size_t i = 3; i < 5; ++i) {
    if (!has_operand(node, i)) continue;
    ++bindings;
    const TensorType& type = graph.type(node.inputs[i]);
    const auto bytes = static_cast<uint64_t>(element_count(type.shape)) * byte_size(type.dtype);
    if (bytes + 512 > most) return false;
  }
  const auto head = static_cast<uint64_t>(std::max(a.queries, a.keys) * std::max(a.depth, a.value_depth)) * 4;
  return bindings <= limits.max_storage_buffers_per_shader_stage && head + 512 <= most;
}

void lower_attention(Lowering& lowering, const Node& node) { AttentionEmitter(lowering, node).run(); }

}  // namespace gyrus
