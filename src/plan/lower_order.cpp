// Ops whose elements meet all others of a line or list: ranks, places, rows written by index.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/indexing.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

struct Line {
  int64_t extent = 1, inner = 1;
};

Line line_of(const Node& node, const Shape& shape) {
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), shape.size());
  return {shape[axis], strides_of(shape)[axis]};
}

uint64_t groups_for(const Kernel& k, uint64_t threads) { return (threads + k.workgroup() - 1) / k.workgroup(); }

const char* combine_text(Reduction reduction) {
  switch (reduction) {
    case Reduction::None: return "update";
    case Reduction::Add: return "value + update";
    case Reduction::Mul: return "value * update";
    case Reduction::Min: return "min(value, update)";
    case Reduction::Max: return "max(value, update)";
  }
  return "update";
}

}  // namespace

void lower_ranks(Lowering& lowering, const Node& node) {
  const Line line = line_of(node, lowering.graph().type(node.inputs[0]).shape);
  const DType dtype = lowering.graph().type(node.inputs[0]).dtype;
  const Storage in = word_view(*lowering.storage(node.inputs[0]));
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const std::vector<Window> all = windows(in, 0, in.units, lowering.limits());
  for (const Window& result : windows(*out, 0, out->units, lowering.limits()))
    for (const Window& own : windows(in, result.first, result.count, lowering.limits()))
      for (size_t w = 0; w < all.size(); ++w) {
        Kernel k(lowering, "ranks", label_of(node));
        k.workgroup(64).read("own", in, own).param("own_begin", own.first).param("own_count", own.count);
        k.read("others", in, all[w]).param("others_begin", all[w].first).param("others_count", all[w].count);
        k.write("result", *out, result).param("extent", line.extent).param("inner", line.inner);
        k.flag("first", w == 0).param("kind", order_kind(dtype, node.attrs.integer("largest", 1) != 0));
        k.dispatch(groups_for(k, own.count), {static_cast<double>(own.count) * static_cast<double>(line.extent),
                                              static_cast<double>(4 * (own.count * 2 + all[w].count))});
      }
}

void lower_place(Lowering& lowering, const Node& node) {
  const Line line = line_of(node, lowering.graph().type(node.inputs[0]).shape);
  const StoragePtr in = lowering.storage(node.inputs[0]), places = lowering.storage(node.inputs[1]);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  for (const Window& x : windows(*in, 0, in->units, lowering.limits()))
    for (const Window& at : windows(*places, x.first, x.count, lowering.limits()))
      for (const Window& result : windows(*out, 0, out->units, lowering.limits())) {
        Kernel k(lowering, "place", label_of(node));
        k.workgroup(64).read("x", *in, x).read("places", *places, at).write("result", *out, result);
        k.param("begin", at.first).param("count", at.count);
        k.param("result_begin", result.first).param("result_count", result.count);
        k.param("extent", line.extent).param("inner", line.inner).param("k", node.attrs.integer("k"));
        k.dispatch(groups_for(k, at.count), {0, static_cast<double>(8 * at.count)});
      }
}

// In place where nothing else reads the data.
void lower_scatter_rows(Lowering& lowering, const Node& node) {
  const auto inner = static_cast<uint64_t>(lowering.graph().type(node.inputs[0]).shape[1]);
  const StoragePtr from = lowering.storage(node.inputs[0]);
  const StoragePtr rows = lowering.storage(node.inputs[1]), updates = lowering.storage(node.inputs[2]);
  const bool in_place = lowering.may_overwrite(node.inputs[0]);
  if (in_place) lowering.set_storage(node.outputs[0], from);
  const StoragePtr out = in_place ? from : lowering.make_storage(node.outputs[0], node);
  if (!in_place) lowering.builder().copy(*from, *out);
  for (const Window& result : windows(*out, 0, out->units, lowering.limits()))
    for (const Window& update : windows(*updates, 0, updates->units, lowering.limits()))
      for (const Window& row : windows(*rows, 0, rows->units, lowering.limits())) {
        const uint64_t begin = std::max(update.first / inner, row.first);
        const uint64_t end = std::min((update.first + update.count + inner - 1) / inner, row.first + row.count);
        if (begin >= end) continue;
        Kernel k(lowering, "scatter_rows", label_of(node));
        k.workgroup(64).read("rows", *rows, row).param("row_begin", begin).param("row_end", end);
        k.read("updates", *updates, update).param("updates_begin", update.first).param("updates_count", update.count);
        k.write("result", *out, result).param("result_begin", result.first).param("result_count", result.count);
        k.param("inner", inner).text("combine", combine_text(reduction_of(node)));
        k.dispatch(groups_for(k, result.count), {static_cast<double>(result.count) * static_cast<double>(end - begin),
                                                 static_cast<double>(8 * result.count + 4 * update.count)});
      }
}

}  // namespace gyrus
