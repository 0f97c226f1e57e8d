#include "support/ops_doc.h"

#include <map>
#include <set>
#include <sstream>

#include "graph/op.h"
#include "op_cases.h"
#include "ops/elementwise.h"
#include "passes/passes.h"

namespace gyrus::test {
namespace {

// Ops are listed under the first group that they belong to.
struct Group {
  const char* name;
  const char* what;
  bool (*holds)(const OpDef& def);
};

constexpr Group kGroups[] = {
    {"elementwise", "one result for each element after broadcasting; fused into chains",
     [](const OpDef& def) { return def.elementwise || def.body_only; }},
    {"movement", "the same elements elsewhere", [](const OpDef& def) { return def.index_maps || def.alias; }},
    {"maps", "work on packed maps", [](const OpDef& def) { return def.layout != LayoutRule::Plain; }},
    {"composite", "a pass rewrites it", [](const OpDef& def) { return def.decompose && !def.has_kernel; }},
    {"others", "with kernels of their own", [](const OpDef&) { return true; }},
};

// What the op table says about one op.
struct Seen {
  std::set<std::string> attributes, dtypes, parts;
  std::set<size_t> ranks;
  int cases = 0;
  bool floats = false;  // results may be
};

std::string joined(const std::set<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text.empty() ? "—" : text;
}

void look_at(const Graph& graph, const Node& node, std::map<std::string, Seen>& seen) {
  Seen& op = seen[node.op];
  for (const auto& [name, value] : node.attrs.all()) op.attributes.insert("`" + name + "`");
  for (ValueId id : node.outputs) op.floats = op.floats || is_float(graph.type(id).dtype);
  if (node.inputs.empty()) return;
  op.dtypes.insert(to_string(graph.type(node.inputs[0]).dtype));
  op.ranks.insert(graph.type(node.inputs[0]).shape.size());
}

// The ops that a graph of this one node becomes.
std::set<std::string> parts_of(const Graph& graph, const Node& node) {
  Graph single;
  Node copy = node;
  for (ValueId& id : copy.inputs)
    if (id != kNoValue)
      id = graph.is_constant(id) ? single.add_constant("", graph.value(id).constant)
                                 : single.add_input("x" + std::to_string(id), graph.type(id));
  single.add_output("y", single.add_node(std::move(copy)).front());
  const Graph simple = decompose(single);
  std::set<std::string> parts;
  for (const Node& part : simple.nodes()) parts.insert("`" + part.op + "`");
  return parts;
}

std::map<std::string, Seen> survey() {
  std::map<std::string, Seen> seen;
  for (const OpCase& c : op_cases()) {
    ++seen[c.op].cases;
    const Graph graph = case_graph(c);
    for (const Node& node : graph.nodes()) {
      look_at(graph, node, seen);
      // The simplest form that was found.
      if (!op(node.op).decompose) continue;
      const std::set<std::string> parts = parts_of(graph, node);
      std::set<std::string>& known = seen[node.op].parts;
      if (known.empty() || parts.size() < known.size()) known = parts;
    }
  }
  return seen;
}

std::string ranks_text(const std::set<size_t>& ranks) {
  if (ranks.empty()) return "—";
  const std::string first = std::to_string(*ranks.begin()), last = std::to_string(*ranks.rbegin());
  return first == last ? first : first + "–" + last;
}

// Ops of floats that no pass makes, and why there is no gradient.
std::string reason_of(std::string_view op) {
  static const std::set<std::string_view> kLanguage = {"block_matmul",     "block_rows", "cache_rows",
                                                       "cached_attention", "gated",      "rope_turns"};
  if (kLanguage.count(op)) return "none: of language models, which only run";
  return op == "splat_blend_back" ? "none: it is one" : "";
}

// Whether gradients go through an op, or why not.
std::string gradient_text(const OpDef& def, const Seen& seen) {
  if (def.elementwise && def.elementwise->indexed && !def.only_trains) return "none: it is drawn";
  if (def.gradient || (def.elementwise && def.elementwise->derivative)) return "yes";
  if (!seen.floats) return "none: not of floats";
  if (def.decompose) return "of its parts";
  const std::string reason = reason_of(def.name);
  return reason.empty() ? "made by passes, behind gradients" : reason;
}

}  // namespace

std::string ops_document() {
  const std::map<std::string, Seen> seen = survey();
  std::ostringstream out;
  out << "# Ops\n\nWritten by `ops_table` from the registry and the table of cases; do not edit. Attributes, element\n"
         "types and ranks are those of the first input that the cases exercise on every device. The contract of each "
         "op\n"
         "is the comment at its declaration in `src/ops/`.\n\n"
         "Random numbers are those of Threefry2x32 with 20 rounds, of the key {seed, step} and the counter {place of "
         "the\n"
         "element, stream}. Words and uniform numbers, multiples of 2^-24, are the same on every device, in the "
         "browser\n"
         "and on the reference; normal ones, by Box and Muller, agree to the rounding of logarithm, root and cosine.\n";
  std::set<const OpDef*> listed;
  for (const Group& group : kGroups) {
    const bool composite = &group == &kGroups[3];
    out << "\n## " << group.name << ": " << group.what << "\n\n| op | attributes | element types | ranks |"
        << (composite ? " becomes |" : "") << " gradient | cases |\n|---|---|---|---|" << (composite ? "---|" : "")
        << "---|---|\n";
    for (const OpDef* def : all_ops()) {
      if (!group.holds(*def) || !listed.insert(def).second) continue;
      const auto found = seen.find(std::string(def->name));
      const Seen op = found == seen.end() ? Seen{} : found->second;
      out << "| `" << def->name << "` | " << joined(op.attributes) << " | " << joined(op.dtypes) << " | "
          << ranks_text(op.ranks) << " |";
      if (composite) out << " " << joined(op.parts) << " |";
      out << " " << gradient_text(*def, op) << " | " << op.cases << " |\n";
    }
  }
  return out.str();
}

}  // namespace gyrus::test
