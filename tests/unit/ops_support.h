#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "graph/op.h"
#include "ops/elementwise.h"
#include "support/types.h"

// Short ways to ask one op for its shape rule, its complaint and its reference values.

namespace gyrus::test {

inline TensorType typed(DType dtype, Shape shape) { return {dtype, std::move(shape), Layout::Plain}; }

inline Node make_node(const std::string& op, Attrs attrs = {}) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  return node;
}

inline std::vector<TensorType> infer_all(const Node& node, const std::vector<TensorType>& inputs) {
  return op(node.op).infer(node, inputs);
}

inline TensorType infer(const std::string& name, const std::vector<TensorType>& inputs, Attrs attrs = {}) {
  return infer_all(make_node(name, std::move(attrs)), inputs).front();
}

// The code and message with which the op refuses, or "accepted".
inline std::string refusal(const std::string& name, const std::vector<TensorType>& inputs, Attrs attrs = {}) {
  try {
    infer(name, inputs, std::move(attrs));
    return "accepted";
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

inline RefTensor ref(Shape shape, std::vector<double> data) { return {std::move(shape), std::move(data)}; }

// All outputs of the node's reference; the dtype of every input is f32.
inline std::vector<RefTensor> evaluate_all(const Node& node, const std::vector<RefTensor>& inputs) {
  std::vector<TensorType> types;
  std::vector<const RefTensor*> pointers;
  for (const RefTensor& input : inputs) {
    types.push_back(f32(input.shape));
    pointers.push_back(&input);
  }
  std::vector<RefTensor> outputs;
  for (const TensorType& type : infer_all(node, types))
    outputs.push_back({type.shape, std::vector<double>(static_cast<size_t>(element_count(type.shape)))});
  op(node.op).reference(node, pointers, outputs);
  return outputs;
}

inline RefTensor evaluate(const std::string& name, const std::vector<RefTensor>& inputs, Attrs attrs = {}) {
  return evaluate_all(make_node(name, std::move(attrs)), inputs).front();
}

// An elementwise op at one point.
inline double at(const std::string& name, std::vector<double> args, Attrs attrs = {}) {
  return evaluate(*op(name).elementwise, attrs, args.data());
}

using Ints = std::vector<int64_t>;

}  // namespace gyrus::test
