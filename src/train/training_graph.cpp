#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/rewriter.h"
#include "gyrus/ops.h"
#include "gyrus/train_fields.h"
#include "train/autodiff.h"
#include "train/optimizer.h"

namespace gyrus {
namespace {

constexpr double kMostSteps = 1e9;
constexpr double kLeastScale = 1e-12, kMostScale = 1e12;

bool matches(const char* pattern, const char* name) {
  if (*pattern == '*') return matches(pattern + 1, name) || (*name && matches(pattern, name + 1));
  return *pattern == *name && (!*name || matches(pattern + 1, name + 1));
}

const ParameterGroup* group_of(const TrainingOptions& options, const std::string& name) {
  for (const ParameterGroup& group : options.groups)
    if (matches(group.pattern.c_str(), name.c_str())) return &group;
  return nullptr;
}

bool is_parameter(const Graph& graph, const State& state) {
  return state.next == kNoValue && graph.type(state.value).dtype == DType::F32;
}

std::vector<State> trained(const Graph& graph, const TrainingOptions& options) {
  std::vector<State> all;
  for (const State& state : graph.states()) {
    const ParameterGroup* group = group_of(options, state.name);
    if (is_parameter(graph, state) && !(group && group->frozen)) all.push_back(state);
  }
  return all;
}

// A pattern that matches nothing is a slip of the pen.
void check_groups(const Graph& graph, const TrainingOptions& options) {
  for (const ParameterGroup& group : options.groups) {
    std::string known;
    bool found = false;
    for (const State& state : graph.states()) {
      if (!is_parameter(graph, state)) continue;
      found = found || matches(group.pattern.c_str(), state.name.c_str());
      known += (known.empty() ? "" : ", ") + state.name;
    }
    if (!found)
      fail(ErrorCode::InvalidInput, "groups", "\"", group.pattern,
           "\" matches no parameter; there are: ", known.empty() ? "none" : known);
  }
}

ValueId loss_of(const Graph& graph, const TrainingOptions& options) {
  std::string known;
  for (const Port& port : graph.outputs()) {
    known += (known.empty() ? "" : ", ") + port.name;
    if (port.name != options.loss) continue;
    const TensorType& type = graph.type(port.value);
    if (type.dtype != DType::F32 || element_count(type.shape) != 1)
      fail(ErrorCode::InvalidGraph, options.loss, "the loss is ", to_string(type.dtype), to_string(type.shape),
           ", expected one f32");
    return port.value;
  }
  fail(ErrorCode::InvalidGraph, options.loss,
       "the network has no such output to train by; it has: ", known.empty() ? "none" : known);
}

// |g| summed, the sum of squares, or the largest, over all gradients.
Value total_norm(const std::vector<Value>& gradients, double type) {
  Value total;
  for (const Value& g : gradients) {
    const bool scalar_gradient = g.shape().empty();
    const Value size = type == 2 ? square(g) : abs(g);
    const Value part = scalar_gradient ? size : std::isinf(type) ? reduce_max(size) : reduce_sum(size);
    total = !total ? part : std::isinf(type) ? max(total, part) : total + part;
  }
  return type == 2 ? sqrt(total) : total;
}

void clip(std::vector<Value>& gradients, const TrainingOptions& options) {
  if (options.clip_value)
    for (Value& g : gradients) g = clamp(g, -*options.clip_value, *options.clip_value);
  if (!options.clip_norm || gradients.empty()) return;
  if (options.norm_type != 1 && options.norm_type != 2 && !std::isinf(options.norm_type))
    fail(ErrorCode::InvalidInput, "norm_type", "is ", options.norm_type, ", expected 1, 2 or infinity");
  const Value total = total_norm(gradients, options.norm_type);
  const Value factor = min(scalar(total, *options.clip_norm) / affine(total, 1, 1e-6), scalar(total, 1));
  for (Value& g : gradients) g = g * factor;
}

// Who gives the numbers may be a config, a page or a program.
void check(const Optimizer& optimizer) {
  each_optimizer_field([&](const auto& field, auto member) {
    const auto value = static_cast<double>(optimizer.*member);
    if (field.is_of(optimizer.kind) && !(value >= field.least && value <= field.most))
      fail(ErrorCode::InvalidInput, "optimizer", field.name, " is ", value, ", expected ", field.least, " to ",
           field.most);
  });
  if (optimizer.kind == OptimizerKind::Sgd && optimizer.nesterov &&
      (optimizer.momentum == 0 || optimizer.dampening != 0))
    fail(ErrorCode::InvalidInput, "optimizer", "nesterov wants a momentum, and no dampening");
}

void check(const TrainingOptions& options) {
  check(options.optimizer);
  if (options.accumulate < 1)
    fail(ErrorCode::InvalidInput, "accumulate", "is ", options.accumulate, ", expected 1 or more");
  if (const auto& s = options.loss_scaling; s && !(s->least >= kLeastScale && s->least <= s->start &&
                                                   s->start <= s->most && s->most <= kMostScale && s->patience >= 1))
    fail(ErrorCode::InvalidInput, "loss_scaling", "goes from ", s->least, " over ", s->start, " to ", s->most,
         " with a patience of ", s->patience, ": expected rising numbers from 1e-12 to 1e12, and 1 or more");
  if (options.average && (*options.average < 0 || *options.average >= 1))
    fail(ErrorCode::InvalidInput, "average", "is ", *options.average, ", expected a decay from 0 to below 1");
}

// 1 where an element of these is not finite, else 0.
Value overflow_of(const std::vector<Value>& gradients) {
  Value any;
  for (const Value& g : gradients) {
    const Value bad = cast(logical_or(isnan(g), isinf(g)), DType::F32);
    const Value most = g.shape().empty() ? bad : reduce_max(bad);
    any = any ? max(any, most) : most;
  }
  return any;
}

class Builder {
 public:
  Builder(const Graph& graph, const TrainingOptions& options)
      : options_(options), graph_(differentiable(graph)), parameters_(trained(graph_, options)) {
    check(options);
    check_groups(graph_, options);
    if (parameters_.empty())
      fail(ErrorCode::InvalidGraph, "training",
           "the network has no parameters to train; give them as states "
           "(Graph::parameter), and freeze not all of them");
    for (const State& state : graph_.states())
      if (state.next != kNoValue) moving_.push_back(state);
  }

  Graph build(bool updates) {
    add_gradients_of_loss();
    look_at_loss();
    if (options_.accumulate > 1) accumulate(updates);
    if (updates || !moving_.empty()) look_at_gradients(updates);
    hold_moving();
    if (!updates) return without_dead_nodes(graph_);
    rate_ = Value(graph_, graph_.add_argument(kLearningRate, DType::F32, 0, 1e6));
    step_ = Value(graph_, graph_.add_argument(kStep, DType::F32, 1, kMostSteps));
    graph_.set_label("clip");
    clip(gradients_, options_);
    for (size_t i = 0; i < parameters_.size(); ++i) update(parameters_[i], gradients_[i]);
    return without_dead_nodes(graph_);
  }

 private:
  void add_gradients_of_loss() {
    const ValueId loss = loss_of(graph_, options_);
    std::vector<ValueId> of;
    for (const State& state : parameters_) of.push_back(state.value);
    const Value seed = gradient_of_loss(graph_.type(loss).shape);
    std::vector<ValueId> found = add_gradients(graph_, {{loss, seed.id()}}, of, options_.recompute);
    graph_.set_label("loss_scale");
    for (ValueId& id : found)
      if (scale_ && id != kNoValue) id = (Value(graph_, id) / scale_).id();
    std::string unused;
    for (size_t i = 0; i < of.size(); ++i) {
      if (found[i] == kNoValue) unused += (unused.empty() ? "" : ", ") + parameters_[i].name;
      gradients_.push_back(found[i] == kNoValue ? Value{} : Value(graph_, found[i]));
    }
    if (!unused.empty())
      fail(ErrorCode::InvalidGraph, options_.loss, "the loss does not depend on: ", unused, "; freeze them");
    for (size_t i = 0; i < of.size(); ++i) graph_.add_capture(kGradientPrefix + parameters_[i].name, found[i]);
  }

  // Whether anything may change: the loss is finite,
  void look_at_loss() {
    const Value loss(graph_, loss_of(graph_, options_));
    graph_.set_label("loss is finite");
    good_ = logical_not(logical_or(isnan(reshape(loss, {})), isinf(reshape(loss, {}))));
  }

  // and so are the gradients, where they are scaled.
  void look_at_gradients(bool updates) {
    if (!options_.loss_scaling) return;
    graph_.set_label("gradients are finite");
    const Value overflow = overflow_of(gradients_);
    if (updates) graph_.add_capture(kOverflow, overflow.id());
    good_ = logical_and(good_, less(overflow, scalar(overflow, 0.5)));
  }

  // What the network itself changes, running statistics, changes in good steps alone.
  void hold_moving() {
    for (const State& state : moving_) {
      graph_.set_label(state.name);
      const Value old(graph_, state.value), next(graph_, state.next);
      graph_.set_next(state.value, where(good_, next, old).id());
    }
  }

  // 1, or the scale.
  Value gradient_of_loss(const Shape& shape) {
    if (options_.loss_scaling) {
      scale_ = Value(graph_, graph_.add_argument(kLossScale, DType::F32, kLeastScale, kMostScale));
      return expand(scale_, shape);
    }
    Tensor one(DType::F32, shape);
    set(one, 0, 1);
    return graph_.constant(std::move(one));
  }

  // Means over several steps. The first of them starts anew: the update leaves zeros. Gradients that are not finite are
  // kept, so that the update finds them, but not those of a step that fails.
  void accumulate(bool updates) {
    graph_.set_label("accumulate");
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Value sum(graph_,
                      graph_.add_state(kAccumulatedPrefix + parameters_[i].name, graph_.type(parameters_[i].value)));
      gradients_[i] = sum + affine(gradients_[i], 1 / static_cast<double>(options_.accumulate), 0);
      graph_.update(sum, where(good_, updates ? expand(scalar(sum, 0), sum.shape()) : gradients_[i], sum));
    }
  }

  void update(const State& state, Value gradient) {
    const ParameterGroup* group = group_of(options_, state.name);
    Optimizer optimizer = options_.optimizer;
    Training training{state.name, {graph_, state.value}, gradient, optimizer.weight_decay};
    if (group && group->weight_decay) training.weight_decay = *group->weight_decay;
    Value rate = rate_;
    if (group && group->rate != 1) rate = affine(rate_, group->rate, 0);
    const Value next = add_update(optimizer, training, rate, step_, good_);
    graph_.update(training.parameter, next);
    if (!options_.average) return;
    const Value average(graph_, graph_.add_state(kAveragePrefix + state.name, graph_.type(state.value), state.start));
    graph_.set_label(state.name + ".average");
    const Value mixed = affine(average, *options_.average, 0) + affine(next, 1 - *options_.average, 0);
    graph_.update(average, where(good_, mixed, average));
  }

  const TrainingOptions& options_;
  Graph graph_;
  std::vector<State> parameters_;
  std::vector<State> moving_;  // states that the network itself updates
  std::vector<Value> gradients_;
  Value rate_, step_, good_, scale_;
};

}  // namespace

std::vector<std::string> trainable(const Graph& graph, const TrainingOptions& options) {
  std::vector<std::string> names;
  for (const State& state : trained(graph, options)) names.push_back(state.name);
  return names;
}

Graph training_graph(const Graph& graph, const TrainingOptions& options, bool updates) {
  return Builder(graph, options).build(updates);
}

Graph forward_graph(const Graph& graph) {
  Graph result = graph;
  for (const State& state : graph.states()) result.set_next(state.value, kNoValue);
  return without_dead_nodes(result);
}

Graph inference_graph(const Graph& graph, const TrainingOptions& options) {
  loss_of(graph, options);
  Graph result;
  std::vector<ValueId> map(graph.value_count(), kNoValue);
  std::vector<bool> live(graph.value_count(), false);
  for (const Port& port : graph.outputs())
    if (port.name != options.loss) live.at(port.value) = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return live.at(id); })) continue;
    for (ValueId id : node.outputs) live[id] = true;
    for (size_t k = 0; k < (op(node.op).only_trains ? 1 : node.inputs.size()); ++k)
      if (node.inputs[k] != kNoValue) live.at(node.inputs[k]) = true;
  }
  for (const Port& port : graph.inputs())
    if (live[port.value]) map[port.value] = result.add_input(port.name, graph.type(port.value));
  for (const State& state : graph.states())
    if (live[state.value]) map[state.value] = result.add_state(state.name, graph.type(state.value), state.start);
  for (const Argument& a : graph.arguments())
    if (live[a.value]) map[a.value] = result.add_argument(a.name, graph.type(a.value).dtype, a.least, a.most);
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (live[id] && graph.is_constant(id))
      map[id] = result.add_constant(graph.value(id).name, graph.value(id).constant);
  for (Node node : graph.nodes()) {
    if (!live[node.outputs.front()]) continue;
    if (op(node.op).only_trains) {
      map[node.outputs.front()] = map.at(node.inputs.front());
      continue;
    }
    const std::vector<ValueId> old = node.outputs;
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = map.at(id);
    const std::vector<ValueId> made = result.add_node(std::move(node));
    for (size_t i = 0; i < made.size(); ++i) map[old[i]] = made[i];
  }
  for (const Port& port : graph.outputs())
    if (port.name != options.loss) result.add_output(port.name, map.at(port.value));
  for (const Port& port : graph.captures())
    if (map.at(port.value) != kNoValue) result.add_capture(port.name, map.at(port.value));
  return result;
}

}  // namespace gyrus
