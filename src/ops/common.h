#pragma once
#include <string>
#include <vector>

#include "core/error.h"
#include "graph/op.h"

// What the ops share: strict checks of a node, broadcasting, and one loop over strided operands.

namespace gyrus {

// Throws InvalidGraph unless the node has only attributes of these names, between min and max inputs, and no body. The
// inputs from min on are optional: kNoValue may stand for them.
void check_node(const Node& node, const std::vector<TensorType>& inputs, size_t min_inputs, size_t max_inputs,
                const std::vector<std::string_view>& attributes);
// The same for an op that may carry a body, whose operands further inputs are.
void check_node_with_body(const Node& node, const std::vector<TensorType>& inputs, size_t min_inputs, size_t max_inputs,
                          const std::vector<std::string_view>& attributes);

// Whether optional input i is there.
bool has_input(const Node& node, size_t i, size_t given);
inline bool has_input(const Node& node, const std::vector<TensorType>& inputs, size_t i) {
  return has_input(node, i, inputs.size());
}
inline bool has_input(const std::vector<const RefTensor*>& inputs, size_t i) { return i < inputs.size() && inputs[i]; }

// Throws Unsupported unless the type is f32 or f16.
void expect_float(const Node& node, const TensorType& type, const char* what);

// The dtype of a result made from all of these: the common one, f32 where halves and singles mix; throws otherwise.
DType common_dtype(const Node& node, const std::vector<TensorType>& inputs);

// The axis counted from the front; negative ones count from the end. Throws where it is outside the rank.
size_t checked_axis(const Node& node, int64_t axis, size_t rank);

// The numpy broadcast of two shapes; throws where they do not fit.
Shape broadcast(const Node& node, const Shape& a, const Shape& b);
// Strides in elements with which a tensor of shape `from` is read as one of shape `to`: 0 along repeated axes.
std::vector<int64_t> broadcast_strides(const Shape& from, const Shape& to);

double element_flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs);
// 0 or 1, 0 by default.
bool flag(const Node& node, const char* attribute);

double no_flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs);

// Visits all positions of `shape` in row-major order: visit(offsets) with one offset in elements for each list of
// strides, starting from `offsets`.
template <class Visit>
void walk(const Shape& shape, const std::vector<std::vector<int64_t>>& strides, std::vector<int64_t> offsets,
          Visit visit) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(offsets);
    for (size_t axis = shape.size(); axis-- > 0;) {
      const bool wraps = ++index[axis] == shape[axis];
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] += wraps ? strides[k][axis] * (1 - shape[axis]) : strides[k][axis];
      if (!wraps) break;
      index[axis] = 0;
    }
  }
}

}  // namespace gyrus
