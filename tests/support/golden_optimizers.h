#pragma once
#include <algorithm>
#include <cmath>

#include "core/tensor.h"
#include "gyrus/train.h"
#include "support/golden_cases.h"

// PyTorch's cases of optimisers.

namespace gyrus::test {

inline const std::map<std::string, OptimizerKind>& optimizer_kinds() {
  static const std::map<std::string, OptimizerKind> kinds = {
      {"sgd", OptimizerKind::Sgd},         {"adam", OptimizerKind::Adam},       {"adamw", OptimizerKind::AdamW},
      {"rmsprop", OptimizerKind::RmsProp}, {"adagrad", OptimizerKind::Adagrad}, {"lion", OptimizerKind::Lion}};
  return kinds;
}

inline bool is_optimizer(const Json& json) { return optimizer_kinds().count(json["op"]) > 0; }

inline Optimizer optimizer_of(const Json& json) {
  Optimizer o;
  o.kind = optimizer_kinds().at(json["op"]);
  const Json& a = json["attrs"];
  o.weight_decay = a.value("weight_decay", 0.0);
  o.momentum = a.value("momentum", 0.0);
  o.dampening = a.value("dampening", 0.0);
  o.nesterov = a.value("nesterov", false);
  o.eps = a.value("eps", 1e-8);
  o.amsgrad = a.value("amsgrad", false);
  o.alpha = a.value("alpha", 0.99);
  o.centered = a.value("centered", false);
  o.lr_decay = a.value("lr_decay", 0.0);
  o.initial_accumulator = a.value("initial_accumulator_value", 0.0);
  if (a.contains("betas")) {
    o.beta1 = a["betas"][0];
    o.beta2 = a["betas"][1];
  }
  return o;
}

// Part i of the first axis.
inline Tensor part(const Tensor& all, int64_t i) {
  Tensor one(DType::F32, Shape(all.shape.begin() + 1, all.shape.end()));
  for (int64_t k = 0; k < one.size(); ++k) set(one, k, get(all, i * one.size() + k));
  return one;
}

// The rate of step t.
inline double rate_of(const Json& json, int64_t t) {
  const Json& lr = json["attrs"]["lr"];
  return lr.is_array() ? lr[static_cast<size_t>(t)].get<double>() : lr.get<double>();
}

// The largest difference over the largest wanted value; `found` gives element i.
template <class Found>
double relative(const Found& found, const Tensor& wanted) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, std::abs(found(i) - get(wanted, i)));
    largest = std::max(largest, std::abs(get(wanted, i)));
  }
  return worst / largest;
}

}  // namespace gyrus::test
