#include "import/onnx_build.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor.h"
#include "graph/op.h"
#include "ops/evaluate.h"

namespace gyrus::onnx {
namespace {

// What is computed while importing; the rest is left to the device.
constexpr int64_t kMostFolded = int64_t{1} << 22;  // elements of a constant
constexpr int64_t kMostInAll = int64_t{1} << 27;   // elements of all constants that are not small
constexpr int64_t kSmall = 4096;                   // elements
constexpr double kMostWork = 1e8;                  // operations for a constant
constexpr int64_t kLongestAxis = int64_t{1} << 31;
constexpr size_t kMostNodes = size_t{1} << 20;
constexpr int64_t kMostListed = int64_t{1} << 25;

thread_local int64_t folded = 0;  // elements so far

Attrs list(const char* name, const Ints& values) { return {{name, values}}; }

std::vector<ValueId> fold(Graph& graph, const Node& node, const std::vector<TensorType>& types) {
  std::vector<const Tensor*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &graph.constant(id));
  std::vector<ValueId> ids;
  for (Tensor& tensor : evaluate(node, inputs, types)) ids.push_back(graph.add_constant({}, std::move(tensor)));
  return ids;
}

std::vector<ValueId> add(Graph& graph, Node node) {
  const OpDef& def = gyrus::op(node.op);
  bool known = def.reference != nullptr;
  std::vector<TensorType> types;
  for (const ValueId id : node.inputs) {
    known = known && (id == kNoValue || graph.is_constant(id));
    types.push_back(id == kNoValue ? TensorType{} : graph.type(id));
  }
  if (graph.nodes().size() > kMostNodes) unsupported("the network has too many nodes");
  const std::vector<TensorType> results = def.infer(node, types);
  for (const TensorType& type : results) {
    for (const int64_t extent : type.shape)
      if (extent > kLongestAxis) unsupported(cat("a tensor of ", gyrus::to_string(type.shape)));
    const int64_t count = element_count(type.shape);
    known = known && count <= (folded < kMostInAll ? kMostFolded : kSmall);
    if (known && count > kSmall) folded += count;
  }
  if (known && def.flops && def.flops(node, types, results) > kMostWork) known = false;
  return known ? fold(graph, node, results) : graph.add_node(std::move(node));
}

}  // namespace

void begin_folding() { folded = 0; }

int64_t listed(int64_t count) {
  if (count < 0 || count > kMostListed) unsupported(cat("a list of ", count, " elements"));
  return count;
}

int64_t sized(int64_t number) {
  if (number < -kLongestAxis || number > kLongestAxis) invalid(cat("the size ", number, " is beyond reason"));
  return number;
}

int64_t Val::extent(int64_t axis) const { return shape()[axis_of(axis, rank())]; }

bool is_float(Val x) { return gyrus::is_float(x.dtype()); }
bool is_integer(Val x) { return !is_float(x) && x.dtype() != DType::Bool; }

Vals ops(const std::string& name, const Vals& operands, Attrs attrs) {
  Graph* graph = nullptr;
  Node node;
  node.op = name;
  node.attrs = std::move(attrs);
  for (const Val& x : operands) {
    if (x) graph = x.graph;
    node.inputs.push_back(x.id);
  }
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  if (!graph) invalid(name + " has no operand");
  node.label = graph->label();
  Vals results;
  for (const ValueId id : add(*graph, std::move(node))) {
    const DType dtype = graph->type(id).dtype;
    Val result{graph, id, elem_of(dtype)};
    for (const Val& x : operands)
      if (x && stored_as(x.elem, "onnx") == dtype) {
        result.elem = x.elem;
        break;
      }
    results.push_back(result);
  }
  return results;
}

Val op(const std::string& name, const Vals& operands, Attrs attrs) {
  return ops(name, operands, std::move(attrs)).front();
}

Vals built_all(const Vals& operands, const std::function<Values(const Values&)>& make) {
  Graph part;
  Values given;
  std::vector<std::pair<ValueId, ValueId>> known;
  Graph& graph = *operands.at(0).graph;
  for (const Val& x : operands) {
    if (!x) {
      given.emplace_back();
      continue;
    }
    const ValueId id = x.is_constant() ? part.add_constant("", graph.value(x.id).constant)
                                       : part.add_input(std::to_string(given.size()), graph.type(x.id));
    known.emplace_back(id, x.id);
    given.emplace_back(part, id);
  }
  const Values results = make(given);
  std::vector<ValueId> map(part.value_count(), kNoValue);
  for (const auto& [id, own] : known) map[id] = own;
  for (ValueId id = 0; id < part.value_count(); ++id)
    if (map[id] == kNoValue && part.is_constant(id)) map[id] = graph.add_constant("", part.value(id).constant);
  for (Node node : part.nodes()) {
    const std::vector<ValueId> old = node.outputs;
    for (ValueId& id : node.inputs) id = id == kNoValue ? id : map.at(id);
    node.label = graph.label();
    const std::vector<ValueId> made = add(graph, std::move(node));
    for (size_t i = 0; i < made.size(); ++i) map[old[i]] = made[i];
  }
  Vals all;
  for (const Value& result : results) all.push_back({&graph, map.at(result.id()), operands[0].elem});
  return all;
}

Val built(const Vals& operands, const std::function<Value(const Values&)>& make) {
  return built_all(operands, [&](const Values& given) { return Values{make(given)}; })[0];
}

Val as(Val x, Elem elem) {
  x.elem = elem;
  return x;
}

Val constant(Graph& graph, Tensor tensor, Elem elem) {
  return {&graph, graph.add_constant({}, std::move(tensor)), elem};
}
Val constant(Graph& graph, Tensor tensor) {
  const Elem elem = elem_of(tensor.dtype);
  return constant(graph, std::move(tensor), elem);
}

Val ints(Graph& graph, const Ints& values) {
  Tensor tensor(DType::I64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<int64_t>());
  return constant(graph, std::move(tensor));
}

Val indices(Graph& graph, const Shape& shape, const Ints& values) {
  Tensor tensor(DType::I32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return constant(graph, std::move(tensor));
}

Val floats(Graph& graph, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::F32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.as<float>()[i] = static_cast<float>(values[i]);
  return constant(graph, std::move(tensor));
}

Val mask(Graph& graph, const Shape& shape, const std::vector<uint8_t>& values) {
  Tensor tensor(DType::Bool, shape);
  std::copy(values.begin(), values.end(), tensor.as<uint8_t>());
  return constant(graph, std::move(tensor));
}

Val scalar(Val like, double value) {
  Tensor tensor(like.dtype(), Shape{});
  set(tensor, 0, value);
  return constant(*like.graph, std::move(tensor), like.elem);
}

Val filled(Val like, const Shape& shape, double value) { return expand(scalar(like, value), shape); }

Val operator+(Val a, Val b) { return op("add", {a, b}); }
Val operator-(Val a, Val b) { return op("sub", {a, b}); }
Val operator*(Val a, Val b) { return op("mul", {a, b}); }
Val operator/(Val a, Val b) { return op(is_float(a) ? "div" : "idiv", {a, b}); }
Val operator+(Val a, double b) { return b == 0 ? a : a + scalar(a, b); }
Val operator-(Val a, double b) { return b == 0 ? a : a - scalar(a, b); }
Val operator*(Val a, double b) { return b == 1 ? a : a * scalar(a, b); }
Val operator/(Val a, double b) { return b == 1 ? a : a / scalar(a, b); }
Val operator-(double a, Val b) { return scalar(b, a) - b; }
Val operator/(double a, Val b) { return scalar(b, a) / b; }

Val where(Val condition, Val a, Val b) {
  Val result = op("where", {condition, a, b});
  return as(result, a.elem);
}

Val reshape(Val x, const Shape& shape) {
  Shape full = shape;
  const auto open = std::find(full.begin(), full.end(), -1);
  if (open != full.end()) {
    int64_t rest = 1;
    for (const int64_t extent : full)
      if (extent != -1) rest = checked_mul(rest, extent, "reshape");
    *open = rest == 0 ? 0 : x.size() / rest;
  }
  if (element_count(full) != x.size())
    invalid(cat("reshapes ", gyrus::to_string(x.shape()), " to ", gyrus::to_string(shape)));
  return full == x.shape() ? x : op("reshape", {x}, list("shape", full));
}

Val transpose(Val x, const Ints& perm) {
  return perm == range(static_cast<int64_t>(x.rank())) ? x : op("transpose", {x}, list("perm", perm));
}

Val swap_axes(Val x, size_t a, size_t b) {
  Ints perm = range(static_cast<int64_t>(x.rank()));
  if (a >= perm.size() || b >= perm.size()) invalid("an axis lies beyond the rank");
  std::swap(perm[a], perm[b]);
  return transpose(x, perm);
}

Val slice(Val x, size_t axis, int64_t start, int64_t end, int64_t step) {
  if (axis >= x.rank()) invalid(cat("a slice along axis ", axis, " of ", gyrus::to_string(x.shape())));
  if (start == 0 && end >= x.shape()[axis] && step == 1) return x;
  Ints starts(x.rank(), 0), ends = x.shape(), steps(x.rank(), 1);
  starts[axis] = start;
  ends[axis] = end;
  steps[axis] = step;
  return op("slice", {x}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}

Val concat(const Vals& parts, size_t axis) {
  return parts.size() == 1 ? parts[0] : op("concat", parts, {{"axis", static_cast<int64_t>(axis)}});
}

Val pad(Val x, const Ints& pads, double value) {
  const size_t rank = x.rank();
  for (const int64_t p : pads) sized(p);
  Ints more(2 * rank, 0), starts(rank, 0), ends = x.shape();
  bool cut = false, grown = false;
  for (size_t a = 0; a < rank; ++a) {
    const int64_t before = pads[a], after = pads[a + rank];
    starts[a] = std::max<int64_t>(-before, 0);
    ends[a] = std::max(starts[a], x.shape()[a] + std::min<int64_t>(after, 0));
    more[a] = std::max<int64_t>(before, 0);
    more[a + rank] = std::max<int64_t>(after, 0);
    cut = cut || before < 0 || after < 0;
    grown = grown || before > 0 || after > 0;
  }
  if (cut) x = op("slice", {x}, {{"starts", starts}, {"ends", ends}});
  return grown ? op("pad", {x}, {{"pads", more}, {"value", value}}) : x;
}

Val expand(Val x, const Shape& shape) { return shape == x.shape() ? x : op("expand", {x}, list("shape", shape)); }

Val take(Val x, const Ints& at, size_t axis) {
  const int64_t count = static_cast<int64_t>(at.size());
  const int64_t step = count > 1 ? at[1] - at[0] : 1;
  bool even = step > 0;
  for (size_t i = 1; i < at.size(); ++i) even = even && at[i] - at[i - 1] == step;
  if (count > 0 && even) return slice(x, axis, at[0], at.back() + 1, step);
  return op("gather", {x, indices(*x.graph, {count}, at)}, {{"axis", static_cast<int64_t>(axis)}});
}

Val unsqueeze(Val x, size_t axis) {
  Shape shape = x.shape();
  if (axis > shape.size()) invalid("an axis lies beyond the rank");
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return reshape(x, shape);
}

Val squeeze(Val x, size_t axis) {
  Shape shape = x.shape();
  if (axis >= shape.size()) invalid("an axis lies beyond the rank");
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return reshape(x, shape);
}

Val reduce(const std::string& name, Val x, const Ints& axes, bool keepdims) {
  if (axes.empty()) return x;
  return op(name, {x}, {{"axes", axes}, {"keepdims", int64_t{keepdims}}});
}

Val matmul(Val a, Val b, bool transpose_a, bool transpose_b) {
  return op("matmul", {a, b}, {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
}

Val softmax(Val x, int64_t axis) { return op("softmax", {x}, {{"axis", axis}}); }

Val log_softmax(Val x, int64_t axis) {
  const Val shifted = x - reduce("reduce_max", x, {axis}, true);
  return shifted - op("log", {reduce("reduce_sum", op("exp", {shifted}), {axis}, true)});
}

Val conv(Val x, Val weight, Val bias, const Ints& stride, const Ints& dilation, const Ints& pads, int64_t groups) {
  return op("conv", {x, weight, bias},
            {{"stride", stride}, {"dilation", dilation}, {"pads", pads}, {"groups", groups}});
}

size_t axis_of(int64_t axis, size_t rank) {
  const int64_t n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) invalid(cat("axis ", axis, " of a tensor of rank ", n));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

Ints axes_of(const Ints& axes, size_t rank) {
  Ints result;
  for (const int64_t axis : axes) result.push_back(static_cast<int64_t>(axis_of(axis, rank)));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Ints range(int64_t count) {
  Ints values(static_cast<size_t>(listed(std::max<int64_t>(count, 0))));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

Shape with(Shape shape, size_t axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t p = i < a.size() ? a[a.size() - 1 - i] : 1, q = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (p != q && p != 1 && q != 1)
      invalid(cat("shapes ", gyrus::to_string(a), " and ", gyrus::to_string(b), " do not broadcast"));
    result[result.size() - 1 - i] = p == 1 ? q : p;
  }
  return result;
}

int64_t whole(double value) {
  constexpr double kMost = 4e18;
  return std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

Ints integers(const Tensor& tensor) {
  Ints values(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = tensor.dtype == DType::I64 ? tensor.as<int64_t>()[i] : whole(get(tensor, static_cast<int64_t>(i)));
  return values;
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = get(tensor, static_cast<int64_t>(i));
  return values;
}

void unsupported(const std::string& reason) { throw Error(ErrorCode::Unsupported, reason); }
void invalid(const std::string& reason) { throw Error(ErrorCode::InvalidModel, reason); }

}  // namespace gyrus::onnx
