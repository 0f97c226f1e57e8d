#pragma once
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "import/onnx_import.h"
#include "support/test_data.h"

// ONNX's backend tests as they lie in the public test data: index.tsv, a model each, and sets of inputs and outputs.

namespace gyrus::test {

struct OnnxCase {
  std::string name, op, tier;
  std::set<std::string> bind;  // inputs whose values decide shapes
  double rtol = 1e-3, atol = 1e-5;
};

inline std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::stringstream in(line);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

inline std::vector<OnnxCase> onnx_cases(const std::filesystem::path& folder) {
  std::vector<OnnxCase> cases;
  std::ifstream in(folder / "index.tsv");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> f = split(line, '\t');
    OnnxCase c{f.at(0), f.at(1), f.at(4), {}, std::stod(f.at(7)), std::stod(f.at(8))};
    if (f.at(5) != "-")
      for (const std::string& name : split(f.at(5), ',')) c.bind.insert(name);
    // The expanded twins read it too, which the index does not say.
    if (c.name.find("affine_grid") != std::string::npos) c.bind.insert("size");
    cases.push_back(std::move(c));
  }
  return cases;
}

// Names of tests that gyrus refuses, with the reason.
inline std::map<std::string, std::string> onnx_refused() {
  std::map<std::string, std::string> refused;
  std::ifstream in(std::filesystem::path(GYRUS_SOURCE_DIR) / "tests/data/onnx_refused.tsv");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = line.find('\t');
    refused[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return refused;
}

struct OnnxTensor {
  std::string name;
  onnx::Elem elem = onnx::Elem::F32;
  Tensor tensor;
};

inline OnnxTensor read_onnx_tensor(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path.string());
  const onnx::TensorProto proto = onnx::read_tensor(bytes_of(bytes), path.string());
  return {proto.name, proto.type, onnx::to_tensor(proto, path.string())};
}

// One set of inputs and outputs, in the order of the model's ports.
struct OnnxSet {
  std::vector<OnnxTensor> inputs, outputs;
};

inline OnnxSet read_onnx_set(const std::filesystem::path& folder) {
  OnnxSet set;
  for (size_t i = 0; std::filesystem::exists(folder / ("input_" + std::to_string(i) + ".pb")); ++i)
    set.inputs.push_back(read_onnx_tensor(folder / ("input_" + std::to_string(i) + ".pb")));
  for (size_t i = 0; std::filesystem::exists(folder / ("output_" + std::to_string(i) + ".pb")); ++i)
    set.outputs.push_back(read_onnx_tensor(folder / ("output_" + std::to_string(i) + ".pb")));
  return set;
}

// A model with the shapes and bound values of one set.
struct OnnxModel {
  std::vector<std::byte> bytes;
  onnx::ModelProto proto;
  onnx::Imported imported;
  std::map<std::string, Tensor> inputs;  // those that are not bound
};

inline OnnxModel import_case(const std::filesystem::path& file, const OnnxSet& set, const std::set<std::string>& bind) {
  OnnxModel m;
  m.bytes = read_file(file.string());
  m.proto = onnx::read_model(bytes_of(m.bytes), file.filename().string());
  onnx::ImportOptions options;
  options.subject = file.filename().string();
  const std::vector<onnx::DeclaredInput> declared = onnx::declared_inputs(m.proto);
  for (size_t i = 0; i < declared.size() && i < set.inputs.size(); ++i) {
    const Tensor& tensor = set.inputs[i].tensor;
    if (bind.count(declared[i].name) != 0) {
      options.bound[declared[i].name] = tensor;
    } else {
      options.shapes[declared[i].name] = tensor.shape;
      m.inputs[declared[i].name] = tensor;
    }
  }
  m.imported = onnx::import_model(m.proto, options);
  return m;
}

// What is wrong with a result, in a sentence; empty: nothing.
inline std::string difference(const std::string& name, onnx::Elem elem, const Shape& shape,
                              const std::vector<double>& found, const OnnxTensor& want, double rtol, double atol) {
  if (elem != want.elem) return cat(name, " is ", onnx::to_string(elem), ", expected ", onnx::to_string(want.elem));
  if (shape != want.tensor.shape)
    return cat(name, " is ", to_string(shape), ", expected ", to_string(want.tensor.shape));
  const bool exact = want.tensor.dtype != DType::F32 && want.tensor.dtype != DType::F16;
  for (size_t i = 0; i < found.size(); ++i) {
    const double a = found[i], b = get(want.tensor, static_cast<int64_t>(i));
    if (std::isnan(b)   ? std::isnan(a)
        : std::isinf(b) ? a == b
                        : std::abs(a - b) <= (exact ? 0 : atol + rtol * std::abs(b)))
      continue;
    return cat(name, "[", i, "] of ", to_string(shape), " is ", a, ", expected ", b);
  }
  return {};
}

// The real models of the test data that have outputs.
struct OnnxModelCase {
  std::string name;
  size_t sets = 1;
  std::set<std::string> bind{};
  double rtol = 1e-3, atol = 1e-4;  // onnxruntime's own levels of optimisation differ by 1e-5
  bool light = true;                // quick enough for the reference, and for limits that cut everything
};

inline std::vector<OnnxModelCase> onnx_models() {
  return {{"audio-dnsmos", 1, {}, 1e-3, 1e-4, false},
          {"audio-silero-vad", 2, {"sr"}},
          {"detect-ultraface"},
          {"llm-tiny-gpt2", 2},
          {"multiaxial-consensus"},
          // A step of quantisation; onnxruntime's own levels differ by 0.31.
          {"quant-mobilenet-qdq", 1, {}, 0, 0.5, false},
          {"text-magika"},
          {"transformer-vittrack"},
          {"unet2d-multiaxial", 1, {}, 1e-3, 1e-4, false}};
}

}  // namespace gyrus::test
