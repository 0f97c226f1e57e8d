#include <algorithm>

#include "core/error.h"
#include "ops/rows.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

class RowsEmitter {
 public:
  RowsEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering), node_(node), kind_(row_kind(node)), label_(label_of(node)) {
    const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
    rows_ = static_cast<uint64_t>(shape[0]);
    extent_ = static_cast<uint64_t>(shape[1]);
    quads_ = extent_ % 4 == 0;
    units_ = quads_ ? extent_ / 4 : extent_;
  }

  void run() {
    const StoragePtr in = whole_rows(lowering_.storage(node_.inputs[0]));
    const StoragePtr out = lowering_.make_scratch(row_type(), label_);
    lowering_.set_storage(node_.outputs[0], out);
    const Storage source = view(*in), target = view(*out);
    for (uint64_t row = 0; row < rows_;) {
      const uint64_t count = rows_together(source, target, row);
      emit(source, target, row, count);
      row += count;
    }
  }

 private:
  // Cuts never split a plane, so that a row never lies in two buffers.
  TensorType row_type() const {
    return {DType::F32, {1, 1, static_cast<int64_t>(rows_), static_cast<int64_t>(extent_)}, Layout::Plain};
  }
  Storage view(const Storage& storage) const { return quads_ ? quad_view(storage) : storage; }

  // The operand, copied where a row of it lies in two buffers or does not begin with a quad.
  StoragePtr whole_rows(const StoragePtr& in) {
    const bool whole = std::all_of(in->chunks.begin(), in->chunks.end(), [this](const Chunk& chunk) {
      return chunk.first % extent_ == 0 && (!quads_ || chunk.byte_offset % 16 == 0);
    });
    if (whole) return in;
    const StoragePtr copy = lowering_.make_scratch(row_type(), label_);
    lowering_.builder().copy(*in, *copy);
    return copy;
  }

  uint64_t rows_together(const Storage& in, const Storage& out, uint64_t row) const {
    const auto fits = [&](uint64_t count) {
      return fits_window(in, row * units_, count * units_, lowering_.limits()) &&
             fits_window(out, row * units_, count * units_, lowering_.limits());
    };
    if (!fits(1))
      fail(ErrorCode::OverLimits, label_, "a row of ", extent_, " elements is larger than a binding may be");
    uint64_t least = 1, most = rows_ - row;
    while (least < most) {
      const uint64_t middle = (least + most + 1) / 2;
      (fits(middle) ? least : most) = fits(middle) ? middle : middle - 1;
    }
    return least;
  }

  // As many lanes as have something to do.
  uint32_t lanes_of(uint32_t workgroup) const {
    uint32_t lanes = 1;
    while (lanes < workgroup && lanes * 2 <= units_) lanes *= 2;
    return lanes;
  }

  void emit(const Storage& in, const Storage& out, uint64_t row, uint64_t count) {
    const bool softmax = kind_ == RowKind::Softmax || kind_ == RowKind::LogSoftmax;
    const bool gamma = has_operand(node_, 1), beta = has_operand(node_, 2);
    Kernel k(lowering_, "rows", label_);
    k.name(node_.attrs.text("kind") + " rows").workgroup(256);
    const uint32_t lanes = lanes_of(k.workgroup());
    k.read("input", in, window(in, row * units_, count * units_, lowering_.limits()));
    if (gamma) k.read("gamma", view(*lowering_.storage(node_.inputs[1])));
    if (beta) k.read("beta", view(*lowering_.storage(node_.inputs[2])));
    k.write("output", out, window(out, row * units_, count * units_, lowering_.limits()));
    k.checks_stored();
    k.param("first_row", row).param("rows", count).param("extent", units_);
    k.param("scale", 1 / static_cast<float>(extent_)).param("eps", static_cast<float>(node_.attrs.number("eps", 1e-5)));
    k.shared("stage", wgsl::f32, k.workgroup());
    k.param("lanes", uint64_t{lanes}).text("T", quads_ ? "vec4<f32>" : "f32").text("title", node_.attrs.text("kind"));
    k.flag("quads", quads_).flag("exponential", softmax).flag("logarithm", kind_ == RowKind::LogSoftmax);
    k.flag("centred", kind_ == RowKind::LayerNorm).flag("gamma", gamma).flag("beta", beta);
    k.text("store", k.stored(out, "y"));
    const uint64_t together = k.workgroup() / lanes;
    k.dispatch((count + together - 1) / together,
               {5.0 * static_cast<double>(count * extent_), 8.0 * static_cast<double>(count * extent_)});
  }

  Lowering& lowering_;
  const Node& node_;
  RowKind kind_;
  std::string label_;
  uint64_t rows_ = 0, extent_ = 0, units_ = 0;
  bool quads_ = false;
};

}  // namespace

void lower_rows(Lowering& lowering, const Node& node) { RowsEmitter(lowering, node).run(); }

}  // namespace gyrus
