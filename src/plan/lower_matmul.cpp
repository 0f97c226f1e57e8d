// Products of matrices: one tiled kernel in several shapes. Where quads can be read, k is cut into parts if the result
// alone has too few tiles to fill a device; where an operand needs several bindings, sums go over their windows.
#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "plan/norm_parts.h"

namespace gyrus {
namespace {

// Lanes along each side of a workgroup, results of a lane along each side, steps of k in workgroup memory.
struct Tile {
  uint32_t threads, rows, depth;
  uint32_t side() const { return threads * rows; }
  uint32_t lanes() const { return threads * threads; }
  // Of what the lanes of a row or column read: of transposed columns a quad more, which keeps lanes off each other.
  uint64_t lane_bytes(bool apart) const { return (uint64_t{rows} * depth + (apart ? 4 : 0)) * 4; }
  uint64_t step_bytes() const { return uint64_t{side()} * 4; }
  uint64_t bytes(const Matmul& matmul) const {
    const uint64_t by_lane = threads * lane_bytes(matmul.transpose_b), by_step = depth * step_bytes();
    return (matmul.transpose_a ? by_step : by_lane) + (matmul.transpose_b ? by_lane : by_step);
  }
};

// Every window of an operand meets every window of the other and of the result; beyond this a plan is of no use.
constexpr size_t kMostDispatches = 1 << 14;

// In order of preference. The large ones are for results that have enough of their tiles to fill a device, the middle
// ones for those that are read in quads and not narrow. Rows are hardly asked: lengths that come and go should share
// their kernels.
constexpr Tile kTiles[] = {{16, 8, 32}, {16, 8, 16}, {16, 8, 8}, {16, 4, 32}, {16, 4, 16},
                           {8, 4, 8},   {4, 4, 8},   {2, 4, 8},  {1, 4, 4}};
constexpr uint32_t kLargeSide = 128, kMiddleSide = 64;
constexpr int64_t kFewRows = 4;
// Measured on one card (docs/performance.md): workgroups of large and of smaller tiles that fill it, and how long the
// parts of a cut k should be at least, since their sums are written and read once more.
constexpr int64_t kEnoughLarge = 256, kEnough = 384, kLeastPart = 512;

int64_t tiles_of(const Matmul& matmul, const Tile& tile) {
  return element_count(matmul.batch) * ceil_div(matmul.m, tile.side()) * ceil_div(matmul.n, tile.side());
}

// Into how many parts to cut k.
int64_t parts_for(const Matmul& matmul, const Tile& tile) {
  return std::max<int64_t>(std::min(kEnough / tiles_of(matmul, tile), matmul.k / kLeastPart), 1);
}

Tile tile_for(const Matmul& matmul, bool quads, const Limits& limits) {
  const auto suits = [&](const Tile& tile) {
    if (workgroup_size(limits, tile.lanes()) != tile.lanes() ||
        tile.bytes(matmul) > limits.max_compute_workgroup_storage_size)
      return false;
    if (tile.side() == kLargeSide)
      return tiles_of(matmul, tile) * (quads ? parts_for(matmul, tile) : 1) >= kEnoughLarge;
    return tile.side() < kMiddleSide || (quads && matmul.n * 2 > kMiddleSide && matmul.m > kFewRows);
  };
  const Tile* found = std::find_if(std::begin(kTiles), std::end(kTiles), suits);
  return found == std::end(kTiles) ? kTiles[std::size(kTiles) - 1] : *found;
}

// A workgroup of down × across subgroups with matrix units, `depth` steps of k in workgroup memory.
struct MatrixTile {
  int64_t side, depth, down, across;
  MatrixShape shape{};
  int64_t sub_m() const { return side / down; }  // results of a subgroup
  int64_t sub_n() const { return side / across; }
  int64_t subgroups() const { return down * across; }
  // vec4 of eight halves from row to row, one more than needed: neighbouring rows meet other banks.
  static int64_t row(int64_t halves) { return halves / 8 + 1; }
  int64_t a_units(const Matmul& p) const { return p.transpose_a ? depth * row(side) : side * row(depth); }
  int64_t b_units(const Matmul& p) const { return p.transpose_b ? side * row(depth) : depth * row(side); }
  int64_t sum_row() const { return shape.n / 4 + 1; }  // vec4
  int64_t sum_units() const { return subgroups() * shape.m * sum_row(); }
  int64_t tiles(const Matmul& p) const { return element_count(p.batch) * ceil_div(p.m, side) * ceil_div(p.n, side); }
};
constexpr MatrixTile kMatrixTiles[] = {{128, 16, 2, 2}, {64, 32, 2, 2}, {32, 32, 2, 2}, {16, 16, 1, 1}};
constexpr int64_t kEnoughMatrixTiles = 128, kMostLaneSums = 128;

std::optional<MatrixTile> matrix_tile_for(const Matmul& p, const Target& target) {
  const int64_t lanes = target.subgroup_max_size;
  std::optional<MatrixTile> found;
  for (MatrixTile tile : kMatrixTiles)
    for (const MatrixShape& shape : target.matrices) {
      tile.shape = shape;
      const bool divides = shape.input == DType::F16 && shape.result == DType::F32 && shape.k % 8 == 0 &&
                           shape.n % 8 == 0 && tile.sub_m() % shape.m == 0 && tile.sub_n() % shape.n == 0 &&
                           tile.depth % shape.k == 0 && lanes % (shape.n / 4) == 0;
      const int64_t workgroup = tile.subgroups() * lanes;
      const int64_t bytes = (tile.a_units(p) + tile.b_units(p) + tile.sum_units()) * int64_t{kVec4Bytes};
      if (!divides || tile.side * tile.depth / 8 % workgroup != 0 ||
          tile.sub_m() * tile.sub_n() > kMostLaneSums * lanes ||
          workgroup_size(target.limits, static_cast<uint32_t>(workgroup)) != workgroup ||
          bytes > static_cast<int64_t>(target.limits.max_compute_workgroup_storage_size))
        continue;
      found = tile;
      if (tile.tiles(p) >= kEnoughMatrixTiles) return found;
      break;
    }
  return found;
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
    tile_ = tile_for(matmul_, quads_, lowering.limits());
    if (wants_matrices() && reads_eights()) matrix_tile_ = matrix_tile_for(matmul_, lowering.target());
  }

  void run() {
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    // A body over the raw sum alone runs inside, and so does one with operands of its shape where quads are read;
    // others, and those whose result is in halves, behind it.
    const bool halves = matrix_tile_ && type.dtype == DType::F16 && body_operands(node_) == 1;
    const bool floats = node_.outputs.size() == 1 && (type.dtype == DType::F32 || halves);
    const TensorType raw{DType::F32, type.shape, Layout::Plain};
    inside_ = floats && (body_operands(node_) == 1 || ((quads_ || matrix_tile_) && reads_further()));
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

  // Whether matrix units are to multiply the operands, which are halves.
  bool wants_matrices() const {
    const Target& target = lowering_.target();
    const MatrixUse use = lowering_.options().matrix;
    if (use == MatrixUse::Off || !target.features.subgroup_matrix) return false;
    if (target.subgroup_min_size == 0 || target.subgroup_min_size != target.subgroup_max_size) return false;
    const bool pays = lowering_.options().conv.stage_weights && matmul_.m > kFewRows;
    return (use == MatrixUse::On || pays) && a_->dtype == DType::F16 && b_->dtype == DType::F16;
  }

  // Rows of whole eights, and everything in one binding each.
  bool reads_eights() const {
    const int64_t a_row = matmul_.transpose_a ? matmul_.m : matmul_.k,
                  b_row = matmul_.transpose_b ? matmul_.k : matmul_.n;
    const auto whole = [&](const Storage& s) {
      const uint64_t bytes = s.unit_bytes() * 4;
      return s.units % 4 == 0 && s.chunks.size() == 1 && s.chunks[0].byte_offset % bytes == 0 &&
             fits_window(s, 0, s.units, lowering_.limits());
    };
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    const Storage out = storage_shape({DType::F32, type.shape, Layout::Plain});
    const uint64_t most =
        std::min(lowering_.limits().max_storage_buffer_binding_size, lowering_.limits().max_buffer_size);
    const uint32_t bindings = 3 + (has_operand(node_, 2) ? 1 : 0) + (lowering_.options().check_finite ? 1 : 0);
    const bool bias = !has_operand(node_, 2) || in_one(*lowering_.storage(node_.inputs[2]), 4);
    return a_row % 8 == 0 && b_row % 8 == 0 && matmul_.n % 4 == 0 && whole(*a_) && whole(*b_) && bias &&
           out.bytes() <= most && bindings <= lowering_.limits().max_storage_buffers_per_shader_stage;
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
    const int64_t wanted = std::max<int64_t>(std::min(parts_for(matmul_, tile_), most), 1);
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
    const MatrixTile& t = *matrix_tile_;
    const int64_t lanes = lowering_.target().subgroup_max_size, workgroup = t.subgroups() * lanes;
    const Storage out = quad_view(*out_);
    const bool bias = has_operand(node_, 2);
    Kernel k(lowering_, "matmul_matrix", label_of(node_));
    k.name(cat("matmul_matrix ", t.side)).workgroup(static_cast<uint32_t>(workgroup)).matrices();
    k.read("a", quad_view(*a_)).read("b", quad_view(*b_));
    if (bias) k.read("bias", quad_view(*lowering_.storage(node_.inputs[2])));
    k.write("output", out).checks_stored();
    k.flag("bias", bias);
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
    k.constant("a_row", MatrixTile::row(a_row)).constant("b_row", MatrixTile::row(b_row));
    k.constant("a_eights", a_row / 8).constant("b_eights", b_row / 8);
    k.shared("a_tile", {Scalar::U32, 4}, static_cast<uint64_t>(t.a_units(matmul_)));
    k.shared("b_tile", {Scalar::U32, 4}, static_cast<uint64_t>(t.b_units(matmul_)));
    k.shared("sums", wgsl::vec4f, static_cast<uint64_t>(t.sum_units()));
    add_batch(k);
    add_body(k, wgsl::vec4f, out);
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
  Tile tile_{};
  std::optional<MatrixTile> matrix_tile_{};
  StoragePtr out_;
  bool inside_ = false;  // the body runs in the kernels of the product
};

}  // namespace

void lower_matmul(Lowering& lowering, const Node& node) { MatmulEmitter(lowering, node).run(); }

}  // namespace gyrus
