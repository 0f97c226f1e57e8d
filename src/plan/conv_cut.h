#pragma once
#include <string>
#include <vector>

#include "plan/lower_conv.h"

// How a packed convolution is cut into dispatches that keep the limits, whatever kernel runs them.
//
// Where the whole input (or output) fits one binding it is bound as a whole; else every quad is a binding of its own,
// over a window of planes with its halo. A halo that no window can hold, or more input quads than there are bindings,
// is summed over several dispatches: planes of taps one after another, or some input quads after others. Halves are
// summed in a scratch of f32.

namespace gyrus {

struct PlaneRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// What one dispatch sums: planes of taps along the slowest axis, and quads of input channels.
struct ConvPass {
  PlaneRange taps;
  PlaneRange quads;
  bool first = false;
  bool last = false;
};

struct CutOptions {
  int64_t split_quads = 4;         // output quads of a dispatch where each is a binding
  int64_t least_split_quads = 2;   // rather than fewer, the input is summed over several dispatches
  int64_t whole_quads = 4;         // where the output is one binding
  int64_t most_input_quads = 1 << 20;  // of a dispatch
  bool separate_tail = false;      // what is no multiple of split_quads full quads goes into a dispatch of its own
  bool stats = false;              // the last pass wants a binding for statistics
};

// One dispatch's operands: its bindings as WGSL declarations and functions, its parameters, its ranges.
struct ConvOperands {
  DispatchSpec dispatch;
  std::string bindings;
  std::string functions;  // store0 …, resume0 …, leave0 …: (quad of the dispatch, voxel of the window[, value])
};

class ConvCut {
 public:
  ConvCut(Lowering& lowering, const PackedConv& conv, const CutOptions& options);

  bool in_whole() const { return in_whole_; }
  bool gathers_stats() const { return stats_fit_; }
  int64_t in_slabs() const { return conv_.in->lanes == 4 ? conv_.geometry.in_quads() : 1; }
  int64_t plane_in() const { return conv_.geometry.in[1] * conv_.geometry.in[2]; }
  int64_t plane_out() const { return conv_.geometry.out[1] * conv_.geometry.out[2]; }
  const std::vector<PlaneRange>& out_groups() const { return out_groups_; }  // quads of output channels of a dispatch
  const std::vector<PlaneRange>& ranges() const { return ranges_; }          // planes of the result
  std::vector<ConvPass> passes(const PlaneRange& range) const;
  // The input planes that taps of output planes read.
  PlaneRange needs(const PlaneRange& planes, const PlaneRange& taps) const;

  // f32 sums for a half-precision result over several passes; no units where none are needed.
  Storage make_sums(const PlaneRange& range, const PlaneRange& quads, size_t passes);

  void bind_inputs(const ConvPass& pass, const PlaneRange& planes, ConvOperands& to) const;
  void bind_weights(const BufferRange& weights, ConvOperands& to) const;
  void bind_outputs(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
                    ConvOperands& to) const;
  // Rows of `target` from `part` on for the quads of the dispatch.
  void bind_stats(const StatsTarget& target, const PlaneRange& quads, uint64_t part, ConvOperands& to) const;

  // The types Acc0 … in which the quads of a dispatch are summed, as wide as they hold channels, with cut0 … and grow0 …
  // from and to vec4.
  std::string sum_types(const PlaneRange& quads) const;
  // Channels in the last quad of the input, 1 to 4 (1 for a plain one).
  int64_t input_tail() const;
  double flops(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass) const;

 private:
  const Limits& limits() const { return lowering_.limits(); }
  uint64_t in_first(int64_t slab, int64_t plane) const;
  uint64_t out_first(int64_t quad, int64_t plane) const;
  void choose(const CutOptions& options, bool reserve_sums);
  void cut_planes();
  bool input_fits(const PlaneRange& planes) const;
  bool output_fits(const PlaneRange& planes) const;
  bool sums_fit(const PlaneRange& planes) const;
  bool fits_at_once(const PlaneRange& planes) const;
  bool fits_by_taps(const PlaneRange& planes) const;

  Lowering& lowering_;
  const PackedConv& conv_;
  bool in_whole_ = false;
  bool out_whole_ = false;
  bool stats_fit_ = false;
  int64_t in_per_pass_ = 1;
  int64_t out_per_group_ = 1;
  std::vector<PlaneRange> out_groups_;
  std::vector<PlaneRange> ranges_;
};

// The kernels, each over one image. They fill `stats` where they gather statistics.
void emit_direct_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats);
bool suits_winograd(const Lowering& lowering, const PackedConv& conv);
void emit_winograd_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats);

}  // namespace gyrus
