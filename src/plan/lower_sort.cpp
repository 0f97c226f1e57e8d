// Sorting by digits, least significant first, after Satish, Harris and Garland, "Designing efficient sorting algorithms
// for manycore GPUs" (2009): for each digit, count it in every tile, sum up where each tile's keys go, move them. Tiles
// never wait for each other. And what stands on sorted lists.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

constexpr uint32_t kLanes = 128;        // at most; more wait longer for each other, as measured
constexpr uint32_t kTeam = 32;          // lanes that show their digits in one mask
constexpr uint64_t kScanned = 16;       // words that a lane of sort_scan sums up
constexpr int64_t kShortestLine = 512;  // shorter ones are ranked

// How a sort is cut for some limits.
struct SortShape {
  uint32_t wg = 0, items = 0, digit_bits = 0;

  uint32_t digits() const { return 1u << digit_bits; }
  uint32_t team() const { return std::min(kTeam, wg); }
  uint32_t slots() const { return wg / team() * digits(); }
  uint32_t tile() const { return wg * items; }
  uint32_t stage() const { return std::max(slots(), tile()); }
  uint64_t bytes() const {
    return round_up(4ull * stage(), 16) + round_up(8ull * slots(), 16) + round_up(8ull * digits(), 16);
  }
};

// The widest digits whose counts are few beside the keys, and for them the largest workgroups; none has wg 0. The same
// for keys of few bits, so that kernels are. A driver for a CPU unrolls rounds: 24 take it 15 s to compile, 12 take 5,
// and a sixth more to run.
SortShape sort_shape(const Limits& limits, const PlanOptions& options) {
  const uint32_t most = options.conv.stage_weights ? 24 : 12;
  for (uint32_t bits = 8; bits > 0; --bits)
    for (uint32_t wg = workgroup_size(limits, kLanes); wg > 0; wg /= 2)
      for (const uint32_t items : {24u, 16u, 12u, 8u}) {
        const SortShape shape{wg, items, bits};
        if (items <= most && shape.bytes() <= limits.max_compute_workgroup_storage_size &&
            shape.tile() >= 6 * shape.digits())
          return shape;
      }
  return {};
}

struct Keys {
  uint64_t lines = 1, extent = 1;
  uint32_t bits = 32;
  DType dtype = DType::F32;
  bool descending = false;

  uint64_t elements() const { return lines * extent; }
  uint64_t line_tiles(uint32_t tile) const { return (extent + tile - 1) / tile; }
  uint64_t counts(const SortShape& s) const { return lines * line_tiles(s.tile()) * s.digits(); }
  // Where a tile starts, in elements.
  uint64_t start(uint64_t index, uint32_t tile) const {
    const uint64_t in_line = line_tiles(tile);
    return index / in_line * extent + std::min(extent, index % in_line * tile);
  }
};

Keys keys_of(const Graph& graph, const Node& node) {
  const TensorType& type = graph.type(node.inputs[0]);
  Keys keys;
  keys.extent = static_cast<uint64_t>(type.shape.back());
  keys.lines = keys.extent ? static_cast<uint64_t>(element_count(type.shape)) / keys.extent : 0;
  keys.bits = static_cast<uint32_t>(node.attrs.integer("bits", 32));
  keys.dtype = type.dtype;
  keys.descending = flag(node, "descending");
  return keys;
}

// Bytes that a buffer may have to be bound whole, from its start.
uint64_t most_bound(const Limits& limits) {
  return round_down(std::min(limits.max_buffer_size, limits.max_storage_buffer_binding_size), 4);
}

uint64_t groups_of(const Kernel& k, uint64_t threads) { return (threads + k.workgroup() - 1) / k.workgroup(); }

// A range of tiles whose keys lie in one window.
struct Part {
  uint64_t first_tile = 0, tiles = 0;
  Window window;
};

class SortEmitter {
 public:
  SortEmitter(Lowering& lowering, const Node& node, const Keys& keys, const SortShape& shape)
      : lowering_(lowering), label_(label_of(node)), keys_(keys), shape_(shape) {}

  void run(const Storage& x, const Storage& values, const Storage& positions) {
    const uint32_t passes = (keys_.bits + shape_.digit_bits - 1) / shape_.digit_bits;
    const bool whole = fits(x) && fits(values) && fits(positions);
    counts_ = lowering_.make_scratch({DType::U32, {static_cast<int64_t>(keys_.counts(shape_))}}, label_);
    cut(whole);
    // Results take turns with scratch, so that the last pass ends in them; where they are cut other than tiles are,
    // scratch takes turns with scratch.
    const Storage spare = passes > 1 ? scratch() : x, spare_positions = passes > 1 ? scratch() : x;
    const Storage other = whole || passes < 3 ? values : scratch(),
                  places = whole || passes < 3 ? positions : scratch();
    Storage from = x, from_positions = x;
    if (!whole) {
      from = scratch();
      lowering_.builder().copy(x, from);
    }
    for (uint32_t pass = 0; pass < passes; ++pass) {
      first_ = pass == 0;
      last_ = pass + 1 == passes;
      low_bit_ = pass * shape_.digit_bits;
      const bool to_spare = (passes - 1 - pass) % 2 == 1;
      const Storage& to = last_ ? values : to_spare ? spare : other;
      const Storage& to_positions = last_ ? positions : to_spare ? spare_positions : places;
      count(from);
      scan(*counts_);
      move(from, from_positions, to, to_positions);
      from = to;
      from_positions = to_positions;
    }
  }

 private:
  bool fits(const Storage& s) const { return fits_window(s, 0, s.units, lowering_.limits()); }

  // Ranges of tiles that fit a window of scratch; one, where all does.
  void cut(bool whole) {
    const uint64_t tiles = keys_.lines * keys_.line_tiles(shape_.tile());
    const uint64_t most = most_bound(lowering_.limits()) / 4;
    for (uint64_t first = 0; first < tiles;) {
      uint64_t end = whole ? tiles : first + 1;
      while (end < tiles && start(end + 1) - start(first) <= most) ++end;
      parts_.push_back({first, end - first, {}});
      first = end;
    }
  }

  uint64_t start(uint64_t tile) const { return keys_.start(tile, shape_.tile()); }

  // Memory for keys or positions, cut as the tiles are.
  Storage scratch() {
    Storage s = storage_shape({DType::U32, {static_cast<int64_t>(keys_.elements())}});
    for (const Part& part : parts_) {
      const uint64_t first = start(part.first_tile), count = start(part.first_tile + part.tiles) - first;
      s.chunks.push_back({lowering_.builder().add_buffer(label_, count * 4), 0, first, count});
    }
    return s;
  }

  Window window_of(const Storage& s, const Part& part) const {
    const uint64_t first = start(part.first_tile);
    return window(s, first, start(part.first_tile + part.tiles) - first, lowering_.limits());
  }

  Kernel kernel(const char* file, const Part& part) const {
    Kernel k(lowering_, file, label_);
    k.workgroup(shape_.wg).param("first_tile", part.first_tile).param("tiles", part.tiles);
    k.param("extent", keys_.extent).param("row_tiles", keys_.line_tiles(shape_.tile()));
    k.param("low_bit", uint64_t{low_bit_});
    k.param("last_digit", (uint64_t{1} << std::min(shape_.digit_bits, keys_.bits - low_bit_)) - 1);
    k.constant("digits", shape_.digits()).constant("tile", shape_.tile());
    k.param("kind", first_ ? order_kind(keys_.dtype, keys_.descending) : 0);
    return k;
  }

  double bytes(const Part& part, double each) const {
    return each * static_cast<double>(start(part.first_tile + part.tiles) - start(part.first_tile));
  }

  void count(const Storage& from) {
    for (const Part& part : parts_) {
      Kernel k = kernel("sort_count", part);
      k.read("keys", from, window_of(from, part)).write("counts", *counts_);
      k.shared("found", "atomic<u32>", 4, shape_.digits());
      k.dispatch(part.tiles,
                 {bytes(part, 1), bytes(part, 4) + 4.0 * static_cast<double>(part.tiles * shape_.digits())});
    }
  }

  // Words become the sums of those before them.
  void scan(const Storage& words) {
    const uint64_t block = scan_kernel(words).workgroup() * kScanned, blocks = (words.units + block - 1) / block;
    if (blocks == 1) return apply(words, nullptr, 1);
    const StoragePtr sums = lowering_.make_scratch({DType::U32, {static_cast<int64_t>(blocks)}}, label_);
    Kernel k = scan_kernel(words);
    k.read("words", words, window(words, 0, words.units, lowering_.limits())).write("sums", *sums);
    k.param("blocks", blocks).flag("sums", true);
    k.dispatch(blocks, {static_cast<double>(words.units), 4.0 * static_cast<double>(words.units + blocks)});
    scan(*sums);
    apply(words, sums, blocks);
  }

  void apply(const Storage& words, const StoragePtr& bases, uint64_t blocks) {
    Kernel k = scan_kernel(words);
    k.write("words", words, window(words, 0, words.units, lowering_.limits()));
    if (bases) k.read("bases", *bases);
    k.param("blocks", blocks).flag("sums", false).flag("based", bases != nullptr);
    k.dispatch(blocks, {static_cast<double>(words.units), 8.0 * static_cast<double>(words.units)});
  }

  Kernel scan_kernel(const Storage& words) const {
    Kernel k(lowering_, "sort_scan", label_);
    k.workgroup(256).param("count", words.units).constant("per", static_cast<int64_t>(kScanned));
    k.constant("block", static_cast<int64_t>(k.workgroup() * kScanned));
    k.shared("stage", wgsl::u32, 2ull * k.workgroup());
    return k;
  }

  // Keys and positions at once where they have enough bindings and the same windows, else one after the other.
  void move(const Storage& from, const Storage& from_positions, const Storage& to, const Storage& to_positions) {
    const Limits& limits = lowering_.limits();
    const bool together = limits.max_storage_buffers_per_shader_stage >= 5 && fits(to) && fits(to_positions);
    for (const Part& part : parts_) {
      if (together) {
        move_part(part, from, from_positions, &to, {window(to, 0, to.units, limits)}, &to_positions,
                  {window(to_positions, 0, to_positions.units, limits)});
        continue;
      }
      for (const Window& w : windows(to, 0, to.units, limits))
        move_part(part, from, from_positions, &to, w, nullptr, {});
      for (const Window& w : windows(to_positions, 0, to_positions.units, limits))
        move_part(part, from, from_positions, nullptr, {}, &to_positions, w);
    }
  }

  void move_part(const Part& part, const Storage& from, const Storage& from_positions, const Storage* to,
                 const Window& sorted, const Storage* to_positions, const Window& order) {
    Kernel k = kernel("sort_scatter", part);
    k.read("keys", from, window_of(from, part)).read("places", *counts_);
    if (to_positions && !first_) k.read("positions", from_positions, window_of(from_positions, part));
    if (to) {
      k.write("sorted", *to, sorted).param("sorted_begin", sorted.first).param("sorted_count", sorted.count);
    }
    if (to_positions) {
      k.write("order", *to_positions, order).param("order_begin", order.first).param("order_count", order.count);
    }
    k.flag("moves_keys", to != nullptr).flag("moves_positions", to_positions != nullptr).flag("first", first_);
    k.param("kind_out", last_ ? order_kind(keys_.dtype, keys_.descending) : 0);
    k.constant("team", shape_.team()).constant("teams", shape_.wg / shape_.team()).constant("items", shape_.items);
    const uint32_t own = std::max(1u, shape_.digits() / shape_.wg);
    k.constant("slots", shape_.slots()).constant("own", own).constant("counters", shape_.digits() / own);
    k.shared("masks", "atomic<u32>", 4, 2ull * shape_.slots())
        .shared("stage", wgsl::u32, shape_.stage())
        .shared("starts", wgsl::u32, 2ull * shape_.digits());
    const double each = (to ? 8.0 : 4.0) + (to_positions ? (first_ ? 4.0 : 8.0) : 0.0);
    k.dispatch(part.tiles, {bytes(part, 8), bytes(part, each)});
  }

  Lowering& lowering_;
  std::string label_;
  Keys keys_;
  SortShape shape_;
  std::vector<Part> parts_;
  StoragePtr counts_;
  uint32_t low_bit_ = 0;
  bool first_ = false, last_ = false;
};

}  // namespace

uint64_t order_kind(DType dtype, bool descending) {
  return (dtype == DType::F32 ? 2 : dtype == DType::I32 ? 1 : 0) + (descending ? 4 : 0);
}

bool suits_sort(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const Keys keys = keys_of(graph, node);
  const Limits& limits = target.limits;
  if (keys.extent < static_cast<uint64_t>(kShortestLine) || keys.lines == 0 || keys.elements() > UINT32_MAX ||
      limits.max_storage_buffers_per_shader_stage < 4)
    return false;
  const SortShape shape = sort_shape(limits, options);
  return shape.wg > 0 && std::max<uint64_t>(keys.counts(shape), shape.tile()) * 4 <= most_bound(limits);
}

void lower_sort(Lowering& lowering, const Node& node) {
  const Keys keys = keys_of(lowering.graph(), node);
  const StoragePtr x = lowering.storage(node.inputs[0]);
  const StoragePtr values = lowering.make_storage(node.outputs[0], node);
  const StoragePtr positions = lowering.make_storage(node.outputs[1], node);
  SortEmitter(lowering, node, keys, sort_shape(lowering.limits(), lowering.options()))
      .run(word_view(*x), word_view(*values), word_view(*positions));
}

void lower_search_sorted(Lowering& lowering, const Node& node) {
  const StoragePtr list = lowering.storage(node.inputs[0]), queries = lowering.storage(node.inputs[1]);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const std::vector<Window> all = windows(*list, 0, std::max<uint64_t>(1, list->units), lowering.limits());
  for (const Window& result : windows(*out, 0, out->units, lowering.limits()))
    for (const Window& query : windows(*queries, result.first, result.count, lowering.limits()))
      for (size_t w = 0; w < all.size(); ++w) {
        Kernel k(lowering, "search_sorted", label_of(node));
        k.workgroup(64).read("list", *list, all[w]).read("queries", *queries, query).write("result", *out, result);
        k.param("list_begin", all[w].first).param("list_count", std::min(list->units, all[w].count));
        k.param("query_begin", query.first).param("query_count", query.count);
        k.flag("first", w == 0).flag("right", flag(node, "right"));
        k.dispatch(groups_of(k, query.count), {32.0 * static_cast<double>(query.count),
                                               4.0 * static_cast<double>(query.count * 2 + all[w].count)});
      }
}

void lower_segment_sum(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const StoragePtr x = lowering.storage(node.inputs[0]), ends = lowering.storage(node.inputs[1]);
  const StoragePtr rows = lowering.storage(node.inputs[2]), out = lowering.make_storage(node.outputs[0], node);
  const std::vector<Window> all = windows(*x, 0, std::max<uint64_t>(1, x->units), lowering.limits());
  for (const Window& result : windows(*out, 0, out->units, lowering.limits()))
    for (size_t w = 0; w < all.size(); ++w) {
      Kernel k(lowering, "segment_sum", label_of(node));
      k.workgroup(64).read("x", *x, all[w]).read("ends", *ends).read("rows", *rows).write("result", *out, result);
      k.param("x_begin", all[w].first).param("x_count", std::min(x->units, all[w].count));
      k.param("result_begin", result.first).param("result_count", result.count).param("row_count", rows->units);
      k.param("columns", graph.type(node.inputs[0]).shape[1]).flag("first", w == 0);
      k.checks_stored().text("store", k.stored(*out, "sum"));
      k.dispatch(groups_of(k, result.count),
                 {static_cast<double>(all[w].count), 4.0 * static_cast<double>(all[w].count + result.count)});
    }
}

void lower_at_most(Lowering& lowering, const Node& node) {
  const StoragePtr x = lowering.storage(node.inputs[0]), y = lowering.make_storage(node.outputs[0], node);
  for (const Window& to : windows(*y, 0, y->units, lowering.limits()))
    for (const Window& from : windows(*x, to.first, to.count, lowering.limits())) {
      Kernel k(lowering, "at_most", label_of(node));
      k.workgroup(64).read("x", *x, from).write("y", *y, to).param("begin", from.first).param("count", from.count);
      k.param("most", node.attrs.integer("most")).reports(ReportKind::Room);
      k.dispatch(groups_of(k, from.count), {0, 8.0 * static_cast<double>(from.count)});
    }
}

}  // namespace gyrus
