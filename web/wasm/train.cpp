// The entry points behind web/src/trainer.ts: a network with a loss, and plans of its steps.

#include <set>

#include "gyrus/ops.h"
#include "gyrus/train_fields.h"
#include "import/graph_json.h"
#include "import/network.h"
#include "network.h"

using namespace gyrus;

namespace {

// What is trained.
struct Trainee {
  std::map<std::string, Tensor> tensors;  // by which the graph is made: parameters and constants
  std::unique_ptr<OpenNetwork> network;   // where there is a file instead,
  Json losses;                            // what is added to it
  Graph graph;                            // for the shapes that were given first
  TrainingOptions options;
};

// Reads the members of an object; those that nothing reads are mistakes.
class Fields {
 public:
  Fields(const Json& json, std::string subject) : json_(json), subject_(std::move(subject)) {
    if (!json.is_object()) fail(ErrorCode::InvalidInput, subject_, "is no object");
  }
  ~Fields() noexcept(false) {
    if (std::uncaught_exceptions() > 0) return;
    std::string all;
    for (const std::string& name : known_) all += (all.empty() ? "" : ", ") + name;
    for (const auto& [name, value] : json_.items())
      if (known_.count(name) == 0)
        fail(ErrorCode::InvalidInput, subject_, "there is no option '", name, "'; there are: ", all);
  }
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  const Json* find(const char* name) {
    known_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  template <class T>
  void read(const char* name, T& into) {
    const Json* json = find(name);
    if (!json) return;
    try {
      into = json->get<T>();
    } catch (const Json::exception&) {
      fail(ErrorCode::InvalidInput, subject_, "'", name, "' is ", json->dump(), ", which is of another kind");
    }
  }
  void read(const char* name, std::optional<double>& into) {
    double value = 0;
    if (!find(name)) return;
    read(name, value);
    into = value;
  }
  template <class T>
  void choose(const char* name, T& into, const std::vector<std::pair<std::string, T>>& choices) {
    const Json* json = find(name);
    if (!json) return;
    std::string words;
    for (const auto& [word, value] : choices) {
      words += (words.empty() ? "" : ", ") + word;
      if (*json != word) continue;
      into = value;
      return;
    }
    fail(ErrorCode::InvalidInput, subject_, "'", name, "' is ", json->dump(), ", expected one of ", words);
  }

 private:
  const Json& json_;
  std::string subject_;
  std::set<std::string> known_;
};

// A field as TypeScript writes it: weight_decay is weightDecay there.
std::string camel(const char* name) {
  std::string text;
  for (const char* c = name; *c; ++c) {
    if (*c == '_' && c[1])
      text += static_cast<char>(*++c - 'a' + 'A');
    else
      text += *c;
  }
  return text;
}

template <class Kind, size_t N>
Kind kind_of(Fields& fields, const KindName<Kind> (&kinds)[N], Kind absent) {
  std::vector<std::pair<std::string, Kind>> choices;
  for (const auto& [name, kind] : kinds) choices.emplace_back(name, kind);
  fields.choose<Kind>("kind", absent, choices);
  return absent;
}

template <class Options>
auto field_reader(Fields& fields, Options& options) {
  return [&](const auto& field, auto member) { fields.read(camel(field.name).c_str(), options.*member); };
}

Optimizer optimizer_from(const Json& json) {
  Fields fields(json, "optimizer");
  Optimizer o = optimizer_of(kind_of(fields, kOptimizerKinds, OptimizerKind::Adam));
  each_optimizer_field(field_reader(fields, o));
  return o;
}

Schedule schedule_of(const Json& json) {
  Schedule s;
  Fields fields(json, "schedule");
  s.kind = kind_of(fields, kScheduleKinds, s.kind);
  each_schedule_field(field_reader(fields, s));
  return s;
}

LossScaling scaling_of(const Json& json) {
  LossScaling s;
  Fields fields(json, "lossScaling");
  fields.read("start", s.start);
  fields.read("patience", s.patience);
  fields.read("least", s.least);
  fields.read("most", s.most);
  return s;
}

TrainingOptions options_of(const Json& json) {
  TrainingOptions t;
  Fields fields(json, "trainer");
  fields.read("loss", t.loss);
  if (const Json* optimizer = fields.find("optimizer")) t.optimizer = optimizer_from(*optimizer);
  if (const Json* groups = fields.find("groups"))
    for (const Json& each : *groups) {
      ParameterGroup group;
      Fields of(each, "group");
      of.read("pattern", group.pattern);
      of.read("weightDecay", group.weight_decay);
      of.read("rate", group.rate);
      of.read("frozen", group.frozen);
      t.groups.push_back(std::move(group));
    }
  fields.read("clipNorm", t.clip_norm);
  fields.choose<double>("normType", t.norm_type, {{"1", 1}, {"2", 2}, {"inf", INFINITY}});
  fields.read("clipValue", t.clip_value);
  fields.read("accumulate", t.accumulate);
  fields.read("average", t.average);
  if (const Json* scaling = fields.find("lossScaling")) t.loss_scaling = scaling_of(*scaling);
  fields.choose<Recompute>("recompute", t.recompute,
                           {{"none", Recompute::None}, {"norms", Recompute::Norms}, {"cheap", Recompute::Cheap}});
  return t;
}

// The network alone, its weights as parameters.
Graph network_graph(const OpenNetwork& network, const Shapes& shapes) {
  if (network.onnx) {
    onnx::ImportOptions options = import_options(network, shapes);
    options.parameters = true;
    return onnx::import_model(*network.onnx, options).graph;
  }
  const auto image = shapes.find("image");
  if (image == shapes.end() || image->second.size() < 2 || image->second[1] != network.model.input_channels)
    fail(ErrorCode::InvalidInput, network.model.name, "takes \"image\" of [batch, ", network.model.input_channels,
         ", and ", network.model.spatial_rank, " extents]: say its shape");
  Graph graph;
  const ValueId x = graph.add_input("image", {DType::F32, image->second});
  graph.add_output("logits", network.model.network->append_to(graph, x));
  return with_parameters(graph);
}

Value output_named(Graph& graph, const std::string& name) {
  std::string known;
  for (const Port& port : graph.outputs()) {
    if (name.empty() || port.name == name) return {graph, port.value};
    known += (known.empty() ? "" : ", ") + port.name;
  }
  fail(ErrorCode::InvalidInput, name, "the network has no such output; it has: ", known);
}

// What a loss compares an output with, unless it is an input already: classes as integers, or numbers in its shape.
Value target_of(Graph& graph, std::map<std::string, Value>& targets, const std::string& name, const std::string& op,
                Value output) {
  const auto known = targets.find(name);
  if (known != targets.end()) return known->second;
  static const std::set<std::string> kOfClasses = {"cross_entropy", "nll", "dice", "focal"};
  Shape shape = output.shape();
  const bool classes = kOfClasses.count(op) != 0 && shape.size() > 1;
  if (classes) shape.erase(shape.begin() + 1);
  return targets[name] = graph.input(name, classes ? DType::I32 : DType::F32, shape);
}

// The output "loss", a sum of losses of outputs.
void add_losses(Graph& graph, const Json& losses) {
  std::map<std::string, Value> targets;
  Value total;
  for (const Json& loss : losses) {
    std::string op, output, target = "target";
    double weight = 1;
    Json attributes = Json::object();
    {
      Fields fields(loss, "loss");
      fields.read("op", op);
      fields.read("output", output);
      fields.read("target", target);
      fields.read("weight", weight);
      fields.read("attributes", attributes);
    }
    const Value y = output_named(graph, output);
    graph.set_label(op);
    Value value = build_node(graph, op, {y, target_of(graph, targets, target, op, y)}, attributes).at(0);
    if (weight != 1) value = value * weight;
    total = total ? total + value : value;
  }
  if (!total) fail(ErrorCode::InvalidInput, "loss", "there is none to train by");
  graph.set_label({});
  graph.output("loss", total);
}

// Of `graph`'s inputs, those whose shapes are to be others.
Shapes changed(const Graph& graph, const Shapes& shapes) {
  Shapes found;
  for (const Port& input : graph.inputs()) {
    const auto given = shapes.find(input.name);
    if (given != shapes.end() && given->second != graph.type(input.value).shape) found.insert(*given);
  }
  return found;
}

// The network, with its loss or without, for inputs of these shapes; those that are not named keep theirs.
Graph graph_for(const Trainee& trainee, const Shapes& shapes, bool loss) {
  Graph graph = loss ? trainee.graph : inference_graph(trainee.graph, trainee.options);
  const Shapes others = changed(graph, shapes);
  if (others.empty()) return graph;
  if (!trainee.network) return with_shapes(graph, others);
  graph = network_graph(*trainee.network, shapes);
  if (loss) add_losses(graph, trainee.losses);
  return graph;
}

Json about(const Trainee& trainee) {
  Json inputs = Json::object();
  for (const Port& input : trainee.graph.inputs()) inputs[input.name] = trainee.graph.type(input.value).shape;
  Json arguments = Json::array();
  for (const Argument& argument : trainee.graph.arguments()) arguments.push_back(argument.name);
  return {{"names", trainable(trainee.graph, trainee.options)}, {"shapes", inputs}, {"arguments", arguments}};
}

void finish(Trainee& trainee, const Json& options) {
  trainee.options = options_of(options);
  training_graph(trainee.graph, trainee.options);  // what is wrong is said now
  answer.text = dump(about(trainee));
}

}  // namespace

GYRUS_EXPORT Trainee* gyrus_trainee_new() {
  return guarded([] { return new Trainee; });
}
GYRUS_EXPORT void gyrus_trainee_close(Trainee* trainee) { delete trainee; }

// A parameter's start or a constant, before gyrus_trainee_graph. `type`: dtype and shape. Copies the bytes.
GYRUS_EXPORT int gyrus_trainee_tensor(Trainee* trainee, const char* name, const char* type, const std::byte* bytes,
                                      size_t size) {
  return guarded([&] {
    const Json json = Json::parse(type);
    Tensor tensor(read_dtype(json.at("dtype"), name), json.at("shape").get<Shape>());
    if (tensor.data.size() != size)
      fail(ErrorCode::InvalidInput, name, "has ", size, " bytes, ", to_string(tensor.dtype), to_string(tensor.shape),
           " has ", tensor.data.size());
    std::copy(bytes, bytes + size, tensor.data.begin());
    trainee->tensors[name] = std::move(tensor);
    return 1;
  });
}

// The network as data (import/graph_json.h), and trainer.ts's options. Text: names of parameters, shapes of inputs,
// names of arguments.
GYRUS_EXPORT int gyrus_trainee_graph(Trainee* trainee, const char* graph, const char* options) {
  return guarded([&] {
    trainee->graph = graph_from_json(Json::parse(graph), trainee->tensors);
    finish(*trainee, Json::parse(options));
    return 1;
  });
}

// The same of a model's files, which it takes over in any case. `losses`: trainer.ts's Loss, several of them.
GYRUS_EXPORT int gyrus_trainee_network(Trainee* trainee, ModelFiles* files, const char* shapes, const char* losses,
                                       const char* options) {
  const std::unique_ptr<ModelFiles> given(files);
  return guarded([&] {
    trainee->network = open_network(std::move(*given));
    trainee->losses = Json::parse(losses);
    trainee->graph = network_graph(*trainee->network, Json::parse(shapes).get<Shapes>());
    add_losses(trainee->graph, trainee->losses);
    finish(*trainee, Json::parse(options));
    return 1;
  });
}

// `kind`: "update", "collect" (gradients alone), "inference", or "forward", the network with its loss and its states as
// they are. Answers as answer_with_plan() says.
GYRUS_EXPORT int gyrus_trainee_plan(const Trainee* trainee, const char* kind, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    const std::string what = kind;
    Graph graph = graph_for(*trainee, json.at("shapes").get<Shapes>(), what != "inference");
    if (what == "update" || what == "collect") graph = training_graph(graph, trainee->options, what == "update");
    if (what == "forward") graph = forward_graph(graph);
    answer_with_plan(graph, json);
    return 1;
  });
}

// Text: the learning rate of step 0, 1, …
GYRUS_EXPORT int gyrus_learning_rate(const char* schedule, double step) {
  return guarded([&] {
    answer.text = Json(learning_rate(schedule_of(Json::parse(schedule)), static_cast<int64_t>(step))).dump();
    return 1;
  });
}
