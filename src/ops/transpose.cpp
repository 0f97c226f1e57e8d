#include "ops/transpose.h"

#include "ops/building.h"
#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"perm"});
  const std::vector<int64_t>& perm = node.attrs.integers("perm");
  const Shape& x = inputs[0].shape;
  std::vector<bool> seen(x.size(), false);
  bool valid = perm.size() == x.size();
  Shape shape;
  for (size_t a = 0; valid && a < perm.size(); ++a) {
    valid = perm[a] >= 0 && perm[a] < static_cast<int64_t>(x.size()) && !seen[static_cast<size_t>(perm[a])];
    if (!valid) break;
    seen[static_cast<size_t>(perm[a])] = true;
    shape.push_back(x[static_cast<size_t>(perm[a])]);
  }
  if (!valid)
    fail(ErrorCode::InvalidGraph, node.op, "perm is ", to_string(perm), ", expected each axis of ", to_string(x),
         " once");
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>& inputs, const Shape&) {
  const std::vector<int64_t> dense = strides_of(inputs[0]);
  IndexMap map;
  for (int64_t axis : node.attrs.integers("perm")) map.strides.push_back(dense[static_cast<size_t>(axis)]);
  return {map};
}

std::vector<Value> gradient(const Backward& back) {
  const std::vector<int64_t> perm = back.node.attrs.integers("perm");
  std::vector<int64_t> back_perm(perm.size());
  for (size_t a = 0; a < perm.size(); ++a) back_perm[static_cast<size_t>(perm[a])] = static_cast<int64_t>(a);
  return {transpose(back.gradients[0], back_perm)};
}

}  // namespace

const OpDef kTranspose = {
    .name = "transpose",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
