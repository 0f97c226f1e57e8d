#include "ops/index_map.h"

#include "ops/common.h"

namespace gyrus {

void mapped_reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  RefTensor& out = outputs[0];
  std::vector<Shape> shapes;
  for (const RefTensor* input : inputs) shapes.push_back(input->shape);
  const std::vector<IndexMap> maps = op(node.op).index_maps(node, shapes, out.shape);
  for (size_t k = 0; k < maps.size(); ++k) {
    const IndexMap& map = maps[k];
    Shape index(out.shape.size(), 0);
    size_t o = 0;
    walk(out.shape, {map.strides}, {map.offset}, [&](const std::vector<int64_t>& at) {
      bool inside = true;
      for (size_t a = 0; a < map.lo.size(); ++a) inside = inside && index[a] >= map.lo[a] && index[a] < map.hi[a];
      if (inside)
        out.data[o] = inputs[k]->data[static_cast<size_t>(at[0])];
      else if (map.fill)
        out.data[o] = *map.fill;
      ++o;
      for (size_t a = index.size(); a-- > 0 && ++index[a] == out.shape[a];) index[a] = 0;
    });
  }
}

}  // namespace gyrus
