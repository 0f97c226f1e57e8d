#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gyrus/graph.h"
#include "training/config.h"

// Networks that are trained. Their weights are states of a graph; for training they drop out elements and take batch
// norms' statistics from the batch, for inference not.

namespace gyrus {

struct BuildOptions {
  bool training = false;
  Value key{};                                              // i32 [2], seed and step, where anything is random
  std::function<std::string(const std::string&)> called{};  // the name of a weight's state; its own by default
};

class TrainNetwork {
 public:
  virtual ~TrainNetwork() = default;

  // image [N,1,x,y,z] → scores [N,classes,x,y,z].
  virtual Value append(Graph& graph, Value image, const BuildOptions& options) const = 0;
  // Extents must be multiples of this.
  virtual int64_t multiple() const { return 1; }
  // The files of a model folder but for its manifest, by name; `weights` as start().
  virtual std::map<std::string, std::vector<std::byte>> files(const std::map<std::string, Tensor>& weights) const = 0;
  // As an ONNX file.
  virtual std::vector<std::byte> onnx(const std::map<std::string, Tensor>& weights) const = 0;
  // Whether files() are an ONNX model's, whose manifest has more to say.
  virtual bool is_onnx() const { return false; }

  // All weights as they start: parameters and running statistics.
  const std::map<std::string, Tensor>& start() const { return start_; }
  // Running statistics, which no gradient changes.
  bool is_statistic(const std::string& name) const;
  int64_t parameters() const;  // how many numbers are weights

  // Replaces weights that have the same name; others are InvalidInput, naming `file`.
  void set_start(const std::map<std::string, Tensor>& weights, const std::string& file);
  // Low-rank adapters beside the weights that match; everything else is frozen.
  void add_adapters(const AdapterConfig& adapters, uint64_t seed);
  // The weights with the adapters' products added; without adapters as they are.
  std::map<std::string, Tensor> merged(std::map<std::string, Tensor> weights) const;
  // Names of the states beside start(): the adapters' factors, with their starts.
  const std::map<std::string, Tensor>& adapter_start() const { return adapter_start_; }

 protected:
  // The weight as a value of the graph, with its adapter.
  Value weight(Graph& graph, const std::string& name, const BuildOptions& options) const;

  std::map<std::string, Tensor> start_, adapter_start_;
};

// `extents` are those of the training's inputs. Throws InvalidInput, InvalidModel, Unsupported or Io.
std::unique_ptr<TrainNetwork> make_network(const NetworkConfig& config, int64_t classes, uint64_t seed,
                                           const Shape& extents);

inline constexpr const char* kAdapterPrefix = "adapter/";

// Whether a name matches a pattern in which "*" stands for any characters.
bool matches_pattern(const std::string& pattern, const std::string& name);

}  // namespace gyrus
