#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/onnx_wire.h"

// What the importers of ONNX's ops build graphs with. A node whose operands are all constant is computed at once by its
// reference, so that shape arithmetic never reaches the graph.

namespace gyrus::onnx {

using Ints = std::vector<int64_t>;

// A value of the graph with the element type that ONNX has for it; the graph may hold it in another (stored_as).
struct Val {
  Graph* graph = nullptr;
  ValueId id = kNoValue;
  Elem elem = Elem::F32;

  explicit operator bool() const { return graph != nullptr; }
  Shape shape() const { return graph->type(id).shape; }  // a copy: the graph moves its values as it grows
  DType dtype() const { return graph->type(id).dtype; }
  size_t rank() const { return shape().size(); }
  int64_t size() const { return element_count(shape()); }
  int64_t extent(int64_t axis) const;  // may count from the end; throws InvalidModel where there is none
  bool is_constant() const { return graph->is_constant(id); }
  const Tensor& constant() const { return graph->constant(id); }
};
using Vals = std::vector<Val>;

bool is_float(Val x);
bool is_integer(Val x);

// Any op of gyrus; the element type of the result is that of the first operand that is stored alike.
Val op(const std::string& name, const Vals& operands, Attrs attrs = {});
Vals ops(const std::string& name, const Vals& operands, Attrs attrs = {});
// What functions of gyrus/nn.h make of the operands, their nodes being added as by op(). The element type is that of
// the first operand. Several results, or one.
using Values = std::vector<Value>;
Vals built_all(const Vals& operands, const std::function<Values(const Values&)>& make);
Val built(const Vals& operands, const std::function<Value(const Values&)>& make);
// The same value under another element type that is stored alike.
Val as(Val x, Elem elem);

Val constant(Graph& graph, Tensor tensor, Elem elem);
Val constant(Graph& graph, Tensor tensor);
Val ints(Graph& graph, const Ints& values);                                       // i64 [n]
Val indices(Graph& graph, const Shape& shape, const Ints& values);                // i32
Val floats(Graph& graph, const Shape& shape, const std::vector<double>& values);  // f32
Val mask(Graph& graph, const Shape& shape, const std::vector<uint8_t>& values);   // bool
Val scalar(Val like, double value);                                               // in the type of `like`
Val filled(Val like, const Shape& shape, double value);

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator+(Val a, double b);
Val operator-(Val a, double b);
Val operator*(Val a, double b);
Val operator/(Val a, double b);
Val operator-(double a, Val b);
Val operator/(double a, Val b);

// As ONNX's Cast: floats to integers truncate, integers to narrower ones wrap.
Val cast(Val x, Elem to);
// The bits of a u32 as an i32 has them, and back; a cast of gyrus would clamp.
Val with_sign(Val x);
Val without_sign(Val x);
Val where(Val condition, Val a, Val b);
Val reshape(Val x, const Shape& shape);  // one extent may be -1
Val transpose(Val x, const Ints& perm);
Val swap_axes(Val x, size_t a, size_t b);
Val slice(Val x, size_t axis, int64_t start, int64_t end, int64_t step = 1);  // 0 <= start <= end unless step < 0
Val concat(const Vals& parts, size_t axis);
Val pad(Val x, const Ints& pads, double value = 0);  // negative ones cut
Val expand(Val x, const Shape& shape);
Val take(Val x, const Ints& at, size_t axis);  // the elements of an axis at these places
Val unsqueeze(Val x, size_t axis);
Val squeeze(Val x, size_t axis);
Val reduce(const std::string& name, Val x, const Ints& axes, bool keepdims);
Val matmul(Val a, Val b, bool transpose_a = false, bool transpose_b = false);
Val softmax(Val x, int64_t axis);
Val log_softmax(Val x, int64_t axis);
// Lists have one number for each spatial axis; pads all before, then all after.
Val conv(Val x, Val weight, Val bias, const Ints& stride, const Ints& dilation, const Ints& pads, int64_t groups);

// The axis counted from the front; throws InvalidModel where it is outside the rank.
size_t axis_of(int64_t axis, size_t rank);
Ints axes_of(const Ints& axes, size_t rank);
Ints range(int64_t count);
// A count of elements that are listed while importing; throws Unsupported where that is beyond reason.
int64_t listed(int64_t count);
// A number from the file that sizes are computed with: at most 2^31 in magnitude, else InvalidModel.
int64_t sized(int64_t number);
// Begins a new import: how much is computed while importing is limited.
void begin_folding();
Shape with(Shape shape, size_t axis, int64_t extent);
Shape broadcast(const Shape& a, const Shape& b);
int64_t whole(double value);  // truncated and clamped
Ints integers(const Tensor& tensor);
std::vector<double> numbers(const Tensor& tensor);

[[noreturn]] void unsupported(const std::string& reason);
[[noreturn]] void invalid(const std::string& reason);

}  // namespace gyrus::onnx
