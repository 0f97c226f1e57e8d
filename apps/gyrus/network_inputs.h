#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common.h"
#include "gyrus/program.h"
#include "import/npy.h"
#include "import/onnx_import.h"
#include "media.h"

// A network with tensors to run it on: what run, verify and plan ask alike.

namespace gyrus::cli {

struct NetworkArguments {
  std::string model;
  std::vector<std::string> inputs, bound, shapes, captures;
  bool capture_all = false;
  bool quiet = false;  // about random inputs
  uint64_t seed = 1;
  std::optional<double> scale;
  std::vector<double> mean, std;
  std::string command = "run";  // that the options were given to
};
void add_network_options(CLI::App& command, NetworkArguments& arguments);
// Of these --shape and --bind only.
void add_shape_options(CLI::App& command, NetworkArguments& arguments);

// A network with the names and element types of its file.
struct Network {
  Graph graph;
  std::vector<onnx::OnnxPort> inputs, outputs, captures;
  std::map<std::string, Tensor> tensors;  // one for each input
};

// Models that gyrus knows as layers (not ONNX) as `gyrus run` takes them, from "image" to "logits", or as `gyrus
// segment` does: normalised, and the labels behind.
enum class Ends { Plain, Segmentation };

// Says on standard error which inputs are random. A model that takes volumes of any size gets a cube of `cube` voxels
// where that is more than 0 and no shape was given.
// Throws InvalidInput where --shape or --input name what the model has not.
Network load_network(const NetworkArguments& arguments, Ends ends = Ends::Plain, int64_t cube = 0);

// One for each input of the graph.
std::map<std::string, Tensor> random_tensors(const Graph& graph, uint64_t seed);

Device open(const DeviceArguments& arguments, std::optional<Limits>& limits);

// A name as a file name: letters, digits, '.', '_' and '-' stay, everything else is '_', and so is a '.' at the start.
// `taken` keeps names apart.
std::string file_name(const std::string& name, std::set<std::string>& taken);
// Throws Io where there is none afterwards.
void make_folder(const std::string& folder);

// What stands in tables: extremes, mean, share of zeros and values that are not finite.
struct ValueRange {
  double least = 0, most = 0, mean = 0, zeros = 0;
  int64_t odd = 0;
};
ValueRange summary_of(const Tensor& tensor);

}  // namespace gyrus::cli
