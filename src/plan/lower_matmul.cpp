// Products of matrices: one tiled kernel in several shapes. Where quads can be read, k is cut into parts if the result
// alone has too few tiles to fill a device; where an operand needs several bindings, sums go over their windows.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "plan/matmul_tiles.h"
#include "plan/matrix_units.h"

namespace gyrus {
namespace {

// Every window of an operand meets every window of the other and of the result; beyond this a plan is of no use.
constexpr size_t kMostDispatches = 1 << 14;
// Matrix units take no fewer rows, columns or steps of k, unless they are told to.
constexpr int64_t kFewRows = 4, kNarrow = 8;

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
  MatmulEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        node_(node),
        a_(lowering.storage(node.inputs[0])),
        b_(lowering.storage(node.inputs[1])),
        a_shape_(lowering.graph().type(node.inputs[0]).shape),
        b_shape_(lowering.graph().type(node.inputs[1]).shape),
        matmul_(matmul_of(node, a_shape_, b_shape_)) {
    // One matrix b for all batches of a: their rows follow one another.
    const int64_t batches = element_count(matmul_.batch);
    const auto matrices = [](const Shape& shape) { return element_count({shape.begin(), shape.end() - 2}); };
    if (!matmul_.transpose_a && matrices(b_shape_) == 1 && matrices(a_shape_) == batches) {
      matmul_.m *= batches;
      matmul_.batch.clear();
      a_shape_ = {matmul_.m, matmul_.k};
      b_shape_ = {b_shape_.end()[-2], b_shape_.back()};
    }
    quads_ = reads_quads();
    tile_ = matmul_tile_for(matmul_, quads_, lowering.limits());
    if (wants_matrices() && in_bindings()) matrix_tile_ = matmul_matrix_tile_for(matmul_, lowering.target());
  }

  void run() {
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    // A body over the raw sum alone runs inside, and so does one with operands of its shape where quads are read;
    // others, and those whose result is in halves, behind it.
    const bool halves = matrix_tile_ && wide() && type.dtype == DType::F16 && body_operands(node_) == 1;
    const bool floats = node_.outputs.size() == 1 && (type.dtype == DType::F32 || halves);
    const TensorType raw{DType::F32, type.shape, Layout::Plain};
    inside_ = floats && (body_operands(node_) == 1 || ((quads_ || (matrix_tile_ && wide())) && reads_further()));
    if (inside_)
      out_ = lowering_.make_storage(node_.outputs[0], node_);
    else
      out_ = lowering_.make_scratch(raw, label_of(node_) + ".sums");
    if (matrix_tile_)
      emit_matrices();
    else if (quads_ && in_one(*out_, 4))
      emit_quads();
    else
      emit_windows();
    if (!inside_) emit_body(lowering_, node_, out_, raw);
  }

 private:
  // A storage of singles that one binding holds, in units of `lanes`.
  bool in_one(const Storage& storage, uint64_t lanes) const {
    return storage.dtype == DType::F32 && storage.units % lanes == 0 && storage.chunks.size() == 1 &&
           storage.chunks[0].byte_offset % (4 * lanes) == 0 &&
           fits_window(storage, 0, storage.units, lowering_.limits());
  }

  // Rows of whole quads that one binding holds.
  bool reads_quads() const {
    const int64_t a_row = matmul_.transpose_a ? matmul_.m : matmul_.k,
                  b_row = matmul_.transpose_b ? matmul_.k : matmul_.n;
    const bool bias = !has_operand(node_, 2) || in_one(*lowering_.storage(node_.inputs[2]), 4);
    return a_row % 4 == 0 && b_row % 4 == 0 && matmul_.n % 4 == 0 && in_one(*a_, 4) && in_one(*b_, 4) && bias;
  }

  bool halves() const { return a_->dtype == DType::F16 && b_->dtype == DType::F16; }

  // Whether matrix units are to multiply the operands: halves, or what the precision lets round to halves.
  bool wants_matrices() const {
    // Singles are read twice as slowly, and where k was cut into parts, that made more of the device's units busy.
    const bool filled =
        matmul_.n > kNarrow && matmul_.k > kNarrow && (!quads_ || matmul_parts_for(matmul_, tile_) == 1);
    const bool pays = matmul_.m > kFewRows && (halves() || filled);
    return (halves() || may_round(node_)) && wants_matrix_units(lowering_.target(), lowering_.options(), pays);
  }

  // Everything in one binding each.
  bool in_bindings() const {
    const auto whole = [&](const Storage& s) {
      return s.chunks.size() == 1 && s.units > 0 && fits_window(s, 0, s.units, lowering_.limits());
    };
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    const Storage out = storage_shape({DType::F32, type.shape, Layout::Plain});
    const uint64_t most =
        std::min(lowering_.limits().max_storage_buffer_binding_size, lowering_.limits().max_buffer_size);
    const uint32_t bindings = 3 + (has_operand(node_, 2) ? 1 : 0) + (lowering_.options().check_finite ? 1 : 0);
    const bool bias = !has_operand(node_, 2) || in_one(*lowering_.storage(node_.inputs[2]), wide() ? 4 : 1);
    return whole(*a_) && whole(*b_) && bias && out.bytes() <= most && out.units > 0 &&
           bindings <= lowering_.limits().max_storage_buffers_per_shader_stage;
  }

  // Whether matrix units' results leave in quads.
  bool wide() const { return matmul_.n % 4 == 0; }

  // An operand for matrix units: in eights where its rows are made of them, else element by element.
  void read_eights(Kernel& k, const std::string& name, const Storage& s, int64_t row) const {
    const uint64_t bytes = s.unit_bytes() * 4;
    const bool eights = row % 8 == 0 && s.units % 4 == 0 && s.chunks[0].byte_offset % bytes == 0;
    k.read(name, eights ? quad_view(s) : s);
    k.flag(name + "_halves", eights && s.dtype == DType::F16).flag(name + "_singles", eights && s.dtype == DType::F32);
    k.flag(name + "_ragged", !eights).text(name + "_element", eights ? "" : element_text(s, name, "at"));
  }

  // Whether the body's further operands can be read beside the others.
  bool reads_further() const {
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    const size_t first = own_inputs(node_),
                 bindings = 4 + node_.inputs.size() - first + (lowering_.options().check_finite ? 1 : 0);
    if (bindings > lowering_.limits().max_storage_buffers_per_shader_stage) return false;
    return std::all_of(node_.inputs.begin() + static_cast<std::ptrdiff_t>(first), node_.inputs.end(), [&](ValueId id) {
      return lowering_.graph().type(id).shape == type.shape && in_one(*lowering_.storage(id), 4);
    });
  }

  // The body, as the function epilogue of the raw sum and the further operands, and its call for the quad or element o.
  void add_body(Kernel& k, WgslType type, const Storage& out) {
    std::vector<std::string> names{"x"};
    std::string arguments, call = "epilogue(sum";
    for (size_t i = own_inputs(node_); inside_ && i < node_.inputs.size(); ++i) {
      const std::string name = cat("further", i);
      k.read(name, quad_view(*lowering_.storage(node_.inputs[i])));
      names.push_back(cat("x", i));
      arguments += cat(", ", names.back(), ": ", to_string(type));
      call += cat(", ", name, "[o + P.", name, "_shift]");
    }
    const BodyText body = inside_ ? body_wgsl(node_, names, type) : BodyText{"", {"x"}, {}};
    k.text("epilogue", body.statements + "  return " + body.result() + ";\n").text("T", to_string(type));
    k.text("extra_arguments", arguments).text("store", k.stored(out, call + ")"));
  }

  void add_shape(Kernel& k) const {
    k.param("m", matmul_.m).param("n", matmul_.n).param("k", matmul_.k);
    const auto share = [&](const char* name, bool by_lane) {
      if (by_lane)
        k.shared(name, "ByLane", tile_.lane_bytes(matmul_.transpose_b), tile_.threads);
      else
        k.shared(name, "ByStep", tile_.step_bytes(), tile_.depth);
    };
    share("a_tile", !matmul_.transpose_a);
    share("b_tile", matmul_.transpose_b);
    k.constant("threads", tile_.threads).constant("tile", tile_.side()).constant("depth", tile_.depth);
    k.constant("rows", tile_.rows).constant("quads", tile_.rows / 4).constant("steps", tile_.depth / 4);
    k.flag("transpose_a", matmul_.transpose_a).flag("transpose_b", matmul_.transpose_b);
    add_batch(k);
  }

  double flops() const { return 2.0 * static_cast<double>(out_->units) * static_cast<double>(matmul_.k); }

  void emit_quads() {
    const int64_t batches = element_count(matmul_.batch);
    // Their sums lie in one binding.
    const auto most = static_cast<int64_t>(
        std::min(lowering_.limits().max_storage_buffer_binding_size, lowering_.limits().max_buffer_size) /
        (out_->units * 4));
    const int64_t wanted = std::max<int64_t>(std::min(matmul_parts_for(matmul_, tile_), most), 1);
    const int64_t part = ceil_div(ceil_div(matmul_.k, wanted), tile_.depth) * tile_.depth;
    const int64_t parts = ceil_div(matmul_.k, part);
    const Storage out = quad_view(*out_);
    const bool bias = has_operand(node_, 2);
    Storage sums;
    if (parts > 1) {
      const Shape shape{parts, static_cast<int64_t>(out_->units)};
      const StoragePtr scratch = lowering_.make_scratch({DType::F32, shape, Layout::Plain}, label_of(node_) + ".parts");
      sums = quad_view(*scratch);
    }
    Kernel k(lowering_, "matmul", label_of(node_));
    k.name(cat("matmul ", tile_.side())).workgroup(tile_.lanes());
    k.flag("wide", true).constant("loads", tile_.side() * tile_.depth / 4 / tile_.lanes());
    k.read("a", quad_view(*a_)).read("b", quad_view(*b_));
    if (bias && parts == 1) k.read("bias", quad_view(*lowering_.storage(node_.inputs[2])));
    k.write("output", parts == 1 ? out : sums);
    if (parts == 1) k.checks_stored();
    add_shape(k);
    k.flag("bias", bias && parts == 1).flag("first", true).flag("last", parts == 1).flag("parts", parts > 1);
    k.param("part", part).param("batches", batches);
    k.param("first_batch", int64_t{0}).param("first_row", int64_t{0});
    k.param("m_tiles", ceil_div(matmul_.m, tile_.side())).param("n_tiles", ceil_div(matmul_.n, tile_.side()));
    if (parts == 1)
      add_body(k, wgsl::vec4f, out);
    else
      k.text("T", "vec4<f32>");
    k.dispatch(
        static_cast<uint64_t>(parts * tiles_of(matmul_, tile_)),
        {flops(), 4.0 * static_cast<double>(a_->units + b_->units + static_cast<uint64_t>(parts) * out_->units)});
    if (parts > 1) emit_finish(sums, out, parts);
  }

  void emit_matrices() {
    const MatmulMatrixTile& t = *matrix_tile_;
    const int64_t lanes = lowering_.target().subgroup_max_size, workgroup = t.subgroups() * lanes;
    const Storage out = wide() ? quad_view(*out_) : *out_;
    const bool bias = has_operand(node_, 2);
    Kernel k(lowering_, "matmul_matrix", label_of(node_));
    k.name(cat("matmul_matrix ", t.side)).workgroup(static_cast<uint32_t>(workgroup)).matrices();
    read_eights(k, "a", *a_, matmul_.transpose_a ? matmul_.m : matmul_.k);
    read_eights(k, "b", *b_, matmul_.transpose_b ? matmul_.k : matmul_.n);
    if (bias) {
      const Storage& row = *lowering_.storage(node_.inputs[2]);
      k.read("bias", wide() ? quad_view(row) : row);
    }
    k.write("output", out).checks_stored();
    // What singles are too large for is infinite, as in maps of halves.
    k.flag("bias", bias).flag("wide", wide()).flag("checks_rounded", lowering_.options().check_finite);
    k.flag("transpose_a", matmul_.transpose_a).flag("transpose_b", matmul_.transpose_b);
    k.param("m", matmul_.m).param("n", matmul_.n).param("k", matmul_.k);
    k.param("m_tiles", ceil_div(matmul_.m, t.side)).param("n_tiles", ceil_div(matmul_.n, t.side));
    const int64_t a_row = matmul_.transpose_a ? t.side : t.depth, b_row = matmul_.transpose_b ? t.depth : t.side;
    k.constant("tile_m", t.side).constant("tile_n", t.side).constant("depth", t.depth).constant("across", t.across);
    k.constant("sub_m", t.sub_m()).constant("sub_n", t.sub_n()).constant("lanes", lanes);
    k.constant("m", t.shape.m).constant("n", t.shape.n).constant("k", t.shape.k).constant("quads", t.shape.n / 4);
    k.constant("matrices_m", t.sub_m() / t.shape.m).constant("matrices_n", t.sub_n() / t.shape.n);
    k.constant("steps", t.depth / t.shape.k).constant("loads_a", t.side * t.depth / 8 / workgroup);
    k.constant("loads_b", t.side * t.depth / 8 / workgroup).constant("sum_row", t.sum_row());
    k.constant("a_row", MatmulMatrixTile::row(a_row)).constant("b_row", MatmulMatrixTile::row(b_row));
    k.constant("a_eights", a_row / 8).constant("b_eights", b_row / 8);
    k.shared("a_tile", {Scalar::U32, 4}, static_cast<uint64_t>(t.a_units(matmul_)));
    k.shared("b_tile", {Scalar::U32, 4}, static_cast<uint64_t>(t.b_units(matmul_)));
    k.shared("sums", wgsl::vec4f, static_cast<uint64_t>(t.sum_units()));
    add_batch(k);
    add_body(k, wide() ? wgsl::vec4f : wgsl::f32, out);
    k.dispatch(static_cast<uint64_t>(t.tiles(matmul_)),
               {flops(), static_cast<double>(a_->bytes() + b_->bytes() + out_->bytes())});
  }

  void emit_finish(const Storage& sums, const Storage& out, int64_t parts) {
    const bool bias = has_operand(node_, 2);
    Kernel k(lowering_, "matmul_finish", label_of(node_));
    k.workgroup(64).read("sums", sums);
    if (bias) k.read("bias", quad_view(*lowering_.storage(node_.inputs[2])));
    k.write("output", out).checks_stored().flag("bias", bias);
    k.param("count", out.units).param("columns", matmul_.n / 4).param("parts", parts);
    add_body(k, wgsl::vec4f, out);
    k.dispatch((out.units + k.workgroup() - 1) / k.workgroup(),
               {0, 16.0 * static_cast<double>(parts + 1) * static_cast<double>(out.units)});
  }

  void emit_windows() {
    const std::vector<Window> as = windows(*a_, 0, a_->units, lowering_.limits());
    const std::vector<Window> bs = windows(*b_, 0, b_->units, lowering_.limits());
    const std::vector<Window> results = windows(*out_, 0, out_->units, lowering_.limits());
    if (as.size() * bs.size() * results.size() > kMostDispatches)
      fail(ErrorCode::OverLimits, label_of(node_), "would take ", as.size() * bs.size() * results.size(),
           " dispatches with bindings of ", lowering_.limits().max_storage_buffer_binding_size,
           " bytes; use smaller matrices");
    for (const Window& out : results)
      for (size_t i = 0; i < as.size() * bs.size(); ++i)
        emit(as[i / bs.size()], bs[i % bs.size()], out, i == 0, i + 1 == as.size() * bs.size());
  }

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

  void emit(const Window& a, const Window& b, const Window& out, bool first, bool last) {
    Kernel k(lowering_, "matmul", label_of(node_));
    k.name(cat("matmul ", tile_.side())).workgroup(tile_.lanes());
    k.flag("wide", false).flag("parts", false).constant("loads", 0);
    k.read("a", *a_, a).param("a_begin", a.first).param("a_count", a.count);
    k.read("b", *b_, b).param("b_begin", b.first).param("b_count", b.count);
    const bool bias = first && has_operand(node_, 2);
    if (bias) {
      const Storage& storage = *lowering_.storage(node_.inputs[2]);
      k.read("bias", storage).text("bias_element", element_text(storage, "bias", "P.bias_shift + n + l"));
    }
    k.write("output", *out_, out).param("out_begin", out.first).param("out_count", out.count);
    if (last) k.checks_stored();
    add_shape(k);
    const uint64_t groups = add_tiles(out, k);
    k.flag("bias", bias);
    k.text("a_element", element_text(*a_, "a", "i + P.a_shift"))
        .text("b_element", element_text(*b_, "b", "i + P.b_shift"));
    add_body(k, wgsl::f32, *out_);
    k.flag("first", first).flag("last", last);
    const double passes = static_cast<double>(out.count) / static_cast<double>(out_->units);
    k.dispatch(groups,
               {first ? 2.0 * static_cast<double>(out.count) * static_cast<double>(matmul_.k) : 0,
                passes * static_cast<double>(a.range.size + b.range.size) + static_cast<double>(out.range.size)});
  }

  Lowering& lowering_;
  const Node& node_;
  StoragePtr a_, b_;
  Shape a_shape_, b_shape_;
  Matmul matmul_;
  bool quads_ = false;  // operands are read in them
  MatmulTile tile_{};
  std::optional<MatmulMatrixTile> matrix_tile_{};
  StoragePtr out_;
  bool inside_ = false;  // the body runs in the kernels of the product
};

}  // namespace

void lower_matmul(Lowering& lowering, const Node& node) { MatmulEmitter(lowering, node).run(); }

}  // namespace gyrus
