// The cache of keys and values, attention over it, and the choice of tokens. Where a cache needs several bindings it is
// cut between rows: each window takes the rows that it holds, and what attention makes of each is put together behind.
#include <algorithm>

#include "core/error.h"
#include "ops/cache.h"
#include "ops/common.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

std::vector<TensorType> types_of(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) types.push_back(id == kNoValue ? TensorType{} : graph.type(id));
  return types;
}

// The operand's own memory where nothing else reads it, else a copy of it.
StoragePtr taken_over(Lowering& lowering, const Node& node, size_t i) {
  const StoragePtr from = lowering.storage(node.inputs[i]);
  if (lowering.may_overwrite(node.inputs[i])) {
    lowering.set_storage(node.outputs[i], from);
    return from;
  }
  const StoragePtr out = lowering.make_storage(node.outputs[i], node);
  lowering.builder().copy(*from, *out);
  return out;
}

// Whole rows of `units` each, as many as a binding holds.
struct RowRange {
  uint64_t first = 0, end = 0;
  Window window;
};

std::vector<RowRange> cut_rows(const Storage& storage, uint64_t units, const Limits& limits, const std::string& label) {
  std::vector<RowRange> parts;
  const uint64_t rows = storage.units / units;
  for (uint64_t at = 0; at < rows;) {
    uint64_t least = 0, most = rows - at;
    while (least < most) {
      const uint64_t middle = (least + most + 1) / 2;
      if (fits_window(storage, at * units, middle * units, limits))
        least = middle;
      else
        most = middle - 1;
    }
    if (least == 0) fail(ErrorCode::OverLimits, label, "a row of the cache is larger than a binding may be");
    parts.push_back({at, at + least, window(storage, at * units, least * units, limits)});
    at += least;
  }
  return parts;
}

class CacheRowsEmitter {
 public:
  CacheRowsEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering), node_(node), a_(cache_attrs(node, types_of(lowering.graph(), node))) {}

  void run() {
    x_ = taken_over(lowering_, node_, 0);
    const StoragePtr cache = taken_over(lowering_, node_, 1);
    dtype_ = cache->dtype;
    cache_ = dtype_ == DType::F16 ? word_view(*cache) : *cache;
    const uint64_t units = row_units(a_.row_units);
    const std::vector<RowRange> parts = cut_rows(cache_, units, lowering_.limits(), label_of(node_));
    const bool norm = has_operand(node_, 3);
    // Five bindings, where there are so many; else, or where the cache is cut, one kernel turns and others store.
    if (parts.size() == 1 && (!norm || lowering_.limits().max_storage_buffers_per_shader_stage > 4)) {
      emit(true, &parts[0]);
      return;
    }
    emit(true, nullptr);
    for (const RowRange& part : parts) emit(false, &part);
  }

 private:
  uint64_t row_units(int64_t elements) const {
    return static_cast<uint64_t>(elements) / (dtype_ == DType::F16 ? 2 : 1);
  }

  void emit(bool rotate, const RowRange* part) {
    const bool norm = rotate && has_operand(node_, 3);
    Kernel k(lowering_, "cache_rows", label_of(node_));
    k.workgroup(64);
    k.write("x", *x_).read("turns", *lowering_.storage(node_.inputs[2]));
    if (norm) k.read("gamma", *lowering_.storage(node_.inputs[3]));
    if (part) k.write("cache", cache_, part->window).param("first_row", part->first).param("end_row", part->end);
    const int64_t first = rotate ? 0 : a_.heads;
    const int64_t heads = rotate && !part ? a_.heads + a_.kv_heads : a_.heads + 2 * a_.kv_heads - first;
    k.param("heads", a_.heads).param("kv_heads", a_.kv_heads).param("depth", a_.depth).param("half", a_.half);
    k.param("first_head", first).param("head_count", heads);
    k.param("row_units", row_units(a_.row_units)).param("head_units", row_units(a_.head_units));
    k.param("eps", static_cast<float>(node_.attrs.number("eps", 1e-6)));
    k.flag("rotate", rotate).flag("store", part != nullptr).flag("norm", norm).flag("halves", flag(node_, "halves"));
    k.flag("singles", dtype_ == DType::F32)
        .flag("half_floats", dtype_ == DType::F16)
        .flag("bytes", dtype_ == DType::U32);
    k.shared("held", wgsl::f32, static_cast<uint64_t>(a_.depth)).shared("stage", wgsl::f32, k.workgroup());
    k.dispatch(static_cast<uint64_t>(a_.rows * heads),
               {8.0 * static_cast<double>(a_.rows * a_.width()), 12.0 * static_cast<double>(a_.rows * a_.width())});
  }

  Lowering& lowering_;
  const Node& node_;
  CacheAttrs a_;
  DType dtype_ = DType::F32;
  StoragePtr x_;
  Storage cache_;
};

class CachedAttentionEmitter {
 public:
  CachedAttentionEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering), node_(node), a_(cache_attrs(node, types_of(lowering.graph(), node))) {}

  void run() {
    const StoragePtr cache = lowering_.storage(node_.inputs[1]);
    bytes_ = cache->dtype == DType::U32;
    cache_ = bytes_ ? *cache : quad_view(*cache);
    const std::vector<RowRange> parts = cut_rows(cache_, units(a_.row_units), lowering_.limits(), label_of(node_));
    out_ = lowering_.make_storage(node_.outputs[0], node_);
    if (parts.size() == 1) return emit(parts[0], *out_, false, true);
    const TensorType type{DType::F32, {a_.rows * a_.heads, a_.depth + 2}, Layout::Plain};
    const StoragePtr sums = lowering_.make_scratch(type, label_of(node_) + ".sums");
    for (size_t i = 0; i < parts.size(); ++i) emit(parts[i], *sums, true, i == 0);
    Kernel k(lowering_, "attention_finish", label_of(node_));
    k.workgroup(64).read("sums", *sums).write("result", *out_).checks_stored();
    k.param("count", out_->units).param("depth", a_.depth).text("store", k.stored(*out_, "value"));
    k.dispatch((out_->units + k.workgroup() - 1) / k.workgroup(), {0, 8.0 * static_cast<double>(sums->units)});
  }

 private:
  uint64_t units(int64_t elements) const { return static_cast<uint64_t>(elements) / (bytes_ ? 1 : 4); }

  void emit(const RowRange& part, const Storage& to, bool parts, bool first) {
    Kernel k(lowering_, "cached_attention", label_of(node_));
    const auto quads = static_cast<uint64_t>(a_.depth / 4),
               most = uint64_t{lowering_.limits().max_compute_workgroup_storage_size};
    // 24 bytes a lane, and the query where there is room for it.
    uint32_t lanes = 128;
    while (lanes > 1 && (lanes * 24 > most || (lanes > 16 && lanes * 24 + quads * 16 > most))) lanes /= 2;
    k.workgroup(lanes);
    const bool holds_query = k.workgroup() * 24 + quads * 16 + 48 <= most;
    k.read("x", *lowering_.storage(node_.inputs[0])).read("cache", cache_, part.window);
    k.read("turns", *lowering_.storage(node_.inputs[2]));
    if (parts)
      k.write("sums", to);
    else
      k.write("result", to).checks_stored();
    const double cap = node_.attrs.number("softcap", 0);
    const int64_t window = node_.attrs.integer("window", 0);
    k.param("heads", a_.heads).param("kv_heads", a_.kv_heads).param("depth", a_.depth).param("x_width", a_.width());
    k.param("width", 2 * a_.half + 2).param("first_row", part.first).param("end_row", part.end);
    k.param("row_units", units(a_.row_units)).param("head_units", units(a_.head_units));
    k.param("scale", static_cast<float>(node_.attrs.number("scale"))).param("softcap", static_cast<float>(cap));
    k.param("window", window).flag("window", window > 0).flag("softcap", cap > 0);
    k.flag("parts", parts)
        .flag("fours", quads % 4 == 0)
        .flag("first", first)
        .flag("bytes", bytes_)
        .text("unpack_unit", unpack_unit(cache_, "unit"))
        .text("T", "f32");
    k.text("store", parts ? "" : k.stored(to, "value"));
    k.flag("holds_query", holds_query)
        .constant("wide", static_cast<int64_t>((quads + k.workgroup() - 1) / k.workgroup()));
    if (holds_query) k.shared("query", wgsl::vec4f, quads);
    k.shared("shares", wgsl::f32, k.workgroup())
        .shared("stage", wgsl::f32, k.workgroup())
        .shared("made", wgsl::vec4f, k.workgroup());
    // How many keys there are is known only when it runs: half of the cache, as a guess.
    const double keys = static_cast<double>(part.end - part.first) / 2;
    k.dispatch(static_cast<uint64_t>(a_.rows * a_.heads),
               {4 * keys * static_cast<double>(a_.rows * a_.heads * a_.depth),
                keys * static_cast<double>(units(a_.row_units) * cache_.unit_bytes())});
  }

  Lowering& lowering_;
  const Node& node_;
  CacheAttrs a_;
  bool bytes_ = false;
  Storage cache_;
  StoragePtr out_;
};

}  // namespace

void lower_rope_turns(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  Kernel k(lowering, "rope_turns", label_of(node));
  k.workgroup(64).read("rows", *lowering.storage(node.inputs[0]));
  if (graph.type(node.inputs[1]).shape[0] > 0) k.read("speeds", *lowering.storage(node.inputs[1]));
  k.write("turns", *out).checks_stored().flag("turning", graph.type(node.inputs[1]).shape[0] > 0);
  k.param("count", graph.type(node.inputs[0]).shape[0]).param("stride", kStepColumns);
  k.param("half", graph.type(node.inputs[1]).shape[0])
      .param("scale", static_cast<float>(node.attrs.number("scale", 1)));
  k.text("T", "f32");
  k.dispatch((out->units + k.workgroup() - 1) / k.workgroup(),
             {10.0 * static_cast<double>(out->units), 4.0 * static_cast<double>(out->units)});
}

void lower_cache_rows(Lowering& lowering, const Node& node) { CacheRowsEmitter(lowering, node).run(); }
void lower_cached_attention(Lowering& lowering, const Node& node) { CachedAttentionEmitter(lowering, node).run(); }

void lower_choose_token(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  const StoragePtr scores = lowering.storage(node.inputs[0]), out = lowering.make_storage(node.outputs[0], node);
  const bool seen = has_operand(node, 2);
  for (const RowRange& rows : cut_rows(*scores, static_cast<uint64_t>(shape[1]), lowering.limits(), label_of(node))) {
    Kernel k(lowering, "choose_token", label_of(node));
    uint32_t lanes = 64;  // of which each looks at eight scores at a time
    while (lanes < 1024 && int64_t{lanes} * 8 < shape[1]) lanes *= 2;
    k.workgroup(lanes).read("scores", *scores, rows.window).read("params", *lowering.storage(node.inputs[1]));
    if (seen) k.read("seen", *lowering.storage(node.inputs[2]));
    k.write("tokens", *out).param("width", shape[1]).param("first_row", rows.first).flag("seen", seen);
    k.text("T", "f32").text("U", "u32");
    // Two values a lane, and two counts a digit.
    const uint32_t most = lowering.limits().max_compute_workgroup_storage_size;
    while (k.workgroup() > 64 && most < 2048 + 64 + 8 * k.workgroup()) k.workgroup(k.workgroup() / 2);
    const bool wide = most >= 2048 + 64 + 8 * k.workgroup();
    const int64_t bits = wide ? 8 : 4;
    k.shared("values", wgsl::f32, k.workgroup()).shared("places", wgsl::u32, k.workgroup());
    k.constant("bits", bits).constant("rounds", 32 / bits).constant("digits", int64_t{1} << bits);
    k.shared("counts", "atomic<u32>", 4, uint64_t{2} << bits).shared("found", wgsl::f32, 2);
    const double count = static_cast<double>((rows.end - rows.first) * static_cast<uint64_t>(shape[1]));
    k.dispatch(rows.end - rows.first, {20 * count, 4 * count});
  }
}

void lower_chosen_rows(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  MapSpec spec;
  spec.label = label_of(node);
  spec.name = "chosen_rows";
  spec.dims = graph.type(node.outputs[0]).shape;
  spec.params = {{"slots", graph.type(node.inputs[1]).shape[0]}};
  MapOperand chosen, row;
  chosen.storage = lowering.storage(node.inputs[1]);
  chosen.name = "first";
  chosen.index = "0u";
  row.storage = lowering.storage(node.inputs[0]);
  row.name = "row";
  spec.operands = {chosen, row};
  spec.statements =
      "  var y = row;\n  if (c1 == 0u && row < 0) {\n"
      "    y = max(read0(min(u32(-1 - row), P.slots - 1u)), 0);\n  }\n";
  spec.result = "y";
  spec.out = lowering.make_storage(node.outputs[0], node);
  emit_map(lowering, spec);
}

void lower_mark_tokens(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  const StoragePtr seen = taken_over(lowering, node, 0);
  const int64_t count = lowering.graph().type(node.inputs[1]).shape[0];
  for (const RowRange& rows : cut_rows(*seen, static_cast<uint64_t>(shape[1]), lowering.limits(), label_of(node))) {
    Kernel k(lowering, "mark_tokens", label_of(node));
    k.workgroup(64).read("rows", *lowering.storage(node.inputs[1])).write("seen", *seen, rows.window);
    k.param("count", count).param("width", shape[1]);
    k.param("first", rows.window.first).param("end", rows.window.first + rows.window.count);
    k.dispatch(static_cast<uint64_t>(ceil_div(count, k.workgroup())), {0, 8.0 * static_cast<double>(count)});
  }
}

}  // namespace gyrus
