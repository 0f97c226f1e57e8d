#pragma once
#include <optional>
#include <vector>

#include "gyrus/nn.h"

// Losses, built from ops. Maps of scores are [N, C, spatial…]; classes are integers [N, spatial…] or probabilities in
// the shape of the scores. No gradient goes into targets that are integers.

namespace gyrus {

// What becomes of the loss of each element.
enum class LossOver : uint8_t {
  Mean,
  Sum,
  None,   // they are the result
  Batch,  // their sum over the extent of axis 0
};

struct ClassLossOptions {
  Value weight{};                         // [C], of each class; the mean is then the weighted one
  std::optional<int64_t> ignore_index{};  // a class that counts for nothing, nor in the mean
  double label_smoothing = 0;             // of cross_entropy
  LossOver over = LossOver::Mean;
};
// -log softmax(x)[target].
Value cross_entropy(Value x, Value target, const ClassLossOptions& options = {});
// -x[target], of log-probabilities.
Value nll(Value x, Value target, const ClassLossOptions& options = {});

struct BinaryLossOptions {
  Value weight{}, pos_weight{};  // broadcast to x
  LossOver over = LossOver::Mean;
};
Value bce_with_logits(Value x, Value target, const BinaryLossOptions& options = {});

Value mse(Value x, Value target, LossOver over = LossOver::Mean);
Value l1(Value x, Value target, LossOver over = LossOver::Mean);
// d²/2 where |d| <= delta, delta (|d| - delta/2) beyond; smooth_l1 is that over its beta.
Value huber(Value x, Value target, double delta = 1, LossOver over = LossOver::Mean);
Value smooth_l1(Value x, Value target, double beta = 1, LossOver over = LossOver::Mean);
// t (log t - x) of log-probabilities x; `log_target`: the target is log t.
Value kl_div(Value x, Value target, bool log_target = false, LossOver over = LossOver::Mean);

// 1 - the mean over classes of (2 Σ p t + smooth) / (Σ p + Σ t + smooth), p the softmax over axis 1, or the sigmoid
// with a target in the shape of x.
struct DiceOptions {
  bool sigmoid = false;
  bool batch = false;    // sums go over axis 0 too, else the mean does
  bool squared = false;  // p² and t² in the divisor
  bool include_background = true;
  double smooth = 1;
};
Value dice(Value x, Value target, const DiceOptions& options = {});

// (1 - p)^gamma times the cross-entropy, p the probability of what is true.
struct FocalOptions {
  double gamma = 2;
  Value weight{};                 // [C]
  std::optional<double> alpha{};  // of focal_sigmoid: the weight of ones; that of zeros is 1 - alpha
  LossOver over = LossOver::Mean;
};
Value focal(Value x, Value target, const FocalOptions& options = {});
Value focal_sigmoid(Value x, Value target, const FocalOptions& options = {});

}  // namespace gyrus
