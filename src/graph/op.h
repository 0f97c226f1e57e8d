#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

// The contract of an op: one OpDef each, defined in src/ops and listed once in src/ops/registry.cpp.

namespace gyrus {

// A tensor of the reference executor: every value a double, so that nothing rounds on the way.
struct RefTensor {
  Shape shape;
  std::vector<double> data;
};

struct Elementwise;
struct IndexMap;
class Rewriter;

// In which layouts an op works.
enum class LayoutRule : uint8_t {
  Plain,        // everything lies plain
  Follows,      // packed where an operand of the result's shape is
  Packed,       // reads its first operand packed, gives its first result packed
  Maps,         // the same, but a first operand of one channel stays plain
  ReadsMaps,    // reads its first two operands packed, but one channel stays plain; gives plain results
  ReadsPacked,  // reads its first operand packed, gives plain results
  Repacks,      // goes from one layout to the other
};

// Which operand's memory the first result may take over where nothing else reads it.
enum class InPlace : uint8_t { Never, First, Any };

// What an op that looks for the largest element along an axis gives.
struct Pick {
  size_t axis = 0;
  bool keepdims = false;
  DType dtype = DType::U32;
};

// What a gradient is written with: the operands and results of a node (absent ones have no graph), the gradient of each
// result (those that nothing depends on have no graph), and of which operands one is wanted.
struct Backward {
  const Node& node;
  std::vector<Value> inputs, outputs, gradients;
  std::vector<bool> wanted;
};

// Whether the program trains. The page's module for inference is built without: it then holds nothing that only
// gradients need, whatever ops say of theirs.
#ifndef GYRUS_TRAINING
#define GYRUS_TRAINING 1
#endif
inline constexpr bool kTraining = GYRUS_TRAINING;

// Whether the program has the ops of language models.
#ifndef GYRUS_LANGUAGE
#define GYRUS_LANGUAGE 1
#endif
inline constexpr bool kLanguage = GYRUS_LANGUAGE;

// Whether it has the ops that read packed weights, which language models have, too.
#ifndef GYRUS_PACKED
#define GYRUS_PACKED GYRUS_LANGUAGE
#endif
inline constexpr bool kPacked = GYRUS_PACKED;

// A function that only training calls; none in a program that does not train.
template <class>
class ForTraining;
template <class R, class... Args>
class ForTraining<R(Args...)> {
 public:
  constexpr ForTraining() = default;
  template <class F>
  constexpr ForTraining(F function) : function_(kTraining ? static_cast<R (*)(Args...)>(function) : nullptr) {}
  constexpr explicit operator bool() const { return function_ != nullptr; }
  R operator()(Args... args) const { return function_(args...); }

 private:
  R (*function_)(Args...) = nullptr;
};

struct OpDef {
  std::string_view name;

  // Output types from the node and the types of its inputs; what stands for an absent input has no meaning, see
  // has_input() in ops/common.h. Throws InvalidGraph or Unsupported with "[name] …".
  std::vector<TensorType> (*infer)(const Node& node, const std::vector<TensorType>& inputs) = nullptr;

  // The slow, readable definition of the op; an absent input is null. `outputs` arrive with their shapes set and data
  // sized (zeros).
  void (*reference)(const Node& node, const std::vector<const RefTensor*>& inputs,
                    std::vector<RefTensor>& outputs) = nullptr;

  // Whether a node of this op may carry a body as it stands; null: none may. The body's operands are the raw result of
  // the op (not of "fused", which has none: `body_only`), then the node's inputs beyond the first `own_inputs`.
  bool (*takes_body)(const Node& node) = nullptr;
  size_t own_inputs = 0;
  bool body_only = false;
  bool reads_further = false;  // its kernel can read further operands of the body that have the shape of the result

  // The attributes, one for each operand, that say that its last two axes are read the other way round.
  std::array<std::string_view, 2> transposes{};

  // Elementwise ops only: the row of the table that says what is computed (ops/elementwise.h).
  const Elementwise* elementwise = nullptr;

  bool only_trains = false;  // where a network only runs, the first result is the first operand

  // Movement ops only: where the elements of the result come from, one map for each input (ops/index_map.h).
  std::vector<IndexMap> (*index_maps)(const Node& node, const std::vector<Shape>& inputs,
                                      const Shape& output) = nullptr;
  bool alias = false;  // the result is the bytes of the first input under another shape

  LayoutRule layout = LayoutRule::Plain;
  // Whether this very node has a kernel for packed maps, else it is plain; null: always.
  bool (*packs)(const Graph& graph, const Node& node) = nullptr;
  InPlace in_place = InPlace::Never;
  std::string_view dtype_attr{};  // the attribute that names the element type of the result, if there is one

  // What other ops can be joined with. Each gives the node that replaces this one, or nothing where it cannot.
  bool gives_statistics = false;  // the result is mean and variance of each channel of the first input
  // The node with those statistics of its raw result as a second result.
  std::optional<Node> (*with_statistics)(const Graph& graph, const Node& node) = nullptr;
  // The node whose result is scale[c] * result + shift[c] for each channel c; new constants are made from `name`.
  std::optional<Node> (*with_affine)(Graph& graph, const Node& node, const std::vector<double>& scale,
                                     const std::vector<double>& shift, const std::string& name) = nullptr;
  // The node that gives the largest channel instead of all of them.
  std::optional<Node> (*with_argmax)(const Graph& graph, const Node& node, DType dtype) = nullptr;
  // One node in the place of several of this op with the same first operand: its result holds theirs one after another
  // along the last axis. Nodes and new constants are of `graph`.
  std::optional<Node> (*with_others)(Graph& graph, const std::vector<Node>& nodes) = nullptr;
  // The node over the sum of two values of its first operand's type, which it gives as a second result.
  std::optional<Node> (*with_residual)(const Node& node, ValueId x, ValueId residual) = nullptr;
  // What is picked, of an op that gives the position of the largest element.
  std::optional<Pick> (*picks_largest)(const Node& node, const Shape& input) = nullptr;
  // The axis along which elements stay in their order, so that the largest need not be looked for in the result.
  std::optional<size_t> (*keeps_order)(const Node& node, const Shape& input) = nullptr;

  // Adds the nodes that give the gradient of every wanted input; a value without a graph where that is zero. Null:
  // that of what the node decomposes into, or, where nothing does, none goes through it (train/autodiff.h).
  ForTraining<std::vector<Value>(const Backward& back)> gradient{};

  bool recomputed = false;  // backward passes make its first result again rather than keep it

  // Rewrites a node into simpler ones inside `graph`; returns the values that replace its outputs. An op that has a
  // kernel as well is put together again by a later pass where that kernel fits.
  std::vector<ValueId> (*decompose)(Graph& graph, const Node& node) = nullptr;
  // Where nodes that end with `last` of the old graph do what this op does: adds it to the new graph and gives the
  // value that stands for the result of `last`, else kNoValue. For ops that models often bring in parts.
  ValueId (*from_parts)(Rewriter& rewrite, const Node& last) = nullptr;
  bool has_kernel = false;  // the planner decides which nodes it takes; others are decomposed there
  // Sums products of its operands, and may round those to halves first where the attribute halves = 1 says so, which
  // assign_precision gives it.
  bool multiplies = false;

  // Floating-point operations of the node (a multiply-add counts two).
  double (*flops)(const Node& node, const std::vector<TensorType>& inputs,
                  const std::vector<TensorType>& outputs) = nullptr;
};

// The op of that name, or null.
const OpDef* find_op(std::string_view name);
// The op of that name; throws Unsupported where there is none.
const OpDef& op(std::string_view name);
// How many of the node's inputs are the op's own, before further operands of its body: as many as the op takes, and
// behind them `arranged` copies of its weights in the order that the planner wants (ops/arrange.h).
size_t own_inputs(const Node& node);
// How many operands the body of the node has.
size_t body_operands(const Node& node);
// All ops, in the order of the registry.
const std::vector<const OpDef*>& all_ops();

}  // namespace gyrus
