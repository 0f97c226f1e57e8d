#pragma once
#include "graph/op.h"

// Ops over rows, the elements along the last axes.

namespace gyrus {

// exp(x - max) / sum(exp(x - max)) along `axis`.
extern const OpDef kSoftmax;
// x - max - log(sum(exp(x - max))) along `axis`.
extern const OpDef kLogSoftmax;
// (x - mean) / sqrt(variance + eps) * gamma + beta over the axes from `axis` on (-1 by default); gamma and beta have
// their shape, or are absent. eps = 1e-5. Behind them a residual of the type of x or none: it is added to x first, and
// the sum is a second result.
extern const OpDef kLayerNorm;
// x / sqrt(mean(x²) + eps) * gamma likewise.
extern const OpDef kRmsNorm;

// What these become where a row is not too long for one workgroup: x [rows, extent] of f32, gamma and beta
// [extent] or absent, a residual as above or none; `kind` is "softmax", "log_softmax", "layer_norm" or "rms_norm".
extern const OpDef kRows;
inline constexpr size_t kRowsResidual = 3;  // the place of the residual
enum class RowKind : uint8_t { Softmax, LogSoftmax, LayerNorm, RmsNorm };
RowKind row_kind(const Node& node);

// Adds that node over x seen as rows of `extent` elements, and gives its result in the type of x; kNoValue where rows
// are too long for it.
ValueId add_rows(Graph& graph, const Node& node, ValueId x, int64_t extent, const std::string& kind,
                 const std::vector<ValueId>& affine = {});

}  // namespace gyrus
