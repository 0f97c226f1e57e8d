#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "op_cases.h"

// Random small networks: chains of ops with branches and several outputs, always the same for a seed. Values stay near
// 1 and every op is continuous there, so that results can be compared in any precision.

namespace gyrus::test {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : rng_(seed * 7919 + 1) {}

  Graph make() {
    Shape shape = {rng_.integer(1, 4) == 1 ? 2 : 1, rng_.integer(1, 9)};
    const int64_t rank = rng_.integer(1, 3);
    for (int64_t a = 0; a < rank; ++a) shape.push_back(rng_.integer(1, rank == 1 ? 90 : 13));
    values_ = {graph_.add_input("x", {DType::F32, shape, Layout::Plain})};
    const int64_t count = rng_.integer(1, 9);
    for (int64_t i = 0; i < count; ++i) values_.push_back(step(pick()));
    graph_.add_output("y", values_.back());
    if (rng_.integer(0, 3) == 0) graph_.add_output("z", pick());
    return graph_;
  }

 private:
  bool chance(int64_t one_in) { return rng_.integer(1, one_in) == 1; }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  // Mostly the latest value, so that chains grow; now and then an older one, so that they branch.
  ValueId pick() {
    const int64_t last = static_cast<int64_t>(values_.size()) - 1;
    return values_[static_cast<size_t>(chance(4) ? rng_.integer(0, last) : last)];
  }

  ValueId constant(const Shape& shape, double scale, double shift = 0) {
    Tensor tensor(DType::F32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, shift + scale * rng_.normal());
    return graph_.add_constant("c" + std::to_string(constants_++), std::move(tensor));
  }
  // Away from zero: divisors, variances.
  ValueId positive(const Shape& shape) {
    Tensor tensor(DType::F32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, rng_.uniform(0.5, 2));
    return graph_.add_constant("c" + std::to_string(constants_++), std::move(tensor));
  }

  ValueId step(ValueId x) {
    switch (rng_.integer(0, 9)) {
      case 0:
      case 1:
      case 2: return conv(x);
      case 3: return norm(x);
      case 4:
      case 5: return activation(x);
      case 6:
      case 7: return binary(x);
      case 8: return move(x);
      default: return reduce(x);
    }
  }

  bool is_map(ValueId x) const { return shape(x).size() >= 3 && shape(x).size() <= 5; }

  ValueId conv(ValueId x) {
    if (!is_map(x)) return activation(x);
    const Shape in = shape(x);
    const bool grouped = chance(5);
    const int64_t groups = grouped ? in[1] : 1;
    Shape weight = {grouped ? in[1] * rng_.integer(1, 2) : rng_.integer(1, 11), in[1] / groups};
    std::vector<int64_t> stride, dilation, lo, hi;
    double fan_in = static_cast<double>(weight[1]);
    for (size_t a = 2; a < in.size(); ++a) {
      const int64_t kernel = chance(3) ? 1 : rng_.integer(1, 3);
      dilation.push_back(rng_.integer(1, 5));
      const int64_t reach = (kernel - 1) * dilation.back();
      lo.push_back(rng_.integer(0, reach / 2 + 1));
      hi.push_back(std::max<int64_t>(reach / 2, reach + 1 - in[a] - lo.back()));
      stride.push_back(chance(4) ? 2 : 1);
      weight.push_back(kernel);
      fan_in *= static_cast<double>(kernel);
    }
    std::vector<int64_t> pads = lo;
    pads.insert(pads.end(), hi.begin(), hi.end());
    std::vector<ValueId> inputs = {x, constant(weight, 1 / std::sqrt(fan_in))};
    if (chance(2)) inputs.push_back(constant({weight[0]}, 0.3));
    return graph_.add("conv", inputs, {{"stride", stride}, {"dilation", dilation}, {"pads", pads}, {"groups", groups}},
                      "conv");
  }

  ValueId norm(ValueId x) {
    if (shape(x).size() < 2) return activation(x);
    const int64_t channels = shape(x)[1];
    // One voxel has no variance: what is left is divided by the square root of eps and grows.
    const int64_t voxels = element_count(shape(x)) / (shape(x)[0] * channels);
    if (chance(2) || voxels < 4)
      return graph_.add(
          "batch_norm",
          {x, constant({channels}, 0.3), positive({channels}), positive({channels}), constant({channels}, 0.3)}, {},
          "batch_norm");
    const std::vector<ValueId> affine = {x, positive({channels}), constant({channels}, 0.3)};
    const std::vector<ValueId> bare = {x};
    if (chance(2)) return graph_.add("instance_norm", chance(2) ? affine : bare, {{"eps", 0.1}}, "instance_norm");
    const int64_t groups = channels % 2 == 0 ? channels / 2 : 1;
    return graph_.add("group_norm", chance(2) ? affine : bare, {{"groups", groups}, {"eps", 0.1}}, "group_norm");
  }

  ValueId activation(ValueId x) {
    const char* const ops[] = {"relu",    "leaky_relu", "elu",      "gelu", "silu",
                               "sigmoid", "tanh",       "softplus", "neg",  "abs"};
    if (chance(8)) return graph_.add("affine_clamp", {x}, {{"scale", 0.7}, {"shift", 0.2}, {"lo", -1.0}, {"hi", 2.0}});
    return graph_.add(ops[rng_.integer(0, 9)], {x});
  }

  ValueId binary(ValueId x) {
    const char* const ops[] = {"add", "sub", "mul", "min", "max", "div"};
    const std::string op = ops[rng_.integer(0, 5)];
    Shape other = shape(x);
    const int64_t kind = rng_.integer(0, 4);
    for (size_t a = 0; a < other.size(); ++a)
      if ((kind == 0 && a != 1) || kind == 1 || (kind == 2 && a < 2)) other[a] = 1;
    if (kind == 1 && chance(2)) other = {};
    if (op != "div" && kind == 3)
      for (ValueId id : values_)
        if (id != x && shape(id) == shape(x)) return graph_.add(op, {x, id});
    const ValueId y = op == "div" ? positive(other) : constant(other, 0.7);
    return op != "div" && chance(3) ? graph_.add(op, {y, x}) : graph_.add(op, {x, y});
  }

  ValueId move(ValueId x) {
    const Shape from = shape(x);
    const size_t rank = from.size();
    const auto axis = static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(rank) - 1));
    switch (rng_.integer(0, 3)) {
      case 0: {
        std::vector<int64_t> perm;
        for (size_t a = 0; a < rank; ++a) perm.push_back(static_cast<int64_t>((a + axis) % rank));
        return graph_.add("transpose", {x}, {{"perm", perm}});
      }
      case 1: {
        std::vector<int64_t> starts(rank, 0);
        starts[axis] = from[axis] / 3;
        return graph_.add("slice", {x}, {{"starts", starts}, {"ends", from}});
      }
      case 2: {
        std::vector<int64_t> pads(2 * rank, 0);
        pads[axis] = 1;
        pads[rank + axis] = 2;
        return graph_.add("pad", {x}, {{"pads", pads}, {"value", 0.25}});
      }
      default: return graph_.add("concat", {x, x}, {{"axis", static_cast<int64_t>(axis)}});
    }
  }

  ValueId reduce(ValueId x) {
    const int64_t axis = rng_.integer(0, static_cast<int64_t>(shape(x).size()) - 1);
    if (chance(3)) return graph_.add("softmax", {x}, {{"axis", axis}});
    const char* const ops[] = {"reduce_mean", "reduce_max", "reduce_min"};
    return graph_.add(ops[rng_.integer(0, 2)], {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
  }

  Rng rng_;
  Graph graph_;
  std::vector<ValueId> values_;
  int constants_ = 0;
};

inline Graph random_graph(uint64_t seed) { return RandomGraph(seed).make(); }

}  // namespace gyrus::test
