#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/gyrus.h"
#include "import/safetensors.h"

// The cases of PyTorch's float64 results as graphs, by the public functions of gyrus/ops.h and gyrus/nn.h.

namespace gyrus::test {

using Json = nlohmann::json;
using Ints = std::vector<int64_t>;

// A case: its attributes, and its inputs as values of a graph in the making.
class Case {
 public:
  Case(const Json& json, const StateDict& tensors) : json_(json) {
    for (const Json& input : json["inputs"]) {
      const std::string role = input["role"];
      Tensor tensor = *tensors.find(input["name"].get<std::string>())->tensor;
      values_[role] = graph.input(role, tensor.dtype, tensor.shape);
      inputs[role] = std::move(tensor);
    }
  }

  const std::string op() const { return json_["op"]; }
  bool has(const std::string& role) const { return values_.count(role) != 0; }
  // The input of that role; absent ones are values without a graph.
  Value operator[](const std::string& role) const {
    const auto found = values_.find(role);
    return found == values_.end() ? Value{} : found->second;
  }
  const Json& attr(const std::string& name) const { return json_["attrs"].at(name); }
  bool given(const std::string& name) const { return json_["attrs"].contains(name) && !json_["attrs"][name].is_null(); }
  Ints ints(const std::string& name) const { return given(name) ? attr(name).get<Ints>() : Ints{}; }
  int64_t integer(const std::string& name) const { return attr(name).get<int64_t>(); }
  double number(const std::string& name) const { return attr(name).get<double>(); }
  bool flag(const std::string& name) const { return given(name) && attr(name).get<bool>(); }
  Reduce over() const { return {ints("axes"), flag("keepdims")}; }
  Windows windows() const {
    return {ints("kernel"), ints("stride"), ints("dilation"), ints("pads"), flag("ceil_mode")};
  }

  mutable Graph graph;  // builds add to it, also those of cases without an input
  std::map<std::string, Tensor> inputs;

 private:
  const Json& json_;
  std::map<std::string, Value> values_;
};

using Values = std::vector<Value>;
using Build = std::function<Values(const Case&)>;

// How the outputs of an op's cases are made; none where a case is not built.
const std::map<std::string, Build>& builds();

// The cases and their tensors; without cases where there is no test data.
class GoldenFile {
 public:
  GoldenFile();
  const Json& cases() const { return cases_; }
  const StateDict& tensors() const { return tensors_; }
  const Tensor& tensor(const Json& name) const { return *tensors_.find(name.get<std::string>())->tensor; }

 private:
  Json cases_ = Json::array();
  std::vector<uint8_t> bytes_;
  StateDict tensors_;
};

// A case with its upstream gradients as inputs "upstream_0" … and the gradients that it knows as outputs "grad_ROLE".
struct GoldenGradients {
  Graph graph;
  std::map<std::string, Tensor> inputs;
  std::map<std::string, std::string> wanted;  // the tensors of the outputs
};
// Nothing where the case has no gradients or is not built.
std::optional<GoldenGradients> golden_gradients(const GoldenFile& file, const Json& json);

// The largest error over the largest value; for results that are not floats whether any differs.
double error_of(const std::vector<double>& found, const Tensor& wanted);
std::vector<double> numbers_of(const Tensor& tensor);

}  // namespace gyrus::test
