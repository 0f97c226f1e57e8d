#pragma once
#include <vector>

#include "cpu/kernel.h"

namespace gyrus::cpu {

// An operand of floats as singles: where it is, or converted from halves for as long as this lives. None where absent.
class Singles {
 public:
  Singles(const Graph& graph, ValueId id, const std::byte* bytes) : Singles(graph.type(id), bytes) {}
  Singles(const TensorType& type, const std::byte* bytes) : data_(floats(bytes)) {
    if (!bytes || type.dtype != DType::F16) return;
    const auto* halves = reinterpret_cast<const uint16_t*>(bytes);
    own_.resize(static_cast<size_t>(element_count(type.shape)));
    for (size_t i = 0; i < own_.size(); ++i) own_[i] = half_to_float(halves[i]);
    data_ = own_.data();
  }
  const float* data() const { return data_; }

 private:
  std::vector<float> own_;
  const float* data_;
};

}  // namespace gyrus::cpu
