#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plan/norm_parts.h"

namespace gyrus {

// A convolution brought to three axes: planes are cut along the first, the slowest. One and two spatial axes become
// [L,1,1] and [H,1,W], so that windows always cut the slowest axis there is.
struct ConvGeometry {
  int64_t images = 1;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  std::array<int64_t, 3> in{}, out{}, kernel{}, stride{}, dilation{}, pad{};
  int64_t plane_taps() const { return kernel[1] * kernel[2]; }
  int64_t in_quads() const { return ceil_div(in_channels, 4); }
  int64_t out_quads() const { return ceil_div(out_channels, 4); }
};
ConvGeometry conv_geometry(const Graph& graph, const Node& node, const Shape& out_shape);

// One packed convolution over some output planes into `out`, whose first plane is `plane_origin`.
struct PackedConv {
  ConvGeometry geometry;
  StoragePtr in;
  StoragePtr out;
  std::vector<StoragePtr> weights{};        // arranged, one for each dispatch's quads of output channels
  std::optional<BufferRange> last_point{};  // of Winograd's weights as uniforms
  int64_t image = 0;
  int64_t out_image = 0;
  int64_t plane_begin = 0, plane_end = 0;
  int64_t plane_origin = 0;
  bool stats = false;
  std::string epilogue{};  // body of fn epilogue
  bool keeps_zero = true;
  std::string label{};
};
// All planes of the first image of a conv or conv_argmax node; `out` and the epilogue are still empty.
PackedConv packed_conv(Lowering& lowering, const Node& node, const Shape& out_shape);

// What decides how the weights of a packed convolution are ordered: all of it is known before anything is lowered.
struct ConvSite {
  const Target& target;
  const PlanOptions& options;
  ConvGeometry geometry;
  Storage in, out;
  bool stats = false;
  bool constant = true;  // the weights are
};

// The attributes of the arrange nodes for the weights of a node.
struct WeightOrders {
  std::vector<Attrs> storage{};    // one for each dispatch's quads of output channels
  std::optional<Attrs> uniform{};  // read as uniforms besides
};

// A kernel for packed convolutions.
struct ConvKernel {
  const char* name;
  bool (*suits)(const ConvSite& site);
  WeightOrders (*orders)(const ConvSite& site);
  // Emits the dispatches over one image; fills `stats` where it gathers statistics, else leaves its parts 0.
  void (*emit)(Lowering& lowering, const PackedConv& conv, StatsTarget* stats);
  bool all_images = false;  // at once
};
extern const ConvKernel kMatrixConv, kWinogradConv, kTiledConv, kDirectConv;
// The first, in order of preference, that suits.
const ConvKernel& conv_kernel(const ConvSite& site);
ConvSite conv_site(const Target& target, const PlanOptions& options, const PackedConv& conv);

// A convolution over plain tensors: channels in groups.
void lower_plain_conv(Lowering& lowering, const Node& node);

// How the weights of a node are to be ordered; empty where it takes them as they are.
WeightOrders order_conv(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
WeightOrders order_conv_argmax(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
// The graph with an arrange node before every convolution whose kernel wants one; those of constants are computed.
Graph arrange_weights(const Graph& graph, const Target& target, const PlanOptions& options);

}  // namespace gyrus
