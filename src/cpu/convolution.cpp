// Convolutions with what follows them: a body, statistics of each channel, or the largest channel.
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/tensor.h"
#include "cpu/conv.h"
#include "cpu/epilogue.h"
#include "cpu/singles.h"
#include "cpu/statistics.h"
#include "ops/common.h"
#include "ops/conv.h"

namespace gyrus::cpu {
namespace {

// Of a convolution of x with weights w.
ConvShape conv_shape(const Node& node, const Shape& x, const Shape& w, const Shape& out) {
  const size_t rank = x.size() - 2;
  const ConvAttrs attrs = conv_attrs(node, rank);
  ConvShape shape;
  shape.batch = x[0];
  shape.in_channels = x[1];
  shape.out_channels = w[0];
  shape.groups = attrs.groups;
  for (size_t a = 0; a < rank; ++a) {
    const size_t to = 3 - rank + a;
    shape.input[to] = x[a + 2];
    shape.output[to] = out[a + 2];
    shape.kernel[to] = w[a + 2];
    shape.stride[to] = attrs.stride[a];
    shape.dilation[to] = attrs.dilation[a];
    shape.pad_lo[to] = attrs.pad_lo[a];
  }
  return shape;
}

// What a convolution and one with an argmax share.
struct Convolution {
  TensorType x, w, b;
  bool has_bias = false, constant = false;
  mutable ConvPlan plan;

  Convolution(const Graph& graph, const Node& node, const Shape& out, const ConvOptions& options)
      : x(graph.type(node.inputs[0])), w(graph.type(node.inputs[1])) {
    has_bias = has_input(node, 2, node.inputs.size());
    if (has_bias) b = graph.type(node.inputs[2]);
    constant = graph.is_constant(node.inputs[1]);
    ConvShape shape = conv_shape(node, x.shape, w.shape, out);
    shape.halves = x.dtype == DType::F16;
    if (constant) {
      const Singles weights(w, graph.constant(node.inputs[1]).data.data());
      plan = prepare_conv(shape, weights.data(), options);
    } else {
      plan = prepare_conv(shape, nullptr, options);
    }
  }

  void run(const Places& at, float* out, ThreadPool& pool, const ConvEpilogue& epilogue) const {
    const Singles bias(b, has_bias ? at.inputs[2] : nullptr);
    if (!constant) plan.set_weights(Singles(w, at.inputs[1]).data());
    run_conv(plan, at.inputs[0], bias.data(), out, pool, epilogue);
  }
};

int64_t voxels_of(const ConvShape& s) { return s.output[0] * s.output[1] * s.output[2]; }

// The number of the first element of a channel's part of a strip.
int64_t first_of(const ConvShape& s, const ConvStrip& strip, int64_t c) {
  return (strip.batch * s.out_channels + strip.channel + c) * voxels_of(s) + strip.voxel;
}

// The statistics are those of the values before they are rounded to halves.
void run_with_statistics(const Convolution& conv, bool halves, const Places& at, ThreadPool& pool) {
  const ConvShape& s = conv.plan.shape();
  const int64_t items = conv.plan.items(), channels = s.out_channels;
  std::vector<Gathered> parts(static_cast<size_t>(items * s.batch * channels));
  conv.run(at, halves ? nullptr : floats(at.outputs[0]), pool, [&](const ConvStrip& strip) {
    for (int64_t c = 0; c < strip.channels; ++c) {
      const float* values = strip.values + c * strip.channel_stride;
      parts[static_cast<size_t>((strip.item * s.batch + strip.batch) * channels + strip.channel + c)].add(values,
                                                                                                          strip.voxels);
      if (halves)
        narrow_singles(values, reinterpret_cast<uint16_t*>(at.outputs[0]) + first_of(s, strip, c), strip.voxels);
    }
  });
  for (int64_t channel = 0; channel < s.batch * channels; ++channel) {
    Gathered all;
    for (int64_t item = 0; item < items; ++item)
      all.merge(parts[static_cast<size_t>(item * s.batch * channels + channel)]);
    all.write(floats(at.outputs[1]) + 2 * channel);
  }
}

template <class Label>
void put_labels(const uint32_t* labels, int64_t count, std::byte* out, int64_t first) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<Label*>(out)[first + i] = static_cast<Label>(labels[i]);
}

}  // namespace

Prepared prepare_convolution(const Graph& graph, const Node& node, const KernelOptions& options) {
  struct State {
    Convolution conv;
    Epilogue epilogue;
    bool statistics, halves, staged;
  };
  const Shape& out = graph.type(node.outputs[0]).shape;
  if (element_count(out) == 0) return prepare_generic(graph, node, {});
  const bool statistics = node.attrs.integer("stats", 0) != 0;
  const bool halves = graph.type(node.outputs[0]).dtype == DType::F16;
  Epilogue behind(graph, node, out);
  // What is no single f32 is made from strips, so that there is no whole map of singles.
  const bool staged = statistics ? halves : !behind.in_place();
  const auto state = std::make_shared<const State>(
      State{Convolution(graph, node, out, {staged, options.winograd}), std::move(behind), statistics, halves, staged});
  Prepared made;
  made.kernel = statistics ? "conv with statistics" : "conv";
  made.weights = static_cast<uint64_t>(state->conv.plan.bytes());
  made.run = [state](const Places& at, ThreadPool& pool) {
    if (state->statistics) return run_with_statistics(state->conv, state->halves, at, pool);
    const Epilogue& epilogue = state->epilogue;
    if (epilogue.empty()) return state->conv.run(at, floats(at.outputs[0]), pool, {});
    const ConvShape& s = state->conv.plan.shape();
    state->conv.run(at, state->staged ? nullptr : floats(at.outputs[0]), pool, [&](const ConvStrip& strip) {
      for (int64_t c = 0; c < strip.channels; ++c) {
        float* values = strip.values + c * strip.channel_stride;
        if (state->staged)
          epilogue.run(at, values, first_of(s, strip, c), strip.voxels);
        else
          epilogue.change(at, values, first_of(s, strip, c), strip.voxels);
      }
    });
  };
  return made;
}

Prepared prepare_conv_argmax(const Graph& graph, const Node& node, const KernelOptions& options) {
  struct State {
    Convolution conv;
    DType dtype;
    std::string subject;
  };
  const TensorType& type = graph.type(node.outputs[0]);
  if (element_count(type.shape) == 0) return prepare_generic(graph, node, {});
  Shape scores = type.shape;
  scores.insert(scores.begin() + 1, graph.type(node.inputs[1]).shape[0]);
  const auto state = std::make_shared<const State>(
      State{Convolution(graph, node, scores, {true, options.winograd}), type.dtype, subject_of(node)});
  Prepared made;
  made.kernel = "conv with argmax";
  made.weights = static_cast<uint64_t>(state->conv.plan.bytes());
  made.run = [state](const Places& at, ThreadPool& pool) {
    const ConvShape& s = state->conv.plan.shape();
    state->conv.run(at, nullptr, pool, [&](const ConvStrip& strip) {
      thread_local std::vector<float> best;
      thread_local std::vector<uint32_t> labels;
      best.assign(strip.values, strip.values + strip.voxels);
      labels.assign(static_cast<size_t>(strip.voxels), 0);
      bool finite = all_finite(best.data(), strip.voxels);
      for (int64_t c = 1; c < strip.channels; ++c) {
        const float* scores_of = strip.values + c * strip.channel_stride;
        finite = finite && all_finite(scores_of, strip.voxels);
        pick_larger(scores_of, best.data(), labels.data(), static_cast<uint32_t>(c), strip.voxels);
      }
      if (!finite)
        fail(ErrorCode::NonFinite, {Hint::SinglePrecision, Hint::OtherDevice}, state->subject,
             "computed a value that is not finite");
      const int64_t first = strip.batch * voxels_of(s) + strip.voxel;
      if (state->dtype == DType::U8)
        put_labels<uint8_t>(labels.data(), strip.voxels, at.outputs[0], first);
      else
        put_labels<uint32_t>(labels.data(), strip.voxels, at.outputs[0], first);
    });
  };
  return made;
}

Prepared prepare_conv_weights(const Graph& graph, const Node& node, const KernelOptions&) {
  const TensorType x = graph.type(node.inputs[0]), g = graph.type(node.inputs[1]);
  const Shape& weights = graph.type(node.outputs[0]).shape;
  if (element_count(weights) == 0 || element_count(x.shape) == 0) return prepare_generic(graph, node, {});
  Prepared made;
  made.kernel = "conv_weights";
  made.run = [shape = conv_shape(node, x.shape, weights, g.shape), x, g](const Places& at, ThreadPool& pool) {
    const Singles input(x, at.inputs[0]), slopes(g, at.inputs[1]);
    run_conv_weights(shape, input.data(), slopes.data(), floats(at.outputs[0]), pool);
  };
  return made;
}

}  // namespace gyrus::cpu
