#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "op_cases.h"

// What the files of op cases share: a builder of small graphs, and one function for each family.

namespace gyrus::test {

using Ints = std::vector<int64_t>;

// Builds the graph of a case; inputs are named "x0", "x1" …, constants "c0", "c1" …, outputs "y0", "y1" ….
class CaseBuilder {
 public:
  CaseBuilder(const OpCase& c, Rng& rng) : case_(c), rng_(rng) {}

  ValueId input(Shape shape, DType dtype = DType::F32) {
    return graph.add_input("x" + std::to_string(inputs_++), {dtype, std::move(shape), Layout::Plain});
  }
  ValueId constant(const Shape& shape, DType dtype = DType::F32) {
    return graph.add_constant("c" + std::to_string(constants_++), random_tensor(case_, dtype, shape, rng_));
  }
  // Normal weights scaled by the square root of what one output sums over; whole numbers where the case has those.
  ValueId weight(const Shape& shape);
  // Positive: variances, and gammas far from zero.
  ValueId positive(const Shape& shape);
  ValueId add(const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return graph.add(op, inputs, std::move(attrs), case_.name);
  }
  std::vector<ValueId> add_node(Node node) {
    node.label = case_.name;
    return graph.add_node(std::move(node));
  }
  void output(ValueId value) { graph.add_output("y" + std::to_string(outputs_++), value); }

  Graph graph;

 private:
  const OpCase& case_;
  Rng& rng_;
  int inputs_ = 0, constants_ = 0, outputs_ = 0;
};

// The case with its graph made by `make`, which adds the outputs itself.
OpCase make_case(OpCase c, std::function<void(CaseBuilder&)> make);

// A step of a body.
Node step(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {});

void add_block_cases(std::vector<OpCase>& cases);
void add_conv_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_movement_cases(std::vector<OpCase>& cases);
void add_reduce_cases(std::vector<OpCase>& cases);
void add_chain_cases(std::vector<OpCase>& cases);
void add_large_cases(std::vector<OpCase>& cases);
void add_matmul_cases(std::vector<OpCase>& cases);
void add_order_cases(std::vector<OpCase>& cases);
void add_scan_cases(std::vector<OpCase>& cases);
void add_sort_cases(std::vector<OpCase>& cases);
void add_random_cases(std::vector<OpCase>& cases);
void add_signal_cases(std::vector<OpCase>& cases);

}  // namespace gyrus::test
