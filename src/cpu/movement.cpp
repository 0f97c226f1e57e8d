// Ops that move elements, by their index maps, and gather.
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/tensor.h"
#include "cpu/kernel.h"
#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus::cpu {
namespace {

// The part of a result that comes from one operand: rows along the last axis of a box of it.
struct Box {
  Shape extents;                  // of the box
  std::vector<int64_t> from, to;  // strides in elements
  int64_t from_first = 0, to_first = 0;
};

Box box_of(const IndexMap& map, const Shape& out) {
  Box box;
  const std::vector<int64_t> dense = strides_of(out);
  Shape extents = out;
  box.from_first = map.offset;
  for (size_t a = 0; a < out.size() && !map.lo.empty(); ++a) {
    extents[a] = map.hi[a] - map.lo[a];
    box.from_first += map.lo[a] * map.strides[a];
    box.to_first += map.lo[a] * dense[a];
  }
  // Axes that lie alike in both are one.
  for (size_t a = 0; a < out.size(); ++a) {
    if (extents[a] == 1) continue;
    const bool joins = !box.extents.empty() && box.from.back() == map.strides[a] * extents[a] &&
                       box.to.back() == dense[a] * extents[a];
    if (joins) {
      box.extents.back() *= extents[a];
      box.from.back() = map.strides[a];
      box.to.back() = dense[a];
    } else {
      box.extents.push_back(extents[a]);
      box.from.push_back(map.strides[a]);
      box.to.push_back(dense[a]);
    }
  }
  if (box.extents.empty()) {
    box.extents = {1};
    box.from = box.to = {1};
  }
  return box;
}

template <class T>
void copy_box(const Box& box, const T* from, T* to, ThreadPool& pool) {
  const int64_t row = box.extents.back(), rows = element_count(box.extents) / std::max<int64_t>(1, row);
  if (row == 0) return;
  const int64_t grain = std::max<int64_t>(1, kGrain / row);
  const int64_t step_from = box.from.back(), step_to = box.to.back();
  pool.parallel_for(ceil_div(rows, grain), [&](int64_t part) {
    for (int64_t r = part * grain; r < std::min(rows, (part + 1) * grain); ++r) {
      int64_t rest = r, a = box.from_first, b = box.to_first;
      for (size_t axis = box.extents.size() - 1; axis-- > 0; rest /= box.extents[axis]) {
        a += rest % box.extents[axis] * box.from[axis];
        b += rest % box.extents[axis] * box.to[axis];
      }
      if (step_from == 1 && step_to == 1) {
        std::memcpy(to + b, from + a, static_cast<size_t>(row) * sizeof(T));
      } else if (step_from == 0 && step_to == 1) {
        std::fill(to + b, to + b + row, from[a]);
      } else {
        for (int64_t i = 0; i < row; ++i) to[b + i * step_to] = from[a + i * step_from];
      }
    }
  });
}

void copy_box(size_t size, const Box& box, const std::byte* from, std::byte* to, ThreadPool& pool) {
  if (size == 1) return copy_box(box, reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to), pool);
  if (size == 2) return copy_box(box, reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to), pool);
  copy_box(box, reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to), pool);
}

}  // namespace

Prepared prepare_movement(const Graph& graph, const Node& node, const KernelOptions&) {
  struct Part {
    Box box;
    std::vector<std::byte> fill;  // one element, or none
  };
  struct State {
    std::vector<Part> parts;
    size_t size;
    int64_t count;
  };
  const TensorType& out = graph.type(node.outputs[0]);
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(graph.type(id).shape);
  State state{{}, byte_size(out.dtype), element_count(out.shape)};
  for (const IndexMap& map : op(node.op).index_maps(node, shapes, out.shape)) {
    Part part{box_of(map, out.shape), {}};
    if (map.fill) {
      Tensor one(out.dtype, {});
      set(one, 0, *map.fill);
      part.fill = one.data;
    }
    state.parts.push_back(std::move(part));
  }
  Prepared made;
  made.kernel = node.op;
  made.run = [state = std::make_shared<const State>(std::move(state))](const Places& at, ThreadPool& pool) {
    if (state->count == 0) return;
    for (size_t k = 0; k < state->parts.size(); ++k) {
      const Part& part = state->parts[k];
      if (!part.fill.empty()) {
        Box all{{state->count}, {0}, {1}, 0, 0};
        copy_box(state->size, all, part.fill.data(), at.outputs[0], pool);
      }
      copy_box(state->size, part.box, at.inputs[k], at.outputs[0], pool);
    }
  };
  return made;
}

Prepared prepare_update_slice(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    int64_t outer, extent, count, start;  // along the axis: of the base, of the value, and where that goes
    size_t row;                           // bytes of one step along the axis
    bool given;                           // the start is an operand
    std::string subject;
  };
  const TensorType &base = graph.type(node.inputs[0]), &value = graph.type(node.inputs[1]);
  if (element_count(base.shape) == 0) return prepare_generic(graph, node, {});
  const size_t axis = checked_axis(node, node.attrs.integer("axis", 0), base.shape.size());
  const int64_t inner = strides_of(base.shape)[axis], extent = base.shape[axis];
  const State state{element_count(base.shape) / (extent * inner),
                    extent,
                    value.shape[axis],
                    node.attrs.integer("start", 0),
                    static_cast<size_t>(inner) * byte_size(base.dtype),
                    has_input(node, 2, node.inputs.size()),
                    subject_of(node)};
  const bool is_signed = state.given && graph.type(node.inputs[2]).dtype == DType::I32;
  Prepared made;
  made.kernel = "update_slice";
  made.in_place = true;
  made.run = [state, is_signed](const Places& at, ThreadPool& pool) {
    int64_t start = state.start;
    if (state.given && is_signed) start = *reinterpret_cast<const int32_t*>(at.inputs[2]);
    if (state.given && !is_signed) start = *reinterpret_cast<const uint32_t*>(at.inputs[2]);
    if (start < 0 || start > state.extent - state.count)
      fail(ErrorCode::InvalidInput, state.subject, "start is ", start, ", expected 0 to ", state.extent - state.count);
    const auto copy = [&](const std::byte* from, std::byte* to, size_t bytes) {
      constexpr size_t kPart = size_t{kGrain} * 16;
      pool.parallel_for(static_cast<int64_t>((bytes + kPart - 1) / kPart), [&](int64_t part) {
        const size_t begin = static_cast<size_t>(part) * kPart;
        std::memcpy(to + begin, from + begin, std::min(kPart, bytes - begin));
      });
    };
    const size_t whole = static_cast<size_t>(state.extent) * state.row,
                 own = static_cast<size_t>(state.count) * state.row;
    std::byte* out = at.outputs[0];
    if (out != at.inputs[0]) copy(at.inputs[0], out, static_cast<size_t>(state.outer) * whole);
    pool.parallel_for(own == 0 ? 0 : state.outer, [&](int64_t o) {
      const auto outer = static_cast<size_t>(o);
      std::memcpy(out + outer * whole + static_cast<size_t>(start) * state.row, at.inputs[1] + outer * own, own);
    });
  };
  return made;
}

Prepared prepare_gather(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    int64_t extent, outer, indices;
    size_t row;  // bytes
    bool is_signed;
    std::string subject;
  };
  const TensorType &data = graph.type(node.inputs[0]), &indices = graph.type(node.inputs[1]);
  const size_t axis = checked_axis(node, node.attrs.integer("axis", 0), data.shape.size());
  if (element_count(graph.type(node.outputs[0]).shape) == 0) return prepare_generic(graph, node, {});
  const int64_t inner = strides_of(data.shape)[axis], extent = data.shape[axis];
  const State state{extent,
                    element_count(data.shape) / (extent * inner),
                    element_count(indices.shape),
                    static_cast<size_t>(inner) * byte_size(data.dtype),
                    indices.dtype == DType::I32,
                    subject_of(node)};
  Prepared made;
  made.kernel = "gather";
  made.run = [state](const Places& at, ThreadPool& pool) {
    const auto* words = reinterpret_cast<const int32_t*>(at.inputs[1]);
    const int64_t rows = state.outer * state.indices;
    const int64_t grain = std::max<int64_t>(1, kGrain * 4 / static_cast<int64_t>(state.row));
    pool.parallel_for(ceil_div(rows, grain), [&](int64_t part) {
      for (int64_t r = part * grain; r < std::min(rows, (part + 1) * grain); ++r) {
        const int32_t word = words[r % state.indices];
        const int64_t given = state.is_signed ? word : static_cast<int64_t>(static_cast<uint32_t>(word));
        const int64_t index = given < 0 ? given + state.extent : given;
        if (index < 0 || index >= state.extent)
          fail(ErrorCode::InvalidInput, state.subject, "index ", given, " is out of range: the extent is ",
               state.extent);
        std::memcpy(at.outputs[0] + static_cast<size_t>(r) * state.row,
                    at.inputs[0] + static_cast<size_t>(r / state.indices * state.extent + index) * state.row,
                    state.row);
      }
    });
  };
  return made;
}

}  // namespace gyrus::cpu
