#pragma once
#include <map>
#include <string>
#include <vector>

#include "training/networks.h"

namespace gyrus {

inline constexpr int64_t kDropoutStream = 1000;  // streams of random numbers from here on are dropouts'

struct NetStep {
  enum class Kind : uint8_t { Conv, ConvTranspose, Norm, Activation, Dropout, MaxPool, Concat };
  Kind kind = Kind::Conv;
  std::string name;
  std::vector<size_t> inputs;  // 0 the image, else the step before it in the list
  int64_t channels = 0;        // of the result
  int64_t kernel = 1, dilation = 1;
  bool bias = false;
};

class BuiltNetwork : public TrainNetwork {
 public:
  BuiltNetwork(const NetworkConfig& config, int64_t classes, uint64_t seed);

  Value append(Graph& graph, Value image, const BuildOptions& options) const override;
  int64_t multiple() const override;
  std::map<std::string, std::vector<std::byte>> files(const std::map<std::string, Tensor>& weights) const override;
  std::vector<std::byte> onnx(const std::map<std::string, Tensor>& weights) const override;
  bool is_onnx() const override { return config_.kind == NetworkConfig::Kind::UNet; }

 private:
  void make_meshnet();
  void make_unet();
  size_t add(NetStep step);
  size_t add_conv(size_t x, const std::string& name, int64_t out, int64_t kernel, int64_t dilation, bool bias);
  // Convolution, norm, activation and dropout.
  size_t add_block(size_t x, const std::string& conv, const std::string& norm, int64_t out, int64_t dilation);
  int64_t channels_of(size_t step) const;
  Tensor random_weight(const Shape& shape, int64_t fan_in);
  Value append_norm(Graph& graph, Value x, const NetStep& step, const BuildOptions& options) const;

  NetworkConfig config_;
  int64_t classes_;
  uint64_t seed_;
  uint64_t drawn_ = 0;  // random numbers so far
  std::vector<NetStep> steps_;
};

}  // namespace gyrus
