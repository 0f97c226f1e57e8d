#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/graph.h"
#include "gyrus/target.h"

// Does this device, with this driver, compute what it should? Every node of a network as it is planned, against the
// slow executor in doubles. A node is given the operands that the device itself made, so that an error is found in the
// node that makes it and not in those behind it.

namespace gyrus {

struct Plan;

struct VerifyOptions {
  Precision precision{};
  std::optional<Limits> limits{};                // that the plan keeps, where that is to be less than the device has
  std::map<std::string, double> arguments{};     // one for each argument of the network
  uint64_t capture_bytes = uint64_t{256} << 20;  // of results read back in one run; networks with more run again
  const std::atomic<bool>* cancel = nullptr;     // set from another thread to stop
  std::function<void(size_t done, size_t nodes)> progress{};
  std::function<void(Plan&)> change{};  // for tests: changes plans before they are run
};

// What was found of one node.
struct VerifiedNode {
  std::string name;       // the nodes of the model that it was made from, "conv1 + relu1"
  std::string op;         // with the steps fused into it, "conv + relu"
  std::string type;       // of its first result, "f32[1,8,16]"
  double error = 0;       // the largest difference of an element over the largest element
  double nmse = 0;        // squared differences over squares
  int64_t different = 0;  // integers that differ
  bool right = true;
};

struct VerifiedTensor {
  std::string name;
  Tensor tensor;
  bool constant = false;
};

// A dispatch of a node.
struct VerifiedKernel {
  std::string name, file, entry;
  std::array<uint32_t, 3> workgroup{}, groups{};
  std::vector<std::pair<std::string, uint32_t>> params;  // that it was given, by name
  std::string wgsl;
};

// All about a node that is wrong.
struct WrongNode {
  size_t node = 0;   // in Verified::nodes
  std::string text;  // as plans print it
  std::vector<VerifiedTensor> inputs, outputs, expected;
  std::vector<VerifiedKernel> kernels;
  std::string plan;  // its steps with their kernels and buffers, as JSON
};

struct Verified {
  std::vector<VerifiedNode> nodes;
  std::optional<WrongNode> first;  // that is wrong
  // Outputs of the plan as programs run it, where memory is shared and written in place, that are not those of the run
  // in which every node was looked at; only asked where all nodes are right.
  std::vector<std::string> wrong_outputs;
  bool right() const { return !first && wrong_outputs.empty(); }
};

// Throws what Program::run throws.
Verified verify_on(const Device& device, const Graph& graph, const std::map<std::string, Tensor>& inputs,
                   const VerifyOptions& options = {});

}  // namespace gyrus
