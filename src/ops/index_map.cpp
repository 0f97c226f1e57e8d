#include "ops/index_map.h"

#include <algorithm>

#include "ops/common.h"

namespace gyrus {

void move_elements(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  RefTensor& out = outputs.front();
  std::vector<Shape> shapes;
  for (const RefTensor* input : inputs) shapes.push_back(input->shape);
  const std::vector<IndexMap> maps = op(node.op).index_maps(node, shapes, out.shape);
  const std::vector<int64_t> dense = strides_of(out.shape);
  for (size_t k = 0; k < maps.size(); ++k) {
    const IndexMap& map = maps[k];
    if (map.fill) std::fill(out.data.begin(), out.data.end(), *map.fill);
    Shape box = out.shape;
    int64_t from = map.offset, to = 0;
    for (size_t a = 0; a < box.size() && !map.lo.empty(); ++a) {
      box[a] = map.hi[a] - map.lo[a];
      from += map.lo[a] * map.strides[a];
      to += map.lo[a] * dense[a];
    }
    walk(box, {map.strides, dense}, {from, to}, [&](const std::vector<int64_t>& at) {
      out.data[static_cast<size_t>(at[1])] = inputs[k]->data[static_cast<size_t>(at[0])];
    });
  }
}

}  // namespace gyrus
