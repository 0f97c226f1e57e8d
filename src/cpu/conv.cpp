#include "cpu/conv.h"

#include <algorithm>
#include <cstdlib>

#include "cpu/conv_parts.h"

// Chooses the engine and its blocks, and arranges the weights for it. Nothing here depends on the number of threads.

namespace gyrus::cpu {
namespace {

// For what an item copies, transforms and sums: about a second-level cache of 1 MiB.
constexpr int64_t kCopyFloats = 48 * 1024, kPointFloats = 200 * 1024, kProductFloats = 200 * 1024;
constexpr int64_t kMostColumns = 256;  // of an item
constexpr int64_t kFewItems = 16;      // fewer leave threads without work
constexpr int64_t kFewChannels = 4;    // with fewer the transforms cost more than they save

int64_t product(const Extents& extents) { return extents[0] * extents[1] * extents[2]; }
int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
int64_t parts_of(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// The first of each of `count` runs of nearly equal length, and the end.
std::vector<int64_t> cut(int64_t length, int64_t count) {
  std::vector<int64_t> begins;
  for (int64_t i = 0; i <= count; ++i) begins.push_back(length * i / count);
  return begins;
}

// Columns of an item: nearly equal shares of a row, whole vectors but for the last.
int64_t columns_of(int64_t width, int64_t most, int64_t lanes) {
  const int64_t chunks = parts_of(width, std::max(most, lanes));
  return std::min(width, round_up(parts_of(width, chunks), lanes));
}

// Rows so short that half-empty vectors cost more than running on over the margins.
bool is_short(int64_t width, int64_t pitch, int64_t lanes) {
  return width < 4 * lanes && width * round_up(width, lanes) > width * pitch + pitch * lanes / 8;
}

void tile_direct(ConvParts& p) {
  const ConvShape& s = p.shape;
  DirectTiling& t = p.direct;
  t.input = s.input, t.output = s.output;
  const Extents one{1, 1, 1}, none{0, 0, 0};
  const bool is_pointwise = s.kernel == one && s.stride == one && s.pad_lo == none && s.input == s.output;
  if (is_pointwise) t.input = t.output = {1, 1, product(s.output)};
  // Rows of many channels fall on the same places of the cache where extents are powers of two.
  t.in_place = is_pointwise && !s.halves && (s.in_channels < 32 * s.groups || s.out_channels < 12 * s.groups);
  t.row_phases = s.stride[1], t.phases = s.stride[2];
  t.step = s.stride[1] == 1 ? s.dilation[1] : 1;
  const int64_t reach = (s.kernel[2] - 1) * s.dilation[2] / s.stride[2];
  const int64_t more_slots = s.stride[1] == 1 ? s.kernel[1] - 1 : (s.kernel[1] - 1) * s.dilation[1] / s.stride[1];
  t.is_flat = is_short(t.output[2], t.output[2] + reach, p.target.lanes) && t.output[1] > 1;
  // Copies for one block of sums lie one behind another: a single stream.
  const int64_t most_columns = is_pointwise && !t.in_place ? p.target.vectors * p.target.lanes : kMostColumns;
  t.columns = t.is_flat ? t.output[2] : columns_of(t.output[2], most_columns, p.target.lanes);
  t.pitch = (t.is_flat ? t.columns : round_up(t.columns, p.target.lanes)) + reach;
  const int64_t slot = s.kernel[0] * t.row_phases * t.phases * t.pitch;  // floats of a channel
  const int64_t group_in = s.in_channels / s.groups;
  const int64_t longest = parts_of(t.output[1], t.step);
  const int64_t most = t.is_flat ? std::max<int64_t>(1, kMostColumns / 2 / t.pitch) : 8;
  t.rows = std::min(longest, most);
  while (t.rows > 1 && slot * (t.rows + more_slots) * std::min<int64_t>(group_in, 64) > kCopyFloats) --t.rows;
  while (!t.is_flat && t.rows > 1 && s.batch * t.output[0] * parts_of(longest, t.rows) * t.step < kFewItems) --t.rows;
  t.rows = parts_of(longest, parts_of(longest, t.rows));
  t.slots = t.rows + more_slots;
  t.channel_block = std::clamp<int64_t>(kCopyFloats / (slot * t.slots), 1, group_in);
  t.channel_block = parts_of(group_in, parts_of(group_in, t.channel_block));
  t.tiles = lattice_tiles(t.output[1], t.step, t.rows);
  p.column_chunks = parts_of(t.output[2], t.columns);
  p.items = s.batch * t.output[0] * static_cast<int64_t>(t.tiles.size()) * p.column_chunks;
}

// Products along an axis, all lattices together, for tiles of `size`.
int64_t products_of(int64_t extent, int64_t step, int64_t size) {
  return static_cast<int64_t>(lattice_tiles(extent, step, size).size()) * (size + 2);
}

bool tile_winograd(ConvParts& p, int64_t depth_outputs, int64_t height_outputs) {
  const ConvShape& s = p.shape;
  WinogradTiling& t = p.winograd;
  t = {};
  t.outputs = {depth_outputs, height_outputs};
  t.points = {depth_outputs == 1 ? 1 : depth_outputs + 2, height_outputs + 2};
  const int64_t group_in = s.in_channels / s.groups, points = t.points[0] * t.points[1];
  const int64_t lanes = p.target.lanes, width = s.output[2], reach = (s.kernel[2] - 1) * s.dilation[2];
  for (size_t axis = 0; axis < 2; ++axis)
    t.tiles[axis] = lattice_tiles(s.output[axis], s.dilation[axis], t.outputs[axis]);
  const auto fits = [&](int64_t columns) { return points * group_in * columns <= kPointFloats; };
  if (is_short(width, width + reach, lanes)) {
    t.columns = width;
    t.pitch = width + reach;
    while (t.group * t.pitch < 4 * lanes && fits((t.group + 1) * t.pitch)) ++t.group;
    t.group = std::min(t.group, static_cast<int64_t>(t.tiles[1].size()));
  } else {
    int64_t most = kMostColumns;
    while (most > lanes && !fits(columns_of(width, most, lanes) + reach)) most -= lanes;
    t.columns = columns_of(width, most, lanes);
    t.pitch = round_up(t.columns, lanes) + reach;
  }
  t.row = round_up(t.group * t.pitch + lanes, lanes);
  p.column_chunks = parts_of(width, t.columns);
  p.items = s.batch * static_cast<int64_t>(t.tiles[0].size()) * p.column_chunks *
            parts_of(static_cast<int64_t>(t.tiles[1].size()), t.group);
  return fits(t.group * t.pitch) && (t.group > 1 || t.columns >= std::min(width, 2 * lanes));
}

// The tiles with the fewest products that fit; false where there are none that pay.
bool choose_winograd(ConvParts& p) {
  const ConvShape& s = p.shape;
  const int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  if (s.stride != Extents{1, 1, 1} || s.kernel[1] != 3 || (s.kernel[0] != 1 && s.kernel[0] != 3)) return false;
  if (s.kernel[0] == 1 && (s.dilation[0] != 1 || s.pad_lo[0] != 0)) return false;
  if (group_in < kFewChannels || group_out < kFewChannels) return false;
  struct Choice {
    int64_t products, depth, height;
  };
  std::vector<Choice> choices;
  for (const int64_t height : {4, 2})
    for (const int64_t depth : {4, 2, 1}) {
      if ((s.kernel[0] == 1) != (depth == 1)) continue;
      const int64_t along_depth = depth == 1 ? s.output[0] : products_of(s.output[0], s.dilation[0], depth);
      choices.push_back({along_depth * products_of(s.output[1], s.dilation[1], height), depth, height});
    }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.products < b.products; });
  const int64_t directly = product(s.output) / s.output[2] * s.kernel[0] * s.kernel[1];
  for (const Choice& choice : choices)
    if (choice.products * 5 < directly * 4 && tile_winograd(p, choice.depth, choice.height)) return true;
  return false;
}

int64_t scratch_of(const ConvParts& p) {
  const ConvShape& s = p.shape;
  const int64_t group_in = s.in_channels / s.groups;
  if (p.is_winograd) {
    const WinogradTiling& t = p.winograd;
    const int64_t points = t.points[0] * t.points[1];
    const int64_t widened = s.halves ? t.points[1] : 0;
    return (points * (group_in + t.batch * p.target.channels + 1) + widened) * t.row + 128 +
           s.out_channels * t.group * t.outputs[0] * t.outputs[1] * t.columns;
  }
  const DirectTiling& t = p.direct;
  const int64_t copy = t.channel_block * s.kernel[0] * t.row_phases * t.phases * t.slots * t.pitch;
  const int64_t row = std::max(t.pitch, round_up(t.columns, p.target.lanes));
  return copy + s.out_channels * (t.rows * row + p.target.lanes) + 256;
}

// Where there are few items, those of some output channels each.
void cut_channels(ConvParts& p) {
  const int64_t group_out = p.shape.out_channels / p.shape.groups;
  const int64_t blocks = parts_of(group_out, p.target.channels);
  p.blocks = cut(group_out, blocks);
  int64_t count = 1;
  if (!p.whole_strips) {
    p.items *= p.shape.groups;
    count = std::min(blocks, parts_of(kFewItems, p.items));
  }
  p.parts = cut(blocks, count);
  p.items *= count;
  WinogradTiling& t = p.winograd;
  const int64_t floats = t.points[0] * t.points[1] * p.target.channels * t.row;  // of a block
  if (p.is_winograd) t.batch = std::clamp<int64_t>(kProductFloats / floats, 1, parts_of(blocks, count));
}

// Rows of the matrix that takes three taps to the points of F(m, 3).
std::vector<std::array<double, 3>> filter_points(int64_t outputs) {
  if (outputs == 1) return {{1, 0, 0}};
  if (outputs == 2) return {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  return {{1, 0, 0},
          {1.0 / 3, 1.0 / 3, 1.0 / 3},
          {-1.0 / 3, 1.0 / 3, -1.0 / 3},
          {-16.0 / 15, -8.0 / 15, -4.0 / 15},
          {1.0 / 15, -2.0 / 15, 4.0 / 15},
          {0, 0, 1}};
}

// One filter of kD × 3 × kW taps at one point: kW numbers.
double at_point(const ConvShape& s, const float* filter, const std::array<double, 3>& depth,
                const std::array<double, 3>& height, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < s.kernel[0]; ++i)
    for (int64_t j = 0; j < s.kernel[1]; ++j)
      sum += depth[static_cast<size_t>(i)] * height[static_cast<size_t>(j)] *
             filter[(i * s.kernel[1] + j) * s.kernel[2] + k];
  return sum;
}

// Calls write(first channel, channels) for every block of every group.
template <class Write>
void for_blocks(const ConvParts& p, const Write& write) {
  const int64_t group_out = p.shape.out_channels / p.shape.groups;
  for (int64_t group = 0; group < p.shape.groups; ++group)
    for (size_t b = 0; b + 1 < p.blocks.size(); ++b)
      write(group * group_out + p.blocks[b], p.blocks[b + 1] - p.blocks[b]);
}

void arrange_direct(ConvParts& p, const float* weights) {
  const int64_t taps = p.shape.in_channels / p.shape.groups * product(p.shape.kernel);
  p.weights.resize(static_cast<size_t>(p.shape.out_channels * taps));
  float* to = p.weights.data();
  for_blocks(p, [&](int64_t first, int64_t channels) {
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t o = first; o < first + channels; ++o) *to++ = weights[o * taps + tap];
  });
}

void arrange_winograd(ConvParts& p, const float* weights) {
  const ConvShape& s = p.shape;
  const int64_t group_in = s.in_channels / s.groups, filter = product(s.kernel);
  const auto depth = filter_points(p.winograd.outputs[0]), height = filter_points(p.winograd.outputs[1]);
  p.weights.resize(depth.size() * height.size() * static_cast<size_t>(s.out_channels * group_in * s.kernel[2]));
  float* to = p.weights.data();
  for_blocks(p, [&](int64_t first, int64_t channels) {
    for (const auto& i : depth)
      for (const auto& j : height)
        for (int64_t c = 0; c < group_in; ++c)
          for (int64_t k = 0; k < s.kernel[2]; ++k)
            for (int64_t o = first; o < first + channels; ++o)
              *to++ = static_cast<float>(at_point(s, weights + (o * group_in + c) * filter, i, j, k));
  });
}

}  // namespace

std::vector<ConvTile> lattice_tiles(int64_t extent, int64_t step, int64_t size) {
  std::vector<ConvTile> tiles;
  for (int64_t first = 0; first < std::min(step, extent); ++first) {
    const int64_t length = parts_of(extent - first, step);
    for (int64_t at = 0; at < length; at += size) tiles.push_back({first + at * step, std::min(size, length - at)});
  }
  return tiles;
}

float* thread_scratch(int64_t floats) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  thread_local std::unique_ptr<void, Free> memory;
  thread_local int64_t size = 0;
  if (size < floats) {
    size = round_up(floats, 1024);
    memory.reset(std::aligned_alloc(4096, static_cast<size_t>(size) * sizeof(float)));
    if (!memory) {
      size = 0;
      throw std::bad_alloc();
    }
  }
  return static_cast<float*>(memory.get());
}

ConvPlan::ConvPlan() = default;
ConvPlan::~ConvPlan() = default;
ConvPlan::ConvPlan(ConvPlan&&) noexcept = default;
ConvPlan& ConvPlan::operator=(ConvPlan&&) noexcept = default;

const ConvShape& ConvPlan::shape() const { return parts_->shape; }
int64_t ConvPlan::items() const { return parts_->items; }
int64_t ConvPlan::bytes() const { return static_cast<int64_t>(parts_->weights.size() * sizeof(float)); }

void ConvPlan::set_weights(const float* weights) {
  if (parts_->is_winograd)
    arrange_winograd(*parts_, weights);
  else
    arrange_direct(*parts_, weights);
}

ConvPlan prepare_conv(const ConvShape& shape, const float* weights, const ConvOptions& options) {
  ConvPlan plan;
  plan.parts_ = std::make_unique<ConvParts>();
  ConvParts& p = *plan.parts_;
  p.shape = shape;
  p.whole_strips = options.whole_strips;
  p.target = conv_target();
  if (product(shape.output) == 0 || shape.batch == 0) return plan;
  p.is_winograd = options.winograd && choose_winograd(p);
  if (!p.is_winograd) tile_direct(p);
  cut_channels(p);
  p.scratch = scratch_of(p);
  if (weights) plan.set_weights(weights);
  return plan;
}

void run_conv(const ConvPlan& plan, const void* input, const float* bias, float* output, ThreadPool& pool,
              const ConvEpilogue& epilogue) {
  const ConvParts& p = *plan.parts_;
  const ConvCall call{input, bias, output, &epilogue};
  const auto engine = p.is_winograd ? p.target.winograd : p.target.direct;
  pool.parallel_for(p.items, [&](int64_t item) { engine(p, call, item); });
}

}  // namespace gyrus::cpu
