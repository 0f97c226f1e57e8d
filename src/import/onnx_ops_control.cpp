// If, Loop and Scan: what is known while importing is followed, so that none of them reaches the graph.

#include <algorithm>
#include <limits>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

constexpr int64_t kMostSteps = 100000;

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
