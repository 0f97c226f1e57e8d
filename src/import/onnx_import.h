#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/onnx_wire.h"

namespace gyrus::onnx {

struct ImportOptions {
  std::string subject = "model.onnx";     // for errors
  std::map<std::string, Shape> shapes{};  // of inputs; those with extents that the file does not know must be here
  std::map<std::string, Tensor> bound{};  // inputs whose values are part of the graph, as stored_as() says
  std::vector<std::string> captures{};    // values of the file to give as captures
  bool capture_all = false;               // all of them that nodes make
  bool parameters = false;                // weights are states, to be trained, not constants
  ExternalData external{};
};

// An input, output or capture with the element type that the file gives it.
struct OnnxPort {
  std::string name;
  Elem elem = Elem::F32;
  DType dtype = DType::F32;
  Shape shape;
};

struct Imported {
  Graph graph;
  std::vector<OnnxPort> inputs, outputs, captures;
};

// An input as the file declares it, those that have an initial value left out.
struct DeclaredInput {
  std::string name;
  Elem elem = Elem::F32;
  bool known = false;  // whether all extents are
  Shape shape;         // -1 where not
  std::string text;    // "float[N,3,H,W]"
};
std::vector<DeclaredInput> declared_inputs(const ModelProto& model);

// The graph for inputs of these shapes. Throws Unsupported naming every node that cannot be imported with its op and
// the reason, InvalidModel where the file contradicts itself, InvalidInput where a shape or a value is missing.
Imported import_model(const ModelProto& model, const ImportOptions& options = {});

}  // namespace gyrus::onnx
