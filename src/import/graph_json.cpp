#include "import/graph_json.h"

#include <functional>
#include <set>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/op.h"
#include "gyrus/losses.h"
#include "gyrus/random.h"
#include "ops/elementwise.h"

namespace gyrus {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<Value>;

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// A node as it was given. Attributes that nothing asked for are mistakes.
class Call {
 public:
  Call(std::string op, const Values& operands, const Json& attributes)
      : op_(std::move(op)), operands_(operands), attributes_(attributes) {
    if (!attributes.is_null() && !attributes.is_object()) bad("attributes", "an object");
  }

  const std::string& op() const { return op_; }
  const Values& operands() const { return operands_; }
  const Json& attributes() const { return attributes_; }
  // An operand that must be there, and one that need not.
  Value operator[](size_t i) const {
    if (Value value = maybe(i)) return value;
    fail(ErrorCode::InvalidInput, op_, "operand ", i, " is missing");
  }
  Value maybe(size_t i) const { return i < operands_.size() ? operands_[i] : Value{}; }

  bool given(const char* name) const {
    asked_.insert(name);
    return attributes_.is_object() && attributes_.contains(name) && !attributes_.at(name).is_null();
  }
  int64_t integer(const char* name) const {
    if (!given(name) || !attributes_.at(name).is_number_integer()) bad(name, "a whole number");
    return attributes_.at(name).get<int64_t>();
  }
  int64_t integer(const char* name, int64_t fallback) const { return given(name) ? integer(name) : fallback; }
  double number(const char* name, double fallback) const {
    if (!given(name)) return fallback;
    if (!attributes_.at(name).is_number()) bad(name, "a number");
    return attributes_.at(name).get<double>();
  }
  std::optional<double> maybe_number(const char* name) const {
    return given(name) ? std::optional(number(name, 0)) : std::nullopt;
  }
  bool flag(const char* name, bool fallback = false) const {
    if (!given(name)) return fallback;
    const Json& json = attributes_.at(name);
    if (!json.is_boolean() && !json.is_number_integer()) bad(name, "true or false");
    return json.is_boolean() ? json.get<bool>() : json.get<int64_t>() != 0;
  }
  Ints integers(const char* name) const {
    if (!given(name)) return {};
    const Json& json = attributes_.at(name);
    if (!json.is_array()) bad(name, "a list of whole numbers");
    for (const Json& each : json)
      if (!each.is_number_integer()) bad(name, "a list of whole numbers");
    return json.get<Ints>();
  }
  std::vector<double> numbers(const char* name) const {
    if (!given(name)) return {};
    const Json& json = attributes_.at(name);
    if (!json.is_array()) bad(name, "a list of numbers");
    for (const Json& each : json)
      if (!each.is_number()) bad(name, "a list of numbers");
    return json.get<std::vector<double>>();
  }
  // One of some words; the first where it is not given.
  template <class T>
  T choice(const char* name, const std::vector<std::pair<std::string, T>>& choices) const {
    if (!given(name)) return choices.front().second;
    std::vector<std::string> known;
    for (const auto& [word, value] : choices) {
      if (attributes_.at(name) == word) return value;
      known.push_back(word);
    }
    bad(name, "one of " + list(known));
  }

  void check_all_asked() const {
    if (!attributes_.is_object()) return;
    for (const auto& [name, value] : attributes_.items())
      if (asked_.count(name) == 0)
        fail(ErrorCode::InvalidInput, op_, "has no attribute '", name,
             "'; it has: ", list({asked_.begin(), asked_.end()}));
  }

 private:
  [[noreturn]] void bad(const std::string& name, const std::string& expected) const {
    fail(ErrorCode::InvalidInput, op_, "'", name, "' is not ", expected);
  }
  std::string op_;
  const Values& operands_;
  const Json& attributes_;
  mutable std::set<std::string> asked_;
};

Reduce reduce_over(const Call& c) { return {c.integers("axes"), c.flag("keepdims")}; }

Windows windows_of(const Call& c) {
  return {c.integers("kernel"), c.integers("stride"), c.integers("dilation"), c.integers("pads"), c.flag("ceil_mode")};
}

LossOver over_of(const Call& c) {
  return c.choice<LossOver>(
      "over", {{"mean", LossOver::Mean}, {"sum", LossOver::Sum}, {"none", LossOver::None}, {"batch", LossOver::Batch}});
}

ClassLossOptions class_loss(const Call& c) {
  ClassLossOptions options{c.maybe(2), {}, c.op() == "nll" ? 0 : c.number("label_smoothing", 0), over_of(c)};
  if (c.given("ignore_index")) options.ignore_index = c.integer("ignore_index");
  return options;
}

DiceOptions dice_options(const Call& c) {
  DiceOptions options;
  options.sigmoid = c.flag("sigmoid");
  options.batch = c.flag("batch");
  options.squared = c.flag("squared");
  options.include_background = c.flag("include_background", true);
  options.smooth = c.number("smooth", 1);
  return options;
}

FocalOptions focal_options(const Call& c) {
  FocalOptions options;
  options.gamma = c.number("gamma", 2);
  options.over = over_of(c);
  if (c.op() == "focal") options.weight = c.maybe(2);
  if (c.op() == "focal_sigmoid") options.alpha = c.maybe_number("alpha");
  return options;
}

AttentionOptions attention_options(const Call& c) {
  AttentionOptions options{c.maybe(3), c.maybe(4), c.flag("causal"), {}, {}, {}};
  if (c.given("window")) options.window = c.integer("window");
  options.scale = c.maybe_number("scale");
  options.softcap = c.maybe_number("softcap");
  return options;
}

RopeOptions rope_options(const Call& c) {
  RopeOptions options;
  options.n_rot = c.integer("n_rot", 0);
  options.interleaved = c.flag("interleaved");
  options.base = c.number("base", 10000);
  options.offset = c.integer("offset", 0);
  options.positions = c.maybe(1);
  options.cos = c.maybe(2);
  options.sin = c.maybe(3);
  return options;
}

InterpolateOptions interpolation(const Call& c) {
  return {c.choice<Interpolation>("mode", {{"nearest", Interpolation::Nearest},
                                           {"nearest_exact", Interpolation::NearestExact},
                                           {"linear", Interpolation::Linear},
                                           {"cubic", Interpolation::Cubic}}),
          c.flag("align_corners"), c.numbers("scale")};
}

Value padded(const Call& c) {
  const int mode = c.choice<int>("mode", {{"constant", -1},
                                          {"reflect", static_cast<int>(PadMode::Reflect)},
                                          {"edge", static_cast<int>(PadMode::Edge)},
                                          {"wrap", static_cast<int>(PadMode::Wrap)}});
  const Ints pads = c.integers("pads");
  return mode < 0 ? pad(c[0], pads, c.number("value", 0)) : pad(c[0], pads, static_cast<PadMode>(mode));
}

// One of gamma and beta where only the other is given.
Value channels_or(Value given, Value other, double otherwise) {
  if (given || !other) return given;
  Tensor all(DType::F32, other.shape());
  for (int64_t c = 0; c < all.size(); ++c) set(all, c, otherwise);
  return other.graph().constant(std::move(all));
}

// y alone; the running statistics, states of the graph, are updated, and where the network only runs it normalises by
// them.
Value batch_norm_of_batch(const Call& c) {
  const BatchNormResult made = batch_norm_training(c[0], c.maybe(1), c.maybe(2), c.maybe(3), c.maybe(4),
                                                   c.number("momentum", 0.1), c.number("eps", 1e-5));
  if (c.maybe(1)) c[0].graph().update(c[1], made.running_mean);
  if (c.maybe(2)) c[0].graph().update(c[2], made.running_variance);
  if (!c.maybe(1) || !c.maybe(2)) return made.y;
  const Value gamma = channels_or(c.maybe(3), c.maybe(4), 1), beta = channels_or(c.maybe(4), c.maybe(3), 0);
  return in_training(batch_norm(c[0], c[1], c[2], gamma, beta, c.number("eps", 1e-5)), made.y);
}

using Build = std::function<Values(const Call&)>;

void add_layers(std::map<std::string, Build>& map) {
  const auto one = [&](const char* name, Value (*make)(const Call&)) {
    map[name] = [make](const Call& c) { return Values{make(c)}; };
  };
  one("linear", [](const Call& c) { return linear(c[0], c[1], c.maybe(2)); });
  one("embedding", [](const Call& c) {
    return embedding(c[0], c[1], c.given("padding") ? std::optional(c.integer("padding")) : std::nullopt);
  });
  one("conv_transpose", [](const Call& c) {
    return conv_transpose(c[0], c[1],
                          {c.maybe(2), c.integers("stride"), c.integers("dilation"), c.integers("pads"),
                           c.integers("output_padding"), c.integer("groups", 1)});
  });
  one("batch_norm_training", batch_norm_of_batch);
  one("max_pool", [](const Call& c) { return max_pool(c[0], windows_of(c)); });
  one("sum_pool", [](const Call& c) { return sum_pool(c[0], windows_of(c)); });
  one("avg_pool", [](const Call& c) { return avg_pool(c[0], windows_of(c), c.flag("count_include_pad")); });
  one("adaptive_max_pool", [](const Call& c) { return adaptive_max_pool(c[0], c.integers("size")); });
  one("adaptive_avg_pool", [](const Call& c) { return adaptive_avg_pool(c[0], c.integers("size")); });
  one("interpolate", [](const Call& c) { return interpolate(c[0], c.integers("size"), interpolation(c)); });
  one("attention", [](const Call& c) { return attention(c[0], c[1], c[2], attention_options(c)); });
  one("rope", [](const Call& c) { return rope(c[0], rope_options(c)); });
}

// Random numbers of the graph's key. Unless a stream is given, it is one that no other node has.
int64_t stream_of(const Call& c) { return c.integer("stream", static_cast<int64_t>(c[0].graph().nodes().size())); }

void add_random(std::map<std::string, Build>& map) {
  const auto one = [&](const char* name, Value (*make)(const Call&)) {
    map[name] = [make](const Call& c) { return Values{make(c)}; };
  };
  one("dropout", [](const Call& c) {
    const int64_t stream = stream_of(c);
    return dropout(c[0], random_key(c[0].graph()), stream, c.number("p", 0.5));
  });
  one("dropout_channels", [](const Call& c) {
    const int64_t stream = stream_of(c);
    return dropout_channels(c[0], random_key(c[0].graph()), stream, c.number("p", 0.5));
  });
  one("uniform_like", [](const Call& c) {
    const int64_t stream = stream_of(c);
    return random_uniform(random_key(c[0].graph()), stream, c[0]);
  });
  one("normal_like", [](const Call& c) {
    const int64_t stream = stream_of(c);
    return random_normal(random_key(c[0].graph()), stream, c[0]);
  });
}

void add_movement(std::map<std::string, Build>& map) {
  const auto one = [&](const char* name, Value (*make)(const Call&)) {
    map[name] = [make](const Call& c) { return Values{make(c)}; };
  };
  one("reduce_l1", [](const Call& c) { return reduce_l1(c[0], reduce_over(c)); });
  one("reduce_l2", [](const Call& c) { return reduce_l2(c[0], reduce_over(c)); });
  one("log_sum_exp", [](const Call& c) { return log_sum_exp(c[0], reduce_over(c)); });
  one("reduce_var", [](const Call& c) { return reduce_var(c[0], reduce_over(c), c.integer("correction", 0)); });
  one("reduce_std", [](const Call& c) { return reduce_std(c[0], reduce_over(c), c.integer("correction", 0)); });
  for (const char* name : {"reduce_sum", "reduce_prod", "reduce_mean", "reduce_max", "reduce_min"})
    map[name] = [](const Call& c) { return Values{reduce(c.op(), c[0], reduce_over(c))}; };
  one("flip", [](const Call& c) { return flip(c[0], c.integers("axes")); });
  one("roll", [](const Call& c) { return roll(c[0], c.integers("shifts"), c.integers("axes")); });
  one("tile", [](const Call& c) { return tile(c[0], c.integers("repeats")); });
  one("stack", [](const Call& c) { return stack(c.operands(), c.integer("axis", 0)); });
  map["split"] = [](const Call& c) { return split(c[0], c.integers("sizes"), c.integer("axis")); };
  one("one_hot", [](const Call& c) { return one_hot(c[0], c.integer("classes"), c.integer("axis", -1)); });
  one("pad", padded);
  one("pixel_shuffle", [](const Call& c) { return pixel_shuffle(c[0], c.integer("factor")); });
  one("pixel_unshuffle", [](const Call& c) { return pixel_unshuffle(c[0], c.integer("factor")); });
}

void add_losses(std::map<std::string, Build>& map) {
  const auto one = [&](const char* name, Value (*make)(const Call&)) {
    map[name] = [make](const Call& c) { return Values{make(c)}; };
  };
  one("cross_entropy", [](const Call& c) { return cross_entropy(c[0], c[1], class_loss(c)); });
  one("nll", [](const Call& c) { return nll(c[0], c[1], class_loss(c)); });
  one("bce_with_logits", [](const Call& c) {
    return bce_with_logits(c[0], c[1], {c.maybe(2), c.maybe(3), over_of(c)});
  });
  one("mse", [](const Call& c) { return mse(c[0], c[1], over_of(c)); });
  one("l1", [](const Call& c) { return l1(c[0], c[1], over_of(c)); });
  one("huber", [](const Call& c) { return huber(c[0], c[1], c.number("delta", 1), over_of(c)); });
  one("smooth_l1", [](const Call& c) { return smooth_l1(c[0], c[1], c.number("beta", 1), over_of(c)); });
  one("kl_div", [](const Call& c) { return kl_div(c[0], c[1], c.flag("log_target"), over_of(c)); });
  one("dice", [](const Call& c) { return dice(c[0], c[1], dice_options(c)); });
  one("focal", [](const Call& c) { return focal(c[0], c[1], focal_options(c)); });
  one("focal_sigmoid", [](const Call& c) { return focal_sigmoid(c[0], c[1], focal_options(c)); });
}

const std::map<std::string, Build>& builds() {
  static const std::map<std::string, Build> all = [] {
    std::map<std::string, Build> map;
    add_layers(map);
    add_random(map);
    add_movement(map);
    add_losses(map);
    return map;
  }();
  return all;
}

// The attributes that ops of the registry take from people.
std::vector<std::string> attributes_of(const OpDef& def) {
  static const std::map<std::string_view, std::vector<std::string>> known = {
      {"conv", {"stride", "dilation", "pads", "groups"}},
      {"matmul", {"transpose_a", "transpose_b"}},
      {"group_norm", {"groups", "eps"}},
      {"instance_norm", {"eps"}},
      {"batch_norm", {"eps"}},
      {"layer_norm", {"axis", "eps"}},
      {"rms_norm", {"axis", "eps"}},
      {"softmax", {"axis"}},
      {"log_softmax", {"axis"}},
      {"reshape", {"shape"}},
      {"transpose", {"perm"}},
      {"slice", {"starts", "ends", "steps"}},
      {"concat", {"axis"}},
      {"expand", {"shape"}},
      {"gather", {"axis"}},
      {"gather_elements", {"axis"}},
      {"gather_nd", {"batch_dims"}},
      {"scatter_elements", {"axis", "reduction"}},
      {"scatter_nd", {"reduction"}},
      {"update_slice", {"axis", "start"}},
      {"argmax", {"axis", "keepdims", "dtype"}},
      {"argmin", {"axis", "keepdims", "dtype"}},
      {"cumsum", {"axis", "exclusive", "reverse"}},
      {"cumprod", {"axis", "exclusive", "reverse"}},
      {"cummax", {"axis", "exclusive", "reverse"}},
      {"linear_scan", {"axis", "reverse"}},
      {"top_k", {"k", "axis", "largest"}},
  };
  if (def.elementwise) {
    std::vector<std::string> names;
    for (const RowAttr& attr : def.elementwise->attrs) names.emplace_back(attr.name);
    return names;
  }
  const auto found = known.find(def.name);
  if (found == known.end())
    fail(ErrorCode::InvalidInput, std::string(def.name), "is an op that passes make; networks are not built of it");
  return found->second;
}

Attr attr_of(const Call& c, const std::string& name) {
  const Json& json = c.attributes().at(name);
  if (json.is_boolean()) return int64_t{json.get<bool>()};
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& j) { return j.is_number_integer(); }))
    return c.integers(name.c_str());
  return c.numbers(name.c_str());
}

Values registered(Graph& graph, const Call& c) {
  const OpDef* def = find_op(c.op());
  if (!def)
    fail(ErrorCode::InvalidInput, c.op(),
         "there is no op, layer or loss of this name; docs/web.md tells which there are");
  Node node;
  node.op = c.op();
  node.label = graph.label();
  for (const std::string& name : attributes_of(*def))
    if (c.given(name.c_str())) node.attrs.set(name, attr_of(c, name));
  for (const Value& operand : c.operands()) node.inputs.push_back(operand.id());
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  Values made;
  for (ValueId id : graph.add_node(std::move(node))) made.emplace_back(graph, id);
  return made;
}

// Reads a graph member by member; every value has a name.
class Reader {
 public:
  Reader(const Json& json, const std::map<std::string, Tensor>& tensors) : json_(json), tensors_(tensors) {}

  Graph read() {
    for (const Json& input : member("inputs"))
      define(input.at("name"), graph_.input(input.at("name"), read_dtype(input.at("dtype"), input.at("name")),
                                            read_shape(input.at("shape"), "graph", "inputs")));
    for (const Json& name : member("parameters")) define(name, graph_.parameter(name, tensor(name)));
    for (const Json& name : member("constants")) define(name, graph_.constant(tensor(name), name));
    size_t i = 0;
    for (const Json& node : member("nodes")) add(node, i++);
    graph_.set_label({});
    for (const auto& [name, value] : member("outputs").items()) graph_.output(name, find(value, "outputs"));
    for (const auto& [name, value] : member("captures").items()) graph_.capture(name, find(value, "captures"));
    return std::move(graph_);
  }

 private:
  const Json& member(const char* name) const {
    static const Json none = Json::array();
    const auto found = json_.find(name);
    return found == json_.end() ? none : *found;
  }

  const Tensor& tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail(ErrorCode::InvalidInput, name, "has no values");
    return found->second;
  }

  void define(const std::string& name, Value value) {
    if (!values_.emplace(name, value).second)
      fail(ErrorCode::InvalidInput, name, "is the name of two values; each is given once");
  }

  Value find(const std::string& name, const std::string& reader) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    fail(ErrorCode::InvalidInput, reader, "reads '", name, "', which nothing before it gives");
  }

  void add(const Json& node, size_t place) {
    const std::string op = node.at("op");
    const std::vector<std::string> outputs = node.at("outputs");
    const std::string label = outputs.empty() ? cat("nodes[", place, "]") : outputs.front();
    graph_.set_label(label);
    Values operands, made;
    try {
      for (const Json& operand : node.at("inputs")) {
        if (operand.is_number() && (operands.empty() || !operands.front()))
          fail(ErrorCode::InvalidInput, op, "a number cannot be its first operand");
        operands.push_back(operand.is_null()     ? Value{}
                           : operand.is_number() ? scalar(operands.front(), operand.get<double>())
                                                 : find(operand, op));
      }
      made = build_node(graph_, op, operands, node.contains("attributes") ? node.at("attributes") : Json());
    } catch (const Error& error) {
      throw Error(error.code(), cat(error.what(), " (node '", label, "')"), error.hints());
    }
    if (made.size() < outputs.size())
      fail(ErrorCode::InvalidInput, op, "gives ", made.size(), " results, not ", outputs.size(), " (node '", label,
           "')");
    for (size_t i = 0; i < outputs.size(); ++i) define(outputs[i], made[i]);
  }

  const Json& json_;
  const std::map<std::string, Tensor>& tensors_;
  Graph graph_;
  std::map<std::string, Value> values_;
};

}  // namespace

std::vector<Value> build_node(Graph& graph, const std::string& op, const std::vector<Value>& operands,
                              const Json& attributes) {
  const Call call(op, operands, attributes);
  const auto found = builds().find(op);
  std::vector<Value> made = found == builds().end() ? registered(graph, call) : found->second(call);
  call.check_all_asked();
  return made;
}

Graph graph_from_json(const Json& json, const std::map<std::string, Tensor>& tensors) {
  try {
    return Reader(json, tensors).read();
  } catch (const Json::exception& error) {
    fail(ErrorCode::InvalidInput, "graph", "is not as docs/web.md describes it: ", error.what());
  }
}

}  // namespace gyrus
