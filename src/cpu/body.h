#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/strip_ops.h"

// Bodies as loops over strips of elements that stay in the cache: one vector loop for each step.

namespace gyrus::cpu {

// An operand at the elements of a strip.
struct Source {
  const std::byte* data = nullptr;
  int64_t stride = 1;  // elements of its type; 0: one for all
};

class Body {
 public:
  // The steps over operands of these types; `results` as Node::results.
  Body(const std::vector<Node>& steps, const std::vector<ValueId>& results, const std::vector<DType>& operands,
       const std::vector<DType>& outputs);
  // The body behind a node's own result, which is f32, or the node itself where it is elementwise.
  static Body behind(const Graph& graph, const Node& node);
  static Body of(const Graph& graph, const Node& node);

  bool empty() const { return steps_.empty() && results_.size() == 1 && results_[0] == 0; }
  size_t register_count() const { return operand_types_.size() + steps_.size(); }

  // Registers for a thread.
  using Registers = std::vector<float>;
  Registers registers() const { return Registers(register_count() * kStrip); }

  // Elements first … first + count - 1 (numbers that indexed rows are given) of all results, which lie side by side in
  // `sinks`. A sink may be the very memory of a source with stride 1 and elements of its size.
  void run(const Source* sources, std::byte* const* sinks, int64_t count, int64_t first, Registers& registers) const;

  static constexpr int64_t kStrip = 256;

 private:
  struct Step {
    StripOp fast = nullptr;
    const Elementwise* row = nullptr;
    std::vector<ValueId> inputs;
    std::vector<double> numbers;
    std::vector<Lane> in;
    Lane out = Lane::F32;
  };
  void run_strip(const Source* sources, std::byte* const* sinks, int64_t count, int64_t first,
                 Registers& registers) const;

  std::vector<DType> operand_types_, output_types_;
  std::vector<Step> steps_;
  std::vector<ValueId> results_;
  bool direct_ = false;  // the last step writes the only result where it belongs
};

// Operands of a body seen as a tensor of one shape: axes that lie alike in all of them are one.
class Spread {
 public:
  Spread(const Shape& shape, const std::vector<Shape>& operands);

  int64_t count() const { return count_; }
  // Calls visit(first, length, offsets) for the rows of elements [begin, end): `offsets` and strides() count elements.
  template <class Visit>
  void rows(int64_t begin, int64_t end, Visit visit) const {
    std::vector<int64_t> offsets(strides_.size());
    for (int64_t at = begin; at < end;) {
      int64_t rest = at;
      std::fill(offsets.begin(), offsets.end(), 0);
      int64_t column = 0;
      for (size_t a = shape_.size(); a-- > 0;) {
        const int64_t c = rest % shape_[a];
        rest /= shape_[a];
        if (a + 1 == shape_.size()) column = c;
        for (size_t k = 0; k < strides_.size(); ++k) offsets[k] += c * strides_[k][a];
      }
      const int64_t length = std::min(end - at, shape_.back() - column);
      visit(at, length, offsets);
      at += length;
    }
  }
  int64_t stride(size_t operand) const { return strides_[operand].back(); }

 private:
  Shape shape_;
  std::vector<std::vector<int64_t>> strides_;
  int64_t count_ = 0;
};

}  // namespace gyrus::cpu
