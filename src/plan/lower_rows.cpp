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
    residual_ = has_operand(node, kRowsResidual);
    units_ = quads_ ? extent_ / 4 : extent_;
  }

  void run() {
    add_tensor("input", *whole_rows(lowering_.storage(node_.inputs[0])), false);
    if (residual_) add_tensor("residual", *whole_rows(lowering_.storage(node_.inputs[kRowsResidual])), false);
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      const StoragePtr out = lowering_.make_scratch(row_type(), label_);
      lowering_.set_storage(node_.outputs[i], out);
      add_tensor(i == 0 ? "output" : "summed", *out, true);
    }
    for (uint64_t row = 0; row < rows_;) {
      const uint64_t count = rows_together(row);
      emit(row, count);
      row += count;
    }
  }

 private:
  // What is read or written row by row.
  struct RowTensor {
    const char* name;
    Storage storage;
    bool written;
  };
  void add_tensor(const char* name, const Storage& storage, bool written) {
    tensors_.push_back({name, view(storage), written});
  }

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

  uint64_t rows_together(uint64_t row) const {
    const auto fits = [&](uint64_t count) {
      return std::all_of(tensors_.begin(), tensors_.end(), [&](const RowTensor& tensor) {
        return fits_window(tensor.storage, row * units_, count * units_, lowering_.limits());
      });
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
    while (lanes < workgroup && uint64_t{2} * lanes <= units_) lanes *= 2;
    return lanes;
  }

  void emit(uint64_t row, uint64_t count) {
    const bool softmax = kind_ == RowKind::Softmax || kind_ == RowKind::LogSoftmax;
    const bool gamma = has_operand(node_, 1), beta = has_operand(node_, 2);
    Kernel k(lowering_, "rows", label_);
    k.name(node_.attrs.text("kind") + " rows").workgroup(256);
    const uint32_t lanes = lanes_of(k.workgroup());
    const auto rows_of = [&](const Storage& storage) {
      return window(storage, row * units_, count * units_, lowering_.limits());
    };
    for (const RowTensor& t : tensors_)
      if (!t.written) k.read(t.name, t.storage, rows_of(t.storage));
    if (gamma) k.read("gamma", view(*lowering_.storage(node_.inputs[1])));
    if (beta) k.read("beta", view(*lowering_.storage(node_.inputs[2])));
    for (const RowTensor& t : tensors_)
      if (t.written) k.write(t.name, t.storage, rows_of(t.storage));
    k.checks_stored();
    k.param("first_row", row).param("rows", count).param("extent", units_);
    k.param("scale", 1 / static_cast<float>(extent_)).param("eps", static_cast<float>(node_.attrs.number("eps", 1e-5)));
    k.shared("stage", wgsl::f32, k.workgroup());
    k.param("lanes", uint64_t{lanes}).text("T", quads_ ? "vec4<f32>" : "f32").text("title", node_.attrs.text("kind"));
    k.flag("quads", quads_).flag("exponential", softmax).flag("logarithm", kind_ == RowKind::LogSoftmax);
    k.flag("centred", kind_ == RowKind::LayerNorm).flag("gamma", gamma).flag("beta", beta);
    const Storage& out = tensors_.back().storage;
    k.flag("residual", residual_).text("store", k.stored(out, "y")).text("store_sum", k.stored(out, "x"));
    const uint64_t together = k.workgroup() / lanes;
    k.dispatch((count + together - 1) / together, {5.0 * static_cast<double>(count * extent_),
                                                   4.0 * static_cast<double>(tensors_.size() * count * extent_)});
  }

  Lowering& lowering_;
  const Node& node_;
  RowKind kind_;
  std::string label_;
  uint64_t rows_ = 0, extent_ = 0, units_ = 0;
  bool quads_ = false, residual_ = false;
  std::vector<RowTensor> tensors_;
};

}  // namespace

bool suits_rows(const Graph&, const Node& node, const Target& target, const PlanOptions& options) {
  if (!has_operand(node, kRowsResidual)) return true;
  const auto operands =
      std::count_if(node.inputs.begin(), node.inputs.end(), [](ValueId id) { return id != kNoValue; });
  return static_cast<uint64_t>(operands) + node.outputs.size() + (options.check_finite ? 1 : 0) <=
         target.limits.max_storage_buffers_per_shader_stage;
}

void lower_rows(Lowering& lowering, const Node& node) { RowsEmitter(lowering, node).run(); }

}  // namespace gyrus
