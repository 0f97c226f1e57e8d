#pragma once
#include <vector>

#include "cpu/kernel.h"
#include "cpu/strip_ops.h"

namespace gyrus::cpu {

// An operand of floats as singles: where it is, or converted from halves for as long as this lives. None where absent.
class Singles {
 public:
  Singles(const Graph& graph, ValueId id, const std::byte* bytes) : Singles(graph.type(id), bytes) {}
  Singles(const TensorType& type, const std::byte* bytes) : data_(floats(bytes)) {
    if (!bytes || type.dtype != DType::F16) return;
    const auto* halves = reinterpret_cast<const uint16_t*>(bytes);
    own_.resize(static_cast<size_t>(element_count(type.shape)));
    widen_halves(halves, own_.data(), element_count(type.shape));
    data_ = own_.data();
  }
  const float* data() const { return data_; }

 private:
  std::vector<float> own_;
  const float* data_;
};

// Elements of it from `first` on: where they are, or widened into `room`.
inline const float* singles_at(const TensorType& type, const std::byte* bytes, int64_t first, int64_t count,
                               float* room) {
  if (type.dtype != DType::F16) return floats(bytes) + first;
  widen_halves(reinterpret_cast<const uint16_t*>(bytes) + first, room, count);
  return room;
}

}  // namespace gyrus::cpu
