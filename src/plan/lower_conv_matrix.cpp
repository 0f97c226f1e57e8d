// The kernel conv_matrix: halves multiplied by matrix units, sums in f32.
#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "ops/arrange.h"
#include "plan/conv_cut.h"

namespace gyrus {
namespace {

constexpr int64_t kMostRows = 4;      // of a workgroup
constexpr int64_t kMostMatrices = 4;  // of output channels of a subgroup
// Measured on one card (docs/performance.md): beyond these, registers hold too few threads.
constexpr int64_t kMostStaged = 16;    // channels at a time
constexpr int64_t kNarrow = 16;        // output channels of a subgroup; with more
constexpr int64_t kLanesOfWide = 64;   // a workgroup has fewer lanes
constexpr int64_t kMostColumns = 256;  // that a workgroup makes, some after others
constexpr int64_t kEnoughGroups = 4096;
constexpr int64_t kMostPlaneTaps = 9;   // the text grows with them
constexpr int64_t kLeastProducts = 64;  // of input and output channels; with fewer the matrices are mostly empty

// What a workgroup makes: rows of so many voxels for some matrices of output channels.
struct Tile {
  MatrixShape shape;
  int64_t subgroups = 1;  // side by side along W
  int64_t rows = 1;
  int64_t tiles_n = 1;  // matrices of output channels
  int64_t part_k = 1;   // matrices of input channels that are staged at a time
  int64_t blocks = 1;   // that a workgroup makes one after another along W

  int64_t width() const { return subgroups * shape.m; }
  int64_t quads() const { return tiles_n * shape.n / 4; }
  int64_t octs() const { return part_k * shape.k / 8; }  // eights of channels that are staged
};

int64_t matrices_k(const ConvGeometry& g, const MatrixShape& s) { return ceil_div(g.in_channels, int64_t{s.k}); }
int64_t matrices_n(const ConvGeometry& g, const MatrixShape& s) { return ceil_div(g.out_channels, int64_t{s.n}); }

// The shape that multiplies the least, what is padded included. A step costs as much as the smallest one that NVIDIA's
// units have.
const MatrixShape* shape_for(const ConvGeometry& g, const Target& target) {
  constexpr int64_t kLeastStep = 16 * 8 * 16;
  const MatrixShape* best = nullptr;
  int64_t best_cost = 0;
  for (const MatrixShape& s : target.matrices) {
    if (s.input != DType::F16 || s.result != DType::F32 || s.k % 8 != 0 || s.n % 8 != 0) continue;
    if (s.m == 0 || (s.m & (s.m - 1)) != 0 || target.subgroup_max_size % s.m != 0) continue;
    const int64_t step = std::max<int64_t>(int64_t{s.m} * s.n * s.k, kLeastStep) / s.m;
    const int64_t cost = step * matrices_k(g, s) * matrices_n(g, s);
    if (best && (cost > best_cost || (cost == best_cost && s.n * s.k <= best->n * best->k))) continue;
    best = &s;
    best_cost = cost;
  }
  return best;
}

// Rows of the result, split into the residue classes of the dilation: H % dilation long ones and short ones with a row
// less.
struct Classes {
  int64_t long_classes = 0, long_each = 0;  // runs of each
  int64_t short_each = 0;
  int64_t runs = 0;
};
Classes classes_of(const ConvGeometry& g, int64_t rows) {
  const int64_t height = g.out[1], dilation = g.dilation[1], longest = ceil_div(height, dilation);
  Classes c;
  c.long_classes = height % dilation == 0 ? dilation : height % dilation;
  c.long_each = ceil_div(longest, rows);
  c.short_each = ceil_div(longest - 1, rows);
  c.runs = c.long_classes * c.long_each + (dilation - c.long_classes) * c.short_each;
  return c;
}

int64_t rows_in(const ConvGeometry& g, const Tile& t) { return t.rows + g.kernel[1] - 1; }
int64_t columns_in(const ConvGeometry& g, const Tile& t) { return t.width() + (g.kernel[2] - 1) * g.dilation[2]; }
int64_t blocks(const ConvGeometry& g, const Tile& t) { return ceil_div(g.out[2], t.width()); }

// vec4 of sums: a voxel's quads and one more, so that lanes that read the same quad meet different banks.
uint64_t sum_units(const Tile& t) { return static_cast<uint64_t>(t.width() * (t.quads() + 1)); }
uint64_t stage_units(const ConvGeometry& g, const Tile& t, bool stats) {
  const auto rows = static_cast<uint64_t>(rows_in(g, t) * columns_in(g, t) * t.octs());
  return stats ? std::max(rows, static_cast<uint64_t>(t.quads() * 2 * t.width())) : rows;
}
uint64_t shared_bytes(const ConvGeometry& g, const Tile& t, bool stats) {
  return (stage_units(g, t, stats) + sum_units(t)) * kVec4Bytes;
}

// Voxels that are staged and multiplied for a plane.
int64_t work_of(const ConvGeometry& g, const Tile& t) {
  const int64_t tiles = blocks(g, t) * classes_of(g, t.rows).runs;
  return tiles * (rows_in(g, t) * columns_in(g, t) + t.rows * t.width());
}

// The tile with the least work that the limits allow.
std::optional<Tile> tile_for(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  const Target& target = site.target;
  const MatrixShape* shape = shape_for(g, target);
  if (!shape) return {};
  const int64_t lanes = target.subgroup_max_size, shares = lanes / shape->m;
  // Sums that one lane holds of a matrix.
  const int64_t sums = ceil_div(int64_t{shape->m} * shape->n, lanes);
  const int64_t most_sums = std::max<int64_t>(1, int64_t{site.options.conv.registers} * 4 / sums);
  const int64_t workgroup = workgroup_size(target.limits, site.options.conv.workgroup);
  std::optional<Tile> best;
  for (int64_t n = std::min(kMostMatrices, matrices_n(g, *shape)); n > 0 && !best; --n) {
    Tile tile{*shape, 1, 1, n, 1};
    if (n > most_sums || matrices_n(g, *shape) % n != 0 || tile.quads() % shares != 0) continue;
    const int64_t most_lanes = n * shape->n <= kNarrow ? workgroup : std::min(workgroup, kLanesOfWide);
    for (tile.subgroups = most_lanes / lanes; tile.subgroups > 0; tile.subgroups /= 2)
      for (tile.rows = std::min({kMostRows, most_sums / n, ceil_div(g.out[1], g.dilation[1])}); tile.rows > 0;
           --tile.rows)
        for (tile.part_k = std::clamp<int64_t>(kMostStaged / shape->k, 1, matrices_k(g, *shape)); tile.part_k > 0;
             --tile.part_k) {
          const bool fits = matrices_k(g, *shape) % tile.part_k == 0 &&
                            shared_bytes(g, tile, site.stats) <= target.limits.max_compute_workgroup_storage_size;
          if (!fits) continue;
          if (!best || work_of(g, tile) < work_of(g, *best)) best = tile;
          break;
        }
  }
  if (best) {
    // Statistics and weights cost less with many blocks, but the device wants work for all its units.
    const int64_t groups = g.out[0] * classes_of(g, best->rows).runs * (matrices_n(g, *shape) / best->tiles_n);
    const int64_t spare = groups * blocks(g, *best) / kEnoughGroups;
    const int64_t most = std::min(blocks(g, *best), ceil_div(kMostColumns, best->width()));
    best->blocks = std::clamp<int64_t>(spare, 1, most);
  }
  return best;
}

CutOptions cut_options(const ConvSite& site) {
  CutOptions o;
  o.output_quads = site.geometry.out_quads();
  o.stats = site.stats && site.options.conv.gather_statistics;
  return o;
}

Attrs weight_order(const ConvGeometry& g, const Tile& tile) {
  return {{"kernel", std::string("matrix")},
          {"begin", int64_t{0}},
          {"end", g.out_quads()},
          {"lanes", matrices_k(g, tile.shape) * tile.shape.k},
          {"held", int64_t{tile.shape.n / 4}},
          {"depth", int64_t{tile.shape.k}}};
}

int64_t weight_rows(const ConvGeometry& g, const MatrixShape& s) {
  return g.kernel[0] * g.plane_taps() * matrices_k(g, s) * matrices_n(g, s) * s.k * s.n / 8;
}

bool suits(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  const Target& target = site.target;
  const MatrixUse use = site.options.matrix;
  if (use == MatrixUse::Off || !target.features.subgroup_matrix || target.matrices.empty()) return false;
  if (target.subgroup_min_size == 0 || target.subgroup_min_size != target.subgroup_max_size) return false;
  if (site.in.lanes != 4 || site.in.dtype != DType::F16 || site.out.dtype != DType::F16) return false;
  if (g.groups != 1 || g.stride[1] != 1 || g.stride[2] != 1 || g.plane_taps() > kMostPlaneTaps) return false;
  // On a CPU they are only imitated.
  const bool pays = site.options.conv.stage_weights && g.in_channels * g.out_channels >= kLeastProducts;
  if (use == MatrixUse::Auto && !pays) return false;
  const std::optional<Tile> tile = tile_for(site);
  if (!tile) return false;
  const auto bytes = static_cast<uint64_t>(weight_rows(g, tile->shape) + g.out_quads()) * kVec4Bytes;
  const uint64_t most = std::min(target.limits.max_storage_buffer_binding_size, target.limits.max_buffer_size);
  return bytes <= most && output_groups(site, cut_options(site)).size() == 1;
}

WeightOrders orders(const ConvSite& site) {
  WeightOrders result;
  result.storage.push_back(weight_order(site.geometry, *tile_for(site)));
  return result;
}

class MatrixConv {
 public:
  MatrixConv(Lowering& lowering, const PackedConv& conv)
      : lowering_(lowering),
        conv_(conv),
        g_(conv.geometry),
        site_(conv_site(lowering.target(), lowering.options(), conv)),
        tile_(*tile_for(site_)),
        classes_(classes_of(g_, tile_.rows)),
        cut_(lowering, conv, cut_options(site_)) {}

  void run(StatsTarget* stats) {
    const auto groups_of = [this](const Interval& range) {
      return static_cast<uint64_t>(range.size()) * plane_groups();
    };
    uint64_t parts = 0;
    for (const Interval& range : cut_.ranges()) parts += groups_of(range);
    if (cut_.begin_stats(stats, parts)) stats_ = stats;
    cut_.each_dispatch(groups_of, [&](const ConvPart& part) { emit(part); });
  }

 private:
  int64_t block_groups() const { return ceil_div(blocks(g_, tile_), tile_.blocks); }
  uint64_t plane_groups() const { return static_cast<uint64_t>(block_groups() * classes_.runs); }
  std::string products(int64_t part_k, int64_t first_k) const;
  void add_geometry(const ConvPass& pass, Kernel& k) const;
  void add_tile(const ConvPass& pass, Kernel& k) const;
  void emit(const ConvPart& part);

  Lowering& lowering_;
  const PackedConv& conv_;
  const ConvGeometry& g_;
  ConvSite site_;
  Tile tile_;
  Classes classes_;
  ConvCut cut_;
  StatsTarget* stats_ = nullptr;
};

// What was staged for the plane `kd` of taps and the part `part` of the input: every row of voxels that is read meets
// the weights of all taps along H.
std::string MatrixConv::products(int64_t part_k, int64_t first_k) const {
  const MatrixShape& s = tile_.shape;
  const std::string right = cat("subgroup_matrix_right<f16, ", s.n, ", ", s.k, ">, col_major>(&weights, weights_of + ");
  const std::string left = cat("subgroup_matrix_left<f16, ", s.k, ", ", s.m, ">, row_major>(&stage, ");
  const int64_t matrix = int64_t{s.k} * s.n / 8, all_k = matrices_k(g_, s), all_n = matrices_n(g_, s);
  const int64_t octs = part_k * s.k / 8;
  std::string text =
      cat("        for (var kw = 0u; kw < ", g_.kernel[2], "u; kw++) {\n          let column = subgroup * ", s.m,
          "u + kw * ", g_.dilation[2], "u;\n          let matrix = (kd * ", g_.plane_taps(), "u + kw) * ", all_k,
          "u + ", first_k, "u + part * ", part_k, "u;\n          let weights_of = P.weights_shift + (matrix * ", all_n,
          "u + og * ", tile_.tiles_n, "u) * ", matrix, "u;\n");
  for (int64_t t = 0; t < part_k; ++t) {
    text += "          {\n";
    for (int64_t tap = 0; tap < g_.kernel[1]; ++tap)
      for (int64_t n = 0; n < tile_.tiles_n; ++n)
        text += cat("            let b", tap, "_", n, " = subgroupMatrixLoad<", right,
                    ((tap * g_.kernel[2] * all_k + t) * all_n + n) * matrix, "u, ", s.k / 8, "u);\n");
    for (int64_t row = 0; row < rows_in(g_, tile_); ++row) {
      text += cat("            let a", row, " = subgroupMatrixLoad<", left, "(", row, "u * kColumns + column) * ", octs,
                  "u + ", t * s.k / 8, "u, ", octs, "u);\n");
      for (int64_t tap = 0; tap < g_.kernel[1]; ++tap)
        for (int64_t n = 0; n < tile_.tiles_n && row >= tap && row - tap < tile_.rows; ++n) {
          const std::string sum = cat("sum", row - tap, "_", n);
          text += cat("            ", sum, " = subgroupMatrixMultiplyAccumulate(a", row, ", b", tap, "_", n, ", ", sum,
                      ");\n");
        }
    }
    text += "          }\n";
  }
  return text + "        }\n";
}

void MatrixConv::add_geometry(const ConvPass& pass, Kernel& k) const {
  k.constant("planes_in", g_.in[0]).constant("h_in", g_.in[1]).constant("w_in", g_.in[2]);
  k.constant("h_out", g_.out[1]).constant("w_out", g_.out[2]).constant("in_stride", cut_.in_stride());
  k.constant("stride_d", g_.stride[0]).constant("pad_h", g_.pad[1]).constant("pad_w", g_.pad[2]);
  k.constant("dilation_d", g_.dilation[0])
      .constant("dilation_h", g_.dilation[1])
      .constant("dilation_w", g_.dilation[2]);
  k.constant("taps_h", g_.kernel[1]).constant("taps_w", g_.kernel[2]);
  k.constant("tap_begin", pass.taps.begin).constant("taps_d", pass.taps.size()).flag("taps_apart", pass.taps_apart());
  k.constant("long_classes", classes_.long_classes).constant("long_runs", classes_.long_classes * classes_.long_each);
  k.constant("long_each", classes_.long_each).constant("short_each", std::max<int64_t>(1, classes_.short_each));
}

void MatrixConv::add_tile(const ConvPass& pass, Kernel& k) const {
  const MatrixShape& s = tile_.shape;
  const int64_t staged = rows_in(g_, tile_) * columns_in(g_, tile_);
  // A pass over some quads takes the matrices that hold them; the others' channels are zeros.
  const int64_t quads_k = s.k / 4, first = pass.quads.begin / quads_k, end = ceil_div(pass.quads.end, quads_k);
  const int64_t part_k = std::gcd(tile_.part_k, end - first);
  Tile tile = tile_;
  tile.part_k = part_k;
  k.constant("m", s.m).constant("n", s.n).constant("k", s.k);
  k.constant("part_k", part_k).constant("parts_of_k", (end - first) / part_k);
  k.text("products", products(part_k, first));
  k.constant("quads", pass.quads.size()).constant("quads_before", pass.quads.begin - first * quads_k);
  k.constant("rows_out", tile_.rows).constant("tile_w", tile_.width()).constant("blocks", blocks(g_, tile_));
  k.constant("tiles_n", tile_.tiles_n).constant("out_groups", matrices_n(g_, s) / tile_.tiles_n);
  k.constant("columns", columns_in(g_, tile_)).constant("staged_voxels", staged).constant("octs", tile.octs());
  k.constant("stage_steps", ceil_div(staged, int64_t{k.workgroup()}));
  const int64_t shares = lowering_.target().subgroup_max_size / s.m;
  k.constant("shares", shares).constant("lane_quads", tile_.quads() / shares).constant("quads_n", tile_.quads());
  k.constant("block_groups", block_groups()).constant("blocks_each", tile_.blocks).constant("voxels_left", 4);
  k.shared("stage", {Scalar::U32, 4}, stage_units(g_, tile, conv_.stats)).shared("sums", wgsl::vec4f, sum_units(tile_));
}

void MatrixConv::emit(const ConvPart& part) {
  const ConvPass& pass = part.pass;
  const bool with_stats = stats_ && pass.last;
  Kernel k(lowering_, "conv_matrix", conv_.label);
  k.name(
      cat("conv_matrix ", pass.quads.size() * 4, "→", part.quads.size() * 4, pass.first && pass.last ? "" : " part"));
  k.workgroup(static_cast<uint32_t>(tile_.subgroups) * lowering_.target().subgroup_max_size).matrices();
  k.constant("inputs", cut_.bind_inputs(part, k));
  const Window weights = whole_window(*conv_.weights[part.group], lowering_.limits(), conv_.label);
  k.read("weights", weights.range, {Scalar::U32, 4}).param("weights_shift", weights.skip);
  k.text("functions", cut_.bind_output(part, k));
  add_geometry(pass, k);
  add_tile(pass, k);
  if (with_stats) {
    k.write("stats", {stats_->buffer, 0, stats_->bytes}, wgsl::vec4f).param("parts", stats_->parts);
    k.param("stats", part.first_part * 3);
  }
  k.param("plane_groups", plane_groups()).param("out_quads", part.quads.size());
  k.param("origin_d", part.range.begin * g_.stride[0] - g_.pad[0]).param("bias", weight_rows(g_, tile_.shape));
  k.flag("first", pass.first).flag("last", pass.last).flag("stats", with_stats);
  k.text("epilogue", conv_.epilogue).text("T", "vec4<f32>");
  k.dispatch(static_cast<uint64_t>(part.range.size() * (matrices_n(g_, tile_.shape) / tile_.tiles_n)) * plane_groups(),
             cut_.cost(part));
}

}  // namespace

const ConvKernel kMatrixConv = {
    "matrix", suits, orders,
    [](Lowering& lowering, const PackedConv& conv, StatsTarget* stats) { MatrixConv(lowering, conv).run(stats); }};

}  // namespace gyrus
