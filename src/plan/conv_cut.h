#pragma once
#include <string>
#include <vector>

#include "plan/lower_conv.h"

// How a packed convolution is cut into dispatches that keep the limits, whatever kernel runs them.
//
// A dispatch makes some quads of a range of output planes. It reads one window of input planes with the halo of all
// taps, or, where a halo would leave little of the window, one window for each plane of taps. Taps that find no
// binding, and input quads that do not fit a window even for a single plane, are summed over several dispatches; halves
// in a scratch of f32.

namespace gyrus {

// A binding of the input: planes for one plane of taps, or for all.
struct TapWindow {
  int64_t tap = 0;
  Interval planes;
};

// What one dispatch sums: planes of taps along the slowest axis, and quads of input channels.
struct ConvPass {
  Interval taps;
  Interval quads;
  std::vector<TapWindow> windows{};  // empty: one for all taps
  bool taps_apart() const { return !windows.empty(); }
  bool first = false;
  bool last = false;
};

struct CutOptions {
  int64_t output_quads = 4;       // of a dispatch, at most
  int64_t input_quads = 1 << 20;  // of a dispatch, at most
  int64_t tail_unit = 0;          // what is no multiple of so many full quads goes into a dispatch of its own
  bool stats = false;             // the last pass wants a binding for statistics
};

// Quads of output channels of each dispatch.
std::vector<Interval> output_groups(const ConvSite& site, const CutOptions& options);

// One dispatch: some quads of some planes, over some taps and input quads.
struct ConvPart {
  size_t group = 0;  // of quads
  const Interval& quads;
  const Interval& range;  // planes of the result
  const ConvPass& pass;
  const Storage& sums;      // f32 scratch for halves; no units where there is none
  uint64_t first_part = 0;  // of statistics
};

class ConvCut {
 public:
  ConvCut(Lowering& lowering, const PackedConv& conv, const CutOptions& options);

  bool gathers_stats() const { return stats_fit_; }
  int64_t in_quads() const { return conv_.in->lanes == 4 ? conv_.geometry.in_quads() : 1; }
  int64_t plane_in() const { return conv_.geometry.in[1] * conv_.geometry.in[2]; }
  int64_t plane_out() const { return conv_.geometry.out[1] * conv_.geometry.out[2]; }
  // Units from one plane of the input to the next.
  int64_t in_stride() const { return in_quads() * plane_in(); }
  const std::vector<Interval>& out_groups() const { return out_groups_; }  // quads of output channels of a dispatch
  const std::vector<Interval>& ranges() const { return ranges_; }          // planes of the result

  // Makes the buffer of `stats` for that many parts where the convolution gathers them; else leaves its parts 0.
  bool begin_stats(StatsTarget* stats, uint64_t parts);
  // Calls emit(part) for every dispatch, ranges in order: planes of the input that no range reads any more make room
  // for the result. groups_of(range) counts workgroups, and so parts of statistics.
  template <class GroupsOf, class Emit>
  void each_dispatch(const GroupsOf& groups_of, const Emit& emit) {
    uint64_t first_part = 0;
    for (const Interval& range : ranges_) {
      const std::vector<ConvPass> in_order = passes(range);
      for (size_t i = 0; i < out_groups_.size(); ++i) {
        const Storage sums = make_sums(range, out_groups_[i], in_order.size());
        for (const ConvPass& pass : in_order) emit(ConvPart{i, out_groups_[i], range, pass, sums, first_part});
      }
      first_part += groups_of(range);
    }
  }

  // Binds in0 …, whose index is a unit's place in the image plus P.in0_at …; with taps apart the binding serves the
  // plane P.in0_tap of taps where it reads the planes from P.in0_begin on. Returns how many there are.
  int64_t bind_inputs(const ConvPart& part, Kernel& kernel) const;
  // Binds `weights`, from index P.weights_shift on.
  void bind_weights(const ConvPart& part, Kernel& kernel) const;
  // Binds the result, and makes the functions store, resume and leave: (quad and plane of the dispatch, voxel of the
  // plane[, value]).
  std::string bind_output(const ConvPart& part, Kernel& kernel) const;
  // Rows of `target` for the quads of the dispatch.
  void bind_stats(const StatsTarget& target, const ConvPart& part, Kernel& kernel) const;

  // The types Acc0 … in which the quads of a dispatch are summed, as wide as they hold channels, with cut0 … and grow0
  // … from and to vec4.
  std::string sum_types(const Interval& quads) const;
  // Channels in the last quad of the input, 1 to 4 (1 for a plain one).
  int64_t input_tail() const;
  Cost cost(const ConvPart& part) const;

 private:
  // f32 sums for a half-precision result over several passes; no units where none are needed.
  Storage make_sums(const Interval& range, const Interval& quads, size_t passes);
  const Limits& limits() const { return lowering_.limits(); }
  std::vector<ConvPass> passes(const Interval& range) const;
  // The input planes that taps of output planes read.
  Interval needs(const Interval& planes, const Interval& taps) const;
  UnitRange in_range(const Interval& planes, const Interval& quads) const;
  // The planes that taps need as windows, cut where buffers end; false where one does not fit.
  bool tap_windows(const Interval& planes, std::vector<TapWindow>& windows) const;
  UnitRange out_range(const Interval& planes, const Interval& quads) const;
  bool fits(const Storage& storage, const UnitRange& range) const;
  void choose(const CutOptions& options, bool reserve_sums);
  void cut_planes();
  bool output_fits(const Interval& planes, bool summed) const;
  bool fits_at_once(const Interval& planes) const;
  bool fits_by_taps(const Interval& planes) const;

  Lowering& lowering_;
  const PackedConv& conv_;
  bool stats_fit_ = false;
  int64_t inputs_ = 1;  // bindings of the input, at most
  int64_t in_per_pass_ = 1;
  std::vector<Interval> out_groups_;
  std::vector<Interval> ranges_;
};

}  // namespace gyrus
