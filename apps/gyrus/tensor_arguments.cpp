#include "tensor_arguments.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/files.h"

namespace gyrus::cli {

std::pair<std::string, std::string> name_and_value(const std::string& text, const char* option) {
  // Names may hold '=', files seldom do.
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    fail(ErrorCode::InvalidInput, option, "\"", text, "\" is not NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

namespace {

Shape read_extents(const std::string& text) {
  Shape shape;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (part.empty() || part.size() > 12 || part.find_first_not_of("0123456789") != std::string::npos)
      fail(ErrorCode::InvalidInput, "--shape", "\"", text, "\" is no list of extents such as 1,3,224,224");
    shape.push_back(std::stoll(part));
  }
  return shape;
}

}  // namespace

Array read_array(const Bytes& view, const std::string& name, const std::string& path) {
  if (is_npy(view)) return read_npy(view, path);
  if (is_zip(view)) return read_npz(view, name, path);
  const onnx::TensorProto proto = onnx::read_tensor(view, path);
  return {proto.type, onnx::to_tensor(proto, path)};
}

std::map<std::string, Array> read_arrays(const std::vector<std::string>& given, const char* option) {
  std::map<std::string, Array> arrays;
  for (const std::string& text : given) {
    const auto [name, path] = name_and_value(text, option);
    const std::vector<std::byte> bytes = read_file(path);
    arrays[name] = read_array(bytes_of(bytes), name, path);
  }
  return arrays;
}

std::map<std::string, Shape> read_shapes(const std::vector<std::string>& given,
                                         const std::map<std::string, Array>& arrays) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : given) {
    const auto [name, extents] = name_and_value(text, "--shape");
    shapes[name] = read_extents(extents);
  }
  for (const auto& [name, array] : arrays) shapes[name] = array.tensor.shape;
  return shapes;
}

std::map<std::string, Tensor> read_bound(const std::vector<std::string>& given, const onnx::ModelProto& model) {
  std::map<std::string, Tensor> tensors;
  const std::vector<onnx::DeclaredInput> declared = onnx::declared_inputs(model);
  for (const auto& [name, array] : read_arrays(given, "--bind")) {
    const auto input = std::find_if(declared.begin(), declared.end(), [&](const auto& d) { return d.name == name; });
    tensors[name] = input == declared.end() ? array.tensor : converted(array, input->elem, name);
  }
  return tensors;
}

}  // namespace gyrus::cli
