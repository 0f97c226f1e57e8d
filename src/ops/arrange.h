#pragma once
#include "graph/op.h"

namespace gyrus {

// The weights of a convolution in the order in which a kernel reads them: w [O,C,k…] and bias [O] → f32 [rows,4], the
// four lanes of a row being output channels. Attributes: kernel (below), begin and end, the quads of output channels
// that it holds. Channels that do not exist are zero.
//   "direct"         rows [tap][input lane][output quad], then the biases [output quad]; `lanes` counts input lanes
//   "argmax"         rows [output quad][input lane], then the biases; classes that do not exist have the least bias
//   "winograd"       F(4,3) along H: rows [kd][kw][input quad][output group][point][4][held], then the biases;
//                    `held` quads make up an output group
//   "winograd_last"  of those the rows of the last point alone
//   "matrix"         u32 [rows,4], words of two halves: matrices of 4 `held` output by `depth` input channels, a row
//                    eight of these; [tap][input matrix][output matrix]. Then the biases, as the bits of singles.
//                    Constants are rounded so that errors do not add up over taps, others each for itself
struct ArrangeAttrs {
  enum class Kernel { Direct, Argmax, Winograd, WinogradLast, Matrix } kernel = Kernel::Direct;
  int64_t begin = 0, end = 0;                 // quads
  int64_t lanes = 0;                          // of the input, padded
  int64_t held = 1;                           // quads
  int64_t depth = 4;                          // of matrices, input channels
  int64_t inputs = 0, outputs = 0;            // channels
  int64_t planes = 1, rows = 1, columns = 1;  // taps along the slowest, the middle and the fastest axis

  int64_t quads() const { return end - begin; }
  int64_t taps() const { return planes * rows * columns; }
  int64_t groups() const { return (quads() + held - 1) / held; }
  int64_t weight_rows() const;  // before the biases
  int64_t all_rows() const;
};
// Of an arrange node over weights of that shape. (One and two spatial axes are [L,1,1] and [H,1,W].)
ArrangeAttrs arrange_attrs(const Node& node, const Shape& weight);

// G of F(4,3): weights of three taps at the six points.
inline constexpr int64_t kWinogradPoints = 6;
extern const double kWinogradWeights[kWinogradPoints][3];

extern const OpDef kArrange;

}  // namespace gyrus
