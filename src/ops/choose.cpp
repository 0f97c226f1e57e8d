#include "ops/choose.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cache.h"
#include "ops/common.h"
#include "ops/random.h"

namespace gyrus {
namespace {

constexpr int64_t kParams = 8;
constexpr uint32_t kTokenKey = 0x746f6b65;  // "toke": draws of tokens are not those of anything else

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {});
  const Shape &scores = inputs[0].shape, &params = inputs[1].shape;
  if (inputs[0].dtype != DType::F32 || scores.size() != 2 || scores[1] < 1 || inputs[1].dtype != DType::I32 ||
      params != Shape{scores[0], kParams})
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(scores), " and ",
         to_string(inputs[1].dtype), to_string(params), ", expected f32 [rows, width] and i32 [rows, 8]");
  if (has_input(node, inputs, 2) &&
      (inputs[2].dtype != DType::U32 || inputs[2].shape.size() != 2 || inputs[2].shape[1] != scores[1]))
    fail(ErrorCode::InvalidGraph, node.op, "seen is ", to_string(inputs[2].dtype), to_string(inputs[2].shape),
         ", expected u32 [sequences, ", scores[1], "]");
  return {{DType::I32, {scores[0]}, Layout::Plain}};
}

double number(double word) {
  const auto bits = static_cast<uint32_t>(static_cast<int64_t>(word));
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The token of one row of scores with their penalties.
int64_t chosen(const std::vector<double>& scores, const double* params) {
  const double temperature = number(params[0]), top_p = number(params[2]), min_p = number(params[3]);
  const auto top_k = static_cast<size_t>(std::max(params[1], 0.0));
  if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); })) return -1;
  std::vector<double> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double most = sorted.front();
  if (!(temperature > 0)) return std::find(scores.begin(), scores.end(), most) - scores.begin();
  double least = -INFINITY;
  if (top_k > 0 && top_k < sorted.size()) least = sorted[top_k - 1];
  if (top_p < 1) {
    const auto share = [&](double score) { return std::floor(std::exp(score - most) * 0x1p24); };
    double all = 0, sum = 0;
    for (const double score : sorted) all += score >= least ? share(score) : 0;
    for (const double score : sorted) {
      if (sum >= top_p * all || score < least) break;
      sum += share(score);
      least = sum >= top_p * all ? score : least;
    }
  }
  if (min_p > 0) least = std::max(least, most + std::log(min_p));
  int64_t best = -1;
  double value = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < least) continue;
    const auto word = [](double given) { return static_cast<uint32_t>(static_cast<int64_t>(given)); };
    const uint32_t bits = threefry2x32({static_cast<uint32_t>(i), word(params[6])}, {word(params[5]), kTokenKey})[0];
    const double uniform = (static_cast<double>(bits >> 9) + 0.5) * 0x1p-23;
    const double drawn = (scores[i] - most) / temperature - std::log(-std::log(uniform));
    if (best >= 0 && drawn <= value) continue;
    best = static_cast<int64_t>(i);
    value = drawn;
  }
  return best;
}

void reference(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &scores = *inputs[0], &params = *inputs[1];
  const auto width = static_cast<size_t>(scores.shape[1]);
  for (size_t r = 0; r < outputs[0].data.size(); ++r) {
    std::vector<double> row(scores.data.begin() + static_cast<std::ptrdiff_t>(r * width),
                            scores.data.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
    const double* own = params.data.data() + r * kParams;
    const double penalty = number(own[4]);
    for (size_t i = 0; has_input(inputs, 2) && i < width; ++i)
      if (inputs[2]->data[static_cast<size_t>(own[7]) * width + i] != 0)
        row[i] = row[i] > 0 ? row[i] / penalty : row[i] * penalty;
    outputs[0].data[r] = static_cast<double>(chosen(row, own));
  }
}

std::vector<TensorType> infer_rows(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {});
  const Shape &rows = inputs[0].shape, &chosen = inputs[1].shape;
  if (inputs[0].dtype != DType::I32 || rows.size() != 2 || rows[1] != kStepColumns || inputs[1].dtype != DType::I32 ||
      chosen.size() != 1 || chosen[0] < 1)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(rows), " and ",
         to_string(inputs[1].dtype), to_string(chosen), ", expected i32 [rows, 4] and i32 [slots]");
  return {inputs[0]};
}

void reference_rows(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  outputs[0].data = inputs[0]->data;
  const std::vector<double>& chosen = inputs[1]->data;
  for (size_t at = 0; at < outputs[0].data.size(); at += kStepColumns) {
    double& token = outputs[0].data[at];
    if (token < 0) token = std::max(0.0, chosen[std::min(static_cast<size_t>(-1 - token), chosen.size() - 1)]);
  }
}

std::vector<TensorType> infer_mark(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {});
  const Shape &seen = inputs[0].shape, &rows = inputs[1].shape;
  if (inputs[0].dtype != DType::U32 || seen.size() != 2 || inputs[1].dtype != DType::I32 || rows.size() != 2 ||
      rows[1] != kStepColumns)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(seen), " and ",
         to_string(inputs[1].dtype), to_string(rows), ", expected u32 [sequences, width] and i32 [rows, 4]");
  return {inputs[0]};
}

void reference_mark(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  outputs[0].data = inputs[0]->data;
  const int64_t width = inputs[0]->shape[1];
  for (int64_t r = 0; r < inputs[1]->shape[0]; ++r) {
    const double* row = inputs[1]->data.data() + r * kStepColumns;
    const auto at = static_cast<int64_t>(row[3]) * width + static_cast<int64_t>(row[0]);
    if (row[2] >= 0 && at >= 0 && at < static_cast<int64_t>(outputs[0].data.size()))
      outputs[0].data[static_cast<size_t>(at)] = 1;
  }
}

}  // namespace

const OpDef kChooseToken = {
    .name = "choose_token",
    .infer = infer,
    .reference = reference,
    .flops = no_flops,
};

const OpDef kChosenRows = {
    .name = "chosen_rows",
    .infer = infer_rows,
    .reference = reference_rows,
    .flops = no_flops,
};

const OpDef kMarkTokens = {
    .name = "mark_tokens",
    .infer = infer_mark,
    .reference = reference_mark,
    .in_place = InPlace::First,
    .flops = no_flops,
};

}  // namespace gyrus
