// Products with matrices in the blocks of GGUF files: a kernel for few rows, which is bound by reading the matrix once,
// and one in tiles for many. A matrix that needs several bindings is cut between rows.
#include <algorithm>

#include "core/error.h"
#include "ops/blocks.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "plan/block_matrices.h"
#include "plan/block_windows.h"

namespace gyrus {
namespace {

constexpr int64_t kFewRows = 8;     // up to which the kernel for vectors reads the matrix for four rows at a time
constexpr uint32_t kTeam = 32;      // lanes that share rows of the matrix
constexpr uint32_t kVector = 256;   // lanes of a workgroup for vectors
constexpr uint32_t kSpan = 256;     // units of x in workgroup memory at a time, at most
constexpr int64_t kTeamRows = 2;    // of a matrix that a team takes at a time
constexpr int64_t kNormedRows = 2;  // of x that are normed in the product's kernel
constexpr int64_t kEnoughGroups = 512, kMostTurns = 8;  // beyond so many workgroups each takes several turns

// Whether the kernel file has `scaled`: 32 elements with one scale, so that sums come before it.
bool has_scale(const BlockMatrix& matrix) {
  if (matrix.integers()) return has_whole_groups(matrix);
  return matrix.type == BlockType::Q4_0 || matrix.type == BlockType::Q4_K || matrix.type == BlockType::Q8_0;
}

std::string activation(const std::string& act) { return act == "gelu" ? "gelu_none" : act; }

class BlockMatmulEmitter {
 public:
  // With `normed` x is normed by gamma first, and a gate taken where it says so: few rows only.
  BlockMatmulEmitter(Lowering& lowering, const Node& node, const BlockNormed* normed = nullptr,
                     ValueId gamma = kNoValue)
      : lowering_(lowering),
        node_(node),
        normed_(normed),
        gamma_(gamma),
        label_(label_of(node)),
        matmul_(of_graph(lowering.graph(), node)) {
    const Graph& graph = lowering.graph();
    x_ = lowering.storage(node.inputs[0]);
    bias_ = has_operand(node, BlockMatmul::kBias);
    routed_ = has_operand(node, BlockMatmul::kExperts);
    rows_ = element_count(matmul_.result) / matmul_.n;
    shared_by_ = rows_ / std::max<int64_t>(1, element_count(graph.type(node.inputs[0]).shape) / matmul_.k);
    gated_ = normed_ && !normed_->act.empty();
    width_ = gated_ ? matmul_.n / 2 : matmul_.n;
  }

  void run() {
    if (rows_ == 0) {
      lowering_.make_storage(node_.outputs[0], node_);
      return;
    }
    const TensorType& type = lowering_.graph().type(node_.outputs[0]);
    const TensorType raw{DType::F32, type.shape, Layout::Plain};
    inside_ = node_.outputs.size() == 1 && type.dtype == DType::F32 && body_fits();
    out_ = inside_ ? lowering_.make_storage(node_.outputs[0], node_) : lowering_.make_scratch(raw, label_ + ".sums");
    if (takes_matrices()) halves_ = emit_half_rows(lowering_, *x_, rows_, matmul_.k, label_);
    int64_t column = 0;
    for (size_t m = 0; m < matmul_.matrices.size(); ++m) {
      const BlockMatrix& matrix = matmul_.matrices[m];
      const StoragePtr weights = whole_rows(lowering_, matrix, lowering_.storage(node_.inputs[1 + m]), label_);
      for (const RowWindow& part : cut_rows(matrix, *weights, lowering_.limits(), label_))
        emit(matrix, *weights, part, column);
      column += matrix.rows / matmul_.expert_count;
    }
    if (!inside_) emit_body(lowering_, node_, out_, raw);
  }

 private:
  static BlockMatmul of_graph(const Graph& graph, const Node& node) {
    std::vector<TensorType> types;
    for (ValueId id : node.inputs) types.push_back(id == kNoValue ? TensorType{} : graph.type(id));
    return block_matmul_of(node, types);
  }

  bool in_one(const Storage& storage) const {
    return storage.chunks.size() == 1 && fits_window(storage, 0, storage.units, lowering_.limits());
  }

  // Whether the body runs in the kernel: what else it reads has the result's shape and finds a binding.
  bool body_fits() const {
    const size_t first = own_inputs(node_), further = node_.inputs.size() - std::min(first, node_.inputs.size());
    const size_t bindings =
        3 + (bias_ ? 1 : 0) + (routed_ ? 1 : 0) + further + (lowering_.options().check_finite ? 1 : 0);
    if (further > 0 && bindings > lowering_.limits().max_storage_buffers_per_shader_stage) return false;
    for (size_t i = first; i < node_.inputs.size(); ++i)
      if (lowering_.graph().type(node_.inputs[i]).shape != matmul_.result ||
          !in_one(*lowering_.storage(node_.inputs[i])) || lowering_.storage(node_.inputs[i])->dtype != DType::F32)
        return false;
    return true;
  }

  // Whether matrix units make the results, of which there are many rows.
  bool takes_matrices() const {
    const Limits& limits = lowering_.limits();
    const size_t further = inside_ ? node_.inputs.size() - std::min(own_inputs(node_), node_.inputs.size()) : 0;
    return may_round(node_) && !routed_ && !normed_ && rows_ > kFewRows &&
           wants_matrix_units(lowering_.target(), lowering_.options(), true) &&
           block_tile_for(rows_, matmul_.n, lowering_.target()) && fits_half_rows(rows_, matmul_.k, limits) &&
           4 + (bias_ ? 1 : 0) + further <= limits.max_storage_buffers_per_shader_stage;
  }

  void add_body(Kernel& k) {
    std::vector<std::string> names{"x"};
    std::string arguments, call = "epilogue(sum";
    for (size_t i = own_inputs(node_); inside_ && i < node_.inputs.size(); ++i) {
      const std::string name = cat("further", i);
      k.read(name, *lowering_.storage(node_.inputs[i]));
      names.push_back(cat("x", i));
      arguments += cat(", ", names.back(), ": f32");
      call += cat(", ", name, "[o + P.", name, "_shift]");
    }
    const BodyText body = inside_ ? body_wgsl(node_, names, wgsl::f32) : BodyText{"", {"x"}, {}};
    k.text("epilogue", body.statements + "  return " + body.result() + ";\n").text("T", "f32");
    k.text("extra_arguments", arguments).text("store", k.stored(*out_, call + ")"));
  }

  // Rows of x and of the result that one binding each holds, from `first` on.
  int64_t rows_together(int64_t first) const {
    const auto fits = [&](int64_t count) {
      const auto k = static_cast<uint64_t>(matmul_.k), n = static_cast<uint64_t>(width_);
      const auto from = static_cast<uint64_t>(first / shared_by_),
                 to = static_cast<uint64_t>((first + count - 1) / shared_by_);
      return fits_window(*x_, from * k, (to + 1 - from) * k, lowering_.limits()) &&
             fits_window(*out_, static_cast<uint64_t>(first) * n, static_cast<uint64_t>(count) * n, lowering_.limits());
    };
    int64_t count = rows_ - first;
    while (count > 1 && !fits(count)) count = (count + 1) / 2;
    if (!fits(count))
      fail(ErrorCode::OverLimits, label_, "a row of ", std::max(matmul_.k, matmul_.n),
           " elements is larger than a binding may be");
    return count;
  }

  void emit(const BlockMatrix& matrix, const Storage& weights, const RowWindow& part, int64_t column) {
    for (int64_t first = 0; first < rows_;) {
      const int64_t count = rows_together(first);
      if (routed_ || normed_ || count <= kFewRows)
        emit_vector(matrix, weights, part, column, first, count);
      else if (halves_)
        emit_matrices(matrix, weights, part, column, first, count);
      else
        emit_tiles(matrix, weights, part, column, first, count);
      first += count;
    }
  }

  void add_operands(Kernel& k, const BlockMatrix& matrix, const Storage& weights, const RowWindow& part, int64_t column,
                    int64_t first, int64_t count) {
    const auto begin = static_cast<uint64_t>(first / shared_by_),
               end = static_cast<uint64_t>((first + count - 1) / shared_by_) + 1;
    const auto width = static_cast<uint64_t>(matmul_.k);
    const bool quads = matmul_.k % 4 == 0 && std::all_of(x_->chunks.begin(), x_->chunks.end(), [](const Chunk& c) {
                         return c.first % 4 == 0 && c.byte_offset % 16 == 0;
                       });
    const Storage x = quads ? quad_view(*x_) : *x_;
    const uint64_t lanes = quads ? 4 : 1;
    k.read("x", x, window(x, begin * width / lanes, (end - begin) * width / lanes, lowering_.limits()));
    k.param("x_last", end * width / lanes - 1).flag("quads", quads).flag("ragged", matmul_.k % kBlockUnit != 0);
    add_matrix(k, matrix, weights, part);
    add_result(k, column, first, count, false);
  }

  // The result's rows with bias and body; of operands that were rounded, the kernel says what did not fit.
  void add_result(Kernel& k, int64_t column, int64_t first, int64_t count, bool rounded) {
    const auto n = static_cast<uint64_t>(width_);
    if (bias_) k.read("bias", *lowering_.storage(node_.inputs[BlockMatmul::kBias]));
    k.write("output", *out_,
            window(*out_, static_cast<uint64_t>(first) * n, static_cast<uint64_t>(count) * n, lowering_.limits()));
    if (rounded)
      checks_rounded(k, lowering_.options());
    else
      k.checks_stored();
    k.flag("bias", bias_)
        .param("n", width_)
        .param("column", column)
        .param("first_r", first)
        .param("last_r", first + count - 1);
    add_body(k);
  }

  Cost cost(const BlockMatrix& matrix, const RowWindow& part, int64_t count) const {
    const double rows = static_cast<double>(part.last + 1 - part.first) / static_cast<double>(matmul_.expert_count);
    return {2 * rows * static_cast<double>(count) * static_cast<double>(matmul_.k),
            rows * static_cast<double>(matrix.row_bytes()) * static_cast<double>(routed_ ? count : 1) +
                4 * static_cast<double>(count) * (static_cast<double>(matmul_.k) + rows)};
  }

  void emit_vector(const BlockMatrix& matrix, const Storage& weights, const RowWindow& part, int64_t column,
                   int64_t first, int64_t count) {
    Kernel k(lowering_, "block_vector", label_);
    k.workgroup(kVector);
    uint32_t lanes = 1;
    while (lanes < std::min(kTeam, k.workgroup()) && int64_t{lanes} * 2 * kBlockUnit <= matmul_.k) lanes *= 2;
    const int64_t columns = routed_ ? 1 : count > 2 ? 4 : count;
    int64_t own = routed_ ? matrix.rows / matmul_.expert_count : part.last + 1 - part.first;
    const int64_t rows = kTeamRows;
    const int64_t teams = k.workgroup() / lanes;
    // A gate's row and the other one of the same result make a pair.
    const int64_t pairs = gated_ ? rows / 2 : rows;
    if (gated_) own /= 2;
    k.name(cat(normed_ ? "block_normed " : "block_vector ", to_string(matrix.type)));
    add_operands(k, matrix, weights, part, column, first, count);
    if (routed_) {
      k.read("experts", *lowering_.storage(node_.inputs[BlockMatmul::kExperts]));
      k.param("expert_count", matmul_.expert_count).param("shared_by", shared_by_);
    }
    k.flag("scaled", has_scale(matrix))
        .flag("experts", routed_)
        .param("expert_rows", matrix.rows / matmul_.expert_count);
    k.param("n_begin", routed_ ? 0 : part.first);
    k.constant("lanes", lanes).constant("teams", teams).constant("rows", rows).constant("columns", columns);
    const uint64_t sums = static_cast<uint64_t>(rows * columns) * k.workgroup();
    uint32_t span = lanes;
    while (span < kSpan && int64_t{span} < ceil_div(matmul_.k, kBlockUnit)) span *= 2;
    const auto x_quads = [&] { return static_cast<uint64_t>(columns) * 8 * (span + 1); };
    const uint64_t squares = normed_ ? static_cast<uint64_t>(columns) * k.workgroup() : 0;
    const auto fits = [&] {
      return x_quads() * 16 + (sums + squares) * 4 <= lowering_.limits().max_compute_workgroup_storage_size;
    };
    while (span > lanes && !fits()) span /= 2;
    const bool staged = fits();
    k.flag("staged", staged).constant("span", span).shared("stage", wgsl::f32, sums);
    if (staged) k.shared("x_tile", wgsl::vec4f, x_quads());
    k.constant("pairs", pairs).flag("gated", gated_).flag("normed", normed_ != nullptr);
    if (gated_) k.param("half", own).text("act", cat("act_", activation(normed_->act)));
    if (normed_) {
      const Storage& gamma = *lowering_.storage(gamma_);
      const bool gamma_quads = matmul_.k % 4 == 0 && gamma.chunks.size() == 1 && gamma.chunks[0].byte_offset % 16 == 0;
      k.read("gamma", gamma_quads ? quad_view(gamma) : gamma)
          .flag("gamma_quads", gamma_quads)
          .param("eps", static_cast<float>(normed_->eps));
      k.shared("squares", wgsl::f32, squares);
    }
    // Several turns with one x, where there is work enough and x stays in workgroup memory as a whole.
    const bool whole = staged && int64_t{span} >= ceil_div(matmul_.k, kBlockUnit);
    const int64_t turns = whole ? std::clamp<int64_t>(own / (pairs * teams * kEnoughGroups), 1, kMostTurns) : 1;
    const int64_t row_groups = ceil_div(own, pairs * teams * turns);
    k.param("row_groups", row_groups).param("turns", turns);
    k.dispatch(static_cast<uint64_t>(row_groups * ceil_div(count, columns)), cost(matrix, part, count));
  }

  void emit_tiles(const BlockMatrix& matrix, const Storage& weights, const RowWindow& part, int64_t column,
                  int64_t first, int64_t count) {
    const Limits& limits = lowering_.limits();
    uint32_t threads = 16;
    // Two tiles of `4 threads` rows and 32 elements.
    const auto fits = [&] {
      return workgroup_size(limits, threads * threads) == threads * threads &&
             uint64_t{threads} * 4 * 32 * 4 * 2 <= limits.max_compute_workgroup_storage_size;
    };
    while (threads > 1 && !fits()) threads /= 2;
    const uint32_t tile = threads * 4;
    Kernel k(lowering_, "block_tiles", label_);
    k.name(cat("block_tiles ", to_string(matrix.type))).workgroup(threads * threads);
    add_operands(k, matrix, weights, part, column, first, count);
    k.constant("threads", threads).constant("tile", tile);
    k.shared("x_tile", wgsl::vec4f, tile * 8).shared("w_tile", wgsl::vec4f, tile * 8);
    const int64_t row_groups = ceil_div(part.last + 1 - part.first, tile);
    k.param("row_groups", row_groups);
    k.dispatch(static_cast<uint64_t>(row_groups * ceil_div(count, tile)), cost(matrix, part, count));
  }

  void emit_matrices(const BlockMatrix& matrix, const Storage& weights, const RowWindow& part, int64_t column,
                     int64_t first, int64_t count) {
    const BlockTile tile = *block_tile_for(count, part.last + 1 - part.first, lowering_.target());
    Kernel k(lowering_, "block_matrices", label_);
    k.name(cat("block_matrices ", to_string(matrix.type)))
        .workgroup(static_cast<uint32_t>(tile.workgroup()))
        .matrices();
    read_half_rows(k, *halves_, matmul_.k, lowering_.limits(), label_);
    add_matrix(k, matrix, weights, part);
    add_result(k, column, first, count, true);
    tile.declare(k);
    k.param("r_groups", ceil_div(count, tile.rows));
    k.dispatch(static_cast<uint64_t>(tile.tiles(count, part.last + 1 - part.first)), cost(matrix, part, count));
  }

  Lowering& lowering_;
  const Node& node_;
  const BlockNormed* normed_;
  ValueId gamma_;
  std::string label_;
  BlockMatmul matmul_;
  StoragePtr x_, out_;
  StoragePtr halves_;  // rows of x for matrix units, which then make the results
  int64_t rows_ = 0;
  int64_t width_ = 0;  // of a row of the result
  bool gated_ = false;
  int64_t shared_by_ = 1;  // rows of the result that are made from one row of x
  bool bias_ = false, routed_ = false, inside_ = false;
};

}  // namespace

void lower_block_matmul(Lowering& lowering, const Node& node) { BlockMatmulEmitter(lowering, node).run(); }

// Few rows, of which quads lie in workgroup memory; a gate's rows in one binding.
bool suits_block_normed(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  const BlockNormed normed = block_normed_of(node);
  std::vector<TensorType> types;
  for (ValueId id : normed.product.inputs) types.push_back(id == kNoValue ? TensorType{} : graph.type(id));
  const BlockMatmul matmul = block_matmul_of(normed.product, types);
  const Limits& limits = target.limits;
  const int64_t rows = element_count(matmul.result) / matmul.n;
  if (rows < 1 || rows > kNormedRows) return false;
  const uint64_t lanes = workgroup_size(limits, kVector), columns = static_cast<uint64_t>(rows);
  const uint64_t bytes = columns * (8 * (kTeam + 1) * 16 + 4 * lanes) + 4 * columns * kTeamRows * lanes;
  const uint64_t bindings =
      4 + (has_operand(normed.product, BlockMatmul::kBias) ? 1 : 0) + (options.check_finite ? 1 : 0);
  if (bytes > limits.max_compute_workgroup_storage_size || bindings > limits.max_storage_buffers_per_shader_stage)
    return false;
  const BlockMatrix& first = matmul.matrices.front();
  return normed.act.empty() || byte_size(DType::U32) * static_cast<uint64_t>(element_count(first.shape())) <=
                                   std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
}

void lower_block_normed(Lowering& lowering, const Node& node) {
  const BlockNormed normed = block_normed_of(node);
  BlockMatmulEmitter(lowering, normed.product, &normed, node.inputs[BlockNormed::kGamma]).run();
}

void lower_gated(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.graph().type(node.outputs[0]).shape;
  const std::string& act = node.attrs.text("act");
  MapSpec spec;
  spec.name = "gated " + act;
  spec.label = label_of(node);
  spec.dims = {element_count(shape) / std::max<int64_t>(1, shape.back()), shape.back()};
  spec.params = {{"width", shape.back()}};
  const StoragePtr x = lowering.storage(node.inputs[0]);
  MapOperand gate, up;
  gate.storage = up.storage = x;
  gate.name = "gate";
  gate.index = "c0 * 2u * P.width + c1";
  up.name = "up";
  up.index = "(c0 * 2u + 1u) * P.width + c1";
  spec.operands = {gate, up};
  spec.result = cat("act_", activation(act), "(gate) * up");
  spec.flops_per_element = 8;
  spec.out = lowering.make_storage(node.outputs[0], node);
  emit_map(lowering, spec);
}

}  // namespace gyrus
