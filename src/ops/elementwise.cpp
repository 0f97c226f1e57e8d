#include "ops/elementwise.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

namespace gyrus {

void elementwise_reference(const Node& node, const std::vector<const RefTensor*>& inputs,
                           std::vector<RefTensor>& outputs) {
  const OpDef& def = op(node.op);
  RefTensor& out = outputs.front();
  if (inputs.size() == 1) {
    for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = def.eval(node.attrs, &inputs[0]->data[i]);
    return;
  }
  std::vector<std::vector<int64_t>> strides;
  for (const RefTensor* input : inputs) strides.push_back(broadcast_strides(input->shape, out.shape));
  std::vector<double> args(inputs.size());
  size_t i = 0;
  walk(out.shape, strides, std::vector<int64_t>(inputs.size(), 0), [&](const std::vector<int64_t>& offsets) {
    for (size_t k = 0; k < args.size(); ++k) args[k] = inputs[k]->data[static_cast<size_t>(offsets[k])];
    out.data[i++] = def.eval(node.attrs, args.data());
  });
}

std::string wgsl_number(double value) {
  // WGSL has no literal for infinities and refuses what does not fit an f32; 17 digits never round the largest up.
  const double finite = std::clamp(value, -static_cast<double>(FLT_MAX), static_cast<double>(FLT_MAX));
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", static_cast<double>(static_cast<float>(finite)));
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string scalar_of(const std::string& type) {
  const size_t open = type.find('<');
  return open == std::string::npos ? type : type.substr(open + 1, type.size() - open - 2);
}

std::string with_scalar(const std::string& type, const std::string& scalar) {
  const size_t open = type.find('<');
  return open == std::string::npos ? scalar : type.substr(0, open + 1) + scalar + ">";
}

}  // namespace gyrus
