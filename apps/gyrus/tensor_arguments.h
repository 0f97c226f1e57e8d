#pragma once
#include <map>
#include <string>
#include <vector>

#include "import/npy.h"
#include "import/onnx_import.h"

// Tensors and shapes on the command line, NAME=VALUE each.

namespace gyrus::cli {

// Throws InvalidInput where the text has no such form.
std::pair<std::string, std::string> name_and_value(const std::string& text, const char* option);
// Bytes of a .npy, a .npz, of which the array of that name is taken, or an ONNX tensor.
Array read_array(const Bytes& view, const std::string& name, const std::string& path);
// NAME=FILE: .npy, .npz or an ONNX tensor. `option` stands in errors.
std::map<std::string, Array> read_arrays(const std::vector<std::string>& given, const char* option);
// NAME=A,B,… and what the arrays have.
std::map<std::string, Shape> read_shapes(const std::vector<std::string>& given,
                                         const std::map<std::string, Array>& arrays = {});
// NAME=FILE in the types that the model's inputs have.
std::map<std::string, Tensor> read_bound(const std::vector<std::string>& given, const onnx::ModelProto& model);

}  // namespace gyrus::cli
