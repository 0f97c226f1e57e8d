#include "ops/attention_parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/rewriter.h"
#include "ops/attention.h"
#include "ops/elementwise.h"

namespace gyrus {
namespace {

// Beyond this tiles are so small that two products with the scores in memory are faster.
constexpr int64_t kDeepest = 128;

class AttentionFinder {
 public:
  explicit AttentionFinder(Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.old()) {}

  ValueId find(const Node& last) {
    if (!is_product(last) || last.attrs.integer("transpose_b", 0) != 0) return kNoValue;
    const Node* softmax = once(last.inputs[0], "softmax");
    if (!softmax) return kNoValue;
    scores_ = graph_.type(softmax->inputs[0]);
    const auto rank = static_cast<int64_t>(scores_.shape.size());
    const int64_t axis = softmax->attrs.integer("axis");
    if (scores_.dtype != DType::F32 || rank < 2 || rank > 4 || (axis != -1 && axis != rank - 1)) return kNoValue;
    v_ = last.inputs[1];
    return take_masked(softmax->inputs[0]) && is_plain() ? add(last) : kNoValue;
  }

 private:
  const Node* maker(ValueId id, const char* op) const {
    const Node* node = rewrite_.old_maker(id);
    return node && node->op == op && node->body.empty() ? node : nullptr;
  }
  // The node of that op which makes the value for one reader.
  const Node* once(ValueId id, const char* op) const { return rewrite_.uses(id) == 1 ? maker(id, op) : nullptr; }
  static bool is_product(const Node& node) {
    return node.op == "matmul" && node.body.empty() && node.inputs.size() == 2 &&
           node.attrs.integer("transpose_a", 0) == 0;
  }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  // The one number that a constant holds.
  std::optional<double> number(ValueId id) const {
    if (id == kNoValue || !graph_.is_constant(id) || graph_.constant(id).size() != 1) return std::nullopt;
    return get(graph_.constant(id), 0);
  }

  // Goes back over a multiplication by a constant.
  bool strip_scale(ValueId& id) {
    const Node* node = rewrite_.old_maker(id);
    const Elementwise* row = node ? op(node->op).elementwise : nullptr;
    if (!row || !row->as_affine) return false;
    for (size_t k = 0; k < node->inputs.size(); ++k) {
      const std::optional<double> other = node->inputs.size() == 2 ? number(node->inputs[1 - k]) : 0;
      if (!other || graph_.type(node->inputs[k]) != graph_.type(id)) continue;
      const std::optional<ScaleShift> line = row->as_affine(row_numbers(*row, node->attrs).data(), k, *other);
      if (!line || line->shift != 0) continue;
      scale_ *= line->scale;
      id = node->inputs[k];
      return true;
    }
    return false;
  }

  // where(mask, scores, number), or the other way round.
  bool take_masked(ValueId id) {
    const Node* node = once(id, "where");
    if (!node) return take_biased(id);
    for (const size_t at : {size_t{1}, size_t{2}}) {
      hidden_ = number(node->inputs[3 - at]);
      if (!hidden_ || !(*hidden_ < INFINITY) || shape(node->inputs[at]) != scores_.shape) continue;
      mask_ = node->inputs[0];
      hides_ = at == 2;
      return take_biased(node->inputs[at]);
    }
    return false;
  }

  bool take_biased(ValueId id) {
    const Node* node = once(id, "add");
    if (!node) return take_product(id);
    for (const size_t at : {size_t{0}, size_t{1}}) {
      bias_ = node->inputs[1 - at];
      if (bias_ != node->inputs[at] && shape(node->inputs[at]) == scores_.shape && take_product(node->inputs[at]))
        return graph_.type(bias_).dtype == DType::F32;
    }
    return false;
  }

  bool take_product(ValueId id) {
    scale_ = 1;
    while (rewrite_.uses(id) == 1 && strip_scale(id)) {
    }
    const Node* node = once(id, "matmul");
    if (!node || !is_product(*node)) return false;
    q_ = node->inputs[0];
    k_ = node->inputs[1];
    turn_.resize(scores_.shape.size());
    std::iota(turn_.begin(), turn_.end(), 0);
    if (node->attrs.integer("transpose_b", 0) == 0) std::swap(turn_.end()[-1], turn_.end()[-2]);
    while (strip_scale(q_)) {
    }
    while (strip_scale(k_) || strip_turn()) {
    }
    return true;
  }

  // Goes back over a transpose of k: perm of perm.
  bool strip_turn() {
    const Node* node = maker(k_, "transpose");
    if (!node || shape(k_).size() != turn_.size()) return false;
    const std::vector<int64_t>& perm = node->attrs.integers("perm");
    for (int64_t& axis : turn_) axis = perm[static_cast<size_t>(axis)];
    k_ = node->inputs[0];
    return true;
  }
  bool is_turned() const { return !std::is_sorted(turn_.begin(), turn_.end()); }

  // The shape of k as attention reads it.
  Shape key_shape() const {
    Shape turned;
    for (int64_t axis : turn_) turned.push_back(shape(k_).at(static_cast<size_t>(axis)));
    return turned;
  }

  bool is_plain() const {
    const size_t rank = scores_.shape.size();
    if (mask_ != kNoValue && graph_.type(mask_).dtype != DType::Bool && graph_.type(mask_).dtype != DType::U8)
      return false;
    for (ValueId id : {q_, k_, v_})
      if (shape(id).size() != rank || graph_.type(id).dtype != DType::F32) return false;
    const Shape &q = shape(q_), k = key_shape(), &v = shape(v_);
    if (element_count(scores_.shape) == 0 || !std::equal(q.begin(), q.end() - 2, k.begin()) ||
        !std::equal(q.begin(), q.end() - 2, v.begin()))
      return false;
    return q.back() % 4 == 0 && v.back() % 4 == 0 && std::max(q.back(), v.back()) <= kDeepest &&
           std::min(q.back(), v.back()) > 0;
  }

  // Heads [B,Hk,S,D] of which `id` is each repeated for several heads of queries, or kNoValue: reshape, expand,
  // reshape.
  ValueId unrepeated(ValueId id) const {
    const Node* joined = rewrite_.old_maker(id);
    const Node* expand = joined && op(joined->op).alias ? maker(joined->inputs[0], "expand") : nullptr;
    if (!expand || shape(id).size() != 4) return kNoValue;
    const Shape &from = shape(expand->inputs[0]), &to = shape(expand->outputs[0]), &heads = shape(id);
    if (from.size() != 5 || to != Shape{heads[0], from[1], to[2], heads[2], heads[3]} || from[2] != 1) return kNoValue;
    return from == Shape{to[0], to[1], 1, to[3], to[4]} ? expand->inputs[0] : kNoValue;
  }

  ValueId add_op(const char* op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return rewrite_.graph().add(op, inputs, std::move(attrs), label_);
  }
  // A value of the new graph with four axes.
  ValueId four_axes(ValueId id, const Shape& given) {
    Shape wanted(4 - given.size(), 1);
    wanted.insert(wanted.end(), given.begin(), given.end());
    return wanted == rewrite_.graph().type(id).shape ? id : add_op("reshape", {id}, {{"shape", wanted}});
  }

  ValueId add(const Node& last) {
    label_ = last.label;
    std::vector<ValueId> inputs = {four_axes(rewrite_(q_), shape(q_))};
    const ValueId few_k = is_turned() ? kNoValue : unrepeated(k_), few_v = unrepeated(v_);
    if (few_k != kNoValue && few_v != kNoValue && shape(few_k)[1] == shape(few_v)[1]) {
      for (ValueId id : {few_k, few_v}) {
        const Shape& s = shape(id);
        inputs.push_back(four_axes(rewrite_(id), {s[0], s[1], s[3], s[4]}));
      }
    } else {
      const ValueId k = is_turned() ? add_op("transpose", {rewrite_(k_)}, {{"perm", turn_}}) : rewrite_(k_);
      inputs.push_back(four_axes(k, key_shape()));
      inputs.push_back(four_axes(rewrite_(v_), shape(v_)));
    }
    inputs.push_back(rewrite_(mask_));
    inputs.push_back(rewrite_(bias_));
    if (hides_) inputs[3] = add_op("logical_not", {inputs[3]});
    while (inputs.back() == kNoValue) inputs.pop_back();
    Attrs attrs{{"scale", scale_}};
    // A key with a score of minus infinity is one that is not seen.
    if (mask_ != kNoValue && std::isfinite(*hidden_)) attrs.set("hidden", *hidden_);
    const ValueId made = add_op("attention", inputs, std::move(attrs));
    const Shape& result = shape(last.outputs[0]);
    return result.size() == 4 ? made : add_op("reshape", {made}, {{"shape", result}});
  }

  Rewriter& rewrite_;
  const Graph& graph_;
  std::string label_;
  TensorType scores_;
  double scale_ = 1;
  ValueId q_ = kNoValue, k_ = kNoValue, v_ = kNoValue, mask_ = kNoValue, bias_ = kNoValue;
  std::vector<int64_t> turn_;  // axes of k_ in the order in which attention reads them
  bool hides_ = false;         // the mask is true where a key is not seen
  std::optional<double> hidden_;
};

}  // namespace

ValueId attention_from_parts(Rewriter& rewrite, const Node& last) { return AttentionFinder(rewrite).find(last); }

}  // namespace gyrus
