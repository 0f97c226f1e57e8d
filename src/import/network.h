#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/state_dict.h"

// A network as its file describes it: layers and weights, but no extents yet. Importers fill one, checking every weight
// against the channels that reach it; build() then gives the Graph for an input of given extents.

namespace gyrus {

struct NetworkStep {
  std::string op;
  std::string label;
  std::vector<size_t> inputs;  // earlier steps
  Attrs attrs;
  std::vector<NamedTensor> weights;  // operands behind the inputs
  int64_t channels = 0;              // of the result
  bool same_padding = false;         // conv: pads for ceil(extent / stride) outputs, see Convolution
};

// A convolution before it has its place in a network. Lists have one number each spatial axis.
struct Convolution {
  std::string label;
  NamedTensor weight;  // [O, C/groups, k…]
  NamedTensor bias;    // [O]; tensor null for none
  std::vector<int64_t> stride, dilation;
  std::vector<int64_t> pads;  // zeros before each axis, then after each
  int64_t groups = 1;
  bool same_padding = false;  // ignore `pads`: ceil(extent / stride) outputs, an odd zero goes after, as in TensorFlow
};

class Network {
 public:
  // Errors are InvalidModel("[subject] …") unless stated. Step 0 is the image, [1, channels, spatial…].
  Network(std::string subject, size_t spatial_rank, int64_t channels);

  size_t image() const { return 0; }
  size_t spatial_rank() const { return spatial_rank_; }
  const std::string& subject() const { return subject_; }
  const std::vector<NetworkStep>& steps() const { return steps_; }
  int64_t channels(size_t step) const { return steps_[step].channels; }
  size_t output() const { return output_; }

  // Each appends a step that reads `x` and returns its index.
  size_t conv(size_t x, Convolution conv);
  // gamma and beta may be null, together or one of them.
  size_t batch_norm(size_t x, const std::string& label, NamedTensor mean, NamedTensor variance, NamedTensor gamma,
                    NamedTensor beta, double eps);
  // One channel a group; gamma and beta are both there or both null.
  size_t instance_norm(size_t x, const std::string& label, NamedTensor gamma, NamedTensor beta, double eps);
  size_t activation(size_t x, const std::string& label, const std::string& op, Attrs attrs = {});
  size_t pad(size_t x, const std::string& label, std::vector<int64_t> pads);  // spatial axes: all before, all after
  size_t concat_channels(const std::vector<size_t>& inputs, const std::string& label);
  // Folds the operands, of equal channels or one, with "add", "mul" … from left to right.
  size_t combine(const std::string& op, const std::vector<size_t>& inputs, const std::string& label);
  void set_output(size_t step) { output_ = step; }

  // Appends the network to a graph in which `image` is f32 [1,C,spatial…]; returns its result [1,classes,…]. Throws as
  // build().
  ValueId append_to(Graph& graph, ValueId image) const;
  // Input "image" f32 [1,C,spatial…], output "logits" f32 [1,classes,…]. Throws InvalidInput where the extents are not
  // `spatial_rank` positive numbers and InvalidGraph where a layer cannot take them.
  Graph build(const Shape& spatial) const;

 private:
  size_t append(NetworkStep step);
  void check_vector(const std::string& label, const NamedTensor& tensor, int64_t length) const;
  void check_range(const std::string& label, const char* what, const std::vector<int64_t>& values, size_t count,
                   int64_t least) const;
  NamedTensor constant(const std::string& name, int64_t length, float value) const;

  std::string subject_;
  size_t spatial_rank_;
  std::vector<NetworkStep> steps_;
  size_t output_ = 0;
};

}  // namespace gyrus
