// Rows of matrices in the blocks of GGUF files.
#include "core/error.h"
#include "ops/common.h"
#include "plan/block_windows.h"

namespace gyrus {

void lower_block_rows(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const BlockMatrix matrix = block_rows_of(node, graph.type(node.inputs[0]));
  const StoragePtr weights = whole_rows(lowering, matrix, lowering.storage(node.inputs[0]), label_of(node));
  const StoragePtr indices = lowering.storage(node.inputs[1]);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const Shape& shape = graph.type(node.inputs[1]).shape;
  const auto columns = static_cast<uint64_t>(matrix.columns),
             stride = static_cast<uint64_t>(shape.size() == 2 ? shape[1] : 1);
  for (const RowWindow& part : cut_rows(matrix, *weights, lowering.limits(), label_of(node)))
    for (uint64_t first = 0; first < static_cast<uint64_t>(shape[0]);) {
      uint64_t count = static_cast<uint64_t>(shape[0]) - first;
      while (count > 1 && !fits_window(*out, first * columns, count * columns, lowering.limits()))
        count = (count + 1) / 2;
      if (!fits_window(*out, first * columns, count * columns, lowering.limits()))
        fail(ErrorCode::OverLimits, label_of(node), "a row of ", columns, " elements does not lie in one binding of ",
             lowering.limits().max_storage_buffer_binding_size, " bytes");
      Kernel k(lowering, "block_rows", label_of(node));
      k.name(cat("block_rows ", to_string(matrix.type))).workgroup(64);
      k.read("indices", *indices, window(*indices, first * stride, count * stride, lowering.limits()));
      add_matrix(k, matrix, *weights, part);
      k.write("output", *out, window(*out, first * columns, count * columns, lowering.limits()));
      k.reports(ReportKind::Index);
      k.param("first", first)
          .param("count", count)
          .param("stride", stride)
          .param("column", node.attrs.integer("column", 0));
      k.param("least", flag(node, "clamp") ? int64_t{0} : int64_t{INT32_MIN})
          .param("rows", matrix.rows)
          .param("scale", static_cast<float>(node.attrs.number("scale", 1)));
      const uint64_t threads = count * static_cast<uint64_t>(ceil_div(matrix.columns, kBlockUnit));
      k.dispatch((threads + k.workgroup() - 1) / k.workgroup(),
                 {0, static_cast<double>(count) *
                         (static_cast<double>(matrix.row_bytes()) + 4.0 * static_cast<double>(columns))});
      first += count;
    }
}

}  // namespace gyrus
