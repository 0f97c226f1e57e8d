// Training: gyrus::Trainer over arrays. Options come as dicts; a key that is unknown is refused with those that exist.
#include <functional>

#include "gyrus/train_fields.h"
#include "module.h"

namespace gyrus {
namespace {

// Reads a dict key by key.
class Options {
 public:
  Options(std::string name, const py::dict& given) : name_(std::move(name)), given_(given) {}

  template <class T>
  Options& read(const char* key, T& into) {
    known_ += (known_.empty() ? "" : ", ") + std::string(key);
    if (!given_.contains(key)) return *this;
    ++found_;
    try {
      into = given_[key].cast<T>();
    } catch (const py::cast_error&) {
      refuse(ErrorCode::InvalidInput, name_,
             std::string(key) + " is " + py::repr(given_[key]).cast<std::string>() + ", which has the wrong type");
    }
    return *this;
  }

  // One of several names.
  template <class T>
  Options& read(const char* key, T& into, const std::vector<std::pair<const char*, T>>& choices) {
    std::string text, all;
    read(key, text);
    if (text.empty()) return *this;
    for (const auto& [name, value] : choices) {
      all += (all.empty() ? "" : ", ") + std::string(name);
      if (text == name) {
        into = value;
        return *this;
      }
    }
    refuse(ErrorCode::InvalidInput, name_, std::string(key) + " is \"" + text + "\", expected one of " + all);
  }

  void done() const {
    if (found_ == given_.size()) return;
    for (const auto& item : given_) {
      const std::string key = py::str(item.first);
      if ((", " + known_ + ", ").find(", " + key + ", ") == std::string::npos)
        refuse(ErrorCode::InvalidInput, name_, "knows no \"" + key + "\"; it knows: " + known_);
    }
  }

 private:
  std::string name_;
  py::dict given_;
  std::string known_;
  size_t found_ = 0;
};

template <class Kind, size_t N>
Kind kind_of(Options& options, const KindName<Kind> (&kinds)[N], Kind absent) {
  std::vector<std::pair<const char*, Kind>> choices;
  for (const auto& [name, kind] : kinds) choices.emplace_back(name, kind);
  options.read("kind", absent, choices);
  return absent;
}

Optimizer optimizer_from(const py::dict& given) {
  Options options("optimizer", given);
  Optimizer o = optimizer_of(kind_of(options, kOptimizerKinds, OptimizerKind::Adam));
  each_optimizer_field([&](const auto& field, auto member) { options.read(field.name, o.*member); });
  options.done();
  return o;
}

Schedule schedule_of(const py::dict& given) {
  Options options("schedule", given);
  Schedule s;
  s.kind = kind_of(options, kScheduleKinds, s.kind);
  each_schedule_field([&](const auto& field, auto member) { options.read(field.name, s.*member); });
  options.done();
  return s;
}

TrainerOptions options_of(const py::dict& given) {
  TrainerOptions options;
  py::dict optimizer, schedule;
  std::vector<std::string> frozen;
  std::string precision = "f32";
  std::optional<bool> scaling;
  Options("trainer", given)
      .read("optimizer", optimizer)
      .read("schedule", schedule)
      .read("frozen", frozen)
      .read("clip_norm", options.training.clip_norm)
      .read("clip_value", options.training.clip_value)
      .read("accumulate", options.training.accumulate)
      .read("average", options.training.average)
      .read("seed", options.seed)
      .read("precision", precision)
      .read("loss_scaling", scaling)
      .read("recompute", options.training.recompute,
            {{"none", Recompute::None}, {"norms", Recompute::Norms}, {"cheap", Recompute::Cheap}})
      .done();
  options.training.optimizer = optimizer_from(optimizer);
  options.schedule = schedule_of(schedule);
  for (const std::string& pattern : frozen) options.training.groups.push_back({.pattern = pattern, .frozen = true});
  if (precision_choice(precision) == PrecisionChoice::Auto)
    refuse(ErrorCode::InvalidInput, "precision", "is \"auto\", expected \"f32\" or \"f16\"");
  options.program.precision = precision == "f16" ? Precision::F16 : Precision::F32;
  if (scaling.value_or(precision == "f16")) options.training.loss_scaling = LossScaling{};
  return options;
}

// A MeshNet as a dict describes it, over "image" of this shape.
Graph meshnet_graph(const py::dict& given, const Shapes& shapes, int32_t seed) {
  MeshNetOptions options;
  int64_t classes = 0;
  Options("MeshNet", given)
      .read("classes", classes)
      .read("channels", options.channels)
      .read("dilations", options.dilations)
      .read("dropout", options.dropout)
      .done();
  const auto image = shapes.find("image");
  if (image == shapes.end() || image->second.size() < 3)
    refuse(ErrorCode::InvalidInput, "MeshNet", "needs shapes={\"image\": (N, C, …)}");
  options.classes = classes;
  options.seed = seed;
  Graph graph;
  graph.output("logits", meshnet(graph.input("image", DType::F32, image->second), options));
  return graph;
}

py::dict arrays_of(std::map<std::string, Tensor>&& tensors) {
  py::dict named;
  for (auto& [name, tensor] : tensors) named[py::str(name)] = array_of(std::move(tensor));
  return named;
}

std::map<std::string, Tensor> tensors_of(const std::map<std::string, py::array>& arrays) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, array] : arrays) tensors.emplace(name, tensor_of(array, name));
  return tensors;
}

class PyTrainer {
 public:
  // `model` is a path, or a dict that describes a MeshNet.
  PyTrainer(const py::object& model, const Shapes& shapes, const std::string& loss, const std::string& output,
            const std::string& device, const py::dict& given) {
    const TrainerOptions options = options_of(given);
    std::optional<Graph> graph;
    std::string path;
    if (py::isinstance<py::dict>(model))
      graph = meshnet_graph(model.cast<py::dict>(), shapes, options.seed);
    else
      path = model.cast<std::string>();
    const py::gil_scoped_release release;
    if (!graph) graph = with_parameters(load_graph(path, shapes));
    const Device opened = shared_device(device);
    device_name_ = opened.adapter().name;
    trainer_.emplace(opened, with_loss(*graph, loss, output), options);
  }

  // Without the interpreter's lock.
  template <class F>
  auto ask(F question) {
    const py::gil_scoped_release release;
    return question(*trainer_);
  }

  py::tuple step(const std::map<std::string, py::array>& arrays, std::vector<std::string> outputs,
                 std::vector<std::string> captures, const py::object& progress) {
    const std::map<std::string, Tensor> inputs = tensors_of(arrays);
    Watch watch(progress);
    RunOptions options;
    options.outputs = std::move(outputs);
    options.captures = std::move(captures);
    options.progress = [&](double fraction, const std::string&) { return watch.go_on(fraction); };
    StepResult result = watch.run([&] { return trainer_->step(inputs, options); });
    return py::make_tuple(result.loss, result.updated, result.skipped, arrays_of(std::move(result.outputs)));
  }

  py::dict run(const std::map<std::string, py::array>& arrays, std::optional<std::vector<std::string>> outputs,
               std::vector<std::string> captures, const py::object& progress) {
    const std::map<std::string, Tensor> inputs = tensors_of(arrays);
    Watch watch(progress);
    RunOptions options;
    options.outputs = std::move(outputs);
    options.captures = std::move(captures);
    options.progress = [&](double fraction, const std::string&) { return watch.go_on(fraction); };
    return arrays_of(watch.run([&] { return trainer_->run(inputs, options); }).outputs);
  }

  py::dict parameters() {
    return arrays_of(ask([](Trainer& t) { return t.parameters(); }));
  }
  void set_parameters(const std::map<std::string, py::array>& arrays, bool partial) {
    const std::map<std::string, Tensor> values = tensors_of(arrays);
    ask([&](Trainer& t) { t.set_parameters(values, partial); });
  }
  py::bytes save() {
    const std::vector<std::byte> file = ask([](Trainer& t) { return t.save(); });
    return {reinterpret_cast<const char*>(file.data()), file.size()};
  }
  void load(const py::bytes& file) {
    const std::string_view text = file;
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    const std::vector<std::byte> copy(bytes, bytes + text.size());
    ask([&](Trainer& t) { t.load(copy); });
  }
  void set_schedule(const py::dict& given) {
    const Schedule schedule = schedule_of(given);
    ask([&](Trainer& t) { t.set_schedule(schedule); });
  }
  const std::string& device() const { return device_name_; }

 private:
  std::string device_name_;
  std::optional<Trainer> trainer_;
};

}  // namespace

void define_trainer(py::module_& m) {
  py::class_<PyTrainer>(m, "Trainer")
      .def(py::init<const py::object&, const Shapes&, const std::string&, const std::string&, const std::string&,
                    const py::dict&>())
      .def("step", &PyTrainer::step)
      .def("run", &PyTrainer::run)
      .def("parameters", &PyTrainer::parameters)
      .def("set_parameters", &PyTrainer::set_parameters)
      .def("save", &PyTrainer::save)
      .def("load", &PyTrainer::load)
      .def("set_schedule", &PyTrainer::set_schedule)
      .def("reset_optimizer", [](PyTrainer& self) { self.ask([](Trainer& t) { t.reset_optimizer(); }); })
      .def_property_readonly("names", [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.names(); }); })
      .def_property_readonly("updates",
                             [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.updates(); }); })
      .def_property_readonly("steps", [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.steps(); }); })
      .def_property_readonly("rate", [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.rate(); }); })
      .def_property_readonly("loss_scale",
                             [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.loss_scale(); }); })
      .def_property_readonly("skipped",
                             [](PyTrainer& self) { return self.ask([](Trainer& t) { return t.skipped(); }); })
      .def_property_readonly("device", &PyTrainer::device);
}

}  // namespace gyrus
