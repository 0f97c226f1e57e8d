#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gyrus/ops.h"

// What networks are made of beyond single ops, built from them: pooling, interpolation, attention, recurrent layers.
// Every function adds nodes to the graph of its operands. Maps are [N, C, spatial…]; lists have one number for each
// spatial axis; pads are zeros (or what a function says) before each axis, then after each.

namespace gyrus {

// x weightᵀ + bias, weight [out, in].
Value linear(Value x, Value weight, Value bias = {});

// Rows of weight [V, D]. That of `padding` gets no gradient.
Value embedding(Value weight, Value indices, std::optional<int64_t> padding = {});

// A norm of x [N,C,…] by the statistics of the batch. The running ones, where given, become
// (1 - momentum) running + momentum of the batch, whose variance is the unbiased one there.
struct BatchNormResult {
  Value y;
  Value mean, variance;                  // of the batch, [C]
  Value running_mean, running_variance;  // as they become; absent where they were not given
};
BatchNormResult batch_norm_training(Value x, Value running_mean, Value running_variance, Value gamma = {},
                                    Value beta = {}, double momentum = 0.1, double eps = 1e-5);

// Reductions.
Value reduce_l1(Value x, const Reduce& over = {});
Value reduce_l2(Value x, const Reduce& over = {});
Value log_sum_exp(Value x, const Reduce& over = {});
// The sum of squared deviations over count - correction, and its root.
Value reduce_var(Value x, const Reduce& over = {}, int64_t correction = 0);
Value reduce_std(Value x, const Reduce& over = {}, int64_t correction = 0);

// Movement. Axes may count from the end.
Value flip(Value x, const std::vector<int64_t>& axes);
Value roll(Value x, const std::vector<int64_t>& shifts,
           const std::vector<int64_t>& axes);  // element i goes to i + shift
Value tile(Value x, const std::vector<int64_t>& repeats);
Value stack(const std::vector<Value>& parts, int64_t axis);
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis);
Value one_hot(Value indices, int64_t classes, int64_t axis = -1);  // f32; of integers
enum class PadMode : uint8_t { Reflect, Edge, Wrap };
Value pad(Value x, const std::vector<int64_t>& pads, PadMode mode);
Value pixel_shuffle(Value x, int64_t factor);
Value pixel_unshuffle(Value x, int64_t factor);

// Windows over spatial axes. Empty lists are ones, pads zeros.
struct Windows {
  std::vector<int64_t> kernel{};
  std::vector<int64_t> stride{}, dilation{}, pads{};
  bool ceil_mode = false;  // a last window that begins before the end of the map and its front padding counts
};
Value max_pool(Value x, const Windows& windows);  // padding is never the largest
Value sum_pool(Value x, const Windows& windows);
// The divisor counts the cells of a window inside the map, or with count_include_pad inside its padding too.
Value avg_pool(Value x, const Windows& windows, bool count_include_pad = false);
// Output i of an axis is made from input [floor(i in / out), ceil((i + 1) in / out)).
Value adaptive_max_pool(Value x, const std::vector<int64_t>& size);
Value adaptive_avg_pool(Value x, const std::vector<int64_t>& size);
// [N,C,H,W] to [N, C kh kw, positions], and back with overlaps added; back also of one or three axes.
Value im2col(Value x, const Windows& windows);
Value fold(Value x, const std::vector<int64_t>& size, const Windows& windows);

struct ConvTransposeOptions {
  Value bias{};  // [O]
  std::vector<int64_t> stride{}, dilation{}, pads{}, output_padding{};
  int64_t groups = 1;
};
// The gradient of a convolution in its input: weight [C, O/groups, k…].
Value conv_transpose(Value x, Value weight, const ConvTransposeOptions& options = {});

enum class Interpolation : uint8_t { Nearest, NearestExact, Linear, Cubic };
struct InterpolateOptions {
  Interpolation mode = Interpolation::Nearest;
  bool align_corners = false;
  std::vector<double> scale{};  // output over input; by default the ratio of the sizes
};
Value interpolate(Value x, const std::vector<int64_t>& size, const InterpolateOptions& options = {});

// Attention of q [B,H,Sq,D] over k [B,Hk,Sk,D] and v [B,Hk,Sk,Dv]; query head h reads head h Hk / H. The last query
// stands at the last key. A query that sees no key gives zeros.
struct AttentionOptions {
  Value mask{};  // true, or not 0, where a key is seen; broadcasts to [B,H,Sq,Sk]
  Value bias{};  // added to the scores likewise
  bool causal = false;
  std::optional<int64_t> window{};  // keys less than so far away
  std::optional<double> scale{};    // 1/sqrt(D)
  std::optional<double> softcap{};  // c tanh(scores / c)
};
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {});

// Rotary embedding of x [B,H,S,D]: pairs of the first n_rot elements turn by position * base^(-2i/n_rot).
struct RopeOptions {
  int64_t n_rot = 0;         // 0: all
  bool interleaved = false;  // pairs are neighbours, else halves
  double base = 10000;
  int64_t offset = 0;  // position of the first
  Value positions{};   // [B,S] of integers instead
  Value cos{}, sin{};  // [S, n_rot/2] instead of all of these
};
Value rope(Value x, const RopeOptions& options = {});

// One direction of one layer. Gates in the order i, f, g, o (LSTM) or r, z, n (GRU); biases may be absent.
struct RecurrentWeights {
  Value input, hidden;                // [gates H, I], [gates H, H]
  Value input_bias{}, hidden_bias{};  // [gates H]
};
struct RecurrentOptions {
  bool bidirectional = false;  // `layers` then holds a forward and a reverse direction for each layer
  Value h0{}, c0{};            // [layers * directions, B, H]; zeros where absent
};
struct RecurrentResult {
  Value y;         // [B, S, H * directions]
  Value hn, cn{};  // [layers * directions, B, H]; cn of LSTMs alone
};
// Over x [B, S, I]: one kernel goes along time, where a workgroup can hold the state; else a node for every step.
RecurrentResult lstm(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options = {});
RecurrentResult gru(Value x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options = {});

// A MeshNet over x [N,C,spatial…]: for each dilation a convolution of 3 taps along every axis, an instance norm, a ReLU
// and dropout (by random_key), then one of 1 tap: scores [N,classes,spatial…]. It adds its parameters, "layerN.weight",
// ".gamma" and ".beta", "output.weight" and ".bias", which start as the seed says (He et al., uniform).
struct MeshNetOptions {
  int64_t classes = 2;
  int64_t channels = 15;
  std::vector<int64_t> dilations{1, 2, 4, 8, 16, 8, 4, 2, 1};
  double dropout = 0;
  int32_t seed = 0;
};
Value meshnet(Value x, const MeshNetOptions& options = {});

}  // namespace gyrus
