#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "cpu/thread_pool.h"

// Cross-correlation over plain maps: x [N,C,D,H,W], w [O,C/groups,kD,kH,kW], bias [O] or none → [N,O,D,H,W], all f32, x
// f32 or halves, the last axis fastest. Fewer spatial axes: the first ones are 1. The same bits for any number of
// threads.

namespace gyrus::cpu {

using Extents = std::array<int64_t, 3>;  // of D, H, W

struct ConvShape {
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  Extents input{1, 1, 1}, output{1, 1, 1};  // zeros behind the last voxel: as many as the output's extents ask for
  Extents kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Extents pad_lo{0, 0, 0};  // zeros before the first voxel
  bool halves = false;      // the input is stored so
};

// A finished part of the result, still in the cache: neighbouring voxels of some channels. May be changed in place.
// Value (c, v) lies at values[c * channel_stride + v].
struct ConvStrip {
  int64_t item = 0;  // strips of one item come one after another from one thread, in an order that is always the same
  int64_t batch = 0;
  int64_t channel = 0, channels = 0;  // the first and how many
  int64_t voxel = 0, voxels = 0;      // the first, counted within the map of a channel, and how many
  float* values = nullptr;
  int64_t channel_stride = 0;  // elements
};
using ConvEpilogue = std::function<void(const ConvStrip&)>;

struct ConvOptions {
  // Every strip holds all channels of the output. run_conv may then do without an output: what the epilogue takes from
  // the strips, a label for instance, is all that remains.
  bool whole_strips = false;
  bool winograd = true;  // minimal filtering may be used, which rounds a little more
};

struct ConvParts;

// A convolution whose blocks are chosen and, where weights are given, whose weights are arranged.
class ConvPlan {
 public:
  ConvPlan();
  ~ConvPlan();
  ConvPlan(ConvPlan&&) noexcept;
  ConvPlan& operator=(ConvPlan&&) noexcept;

  const ConvShape& shape() const;
  int64_t items() const;  // ConvStrip::item is less; statistics of an epilogue are kept for each and added in order
  int64_t bytes() const;  // of arranged weights
  // Arranges other weights [O,C/groups,kD,kH,kW]; costs about as much as reading them a few times.
  void set_weights(const float* weights);

 private:
  friend ConvPlan prepare_conv(const ConvShape&, const float*, const ConvOptions&);
  friend void run_conv(const ConvPlan&, const void*, const float*, float*, ThreadPool&, const ConvEpilogue&);
  std::unique_ptr<ConvParts> parts_;
};

// `weights` may be null: set_weights must then be called before a run.
ConvPlan prepare_conv(const ConvShape& shape, const float* weights, const ConvOptions& options = {});

// `input` is as the shape says. `bias` [O] may be null. `output` may be null where the plan has whole strips and there
// is an epilogue. Input and output do not overlap.
void run_conv(const ConvPlan& plan, const void* input, const float* bias, float* output, ThreadPool& pool,
              const ConvEpilogue& epilogue = {});

// The gradient of such a convolution in its weights, where g [N,O,D,H,W] is that of its result.
void run_conv_weights(const ConvShape& shape, const float* x, const float* g, float* out, ThreadPool& pool);

}  // namespace gyrus::cpu
