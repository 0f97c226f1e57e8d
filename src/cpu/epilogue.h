#pragma once
#include <vector>

#include "cpu/body.h"

namespace gyrus::cpu {

// The body behind a node's own result [.., last axis], run on parts of rows of it.
class Epilogue {
 public:
  Epilogue(const Graph& graph, const Node& node, const Shape& raw);

  bool empty() const { return body_.empty() && singles_; }
  // Whether the raw result can lie where the only result does, and become it in place.
  bool in_place() const { return singles_; }
  // The results of `count` elements of the raw result, the first of which is element `first` of it. `raw` may be the
  // place of the result.
  void run(const Places& at, const float* raw, int64_t first, int64_t count) const {
    run(at, raw, first, count, nullptr);
  }
  // The same where in_place(): the result takes the place of these elements, wherever they are.
  void change(const Places& at, float* raw, int64_t first, int64_t count) const { run(at, raw, first, count, raw); }
  // The same of all elements.
  void run_all(const Places& at, const float* raw, ThreadPool& pool) const;

 private:
  void run(const Places& at, const float* raw, int64_t first, int64_t count, float* sink) const;

  Body body_;
  Shape shape_;
  size_t own_ = 0;
  std::vector<std::vector<int64_t>> strides_;  // of further operands
  std::vector<DType> operands_, outputs_;
  bool singles_ = false;  // one result of f32
};

}  // namespace gyrus::cpu
