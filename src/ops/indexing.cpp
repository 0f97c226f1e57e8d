#include "ops/indexing.h"

#include <algorithm>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

void check_indices(const Node& node, const TensorType& indices) {
  if (indices.dtype != DType::I32 && indices.dtype != DType::U32 && indices.dtype != DType::I64)
    fail(ErrorCode::Unsupported, node.op, "indices are ", to_string(indices.dtype),
         ", expected i32 or u32; add a cast");
}

int64_t product(const Shape& shape, size_t begin, size_t end) {
  return element_count(
      Shape(shape.begin() + static_cast<std::ptrdiff_t>(begin), shape.begin() + static_cast<std::ptrdiff_t>(end)));
}

int64_t wrapped(const Node& node, double given, int64_t extent) {
  const auto index = static_cast<int64_t>(given) + (given < 0 ? extent : 0);
  if (index < 0 || index >= extent)
    fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "index ", given, " is outside an axis of ",
         extent);
  return index;
}

// Indices along one axis: which elements of data they mean.
struct AlongAxis {
  size_t axis = 0;
  std::vector<int64_t> strides;  // of data
  Shape indices;
};

AlongAxis along(const Node& node, const Shape& data, const Shape& indices) {
  AlongAxis a{checked_axis(node, node.attrs.integer("axis", 0), data.size()), strides_of(data), indices};
  bool fits = indices.size() == data.size();
  for (size_t d = 0; fits && d < data.size(); ++d) fits = d == a.axis || indices[d] <= data[d];
  if (!fits)
    fail(ErrorCode::InvalidGraph, node.op, "indices are ", to_string(indices), " and data is ", to_string(data),
         ": expected as many axes, and no more elements but along axis ", a.axis);
  return a;
}

// Calls visit(i, element) for every index i and the element of data that it means.
template <class Visit>
void each_index(const Node& node, const AlongAxis& a, const RefTensor& data, const RefTensor& indices, Visit visit) {
  std::vector<int64_t> strides = a.strides;
  strides[a.axis] = 0;
  size_t i = 0;
  walk(indices.shape, {strides}, {0}, [&](const std::vector<int64_t>& at) {
    const int64_t index = wrapped(node, indices.data[i], data.shape[a.axis]);
    visit(i++, static_cast<size_t>(at[0] + index * a.strides[a.axis]));
  });
}

// Coordinates in the last axis of the indices, of `k` axes behind `batch` ones.
struct Coordinates {
  size_t batch = 0, k = 0;
  int64_t batches = 1, queries = 1, inner = 1;
  Shape result;
};

Coordinates coordinates(const Node& node, const Shape& data, const Shape& indices, size_t batch) {
  if (indices.empty() || batch >= indices.size() || batch > data.size())
    fail(ErrorCode::InvalidGraph, node.op, "indices are ", to_string(indices), ", expected a last axis of coordinates");
  Coordinates c;
  c.batch = batch;
  c.k = static_cast<size_t>(indices.back());
  if (batch + c.k > data.size() ||
      !std::equal(indices.begin(), indices.begin() + static_cast<int64_t>(batch), data.begin()))
    fail(ErrorCode::InvalidGraph, node.op, "indices ", to_string(indices), " do not fit data ", to_string(data));
  c.batches = product(data, 0, batch);
  c.queries = product(indices, batch, indices.size() - 1);
  c.inner = product(data, batch + c.k, data.size());
  c.result.assign(indices.begin(), indices.end() - 1);
  c.result.insert(c.result.end(), data.begin() + static_cast<int64_t>(batch + c.k), data.end());
  return c;
}

size_t batch_of(const Node& node) {
  return static_cast<size_t>(std::max<int64_t>(0, node.attrs.integer("batch_dims", 0)));
}

// The row of [batches * the k extents, inner] that query q of batch b means.
int64_t row_of(const Node& node, const Coordinates& c, const Shape& data, const RefTensor& indices, int64_t b,
               int64_t q) {
  int64_t row = b;
  for (size_t j = 0; j < c.k; ++j) {
    const auto at = static_cast<size_t>((b * c.queries + q) * static_cast<int64_t>(c.k)) + j;
    row = row * data[c.batch + j] + wrapped(node, indices.data[at], data[c.batch + j]);
  }
  return row;
}

Tensor numbers(const Shape& shape, int64_t step) {
  Tensor tensor(DType::I32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.as<int32_t>()[i] = static_cast<int32_t>(i * step);
  return tensor;
}

// Adds nodes that carry the label of a node.
class Maker {
 public:
  Maker(Graph& graph, const Node& node) : graph_(graph), label_(node.label.empty() ? node.op : node.label) {}
  ValueId add(const char* op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return graph_.add(op, inputs, std::move(attrs), label_);
  }
  ValueId constant(Tensor tensor) { return graph_.add_constant("", std::move(tensor)); }
  ValueId reshape(ValueId id, const Shape& shape) { return add("reshape", {id}, {{"shape", shape}}); }
  ValueId cast(ValueId id, DType to) {
    return graph_.type(id).dtype == to ? id : add("cast", {id}, {{"to", std::string(to_string(to))}});
  }
  // Indices from the front; what lies outside the extent is reported by the gather that wraps them.
  ValueId wrap(ValueId indices, int64_t extent) { return add("gather", {constant(numbers({extent}, 1)), indices}); }
  const Graph& graph() const { return graph_; }

 private:
  Graph& graph_;
  std::string label_;
};

// The positions in flat data that indices along an axis mean: the wrapped index and every other coordinate, each times
// its stride. Neighbouring axes count as one where the indices are as long as data there.
ValueId flat_positions(Maker& make, const AlongAxis& a, ValueId indices, const Shape& data) {
  const auto times = [&](ValueId id, int64_t stride) {
    Tensor scale(DType::I32, {});
    scale.as<int32_t>()[0] = static_cast<int32_t>(stride);
    return stride == 1 ? id : make.add("mul", {id, make.constant(std::move(scale))});
  };
  ValueId sum = times(make.wrap(make.cast(indices, DType::I32), data[a.axis]), a.strides[a.axis]);
  for (size_t begin = 0; begin < data.size();) {
    size_t end = begin + 1;
    if (begin != a.axis)
      while (end < data.size() && end != a.axis && a.indices[end] == data[end]) ++end;
    if (begin != a.axis) {
      Shape line(data.size(), 1);
      for (size_t d = begin; d < end; ++d) line[d] = a.indices[d];
      if (element_count(line) > 1) sum = make.add("add", {sum, make.constant(numbers(line, a.strides[end - 1]))});
    }
    begin = end;
  }
  return make.reshape(sum, {-1});
}

// The flat rows [batches * queries] that coordinates mean.
ValueId flat_coordinates(Maker& make, const Coordinates& c, const Shape& data, ValueId indices) {
  const auto k = static_cast<int64_t>(c.k);
  const ValueId all = make.reshape(make.cast(indices, DType::I32), {c.batches, c.queries, k});
  ValueId row = make.constant(numbers({c.batches, 1, 1}, 1));
  for (int64_t j = 0; j < k; ++j) {
    const int64_t extent = data[c.batch + static_cast<size_t>(j)];
    const ValueId one = make.add(
        "slice", {all},
        {{"starts", std::vector<int64_t>{0, 0, j}}, {"ends", std::vector<int64_t>{c.batches, c.queries, j + 1}}});
    Tensor scale(DType::I32, {});
    scale.as<int32_t>()[0] = static_cast<int32_t>(extent);
    row = make.add("add", {make.add("mul", {row, make.constant(std::move(scale))}), make.wrap(one, extent)});
  }
  if (k == 0) row = make.add("expand", {row}, {{"shape", Shape{c.batches, c.queries, 1}}});
  return make.reshape(row, {-1});
}

bool is_empty(const Graph& graph, ValueId id) { return element_count(graph.type(id).shape) == 0; }

// gather_elements

std::vector<TensorType> infer_gather_elements(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"axis"});
  check_indices(node, inputs[1]);
  along(node, inputs[0].shape, inputs[1].shape);
  return {{inputs[0].dtype, inputs[1].shape, Layout::Plain}};
}

void reference_gather_elements(const Node& node, const std::vector<const RefTensor*>& inputs,
                               std::vector<RefTensor>& outputs) {
  const AlongAxis a = along(node, inputs[0]->shape, inputs[1]->shape);
  each_index(node, a, *inputs[0], *inputs[1],
             [&](size_t i, size_t element) { outputs[0].data[i] = inputs[0]->data[element]; });
}

std::vector<ValueId> decompose_gather_elements(Graph& graph, const Node& node) {
  Maker make(graph, node);
  const Shape shape = graph.type(node.inputs[1]).shape;
  const Shape data = graph.type(node.inputs[0]).shape;
  const AlongAxis a = along(node, data, shape);
  if (is_empty(graph, node.inputs[1])) return {make.constant(Tensor(graph.type(node.inputs[0]).dtype, shape))};
  const ValueId rows = flat_positions(make, a, node.inputs[1], data);
  return {make.reshape(make.add("gather", {make.reshape(node.inputs[0], {-1}), rows}), shape)};
}

// gather_nd

std::vector<TensorType> infer_gather_nd(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"batch_dims"});
  check_indices(node, inputs[1]);
  return {{inputs[0].dtype, coordinates(node, inputs[0].shape, inputs[1].shape, batch_of(node)).result, Layout::Plain}};
}

void reference_gather_nd(const Node& node, const std::vector<const RefTensor*>& inputs,
                         std::vector<RefTensor>& outputs) {
  const Coordinates c = coordinates(node, inputs[0]->shape, inputs[1]->shape, batch_of(node));
  double* out = outputs[0].data.data();
  for (int64_t b = 0; b < c.batches; ++b)
    for (int64_t q = 0; q < c.queries; ++q) {
      const int64_t row = row_of(node, c, inputs[0]->shape, *inputs[1], b, q);
      for (int64_t i = 0; i < c.inner; ++i) *out++ = inputs[0]->data[static_cast<size_t>(row * c.inner + i)];
    }
}

std::vector<ValueId> decompose_gather_nd(Graph& graph, const Node& node) {
  Maker make(graph, node);
  const Shape data = graph.type(node.inputs[0]).shape;
  const Coordinates c = coordinates(node, data, graph.type(node.inputs[1]).shape, batch_of(node));
  if (element_count(c.result) == 0) return {make.constant(Tensor(graph.type(node.inputs[0]).dtype, c.result))};
  const ValueId rows = flat_coordinates(make, c, data, node.inputs[1]);
  const ValueId matrix = make.reshape(node.inputs[0], {-1, c.inner});
  return {make.reshape(make.add("gather", {matrix, rows}), c.result)};
}

// scatter

double combined(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::None: return b;
    case Reduction::Add: return a + b;
    case Reduction::Mul: return a * b;
    case Reduction::Min: return std::min(a, b);
    case Reduction::Max: return std::max(a, b);
  }
  return b;
}

void check_updates(const Node& node, const TensorType& data, const TensorType& updates, const Shape& expected) {
  if (updates.shape != expected || updates.dtype != data.dtype)
    fail(ErrorCode::InvalidGraph, node.op, "updates are ", to_string(updates.dtype), to_string(updates.shape),
         ", expected ", to_string(data.dtype), to_string(expected));
  reduction_of(node);
}

std::vector<TensorType> infer_scatter_elements(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"axis", "reduction"});
  check_indices(node, inputs[1]);
  along(node, inputs[0].shape, inputs[1].shape);
  check_updates(node, inputs[0], inputs[2], inputs[1].shape);
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

void reference_scatter_elements(const Node& node, const std::vector<const RefTensor*>& inputs,
                                std::vector<RefTensor>& outputs) {
  const AlongAxis a = along(node, inputs[0]->shape, inputs[1]->shape);
  const Reduction reduction = reduction_of(node);
  outputs[0].data = inputs[0]->data;
  each_index(node, a, *inputs[0], *inputs[1], [&](size_t i, size_t element) {
    outputs[0].data[element] = combined(reduction, outputs[0].data[element], inputs[2]->data[i]);
  });
}

// data [rows, inner] with updates at these rows, in the element type and shape of data.
ValueId scatter(Maker& make, const Node& node, ValueId rows, int64_t inner) {
  const TensorType type = make.graph().type(node.inputs[0]);
  const bool narrow = byte_size(type.dtype) < 4;
  const DType wide = !narrow ? type.dtype : is_float(type.dtype) ? DType::F32 : DType::I32;
  const ValueId data = make.cast(make.reshape(node.inputs[0], {-1, inner}), wide);
  const ValueId updates = make.cast(make.reshape(node.inputs[2], {-1, inner}), wide);
  const ValueId made =
      make.add("scatter_rows", {data, rows, updates}, {{"reduction", node.attrs.text("reduction", "none")}});
  return make.reshape(make.cast(made, type.dtype), type.shape);
}

std::vector<ValueId> decompose_scatter_elements(Graph& graph, const Node& node) {
  Maker make(graph, node);
  if (is_empty(graph, node.inputs[1])) return {node.inputs[0]};
  const Shape data = graph.type(node.inputs[0]).shape;
  const AlongAxis a = along(node, data, graph.type(node.inputs[1]).shape);
  return {scatter(make, node, flat_positions(make, a, node.inputs[1], data), 1)};
}

std::vector<TensorType> infer_scatter_nd(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"reduction"});
  check_indices(node, inputs[1]);
  check_updates(node, inputs[0], inputs[2], coordinates(node, inputs[0].shape, inputs[1].shape, 0).result);
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

void reference_scatter_nd(const Node& node, const std::vector<const RefTensor*>& inputs,
                          std::vector<RefTensor>& outputs) {
  const Coordinates c = coordinates(node, inputs[0]->shape, inputs[1]->shape, 0);
  const Reduction reduction = reduction_of(node);
  outputs[0].data = inputs[0]->data;
  for (int64_t q = 0; q < c.queries; ++q) {
    const int64_t row = row_of(node, c, inputs[0]->shape, *inputs[1], 0, q);
    for (int64_t i = 0; i < c.inner; ++i) {
      double& at = outputs[0].data[static_cast<size_t>(row * c.inner + i)];
      at = combined(reduction, at, inputs[2]->data[static_cast<size_t>(q * c.inner + i)]);
    }
  }
}

std::vector<ValueId> decompose_scatter_nd(Graph& graph, const Node& node) {
  Maker make(graph, node);
  if (is_empty(graph, node.inputs[2])) return {node.inputs[0]};
  const Shape data = graph.type(node.inputs[0]).shape;
  const Coordinates c = coordinates(node, data, graph.type(node.inputs[1]).shape, 0);
  return {scatter(make, node, flat_coordinates(make, c, data, node.inputs[1]), c.inner)};
}

std::vector<TensorType> infer_scatter_rows(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {"reduction"});
  const TensorType &data = inputs[0], &rows = inputs[1], &updates = inputs[2];
  if (data.shape.size() != 2 || rows.shape.size() != 1 || rows.dtype != DType::I32 || byte_size(data.dtype) != 4)
    fail(ErrorCode::InvalidGraph, node.op, "data is ", to_string(data.dtype), to_string(data.shape), " and rows are ",
         to_string(rows.dtype), to_string(rows.shape), ": expected a matrix of 4-byte elements and a list of i32");
  check_updates(node, data, updates, {rows.shape[0], data.shape[1]});
  return {{data.dtype, data.shape, Layout::Plain}};
}

void reference_scatter_rows(const Node& node, const std::vector<const RefTensor*>& inputs,
                            std::vector<RefTensor>& outputs) {
  const Reduction reduction = reduction_of(node);
  const int64_t inner = inputs[0]->shape[1];
  outputs[0].data = inputs[0]->data;
  for (int64_t m = 0; m < inputs[1]->shape[0]; ++m)
    for (int64_t i = 0; i < inner; ++i) {
      const auto row = static_cast<int64_t>(inputs[1]->data[static_cast<size_t>(m)]);
      if (row < 0 || row >= inputs[0]->shape[0])
        fail(ErrorCode::InvalidInput, node.op, "row ", row, " is outside ", inputs[0]->shape[0]);
      double& at = outputs[0].data[static_cast<size_t>(row * inner + i)];
      at = combined(reduction, at, inputs[2]->data[static_cast<size_t>(m * inner + i)]);
    }
}

// Of a row that several updates replace the gradient goes to all of them: which one won is not said.
std::vector<Value> gradient_scatter_rows(const Backward& back) {
  const Value rows = back.inputs[1], g = back.gradients[0];
  const Reduction reduction = reduction_of(back.node);
  if (reduction != Reduction::None && reduction != Reduction::Add)
    fail(ErrorCode::Unsupported, back.node.label.empty() ? back.node.op : back.node.label,
         "there is no gradient of a scatter with mul, min or max");
  std::vector<Value> gradients(3);
  if (back.wanted[0])
    gradients[0] = reduction == Reduction::Add
                       ? g
                       : apply("scatter_rows", {g, rows, zeros(g, back.inputs[2].shape())}, {{"reduction", "none"}});
  if (back.wanted[2]) gradients[2] = gather(g, rows);
  return gradients;
}

}  // namespace

Reduction reduction_of(const Node& node) {
  const std::string name = node.attrs.text("reduction", "none");
  const char* const names[] = {"none", "add", "mul", "min", "max"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (name == names[i]) return static_cast<Reduction>(i);
  fail(ErrorCode::InvalidGraph, node.op, "reduction is '", name, "', expected none, add, mul, min or max");
}

const OpDef kGatherElements = {
    .name = "gather_elements",
    .infer = infer_gather_elements,
    .reference = reference_gather_elements,
    .decompose = decompose_gather_elements,
    .flops = no_flops,
};

const OpDef kGatherNd = {
    .name = "gather_nd",
    .infer = infer_gather_nd,
    .reference = reference_gather_nd,
    .decompose = decompose_gather_nd,
    .flops = no_flops,
};

const OpDef kScatterElements = {
    .name = "scatter_elements",
    .infer = infer_scatter_elements,
    .reference = reference_scatter_elements,
    .decompose = decompose_scatter_elements,
    .flops = element_flops,
};

const OpDef kScatterNd = {
    .name = "scatter_nd",
    .infer = infer_scatter_nd,
    .reference = reference_scatter_nd,
    .decompose = decompose_scatter_nd,
    .flops = element_flops,
};

const OpDef kScatterRows = {
    .name = "scatter_rows",
    .infer = infer_scatter_rows,
    .reference = reference_scatter_rows,
    .in_place = InPlace::First,
    .gradient = gradient_scatter_rows,
    .flops = element_flops,
};

}  // namespace gyrus
