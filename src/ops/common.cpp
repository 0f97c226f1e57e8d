#include "ops/common.h"

#include <algorithm>

namespace gyrus {

void check_node_with_body(const Node& node, const std::vector<TensorType>& inputs, size_t min_inputs, size_t max_inputs,
                          const std::vector<std::string_view>& attributes) {
  if (inputs.size() < min_inputs || (inputs.size() > max_inputs && node.body.empty())) {
    const std::string range = min_inputs == max_inputs ? cat(min_inputs) : cat(min_inputs, " to ", max_inputs);
    fail(ErrorCode::InvalidGraph, node.op, inputs.size(), " inputs given, expected ", range);
  }
  for (size_t i = 0; i < std::min(node.inputs.size(), inputs.size()); ++i)
    if (node.inputs[i] == kNoValue && (i < min_inputs || i >= max_inputs))
      fail(ErrorCode::InvalidGraph, node.op, "input ", i, " is absent, but it is not optional");
  for (const auto& [name, value] : node.attrs.all()) {
    if (std::find(attributes.begin(), attributes.end(), name) != attributes.end()) continue;
    std::string known;
    for (std::string_view a : attributes) known += (known.empty() ? "" : ", ") + std::string(a);
    fail(ErrorCode::InvalidGraph, node.op, "unknown attribute '", name, "'; known: ", known.empty() ? "none" : known);
  }
}

void check_node(const Node& node, const std::vector<TensorType>& inputs, size_t min_inputs, size_t max_inputs,
                const std::vector<std::string_view>& attributes) {
  check_node_with_body(node, inputs, min_inputs, max_inputs, attributes);
  if (!node.body.empty())
    fail(ErrorCode::InvalidGraph, node.op, "has a body of ", node.body.size(), " steps, but this op takes none");
}

bool has_input(const Node& node, size_t i, size_t given) {
  return i < given && (i >= node.inputs.size() || node.inputs[i] != kNoValue);
}

bool flag(const Node& node, const char* attribute) {
  const int64_t value = node.attrs.integer(attribute, 0);
  if (value != 0 && value != 1) fail(ErrorCode::InvalidGraph, node.op, attribute, " is ", value, ", expected 0 or 1");
  return value == 1;
}

void expect_float(const Node& node, const TensorType& type, const char* what) {
  if (!is_float(type.dtype))
    fail(ErrorCode::Unsupported, node.op, what, " is ", to_string(type.dtype),
         ", expected f32 or f16; add a cast before it");
}

DType common_dtype(const Node& node, const std::vector<TensorType>& inputs) {
  DType result = inputs.front().dtype;
  for (const TensorType& type : inputs) {
    if (type.dtype == result) continue;
    if (!is_float(type.dtype) || !is_float(result))
      fail(ErrorCode::InvalidGraph, node.op, "inputs mix ", to_string(result), " and ", to_string(type.dtype),
           "; add a cast so that all have one element type");
    result = DType::F32;
  }
  return result;
}

size_t checked_axis(const Node& node, int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    fail(ErrorCode::InvalidGraph, node.op, "axis ", axis, " is outside a tensor of rank ", rank);
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

Shape broadcast(const Node& node, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {  // counted from the last axis
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(ErrorCode::InvalidGraph, node.op, "shapes ", to_string(a), " and ", to_string(b),
           " do not broadcast: extents ", x, " and ", y, " must be equal or one of them 1");
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::vector<int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const std::vector<int64_t> dense = strides_of(from);
  std::vector<int64_t> strides(to.size(), 0);
  const size_t added = to.size() - from.size();
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] != 1) strides[added + axis] = dense[axis];
  return strides;
}

double element_flops(const Node&, const std::vector<TensorType>&, const std::vector<TensorType>& outputs) {
  return static_cast<double>(element_count(outputs.front().shape));
}

double no_flops(const Node&, const std::vector<TensorType>&, const std::vector<TensorType>&) { return 0; }

}  // namespace gyrus
