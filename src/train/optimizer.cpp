#include "train/optimizer.h"

#include <cmath>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/op.h"
#include "ops/building.h"
#include "ops/steps.h"

namespace gyrus {
namespace {

// One kernel over some operands, all of which broadcast to the first; the last of them says whether states change.
class Kernel {
 public:
  Kernel(const std::string& label, std::vector<Value> operands, Value good)
      : operands_(with(std::move(operands), good)), steps_(operands_.size()) {
    node_.op = "fused";
    node_.label = label;
    for (const Value& operand : operands_) node_.inputs.push_back(operand.id());
  }
  Term operator[](size_t operand) { return steps_.operand(operand); }
  // What an operand becomes.
  Term becomes(size_t operand, Term next) {
    return apply("where", steps_.operand(operands_.size() - 1), next, steps_.operand(operand));
  }
  std::vector<Value> make(const std::vector<Term>& results) {
    for (const Term& result : results) node_.results.push_back(result.id);
    node_.body = std::move(steps_).body();
    Graph& graph = operands_.front().graph();
    std::vector<Value> made;
    for (ValueId id : graph.add_node(std::move(node_))) made.emplace_back(graph, id);
    return made;
  }

 private:
  static std::vector<Value> with(std::vector<Value> operands, Value good) {
    operands.push_back(good);
    return operands;
  }
  std::vector<Value> operands_;
  Steps steps_;
  Node node_;
};

class Updater {
 public:
  Updater(const Optimizer& optimizer, const Training& training, Value rate, Value step, Value good)
      : o_(optimizer),
        t_(training),
        graph_(training.parameter.graph()),
        label_(training.name + ".update"),
        w_(training.parameter),
        g_(training.gradient),
        rate_(rate),
        step_(step),
        good_(good) {}

  Value update() {
    switch (o_.kind) {
      case OptimizerKind::Sgd: return sgd();
      case OptimizerKind::Adam:
      case OptimizerKind::AdamW: return adam();
      case OptimizerKind::RmsProp: return rms_prop();
      case OptimizerKind::Adagrad: return adagrad();
      case OptimizerKind::Lion: return lion();
    }
    fail(ErrorCode::InvalidInput, t_.name, "unknown optimiser");
  }

 private:
  Value slot(const char* name, double start = 0) {
    const std::string full = std::string(kOptimizerPrefix) + name + "/" + t_.name;
    std::shared_ptr<Tensor> tensor;
    if (start != 0) {
      tensor = std::make_shared<Tensor>(DType::F32, w_.shape());
      for (int64_t i = 0; i < tensor->size(); ++i) set(*tensor, i, start);
    }
    return {graph_, graph_.add_state(full, {DType::F32, w_.shape(), Layout::Plain}, tensor)};
  }

  // The gradient with the decay that is a part of it.
  Term decayed(Term w, Term g) const { return t_.weight_decay == 0 ? g : g + affine(w, t_.weight_decay); }
  // The parameter with the decay that is taken off it.
  Term shrunk(Term w, Term rate) const { return t_.weight_decay == 0 ? w : w * affine(rate, -t_.weight_decay, 1); }
  // 1 - beta^t. Near 0 the difference would lose its digits.
  static Term correction(Term step, double beta) { return -apply("expm1", affine(step, std::log(beta))); }
  static Term mixed(Term old, Term now, double share) { return affine(old, share) + affine(now, 1 - share); }

  Value sgd() {
    if (o_.momentum == 0) {
      Kernel k(label_, {w_, g_, rate_}, good_);
      return k.make({k.becomes(0, k[0] - k[2] * decayed(k[0], k[1]))})[0];
    }
    const Value buffer = slot("momentum_buffer");
    Kernel k(label_, {w_, g_, buffer, rate_, step_}, good_);
    const Term w = k[0], g = decayed(w, k[1]);
    // The first gradient counts in full.
    const Term first = affine(apply("step", affine(k[4], -1, 1.5)), o_.dampening, 1 - o_.dampening);
    const Term next = affine(k[2], o_.momentum) + (o_.dampening == 0 ? g : g * first);
    const Term direction = o_.nesterov ? g + affine(next, o_.momentum) : next;
    const std::vector<Value> made = k.make({k.becomes(0, w - k[3] * direction), k.becomes(2, next)});
    graph_.update(buffer, made[1]);
    return made[0];
  }

  Value adam() {
    const bool apart = o_.kind == OptimizerKind::AdamW;
    const Value m = slot("exp_avg"), v = slot("exp_avg_sq");
    const auto change = [&](Term rate, Term step, Term mean, Term square) {
      const Term root = apply("sqrt", square / correction(step, o_.beta2));
      return rate / correction(step, o_.beta1) * mean / affine(root, 1, o_.eps);
    };
    Kernel k(label_, o_.amsgrad ? std::vector<Value>{w_, g_, m, v} : std::vector<Value>{w_, g_, m, v, rate_, step_},
             good_);
    const Term g = apart ? k[1] : decayed(k[0], k[1]);
    const Term mean = mixed(k[2], g, o_.beta1), square = mixed(k[3], apply("square", g), o_.beta2);
    if (!o_.amsgrad) {
      const Term w = apart ? shrunk(k[0], k[4]) : k[0];
      const std::vector<Value> made =
          k.make({k.becomes(0, w - change(k[4], k[5], mean, square)), k.becomes(2, mean), k.becomes(3, square)});
      graph_.update(m, made[1]);
      graph_.update(v, made[2]);
      return made[0];
    }
    const Value largest = slot("max_exp_avg_sq");
    const std::vector<Value> moments = k.make({k.becomes(2, mean), k.becomes(3, square)});
    graph_.update(m, moments[0]);
    graph_.update(v, moments[1]);
    Kernel last(label_, {w_, moments[0], moments[1], largest, rate_, step_}, good_);
    const Term most = apply("max", last[3], last[2]), w = apart ? shrunk(last[0], last[4]) : last[0];
    const std::vector<Value> made =
        last.make({last.becomes(0, w - change(last[4], last[5], last[1], most)), last.becomes(3, most)});
    graph_.update(largest, made[1]);
    return made[0];
  }

  Value rms_prop() {
    const Value square = slot("square_avg");
    const Value average = o_.centered ? slot("grad_avg") : Value{};
    Kernel k(label_, o_.centered ? std::vector<Value>{w_, g_, square, average} : std::vector<Value>{w_, g_, square},
             good_);
    const Term g = decayed(k[0], k[1]), s = mixed(k[2], apply("square", g), o_.alpha);
    std::vector<Term> results = {k.becomes(2, s)};
    Term spread = s;
    if (o_.centered) {
      const Term a = mixed(k[3], g, o_.alpha);
      results.push_back(k.becomes(3, a));
      // Rounding may leave less than nothing, whose root is no number.
      spread = apply("relu", s - apply("square", a));
    }
    results.push_back(g / affine(apply("sqrt", spread), 1, o_.eps));
    const std::vector<Value> made = k.make(results);
    graph_.update(square, made[0]);
    if (o_.centered) graph_.update(average, made[1]);
    return with_momentum(made.back());
  }

  Value with_momentum(Value change) {
    if (o_.momentum == 0) {
      Kernel k(label_, {w_, change, rate_}, good_);
      return k.make({k.becomes(0, k[0] - k[2] * k[1])})[0];
    }
    const Value buffer = slot("momentum_buffer");
    Kernel k(label_, {w_, change, buffer, rate_}, good_);
    const Term next = affine(k[2], o_.momentum) + k[1];
    const std::vector<Value> made = k.make({k.becomes(0, k[0] - k[3] * next), k.becomes(2, next)});
    graph_.update(buffer, made[1]);
    return made[0];
  }

  Value adagrad() {
    const Value sum = slot("sum", o_.initial_accumulator);
    Kernel k(label_, {w_, g_, sum, rate_, step_}, good_);
    const Term g = decayed(k[0], k[1]), next = k[2] + apply("square", g);
    const Term rate = o_.lr_decay == 0 ? k[3] : k[3] / affine(k[4], o_.lr_decay, 1 - o_.lr_decay);
    const Term w = k[0] - rate * g / affine(apply("sqrt", next), 1, o_.eps);
    const std::vector<Value> made = k.make({k.becomes(0, w), k.becomes(2, next)});
    graph_.update(sum, made[1]);
    return made[0];
  }

  Value lion() {
    const Value m = slot("exp_avg");
    Kernel k(label_, {w_, g_, m, rate_}, good_);
    const Term direction = apply("sign", mixed(k[2], k[1], o_.beta1));
    const std::vector<Value> made =
        k.make({k.becomes(0, shrunk(k[0], k[3]) - k[3] * direction), k.becomes(2, mixed(k[2], k[1], o_.beta2))});
    graph_.update(m, made[1]);
    return made[0];
  }

  const Optimizer& o_;
  const Training& t_;
  Graph& graph_;
  std::string label_;
  Value w_, g_, rate_, step_, good_;
};

}  // namespace

Value add_update(const Optimizer& optimizer, const Training& training, Value rate, Value step, Value good) {
  return Updater(optimizer, training, rate, step, good).update();
}

}  // namespace gyrus
