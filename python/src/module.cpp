// The Python module gyrus._gyrus: devices, segmenter, networks and training over numpy arrays. What people see is in
// python/gyrus/*.py; this is the least that must be C++.
//
// The interpreter's lock is released before anything is computed and before any other lock is taken, so that a thread
// that holds one of ours may ask for the interpreter's.
#include "module.h"

#include <cstring>

namespace gyrus {
namespace {

void raise(const Error& error) {
  const py::object type = py::module_::import("gyrus._error").attr("Error");
  py::list hints;
  for (const Hint hint : error.hints()) hints.append(to_string(hint));
  const py::object instance = type(to_string(error.code()), error.what(), hints, error.state_changed());
  PyErr_SetObject(type.ptr(), instance.ptr());
}

// Segmenter ---------------------------------------------------------------------------------------------------------

using Size = std::array<int64_t, 3>;

// A gyrus::Segmenter for the size that came last; one is made at once, so that a wrong model is refused early.
class PySegmenter {
 public:
  PySegmenter(std::string model, const std::string& precision, const std::string& device, const std::string& normalize,
              std::optional<bool> largest_component, std::optional<bool> fill_holes, bool allow_empty)
      : model_(std::move(model)) {
    options_.precision = precision_choice(precision);
    options_.device = device;
    options_.normalize = normalize;
    options_.largest_component = largest_component;
    options_.fill_holes = fill_holes;
    options_.allow_empty = allow_empty;
    options_.progress = [this](double fraction) { return watch_->go_on(fraction); };
    const py::gil_scoped_release release;
    segmenter_.emplace(model_, size_, options_);
  }

  py::array run(const py::array& given, const py::object& progress) {
    if (given.ndim() != 3)
      refuse(ErrorCode::InvalidInput, "segmenter",
             "takes volumes of 3 axes, x, y and z, not of " + std::to_string(given.ndim()));
    const char kind = given.dtype().kind();
    if (std::strchr("biuf", kind) == nullptr)
      refuse(ErrorCode::InvalidInput, "segmenter", "takes numbers, not " + py::str(given.dtype()).cast<std::string>());
    const bool bytes = kind == 'b' || given.dtype().equal(py::dtype::of<uint8_t>());
    // Copies only where the type or the order is another one.
    const py::array voxels = py::module_::import("numpy").attr("asarray")(given, bytes ? "uint8" : "float32", "F");
    const Size size = {voxels.shape(0), voxels.shape(1), voxels.shape(2)};
    const auto count = static_cast<size_t>(voxels.size());
    const void* data = voxels.data();
    Watch watch(progress);
    std::vector<uint8_t> labels = watch.run([&] {
      const std::lock_guard lock(mutex_);
      if (size != size_) {
        segmenter_ = Segmenter(model_, size, options_);  // takes memory of the device when it runs
        size_ = size;
      }
      watch_ = &watch;
      return bytes ? segmenter_->run({static_cast<const uint8_t*>(data), count})
                   : segmenter_->run({static_cast<const float*>(data), count});
    });
    std::vector<uint8_t>* kept = nullptr;
    const py::capsule owner = keep(std::move(labels), kept);
    return py::array_t<uint8_t>({size[0], size[1], size[2]}, {int64_t{1}, size[0], size[0] * size[1]}, kept->data(),
                                owner);
  }

  template <class F>
  auto ask(F question) {
    const py::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    return question(*segmenter_);
  }

 private:
  std::mutex mutex_;
  std::string model_;
  SegmenterOptions options_;
  Size size_ = {1, 1, 1};
  std::optional<Segmenter> segmenter_;
  Watch* watch_ = nullptr;  // of the run that goes on
};

// Networks ----------------------------------------------------------------------------------------------------------

// The file of a model, read again for every set of shapes: where a model computes shapes, its graph depends on them.
class ModelReader {
 public:
  explicit ModelReader(std::string path) : path_(std::move(path)) {}

  Graph read(const Shapes& shapes) {
    const std::lock_guard lock(mutex_);
    if (!graph_ || shapes != input_shapes(*graph_)) graph_ = load_graph(path_, shapes);
    return *graph_;
  }

  std::optional<Graph> last() const {
    const std::lock_guard lock(mutex_);
    return graph_;
  }

 private:
  static Shapes input_shapes(const Graph& graph) {
    Shapes shapes;
    for (const Port& input : graph.inputs()) shapes[input.name] = graph.type(input.value).shape;
    return shapes;
  }

  std::string path_;
  mutable std::mutex mutex_;
  std::optional<Graph> graph_;
};

class PyNetwork {
 public:
  PyNetwork(const std::string& model, const Shapes& shapes, const std::string& device, const std::string& precision,
            bool check_finite)
      : reader_(std::make_shared<ModelReader>(model)) {
    ProgramOptions options;
    if (precision_choice(precision) == PrecisionChoice::Auto)
      refuse(ErrorCode::InvalidInput, "precision", "is \"auto\", expected \"f32\" or \"f16\"");
    options.precision = precision == "f16" ? Precision::F16 : Precision::F32;
    options.check_finite = check_finite;
    const py::gil_scoped_release release;
    try {
      reader_->read(shapes);
    } catch (const Error& error) {
      // Shapes that the model leaves open come with the arrays.
      if (error.code() != ErrorCode::InvalidInput || !shapes.empty()) throw;
    }
    const Program::Make make = [reader = reader_](const Shapes& wanted) { return reader->read(wanted); };
    program_.emplace(shared_device(device), make, options);
  }

  py::dict run(const std::map<std::string, py::array>& arrays, std::optional<std::vector<std::string>> outputs,
               std::map<std::string, double> arguments, const py::object& progress) {
    std::map<std::string, Tensor> inputs;
    for (const auto& [name, array] : arrays) inputs.emplace(name, tensor_of(array, name));
    Watch watch(progress);
    RunOptions options;
    options.outputs = std::move(outputs);
    options.arguments = std::move(arguments);
    options.progress = [&](double fraction, const std::string&) { return watch.go_on(fraction); };
    RunResult result = watch.run([&] { return program_->run(inputs, options); });
    py::dict named;
    for (auto& [name, tensor] : result.outputs) named[py::str(name)] = array_of(std::move(tensor));
    return named;
  }

  // (name, type, shape) of each, or None where no graph was made yet.
  py::object ports(const std::vector<Port>& (Graph::*which)() const) const {
    std::optional<Graph> graph;
    {
      const py::gil_scoped_release release;
      graph = reader_->last();
    }
    if (!graph) return py::none();
    py::list rows;
    for (const Port& port : ((*graph).*which)()) {
      const TensorType& type = graph->type(port.value);
      rows.append(py::make_tuple(port.name, numpy_name(type.dtype), py::tuple(py::cast(type.shape))));
    }
    return rows;
  }

  std::string device() const { return program_->device().adapter().name; }

 private:
  std::shared_ptr<ModelReader> reader_;
  std::optional<Program> program_;
};

// The module --------------------------------------------------------------------------------------------------------

std::vector<AdapterInfo> devices() {
  const py::gil_scoped_release release;
  return list_adapters();
}

void define(py::module_& m) {
  m.attr("version") = version();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });

  py::class_<AdapterInfo>(m, "Device", "A GPU, or a software driver, that gyrus can use.")
      .def_readonly("index", &AdapterInfo::index, "Its place in devices().")
      .def_readonly("name", &AdapterInfo::name)
      .def_readonly("vendor", &AdapterInfo::vendor)
      .def_readonly("driver", &AdapterInfo::driver, "The driver's description of itself.")
      .def_readonly("backend", &AdapterInfo::backend, "\"Vulkan\", \"Metal\" and the like.")
      .def_property_readonly(
          "type", [](const AdapterInfo& info) { return to_string(info.type); },
          "\"discrete\", \"integrated\", \"software\" or \"other\".")
      .def_readonly("memory_bytes", &AdapterInfo::memory_bytes,
                    "Of the device's own memory; None where the driver does not tell.")
      .def("__repr__", [](const AdapterInfo& info) {
        return "<gyrus.Device " + std::to_string(info.index) + ": " + info.name + ", " + info.backend + ">";
      });
  m.def("devices", &devices, "Every device that computes, best first: discrete before integrated before software.");

  py::class_<PySegmenter>(m, "Segmenter")
      .def(py::init<std::string, const std::string&, const std::string&, const std::string&, std::optional<bool>,
                    std::optional<bool>, bool>())
      .def("run", &PySegmenter::run)
      .def_property_readonly("classes",
                             [](PySegmenter& self) { return self.ask([](const Segmenter& s) { return s.classes(); }); })
      .def_property_readonly("device",
                             [](PySegmenter& self) { return self.ask([](const Segmenter& s) { return s.device(); }); })
      .def_property_readonly(
          "gpu_seconds", [](PySegmenter& self) { return self.ask([](const Segmenter& s) { return s.gpu_seconds(); }); })
      .def_property_readonly(
          "gpu_bytes", [](PySegmenter& self) { return self.ask([](const Segmenter& s) { return s.gpu_bytes(); }); });

  py::class_<PyNetwork>(m, "Network")
      .def(py::init<const std::string&, const Shapes&, const std::string&, const std::string&, bool>())
      .def("run", &PyNetwork::run)
      .def_property_readonly("inputs", [](const PyNetwork& self) { return self.ports(&Graph::inputs); })
      .def_property_readonly("outputs", [](const PyNetwork& self) { return self.ports(&Graph::outputs); })
      .def_property_readonly("device", &PyNetwork::device);
  define_trainer(m);
}

}  // namespace
}  // namespace gyrus

PYBIND11_MODULE(_gyrus, m) { gyrus::define(m); }
