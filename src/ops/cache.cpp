#include "ops/cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor.h"
#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer_turns(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"scale"});
  const Shape &rows = inputs[0].shape, &speeds = inputs[1].shape;
  if (inputs[0].dtype != DType::I32 || rows.size() != 2 || rows[1] != kStepColumns || inputs[1].dtype != DType::F32 ||
      speeds.size() != 1)
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(rows), " and ",
         to_string(inputs[1].dtype), to_string(speeds), ", expected i32 [rows, 4] and f32 [half]");
  return {{DType::F32, {rows[0], 2 * speeds[0] + 2}, Layout::Plain}};
}

void reference_turns(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &rows = *inputs[0], &speeds = *inputs[1];
  const double scale = node.attrs.number("scale", 1);
  double* out = outputs[0].data.data();
  for (int64_t r = 0; r < rows.shape[0]; ++r) {
    const double* row = rows.data.data() + r * kStepColumns;
    for (const double speed : speeds.data) {
      *out++ = scale * std::cos(std::max(row[2], 0.0) * speed);
      *out++ = scale * std::sin(std::max(row[2], 0.0) * speed);
    }
    *out++ = row[1];
    *out++ = row[2];
  }
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double element(double word, int64_t byte) {
  return static_cast<int8_t>(static_cast<uint32_t>(word) >> (8 * byte) & 255);
}

// A head of keys or values in the cache, as it is put in and read.
class CacheRows {
 public:
  CacheRows(const CacheAttrs& a, DType dtype) : a_(a), dtype_(dtype) {}

  void put(std::vector<double>& cache, int64_t row, int64_t head, const double* values) const {
    double* to = cache.data() + row * a_.row_units + head * a_.head_units;
    if (dtype_ != DType::U32) {
      std::copy(values, values + a_.depth, to);
      return;
    }
    double most = 0;
    for (int64_t d = 0; d < a_.depth; ++d) most = std::max(most, std::abs(values[d]));
    *to++ = bits_of(static_cast<float>(most / 127));
    for (int64_t d = 0; d < a_.depth; d += 4) {
      uint32_t word = 0;
      for (int64_t l = 0; l < 4; ++l) {
        const double q = most == 0 ? 0 : std::nearbyint(values[d + l] * 127 / most);
        word |= (static_cast<uint32_t>(static_cast<int32_t>(q)) & 255) << (8 * l);
      }
      *to++ = word;
    }
  }

  double get(const std::vector<double>& cache, int64_t row, int64_t head, int64_t d) const {
    const double* from = cache.data() + row * a_.row_units + head * a_.head_units;
    if (dtype_ != DType::U32) return from[d];
    const auto bits = static_cast<uint32_t>(from[0]);
    float scale = 0;
    std::memcpy(&scale, &bits, sizeof scale);
    return scale * element(from[1 + d / 4], d % 4);
  }

 private:
  const CacheAttrs& a_;
  DType dtype_;
};

// References know no element types: a cache of bytes has rows of another width.
DType dtype_of(const Node& node, const Shape& x, const Shape& cache) {
  const int64_t heads = node.attrs.integer("heads"), kv_heads = node.attrs.integer("kv_heads");
  const int64_t depth = x.back() / std::max<int64_t>(1, heads + 2 * kv_heads);
  return cache.back() == 2 * kv_heads * depth ? DType::F32 : DType::U32;
}

std::vector<TensorType> types_of(const Node& node, const std::vector<const RefTensor*>& inputs) {
  std::vector<TensorType> types;
  for (const RefTensor* input : inputs) types.push_back({DType::F32, input ? input->shape : Shape{}, Layout::Plain});
  types[1].dtype = dtype_of(node, inputs[0]->shape, inputs[1]->shape);
  return types;
}

std::vector<TensorType> infer_rows(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 4, {"heads", "kv_heads", "halves", "eps"});
  const CacheAttrs a = cache_attrs(node, inputs);
  if (has_input(node, inputs, 3) && (inputs[3].dtype != DType::F32 || inputs[3].shape != Shape{2, a.depth}))
    fail(ErrorCode::InvalidGraph, node.op, "gamma is ", to_string(inputs[3].dtype), to_string(inputs[3].shape),
         ", expected f32 [2, ", a.depth, "]");
  return {inputs[0], inputs[1]};
}

void reference_rows(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const std::vector<TensorType> types = types_of(node, inputs);
  const CacheAttrs a = cache_attrs(node, types);
  const CacheRows rows(a, types[1].dtype);
  std::vector<double>&x = outputs[0].data, &cache = outputs[1].data;
  x = inputs[0]->data;
  cache = inputs[1]->data;
  const bool halves = flag(node, "halves"), norm = has_input(inputs, 3);
  const double eps = node.attrs.number("eps", 1e-6);
  for (int64_t r = 0; r < a.rows; ++r) {
    const double* turn = inputs[2]->data.data() + r * (2 * a.half + 2);
    const double first = turn[2 * a.half], position = turn[2 * a.half + 1];
    for (int64_t h = 0; h < a.heads + 2 * a.kv_heads; ++h) {
      double* head = x.data() + r * a.width() + h * a.depth;
      if (h < a.heads + a.kv_heads) {
        double squares = 0;
        for (int64_t d = 0; d < a.depth; ++d) squares += head[d] * head[d];
        const double* gamma = norm ? inputs[3]->data.data() + (h < a.heads ? 0 : a.depth) : nullptr;
        for (int64_t d = 0; norm && d < a.depth; ++d)
          head[d] *= gamma[d] / std::sqrt(squares / static_cast<double>(a.depth) + eps);
        for (int64_t i = 0; i < a.half; ++i) {
          double &p = head[halves ? i : 2 * i], &q = head[halves ? i + a.half : 2 * i + 1];
          const double turned = p * turn[2 * i] - q * turn[2 * i + 1];
          q = q * turn[2 * i] + p * turn[2 * i + 1];
          p = turned;
        }
      }
      if (h >= a.heads && position >= 0) rows.put(cache, static_cast<int64_t>(first + position), h - a.heads, head);
    }
  }
}

std::vector<TensorType> infer_attention(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"heads", "kv_heads", "scale", "softcap", "window"});
  const CacheAttrs a = cache_attrs(node, inputs);
  if (node.attrs.integer("window", 0) < 0 || node.attrs.number("softcap", 0) < 0)
    fail(ErrorCode::InvalidGraph, node.op, "window and softcap must be 0 or more");
  return {{DType::F32, {a.rows, a.heads * a.depth}, Layout::Plain}};
}

void reference_attention(const Node& node, const std::vector<const RefTensor*>& inputs,
                         std::vector<RefTensor>& outputs) {
  const std::vector<TensorType> types = types_of(node, inputs);
  const CacheAttrs a = cache_attrs(node, types);
  const CacheRows rows(a, types[1].dtype);
  const std::vector<double>& cache = inputs[1]->data;
  const double scale = node.attrs.number("scale"), cap = node.attrs.number("softcap", 0);
  const int64_t window = node.attrs.integer("window", 0);
  for (int64_t i = 0; i < a.rows * a.heads; ++i) {
    const int64_t r = i / a.heads, h = i % a.heads, kv = h * a.kv_heads / a.heads;
    const double* turn = inputs[2]->data.data() + r * (2 * a.half + 2) + 2 * a.half;
    const auto first = static_cast<int64_t>(turn[0]), position = static_cast<int64_t>(turn[1]);
    const double* q = inputs[0]->data.data() + r * a.width() + h * a.depth;
    double* out = outputs[0].data.data() + i * a.depth;
    std::vector<double> shares;
    double most = -INFINITY, sum = 0;
    const int64_t oldest = window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
    for (int64_t j = oldest; j <= position; ++j) {
      double s = 0;
      for (int64_t d = 0; d < a.depth; ++d) s += q[d] * rows.get(cache, first + j, kv, d);
      s *= scale;
      shares.push_back(cap > 0 ? cap * std::tanh(s / cap) : s);
      most = std::max(most, shares.back());
    }
    for (double& share : shares) sum += share = std::exp(share - most);
    for (size_t j = 0; j < shares.size(); ++j)
      for (int64_t d = 0; d < a.depth; ++d)
        out[d] += shares[j] / sum * rows.get(cache, first + oldest + static_cast<int64_t>(j), a.kv_heads + kv, d);
  }
}

double flops_attention(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const CacheAttrs a = cache_attrs(node, inputs);
  return 4.0 * static_cast<double>(a.rows * a.heads * a.depth) * static_cast<double>(a.cache_rows);
}

}  // namespace

Shape cache_shape(DType dtype, int64_t rows, int64_t kv_heads, int64_t depth) {
  return {1, 1, rows, 2 * kv_heads * (dtype == DType::U32 ? depth / 4 + 1 : depth)};
}

CacheAttrs cache_attrs(const Node& node, const std::vector<TensorType>& inputs) {
  CacheAttrs a;
  a.heads = node.attrs.integer("heads");
  a.kv_heads = node.attrs.integer("kv_heads");
  const Shape &x = inputs[0].shape, &cache = inputs[1].shape, &turns = inputs[2].shape;
  const int64_t heads = a.heads + 2 * a.kv_heads;
  if (a.kv_heads < 1 || a.heads < 1 || a.heads % a.kv_heads != 0 || x.size() != 2 || x[1] % heads != 0 ||
      x[1] / heads % 4 != 0 || inputs[0].dtype != DType::F32)
    fail(ErrorCode::InvalidGraph, node.op, "x is ", to_string(inputs[0].dtype), to_string(x), " with ", a.heads,
         " heads and ", a.kv_heads, " of keys, expected f32 [rows, (heads + 2 kv_heads) depth], depth a multiple of 4");
  a.rows = x[0];
  a.depth = x[1] / heads;
  const DType dtype = inputs[1].dtype;
  a.cache_rows = cache.size() == 4 ? cache[2] : 0;
  if ((dtype != DType::F32 && dtype != DType::F16 && dtype != DType::U32) ||
      cache != cache_shape(dtype, a.cache_rows, a.kv_heads, a.depth))
    fail(ErrorCode::InvalidGraph, node.op, "the cache is ", to_string(dtype), to_string(cache), ", expected f32 or f16",
         to_string(cache_shape(DType::F32, a.cache_rows, a.kv_heads, a.depth)), " or u32",
         to_string(cache_shape(DType::U32, a.cache_rows, a.kv_heads, a.depth)));
  a.row_units = cache[3];
  a.head_units = cache[3] / (2 * a.kv_heads);
  if (turns.size() != 2 || turns[0] != a.rows || turns[1] < 2 || turns[1] % 2 != 0 || turns[1] - 2 > a.depth)
    fail(ErrorCode::InvalidGraph, node.op, "turns are ", to_string(turns), ", expected [", a.rows,
         ", twice as many as turn, and 2]");
  a.half = turns[1] / 2 - 1;
  return a;
}

const OpDef kRopeTurns = {
    .name = "rope_turns",
    .infer = infer_turns,
    .reference = reference_turns,
    .flops = element_flops,
};

const OpDef kCacheRows = {
    .name = "cache_rows",
    .infer = infer_rows,
    .reference = reference_rows,
    .flops = element_flops,
};

const OpDef kCachedAttention = {
    .name = "cached_attention",
    .infer = infer_attention,
    .reference = reference_attention,
    .flops = flops_attention,
};

}  // namespace gyrus
