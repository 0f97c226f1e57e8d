#pragma once
// What the parts of the module share: arrays of numpy as tensors, runs that can be interrupted, devices.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>
#include <mutex>

#include "gyrus/gyrus.h"

namespace py = pybind11;

namespace gyrus {

[[noreturn]] inline void refuse(ErrorCode code, const std::string& subject, const std::string& message) {
  throw Error(code, "[" + subject + "] " + message);
}

// What a run calls now and then without the interpreter's lock: handles Ctrl-C and tells the caller's function. What
// is raised there cancels the run, and is raised again when the run has ended.
class Watch {
 public:
  explicit Watch(py::object function) : function_(std::move(function)) {}

  bool go_on(double fraction) {
    const py::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (function_.is_none()) return true;
      const py::object answer = function_(fraction);
      return answer.is_none() || answer.cast<bool>();
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }

  // Computes without the interpreter's lock.
  template <class F>
  auto run(F compute) {
    try {
      const py::gil_scoped_release release;
      return compute();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Cancelled && raised_) std::rethrow_exception(raised_);
      throw;
    }
  }

 private:
  py::object function_;
  std::exception_ptr raised_;
};

inline constexpr std::pair<DType, const char*> kTypes[] = {
    {DType::F32, "float32"}, {DType::F16, "float16"}, {DType::I32, "int32"}, {DType::U32, "uint32"},
    {DType::U8, "uint8"},    {DType::I64, "int64"},   {DType::Bool, "bool"}};

inline const char* numpy_name(DType dtype) {
  for (const auto& [type, name] : kTypes)
    if (type == dtype) return name;
  return "?";
}

inline DType dtype_of(const py::array& array, const std::string& name) {
  for (const auto& [type, text] : kTypes)
    if (array.dtype().equal(py::dtype(text))) return type;
  refuse(ErrorCode::InvalidInput, name,
         "is an array of " + py::str(array.dtype()).cast<std::string>() +
             "; networks take float32, float16, int32, uint32, uint8, int64 and bool: convert it with astype");
}

// An array over memory that `owner` keeps.
inline py::array view(DType dtype, const Shape& shape, const void* data, const py::handle& owner) {
  return py::array(py::dtype(numpy_name(dtype)), std::vector<py::ssize_t>(shape.begin(), shape.end()), data, owner);
}

// One copy, whatever the strides are.
inline Tensor tensor_of(const py::array& array, const std::string& name) {
  const DType dtype = dtype_of(array, name);
  const Shape shape(array.shape(), array.shape() + array.ndim());
  if (!(array.flags() & py::array::c_style)) {
    Tensor tensor(dtype, shape);
    const py::array target = view(dtype, shape, tensor.data.data(), py::none());
    py::module_::import("numpy").attr("copyto")(target, array);
    return tensor;
  }
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  const auto* bytes = static_cast<const std::byte*>(array.data());
  tensor.data.assign(bytes, bytes + array.nbytes());
  return tensor;
}

template <class T>
py::capsule keep(T&& thing, T*& kept) {
  auto owned = std::make_unique<T>(std::move(thing));
  kept = owned.get();
  py::capsule capsule(kept, [](void* p) { delete static_cast<T*>(p); });
  owned.release();
  return capsule;
}

// Without a copy: the array owns the tensor.
inline py::array array_of(Tensor&& tensor) {
  Tensor* kept = nullptr;
  const py::capsule owner = keep(std::move(tensor), kept);
  return view(kept->dtype, kept->shape, kept->data.data(), owner);
}

inline PrecisionChoice precision_choice(const std::string& text) {
  if (text == "auto") return PrecisionChoice::Auto;
  if (text == "f32") return PrecisionChoice::F32;
  if (text == "f16") return PrecisionChoice::F16;
  refuse(ErrorCode::InvalidInput, "precision", "is \"" + text + "\", expected \"f32\", \"f16\" or \"auto\"");
}

// Networks on one adapter share a device, and with it the kernels that were compiled.
inline Device shared_device(const std::string& selector) {
  static std::mutex mutex;
  static std::map<uint32_t, std::weak_ptr<DeviceImpl>> open;
  const std::lock_guard lock(mutex);
  std::weak_ptr<DeviceImpl>& place = open[choose_adapter(selector).index];
  if (std::shared_ptr<DeviceImpl> impl = place.lock())
    if (const Device device(std::move(impl)); !device.lost()) return device;
  const Device device = open_gpu(selector);
  place = device.impl();
  return device;
}

void define_trainer(py::module_& m);

}  // namespace gyrus
