// Norms over channels: statistics, and their application with a body behind it.
#include <cmath>
#include <memory>

#include "core/tensor.h"
#include "cpu/epilogue.h"
#include "cpu/singles.h"
#include "cpu/statistics.h"
#include "ops/common.h"
#include "ops/norm.h"

namespace gyrus::cpu {
namespace {

constexpr int64_t kPart = 1 << 15;  // elements of a channel that one call takes

int64_t voxels_of(const Shape& shape) {
  int64_t count = 1;
  for (size_t a = 2; a < shape.size(); ++a) count *= shape[a];
  return count;
}

// y = (x - mean) * scale + shift of a channel.
struct Line {
  float mean = 0, scale = 1, shift = 0;
};

std::vector<Line> lines_of(const Shape& shape, const NormAttrs& attrs, const float* stats, const float* gamma,
                           const float* beta) {
  const int64_t channels = shape[1], size = channels / attrs.groups;
  std::vector<Line> lines(static_cast<size_t>(shape[0] * channels));
  for (int64_t first = 0; first < shape[0] * channels; first += size) {
    Gathered group;
    for (int64_t c = first; c < first + size; ++c)
      group.merge({1, static_cast<double>(stats[2 * c]), static_cast<double>(stats[2 * c + 1])});
    const double scale = 1 / std::sqrt(group.squares / group.count + attrs.eps);
    for (int64_t c = first; c < first + size; ++c) {
      const int64_t own = c % channels;
      lines[static_cast<size_t>(c)] = {static_cast<float>(group.mean),
                                       static_cast<float>(scale * (gamma ? static_cast<double>(gamma[own]) : 1)),
                                       beta ? beta[own] : 0};
    }
  }
  return lines;
}

}  // namespace

Prepared prepare_norm_stats(const Graph& graph, const Node& node, const KernelOptions&) {
  const TensorType x = graph.type(node.inputs[0]);
  Prepared made;
  made.kernel = "norm_stats";
  made.run = [x](const Places& at, ThreadPool& pool) {
    const int64_t channels = x.shape[0] * x.shape[1], voxels = voxels_of(x.shape), parts = ceil_div(voxels, kPart);
    std::vector<Gathered> found(static_cast<size_t>(channels * parts));
    pool.parallel_for(channels * parts, [&](int64_t i) {
      thread_local std::vector<float> room(Gathered::kStrip);
      const int64_t begin = i % parts * kPart, end = std::min(voxels, begin + kPart);
      for (int64_t first = begin; first < end; first += Gathered::kStrip) {
        const int64_t count = std::min(Gathered::kStrip, end - first);
        found[static_cast<size_t>(i)].add(singles_at(x, at.inputs[0], i / parts * voxels + first, count, room.data()),
                                          count);
      }
    });
    for (int64_t c = 0; c < channels; ++c) {
      Gathered all;
      for (int64_t p = 0; p < parts; ++p) all.merge(found[static_cast<size_t>(c * parts + p)]);
      all.write(floats(at.outputs[0]) + 2 * c);
    }
  };
  return made;
}

Prepared prepare_norm_apply(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    TensorType x, gamma, beta;
    NormAttrs attrs;
    Epilogue epilogue;
    bool affine;
  };
  const TensorType& x = graph.type(node.inputs[0]);
  const bool affine = has_input(node, 3, node.inputs.size());
  const auto state = std::make_shared<const State>(
      State{x, affine ? graph.type(node.inputs[2]) : TensorType{}, affine ? graph.type(node.inputs[3]) : TensorType{},
            norm_attrs(node, x.shape[1]), Epilogue(graph, node, x.shape), affine});
  Prepared made;
  made.kernel = "norm_apply";
  made.in_place = node.outputs.size() == 1;
  made.run = [state](const Places& at, ThreadPool& pool) {
    const Shape& shape = state->x.shape;
    const Singles gamma(state->gamma, state->affine ? at.inputs[2] : nullptr),
        beta(state->beta, state->affine ? at.inputs[3] : nullptr);
    const std::vector<Line> lines = lines_of(shape, state->attrs, floats(at.inputs[1]), gamma.data(), beta.data());
    const int64_t voxels = voxels_of(shape), parts = ceil_div(voxels, kPart);
    pool.parallel_for(shape[0] * shape[1] * parts, [&](int64_t i) {
      thread_local std::vector<float> strip(2048), room(2048);
      const Line& line = lines[static_cast<size_t>(i / parts)];
      const int64_t begin = i / parts * voxels + i % parts * kPart;
      const int64_t end = begin + std::min(kPart, voxels - i % parts * kPart);
      for (int64_t first = begin; first < end; first += static_cast<int64_t>(strip.size())) {
        const int64_t count = std::min(static_cast<int64_t>(strip.size()), end - first);
        float* raw = state->epilogue.empty() ? floats(at.outputs[0]) + first : strip.data();
        const float* given = singles_at(state->x, at.inputs[0], first, count, room.data());
        normalize_strip(given, raw, count, line.mean, line.scale, line.shift);
        if (!state->epilogue.empty()) state->epilogue.run(at, raw, first, count);
      }
    });
  };
  return made;
}

}  // namespace gyrus::cpu
