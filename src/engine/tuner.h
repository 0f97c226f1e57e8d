#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "plan/planner.h"

// Which shape of the convolution kernels is fastest for a network on a device: measured once, kept on disk. Only shapes
// are tuned. What decides how sums are formed (Winograd, statistics inside the convolution) stays as it is in the base.

namespace gyrus {

// The shapes that tune() may choose: every combination that makes sense of the values it tries on each axis.
std::vector<ConvTuning> tuning_candidates(const ConvTuning& base);

struct TuneOptions {
  double budget_seconds = 30;                                  // no further shape is begun after it
  int repeats = 3;                                             // runs of a shape, of which the fastest counts
  std::function<void(const ConvTuning&, double ms)> observer;  // after every shape
  const std::atomic<bool>* cancel = nullptr;                   // ends it with Cancelled
};

struct TuneResult {
  ConvTuning best;
  double base_ms = 0;  // GPU time of the network with the base
  double best_ms = 0;
  int tried = 0;
  bool complete = false;  // within the budget
};

// Runs the graph, which went through the passes, with one axis changed after another and the best kept. The device must
// have been opened with the limits given. A shape that the device refuses is passed over.
TuneResult tune(const Device& device, const Graph& graph, const Target& target, const PlanOptions& base,
                const TuneOptions& options = {});

// What a tuning is valid for: the adapter and its driver, this version of gyrus and its kernels, the network with its
// size and precision, the limits.
std::string tuning_key(const std::string& device, const Graph& graph, const Limits& limits);

// The tuning kept under the key in gyrus/tuning of the user's cache folder, where it is one of the base's candidates;
// nothing where there is none, the file is damaged, or GYRUS_NO_CACHE=1.
std::optional<ConvTuning> kept_tuning(const std::string& key, const ConvTuning& base);

// Keeps it; returns the file, or "" where there is no cache. Throws Io.
std::string keep_tuning(const std::string& key, const TuneResult& result);

// "workgroup 128, 16 registers, 4 quads, staged"
std::string to_string(const ConvTuning& tuning);

}  // namespace gyrus
