// If, Loop and Scan: what is known while importing is followed, so that none of them reaches the graph. Scans that are
// running sums, products or largest, or linear recurrences, become the ops of that.

#include <algorithm>
#include <limits>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

constexpr int64_t kMostSteps = 10000;

Vals if_node(Ctx& c) { return c.run(c.known_number(0) != 0 ? "then_branch" : "else_branch", {}); }

Val stacked(const Vals& parts, size_t axis, bool reverse) {
  Vals all;
  for (const Val& part : parts) all.push_back(unsqueeze(part, axis));
  if (reverse) std::reverse(all.begin(), all.end());
  return concat(all, axis);
}

Vals loop(Ctx& c) {
  const int64_t most = c.has(0) ? whole(c.known_number(0)) : kMostSteps;
  if (most > kMostSteps) unsupported(cat("a loop of ", most, " steps"));
  Val condition = c.opt(1);
  Vals carried(c.all().begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(2, c.inputs())), c.all().end());
  const size_t kept = carried.size();
  std::vector<Vals> scanned;
  for (int64_t i = 0; i < most; ++i) {
    if (condition) {
      if (!condition.is_constant()) unsupported("whether the loop goes on is known only when the network runs");
      if (get(condition.constant(), 0) == 0) break;
    }
    Vals inputs = {reshape(ints(c.graph(), {i}), {}), condition ? condition : mask(c.graph(), {}, {1})};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const Vals results = c.run("body", inputs);
    if (results.size() < kept + 1) invalid("the body has fewer outputs than the loop carries");
    for (const Val& result : results)
      if (!result) unsupported("its body cannot be imported");
    condition = results[0];
    carried.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(kept));
    scanned.resize(results.size() - 1 - kept);
    for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + kept + k]);
    if (!c.has(0) && i + 1 == most) unsupported("a loop without an end");
  }
  for (const Vals& parts : scanned) carried.push_back(stacked(parts, 0, false));
  if (carried.size() < c.outputs()) unsupported("a loop of no steps that gathers results");
  return carried;
}

// A body whose new state is the old one joined with elements of sequences: running sums, products and largest, and
// s = a s + b. Names of the body, behind copies of a value.
struct KnownBody {
  std::string join;              // the type of the node that makes the state, "Linear" for the last
  std::vector<size_t> operands;  // the sequences: one, or a and b
  std::vector<bool> before;      // for each gathered result: the state before the step
};

class BodyReader {
 public:
  explicit BodyReader(const GraphProto& body) : body_(body) {}

  std::optional<KnownBody> read(size_t sequences) const {
    if (body_.inputs.size() != sequences + 1 || body_.outputs.empty()) return std::nullopt;
    const std::string old_state = body_.inputs[0].name, state = source(body_.outputs[0].name);
    const NodeProto* made = maker(state);
    if (!made || made->inputs.size() != 2) return std::nullopt;
    KnownBody known;
    for (size_t k = 1; k < body_.outputs.size(); ++k) {
      const std::string from = source(body_.outputs[k].name);
      if (from != state && from != old_state) return std::nullopt;
      known.before.push_back(from == old_state);
    }
    const std::string left = source(made->inputs[0]), right = source(made->inputs[1]);
    if (left == old_state || right == old_state) {
      known.join = made->type;
      known.operands = {sequence(left == old_state ? right : left)};
      if (made->type != "Add" && made->type != "Mul" && made->type != "Max") return std::nullopt;
    } else {
      const bool first = is_scaled(left, old_state);
      if (made->type != "Add" || (!first && !is_scaled(right, old_state))) return std::nullopt;
      const NodeProto& scaled = *maker(first ? left : right);
      const std::string a = source(scaled.inputs[source(scaled.inputs[0]) == old_state ? 1 : 0]);
      known.join = "Linear";
      known.operands = {sequence(a), sequence(first ? right : left)};
    }
    for (size_t operand : known.operands)
      if (operand >= sequences) return std::nullopt;
    return known;
  }

 private:
  const NodeProto* maker(const std::string& name) const {
    for (const NodeProto& node : body_.nodes)
      if (node.domain.empty() && node.outputs.size() == 1 && node.outputs[0] == name) return &node;
    return nullptr;
  }
  std::string source(std::string name) const {
    for (size_t i = 0; i <= body_.nodes.size(); ++i) {
      const NodeProto* node = maker(name);
      if (!node || node->type != "Identity" || node->inputs.size() != 1) break;
      name = node->inputs[0];
    }
    return name;
  }
  size_t sequence(const std::string& name) const {
    for (size_t k = 1; k < body_.inputs.size(); ++k)
      if (body_.inputs[k].name == name) return k - 1;
    return body_.inputs.size();
  }
  bool is_scaled(const std::string& name, const std::string& state) const {
    const NodeProto* node = maker(name);
    return node && node->type == "Mul" && node->inputs.size() == 2 &&
           (source(node->inputs[0]) == state || source(node->inputs[1]) == state);
  }
  const GraphProto& body_;
};

Val reversed(Val x) { return slice(x, 0, x.extent(0) - 1, -x.extent(0) - 1, -1); }

Val moved(Val x, size_t from, size_t to) {
  Ints perm = range(static_cast<int64_t>(x.rank()));
  perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<int64_t>(from));
  return from == to ? x : transpose(x, perm);
}

// The state behind every step, of sequences with time in front.
Val running_states(const KnownBody& known, Val start, const Vals& sequences) {
  const Val first = unsqueeze(start, 0);
  if (known.join == "Linear")
    return op("linear_scan", {sequences[0], sequences[1], first}, {{"axis", int64_t{0}}, {"reverse", int64_t{0}}});
  const bool sum = known.join == "Add", product = known.join == "Mul";
  const Val all = op(sum ? "cumsum" : product ? "cumprod" : "cummax", {sequences[0]}, {{"axis", int64_t{0}}});
  return op(sum ? "add" : product ? "mul" : "max", {all, first});
}

// The results of a scan whose body is known; nothing where it is not, or broadcasts.
std::optional<Vals> known_scan(Ctx& c, const Vals& inputs, size_t sequences, int64_t steps) {
  const AttributeProto* body = c.find("body");
  if (inputs.size() != sequences + 1 || steps < 2 || !body || !body->g) return std::nullopt;
  const std::optional<KnownBody> known = BodyReader(*body->g).read(sequences);
  if (!known) return std::nullopt;
  const Val start = inputs[0];
  const Ints in_axes = c.list("scan_input_axes", Ints(sequences, 0)),
             in_back = c.list("scan_input_directions", Ints(sequences, 0));
  Vals given;
  for (const size_t k : known->operands) {
    const Val x = inputs[1 + k];
    Val front = moved(x, axis_of(in_axes.at(k), x.rank()), 0);
    Shape each = front.shape();
    each.erase(each.begin());
    const bool whole_number = x.dtype() == DType::I32 || x.dtype() == DType::U32 || x.dtype() == DType::I64;
    if (each != start.shape() || x.dtype() != start.dtype() || element_count(each) == 0 ||
        !(x.dtype() == DType::F32 || (whole_number && known->join != "Linear")))
      return std::nullopt;
    given.push_back(in_back.at(k) != 0 ? reversed(front) : front);
  }
  const Val states = running_states(*known, start, given);
  const size_t gathered = known->before.size();
  const Ints out_axes = c.list("scan_output_axes", Ints(gathered, 0)),
             out_back = c.list("scan_output_directions", Ints(gathered, 0));
  Vals results = {squeeze(slice(states, 0, steps - 1, steps), 0)};
  for (size_t k = 0; k < gathered; ++k) {
    Val all = known->before[k] ? concat({unsqueeze(start, 0), slice(states, 0, 0, steps - 1)}, 0) : states;
    if (out_back.at(k) != 0) all = reversed(all);
    results.push_back(moved(all, 0, axis_of(out_axes.at(k), all.rank())));
  }
  return results;
}

Vals scan_over(Ctx& c, const Vals& inputs, int64_t sequences) {
  const size_t states = inputs.size() - static_cast<size_t>(sequences);
  Vals carried(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states));
  const Ints in_axes = c.list("scan_input_axes", Ints(static_cast<size_t>(sequences), 0)),
             in_back = c.list("scan_input_directions", Ints(static_cast<size_t>(sequences), 0));
  int64_t steps = -1;
  std::vector<size_t> axes;
  for (size_t k = 0; k < static_cast<size_t>(sequences); ++k) {
    axes.push_back(axis_of(in_axes.at(k), inputs[states + k].rank()));
    const int64_t extent = inputs[states + k].shape()[axes[k]];
    if (steps >= 0 && steps != extent) invalid("sequences have different lengths");
    steps = extent;
  }
  if (const auto known = known_scan(c, inputs, static_cast<size_t>(sequences), steps)) return *known;
  if (steps > kMostSteps) unsupported(cat("a scan of ", steps, " steps"));
  std::vector<Vals> gathered;
  for (int64_t i = 0; i < steps; ++i) {
    Vals given = carried;
    for (size_t k = 0; k < axes.size(); ++k) {
      const int64_t at = in_back.at(k) != 0 ? steps - 1 - i : i;
      given.push_back(squeeze(slice(inputs[states + k], axes[k], at, at + 1), axes[k]));
    }
    const Vals results = c.run("body", given);
    if (results.size() < states) invalid("the body has fewer outputs than states");
    for (const Val& result : results)
      if (!result) unsupported("its body cannot be imported");
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states));
    gathered.resize(results.size() - states);
    for (size_t k = 0; k < gathered.size(); ++k) gathered[k].push_back(results[states + k]);
  }
  if (gathered.empty() && c.outputs() > states) unsupported("a scan of no steps");
  const Ints out_axes = c.list("scan_output_axes", Ints(gathered.size(), 0)),
             out_back = c.list("scan_output_directions", Ints(gathered.size(), 0));
  for (size_t k = 0; k < gathered.size(); ++k)
    carried.push_back(stacked(gathered[k], axis_of(out_axes.at(k), gathered[k][0].rank() + 1), out_back.at(k) != 0));
  return carried;
}

Vals scan(Ctx& c) {
  const int64_t sequences = c.integer("num_scan_inputs");
  Vals inputs = c.all();
  if (c.opset() >= 9) {
    if (sequences < 1 || static_cast<size_t>(sequences) > inputs.size()) invalid("num_scan_inputs does not suit");
    return scan_over(c, inputs, sequences);
  }
  // Opset 8: a first operand of lengths, and a batch axis before all others.
  if (c.has(0)) unsupported("sequence lengths");
  inputs.erase(inputs.begin());
  if (sequences < 1 || static_cast<size_t>(sequences) > inputs.size()) invalid("num_scan_inputs does not suit");
  const int64_t batch = inputs[0].extent(0);
  std::vector<Vals> rows;
  for (int64_t b = 0; b < batch; ++b) {
    Vals given;
    for (const Val& x : inputs) given.push_back(squeeze(slice(x, 0, b, b + 1), 0));
    rows.push_back(scan_over(c, given, sequences));
  }
  Vals results;
  for (size_t k = 0; k < rows.at(0).size(); ++k) {
    Vals parts;
    for (const Vals& row : rows) parts.push_back(row[k]);
    results.push_back(stacked(parts, 0, false));
  }
  return results;
}

}  // namespace

void add_control_ops(OpTable& t) {
  t["If"] = if_node;
  t["Loop"] = loop;
  t["Scan"] = scan;
}

}  // namespace gyrus::onnx
