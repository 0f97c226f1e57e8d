#include "cpu/epilogue.h"

#include "core/tensor.h"
#include "ops/common.h"

namespace gyrus::cpu {

Epilogue::Epilogue(const Graph& graph, const Node& node, const Shape& raw)
    : body_(Body::behind(graph, node)), shape_(raw), own_(std::min(own_inputs(node), node.inputs.size())) {
  for (size_t i = own_; i < node.inputs.size(); ++i) {
    strides_.push_back(broadcast_strides(graph.type(node.inputs[i]).shape, raw));
    operands_.push_back(graph.type(node.inputs[i]).dtype);
  }
  for (ValueId id : node.outputs) outputs_.push_back(graph.type(id).dtype);
  singles_ = outputs_.size() == 1 && outputs_[0] == DType::F32;
}

void Epilogue::run(const Places& at, const float* raw, int64_t first, int64_t count, float* sink) const {
  thread_local Body::Registers registers;
  if (registers.size() < body_.register_count() * Body::kStrip) registers.resize(body_.register_count() * Body::kStrip);
  // Kept: strips are so short that taking memory for each shows.
  thread_local std::vector<Source> sources;
  thread_local std::vector<std::byte*> sinks;
  sources.resize(strides_.size() + 1);
  sinks.resize(outputs_.size());
  // Further operands move with the coordinates of the element: no further than its row at a time.
  while (count > 0) {
    const int64_t row = shape_.empty() ? 1 : shape_.back();
    const int64_t length = strides_.empty() ? count : std::min(count, row - first % row);
    sources[0] = {reinterpret_cast<const std::byte*>(raw), 1};
    for (size_t k = 0; k < strides_.size(); ++k) {
      int64_t rest = first, offset = 0;
      for (size_t a = shape_.size(); a-- > 0; rest /= shape_[a]) offset += rest % shape_[a] * strides_[k][a];
      sources[k + 1] = {at.inputs[own_ + k] + offset * static_cast<int64_t>(byte_size(operands_[k])),
                        shape_.empty() ? 0 : strides_[k].back()};
    }
    for (size_t k = 0; k < sinks.size(); ++k)
      sinks[k] = at.outputs[k] + first * static_cast<int64_t>(byte_size(outputs_[k]));
    if (sink) {
      sinks[0] = reinterpret_cast<std::byte*>(sink);
      sink += length;
    }
    body_.run(sources.data(), sinks.data(), length, first, registers);
    raw += length;
    first += length;
    count -= length;
  }
}

void Epilogue::run_all(const Places& at, const float* raw, ThreadPool& pool) const {
  const int64_t count = element_count(shape_);
  pool.parallel_for(ceil_div(count, kGrain), [&](int64_t chunk) {
    const int64_t begin = chunk * kGrain;
    run(at, raw + begin, begin, std::min(kGrain, count - begin));
  });
}

}  // namespace gyrus::cpu
