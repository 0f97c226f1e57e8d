#include "ops/sample.h"

#include <cmath>

#include "core/tensor.h"
#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

bool is_nearest(const Node& node) {
  const std::string mode = node.attrs.text("mode", "linear");
  if (mode != "linear" && mode != "nearest")
    fail(ErrorCode::InvalidGraph, node.op, "mode is '", mode, "', expected linear or nearest");
  return mode == "nearest";
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 4, {"mode"});
  const Shape& x = inputs[0].shape;
  if (x.size() != inputs.size() + 1)
    fail(ErrorCode::InvalidGraph, node.op, "x is ", to_string(x), " with ", inputs.size() - 1,
         " operands of coordinates, expected one for each axis behind [N,C]");
  const Shape& at = inputs[1].shape;
  for (size_t a = 1; a < inputs.size(); ++a)
    if (inputs[a].shape != at || inputs[a].dtype != DType::F32 || at.size() < 2 || at[0] != x[0])
      fail(ErrorCode::InvalidGraph, node.op, "coordinates are ", to_string(inputs[a].dtype), to_string(inputs[a].shape),
           ", expected f32 of one shape [N,…] for x ", to_string(x));
  if (!is_nearest(node)) expect_float(node, inputs[0], "x");
  if (inputs[0].dtype == DType::U8 || inputs[0].dtype == DType::Bool)
    fail(ErrorCode::Unsupported, node.op, "x is ", to_string(inputs[0].dtype), ", expected numbers; add a cast");
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), at.begin() + 1, at.end());
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const SampleAttrs s = sample_attrs(node, inputs[0]->shape, outputs[0].shape);
  const size_t rank = s.extents.size();
  for (int64_t o = 0; o < s.images * s.channels * s.points; ++o) {
    const int64_t image = o / (s.channels * s.points), point = image * s.points + o % s.points;
    const double* plane = inputs[0]->data.data() + o / s.points * s.places;
    double sum = 0;
    for (size_t tap = 0; tap < (s.nearest ? 1 : size_t{1} << rank); ++tap) {
      double weight = 1;
      int64_t place = 0;
      for (size_t a = 0; a < rank; ++a) {
        const double at = inputs[a + 1]->data[static_cast<size_t>(point)], low = std::floor(at);
        const bool high = (tap >> a & 1) != 0;
        const double p = s.nearest ? std::nearbyint(at) : low + high;
        if (!s.nearest) weight *= high ? at - low : 1 - (at - low);
        if (!(p >= 0 && p < static_cast<double>(s.extents[a])))
          weight = 0;
        else
          place += static_cast<int64_t>(p) * s.strides[a];
      }
      if (weight != 0) sum += weight * plane[place];
    }
    outputs[0].data[static_cast<size_t>(o)] = sum;
  }
}

// One neighbour of every point: which element of all of x it is, i32 [N,C,P], and for each axis its weight [N,1,P], 0
// where it lies outside.
struct Tap {
  Value index;
  std::vector<Value> weights, slopes;
  Value weight(size_t without = ~size_t{0}) const {
    Value all;
    for (size_t a = 0; a < weights.size(); ++a) {
      const Value factor = a == without ? slopes[a] : weights[a];
      all = all ? all * factor : factor;
    }
    return all;
  }
};

std::vector<Tap> taps(Graph& graph, const SampleAttrs& s, const std::vector<Value>& at) {
  const size_t rank = s.extents.size();
  Tensor starts(DType::I32, {s.images, s.channels, 1});
  for (int64_t i = 0; i < starts.size(); ++i) set(starts, i, static_cast<double>(i * s.places));
  const Value start = graph.constant(std::move(starts));
  std::vector<Tap> all;
  for (size_t k = 0; k < (s.nearest ? 1 : size_t{1} << rank); ++k) {
    Tap tap{start, {}, {}};
    for (size_t a = 0; a < rank; ++a) {
      const Value x = reshape(at[a], {s.images, 1, s.points});
      const bool high = (k >> a & 1) != 0;
      const Value low = s.nearest ? round(x) : floor(x), p = high ? low + 1.0 : low;
      const double last = static_cast<double>(s.extents[a] - 1);
      const Value inside = step(p + 0.5) * step(last + 0.5 - p);
      const Value share = s.nearest ? inside : (high ? x - low : 1.0 - (x - low)) * inside;
      tap.index = tap.index + cast(clamp(p, 0, last), DType::I32) * static_cast<double>(s.strides[a]);
      tap.weights.push_back(share);
      tap.slopes.push_back(high ? inside : -inside);
    }
    all.push_back(std::move(tap));
  }
  return all;
}

std::vector<Value> coordinates(Graph& graph, const Node& node) {
  std::vector<Value> at;
  for (size_t a = 1; a < node.inputs.size(); ++a) at.emplace_back(graph, node.inputs[a]);
  return at;
}

std::vector<ValueId> decompose(Graph& graph, const Node& node) {
  const Labelled label(graph, node);
  const Value x(graph, node.inputs[0]);
  Shape shape = {x.shape()[0], x.shape()[1]};
  const Shape at = graph.type(node.inputs[1]).shape;
  shape.insert(shape.end(), at.begin() + 1, at.end());
  if (element_count(shape) == 0) return {zeros(x, shape).id()};
  const SampleAttrs s = sample_attrs(node, x.shape(), shape);
  const bool floats = is_float(x.dtype());
  const Value flat = reshape(x, {-1});
  Value sum;
  for (const Tap& tap : taps(graph, s, coordinates(graph, node))) {
    const Value found = gather(flat, tap.index);
    const Value weight = tap.weight();
    const Value part = floats ? found * weight : found * cast(weight, x.dtype());
    sum = sum ? sum + part : part;
  }
  return {reshape(sum, shape).id()};
}

// Of x: what its elements were weighed with. Of the coordinates: the differences of neighbours.
std::vector<Value> gradient(const Backward& back) {
  const Value x = back.inputs[0];
  Graph& graph = x.graph();
  const Shape shape = back.gradients[0].shape();
  const SampleAttrs s = sample_attrs(back.node, x.shape(), shape);
  const Value g = reshape(back.gradients[0], {s.images, s.channels, s.points});
  std::vector<Value> gradients(back.inputs.size());
  const Value flat = reshape(x, {-1});
  for (const Tap& tap : taps(graph, s, {back.inputs.begin() + 1, back.inputs.end()})) {
    if (back.wanted[0]) {
      const Value before = gradients[0] ? gradients[0] : zeros(x, {element_count(x.shape()), 1});
      gradients[0] = apply("scatter_rows", {before, reshape(tap.index, {-1}), reshape(g * tap.weight(), {-1, 1})},
                           {{"reduction", "add"}});
    }
    for (size_t a = 0; a < s.extents.size() && !s.nearest; ++a) {
      if (!back.wanted[a + 1]) continue;
      const Value part = reduce_sum(g * gather(flat, tap.index) * tap.weight(a), {{1}});
      gradients[a + 1] = gradients[a + 1] ? gradients[a + 1] + part : part;
    }
  }
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i]) gradients[i] = reshape(gradients[i], back.inputs[i].shape());
  return gradients;
}

double flops(const Node& node, const std::vector<TensorType>&, const std::vector<TensorType>& outputs) {
  return static_cast<double>(element_count(outputs[0].shape)) * (is_nearest(node) ? 4 : 64);
}

}  // namespace

SampleAttrs sample_attrs(const Node& node, const Shape& x, const Shape& result) {
  SampleAttrs s;
  s.nearest = is_nearest(node);
  s.images = x[0];
  s.channels = x[1];
  s.extents.assign(x.begin() + 2, x.end());
  s.strides = strides_of(s.extents);
  s.places = element_count(s.extents);
  s.points = element_count(Shape(result.begin() + 2, result.end()));
  return s;
}

const OpDef kSample = {
    .name = "sample",
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .decompose = decompose,
    .has_kernel = true,
    .flops = flops,
};

}  // namespace gyrus
