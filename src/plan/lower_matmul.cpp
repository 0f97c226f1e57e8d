// Products of matrices: one tiled kernel in two shapes, sums over windows of both operands.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Lanes along each side of a workgroup, results of a lane along each side, steps of k in workgroup memory.
struct Tile {
  uint32_t threads, rows, depth;
  uint32_t side() const { return threads * rows; }
  uint32_t lanes() const { return threads * threads; }
  uint64_t bytes() const { return uint64_t{2} * side() * depth * 4; }
};

// Every window of an operand meets every window of the other and of the result; beyond this a plan is of no use.
constexpr size_t kMostDispatches = 1 << 14;

// In order of preference; the first is for results that have enough of its tiles to fill a device.
constexpr Tile kTiles[] = {{16, 8, 16}, {8, 4, 8}, {4, 4, 8}, {2, 4, 8}, {1, 4, 4}};

Tile tile_for(const Matmul& matmul, int64_t batches, const Limits& limits) {
  constexpr int64_t kEnough = 64;
  for (const Tile& tile : kTiles) {
    const int64_t tiles = batches * (matmul.m / tile.side()) * (matmul.n / tile.side());
    if (&tile == &kTiles[0] && tiles < kEnough) continue;
    if (workgroup_size(limits, tile.lanes()) == tile.lanes() &&
        tile.bytes() <= limits.max_compute_workgroup_storage_size)
      return tile;
  }
  return kTiles[4];
}

// Statements that give the first element of an operand's matrix for batch z.
std::string matrix_text(char operand, size_t rank) {
  std::string text = "  var rest = z;\n  var at = 0u;\n";
  for (size_t axis = rank; axis-- > 0;)
    text += cat("  at += rest % P.batch", axis, " * P.", operand, "_stride", axis, ";\n  rest = rest / P.batch", axis,
                ";\n");
  return text + "  return at;\n";
}

class MatmulEmitter {
 public:
  MatmulEmitter(Lowering& lowering, const Node& node, StoragePtr out, bool with_body)
      : lowering_(lowering),
        node_(node),
        a_(lowering.storage(node.inputs[0])),
        b_(lowering.storage(node.inputs[1])),
        a_shape_(lowering.graph().type(node.inputs[0]).shape),
        b_shape_(lowering.graph().type(node.inputs[1]).shape),
        matmul_(matmul_of(node, a_shape_, b_shape_)),
        tile_(tile_for(matmul_, element_count(matmul_.batch), lowering.limits())),
        out_(std::move(out)),
        with_body_(with_body) {}

  void run() {
    const std::vector<Window> as = windows(*a_, 0, a_->units, lowering_.limits());
    const std::vector<Window> bs = windows(*b_, 0, b_->units, lowering_.limits());
    const size_t results = windows(*out_, 0, out_->units, lowering_.limits()).size();
    if (as.size() * bs.size() * results > kMostDispatches)
      fail(ErrorCode::OverLimits, label_of(node_), "would take ", as.size() * bs.size() * results,
           " dispatches with bindings of ", lowering_.limits().max_storage_buffer_binding_size,
           " bytes; use smaller matrices");
    for (const Window& out : windows(*out_, 0, out_->units, lowering_.limits()))
      for (size_t i = 0; i < as.size() * bs.size(); ++i)
        emit(as[i / bs.size()], bs[i % bs.size()], out, i == 0, i + 1 == as.size() * bs.size());
  }

 private:
  // Strides in elements from batch to batch of an operand, 0 along repeated axes.
  void add_batch(Kernel& k) const {
    const auto strides = [&](const Shape& shape) {
      const Shape batch(shape.begin(), shape.end() - 2);
      std::vector<int64_t> s = broadcast_strides(batch, matmul_.batch);
      for (int64_t& stride : s) stride *= shape.back() * shape[shape.size() - 2];
      return s;
    };
    const std::vector<int64_t> a = strides(a_shape_), b = strides(b_shape_);
    for (size_t axis = 0; axis < matmul_.batch.size(); ++axis) {
      k.param(cat("batch", axis), matmul_.batch[axis]).param(cat("a_stride", axis), a[axis]);
      k.param(cat("b_stride", axis), b[axis]);
    }
    k.text("a_matrix", matrix_text('a', matmul_.batch.size())).text("b_matrix", matrix_text('b', matmul_.batch.size()));
  }

  // Which tiles a window of the result needs: batches, and of a single one rows; returns their count.
  uint64_t add_tiles(const Window& out, Kernel& k) const {
    const auto n = static_cast<uint64_t>(matmul_.n), m = static_cast<uint64_t>(matmul_.m);
    const uint64_t first = out.first / n, end = (out.first + out.count + n - 1) / n;  // rows of all batches
    const uint64_t batch = first / m, batches = (end + m - 1) / m - batch;
    const uint64_t row = batches == 1 ? first % m : 0;
    const uint64_t rows = batches == 1 ? end - first : m;
    const uint64_t m_tiles = (rows + tile_.side() - 1) / tile_.side();
    const uint64_t n_tiles = (n + tile_.side() - 1) / tile_.side();
    k.param("first_batch", batch).param("first_row", row).param("m_tiles", m_tiles).param("n_tiles", n_tiles);
    return batches * m_tiles * n_tiles;
  }

  // Rows of whole quads of singles that one binding holds, in an order that needs no turning.
  bool reads_quads(const Window& a, const Window& b) const {
    return !matmul_.transpose_a && !matmul_.transpose_b && matmul_.k % 4 == 0 && matmul_.n % 4 == 0 &&
           a_->dtype == DType::F32 && b_->dtype == DType::F32 && a.count == a_->units && b.count == b_->units &&
           tile_.side() * tile_.depth / 4 % tile_.lanes() == 0;
  }

  void emit(const Window& a, const Window& b, const Window& out, bool first, bool last) {
    Kernel k(lowering_, "matmul", label_of(node_));
    k.name(cat("matmul ", tile_.side())).workgroup(tile_.lanes());
    const bool wide = reads_quads(a, b);
    k.flag("wide", wide).constant("loads", tile_.side() * tile_.depth / 4 / tile_.lanes());
    if (wide) {
      k.read("a", quad_view(*a_)).read("b", quad_view(*b_));
    } else {
      k.read("a", *a_, a).param("a_begin", a.first).param("a_count", a.count);
      k.read("b", *b_, b).param("b_begin", b.first).param("b_count", b.count);
    }
    const bool bias = first && has_operand(node_, 2);
    if (bias) k.read("bias", *lowering_.storage(node_.inputs[2]));
    k.write("output", *out_, out).param("out_begin", out.first).param("out_count", out.count);
    if (last) k.checks_stored();
    k.param("m", matmul_.m).param("n", matmul_.n).param("k", matmul_.k);
    add_batch(k);
    const uint64_t groups = add_tiles(out, k);
    k.shared("a_tile", "Rows", uint64_t{tile_.rows} * tile_.depth * 4, tile_.threads);
    k.shared("b_tile", "Columns", uint64_t{tile_.side()} * 4, tile_.depth);
    k.constant("threads", tile_.threads).constant("tile", tile_.side()).constant("depth", tile_.depth);
    k.constant("rows", tile_.rows).constant("quads", tile_.rows / 4).constant("steps", tile_.depth / 4);
    k.flag("transpose_a", matmul_.transpose_a).flag("transpose_b", matmul_.transpose_b).flag("bias", bias);
    k.text("a_element", element_text(*a_, "a", "i + P.a_shift"))
        .text("b_element", element_text(*b_, "b", "i + P.b_shift"));
    const BodyText body = with_body_ ? body_wgsl(node_, {"x"}, wgsl::f32) : BodyText{"", {"x"}, {}};
    k.text("epilogue", body.statements + "  return " + body.result() + ";\n").text("T", "f32");
    k.text("store", k.stored(*out_, "epilogue(sum)")).flag("first", first).flag("last", last);
    const double passes = static_cast<double>(out.count) / static_cast<double>(out_->units);
    k.dispatch(groups,
               {first ? 2.0 * static_cast<double>(out.count) * static_cast<double>(matmul_.k) : 0,
                passes * static_cast<double>(a.range.size + b.range.size) + static_cast<double>(out.range.size)});
  }

  Lowering& lowering_;
  const Node& node_;
  StoragePtr a_, b_;
  const Shape& a_shape_;
  const Shape& b_shape_;
  Matmul matmul_;
  Tile tile_;
  StoragePtr out_;
  bool with_body_;
};

}  // namespace

void lower_matmul(Lowering& lowering, const Node& node) {
  const TensorType& type = lowering.graph().type(node.outputs[0]);
  // A body over the raw sum alone runs inside; one with further operands, or a result in halves, behind it.
  const bool inside = body_operands(node) == 1 && node.outputs.size() == 1 && type.dtype == DType::F32;
  if (inside) return MatmulEmitter(lowering, node, lowering.make_storage(node.outputs[0], node), true).run();
  const TensorType raw{DType::F32, type.shape, Layout::Plain};
  const StoragePtr sums = lowering.make_scratch(raw, label_of(node) + ".sums");
  MatmulEmitter(lowering, node, sums, false).run();
  emit_body(lowering, node, sums, raw);
}

}  // namespace gyrus
