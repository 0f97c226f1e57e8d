// What all networks that are trained share: their weights as states, and adapters beside them. An adapter of a weight
// [O, …] of n elements is b a with b [O, rank], which starts at 0, and a [rank, n / O].
#include <cmath>

#include "core/error.h"
#include "core/hash.h"
#include "core/tensor.h"
#include "gyrus/ops.h"
#include "training/networks.h"
#include "volume/random.h"

namespace gyrus {
namespace {

bool match(const char* pattern, const char* name) {
  if (*pattern == '*') return match(pattern + 1, name) || (*name && match(pattern, name + 1));
  return *pattern == *name && (!*name || match(pattern + 1, name + 1));
}

std::string factor(const std::string& name, const char* which) { return kAdapterPrefix + name + "." + which; }

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return match(pattern.c_str(), name.c_str());
}

bool TrainNetwork::is_statistic(const std::string& name) const {
  return matches_pattern("*.running_mean", name) || matches_pattern("*.running_var", name);
}

int64_t TrainNetwork::parameters() const {
  int64_t count = 0;
  for (const auto& [name, tensor] : start_) count += is_statistic(name) ? 0 : tensor.size();
  return count;
}

void TrainNetwork::set_start(const std::map<std::string, Tensor>& weights, const std::string& file) {
  for (const auto& [name, tensor] : weights) {
    const auto found = start_.find(name);
    if (found == start_.end()) fail(ErrorCode::InvalidInput, file, "\"", name, "\" is no weight of this network");
    if (found->second.shape != tensor.shape)
      fail(ErrorCode::InvalidInput, file, "\"", name, "\" is ", to_string(tensor.shape), "; this network's is ",
           to_string(found->second.shape));
  }
  for (const auto& [name, tensor] : start_)
    if (!weights.count(name)) fail(ErrorCode::InvalidInput, file, "has no \"", name, "\", which this network needs");
  start_ = weights;
}

void TrainNetwork::add_adapters(const AdapterConfig& adapters, uint64_t seed) {
  std::string known;
  for (const auto& [name, tensor] : start_) {
    if (tensor.shape.size() < 2) continue;
    known += (known.empty() ? "" : ", ") + name;
    if (!matches_pattern(adapters.pattern, name)) continue;
    const int64_t out = tensor.shape[0], in = tensor.size() / out;
    Tensor a(DType::F32, {adapters.rank, in});
    for (int64_t i = 0; i < a.size(); ++i)
      set(a, i, normal_at(mix(seed) ^ fnv1a(name), static_cast<uint64_t>(i)) / std::sqrt(static_cast<double>(in)));
    adapter_start_[factor(name, "a")] = std::move(a);
    adapter_start_[factor(name, "b")] = Tensor(DType::F32, {out, adapters.rank});
  }
  if (adapter_start_.empty())
    fail(ErrorCode::InvalidInput, "adapters.pattern", "\"", adapters.pattern,
         "\" matches no weight; there are: ", known.empty() ? "none" : known);
}

std::map<std::string, Tensor> TrainNetwork::merged(std::map<std::string, Tensor> weights) const {
  for (auto& [name, tensor] : weights) {
    const auto a = weights.find(factor(name, "a")), b = weights.find(factor(name, "b"));
    if (a == weights.end() || b == weights.end()) continue;
    const int64_t out = b->second.shape[0], rank = b->second.shape[1], in = a->second.shape[1];
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        double sum = get(tensor, o * in + i);
        for (int64_t r = 0; r < rank; ++r) sum += get(b->second, o * rank + r) * get(a->second, r * in + i);
        set(tensor, o * in + i, sum);
      }
  }
  std::erase_if(weights, [](const auto& entry) { return entry.first.rfind(kAdapterPrefix, 0) == 0; });
  return weights;
}

Value TrainNetwork::weight(Graph& graph, const std::string& name, const BuildOptions& options) const {
  const auto state = [&](const std::string& own, const Tensor& start) {
    return graph.parameter(options.called ? options.called(own) : own, start);
  };
  const Value base = state(name, start_.at(name));
  const auto a = adapter_start_.find(factor(name, "a"));
  if (a == adapter_start_.end()) return base;
  const auto b = adapter_start_.find(factor(name, "b"));
  return base + reshape(matmul(state(b->first, b->second), state(a->first, a->second)), base.shape());
}

}  // namespace gyrus
