#include "plan_page.h"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"
#include "plan_page_text.h"

namespace gyrus::cli {
namespace {

using PageJson = nlohmann::json;

// Texts and nodes that occur more than once are stored once: a network of 2,000 nodes is shown after every pass.
class Tables {
 public:
  size_t string(const std::string& text) { return index(strings_, string_list_, text, PageJson(text)); }

  size_t signature(const Graph& graph, const Node& node) {
    PageJson body = nullptr;
    if (!node.body.empty()) body = PageJson::array();
    for (const Node& step : node.body) body.push_back({step.op, to_string(step.attrs), step.label});
    PageJson types = PageJson::array();
    for (ValueId id : node.outputs) types.push_back(type_text(graph.type(id)));
    const PageJson all = {node.op, node.label, to_string(node.attrs), body, types};
    return index(signatures_, signature_list_, text_of(all), all);
  }

  static std::string type_text(const TensorType& type) {
    return cat(to_string(type.dtype), to_string(type.shape), type.layout == Layout::Packed ? " packed" : "");
  }
  // Names in model files need not be UTF-8.
  static std::string text_of(const PageJson& json) {
    return json.dump(-1, ' ', false, PageJson::error_handler_t::replace);
  }

  PageJson strings() const { return string_list_; }
  PageJson signatures() const { return signature_list_; }

 private:
  static size_t index(std::unordered_map<std::string, size_t>& known, PageJson& list, const std::string& key,
                      PageJson value) {
    const auto [at, fresh] = known.emplace(key, list.size());
    if (fresh) list.push_back(std::move(value));
    return at->second;
  }
  std::unordered_map<std::string, size_t> strings_, signatures_;
  PageJson string_list_ = PageJson::array(), signature_list_ = PageJson::array();
};

PageJson graph_json(const std::string& name, const Graph& graph, Tables& tables) {
  PageJson nodes = PageJson::array(), constants = PageJson::object(), sources = PageJson::object(),
           results = PageJson::object();
  for (const Node& node : graph.nodes()) {
    PageJson inputs = PageJson::array();
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? int64_t{-1} : int64_t{id});
      if (id != kNoValue && graph.is_constant(id)) {
        const std::string& own = graph.value(id).name;
        constants[std::to_string(id)] =
            tables.string(cat(own.empty() ? "constant" : own, " ", Tables::type_text(graph.type(id))));
      }
    }
    nodes.push_back({tables.signature(graph, node), inputs, node.outputs});
  }
  const auto source = [&](const char* kind, const std::string& own, ValueId id) {
    sources[std::to_string(id)] = tables.string(cat(kind, " ", own, " ", Tables::type_text(graph.type(id))));
  };
  for (const Port& port : graph.inputs()) source("input", port.name, port.value);
  for (const State& state : graph.states()) source("state", state.name, state.value);
  for (const Argument& argument : graph.arguments()) source("argument", argument.name, argument.value);
  // One more than the index, so that 0 is none.
  for (const Port& port : graph.outputs())
    results[std::to_string(port.value)] = tables.string(cat("output ", port.name)) + 1;
  return {{"name", name}, {"nodes", nodes}, {"constants", constants}, {"sources", sources}, {"results", results}};
}

const char* kind_name(BindingKind kind) {
  return kind == BindingKind::ReadStorage ? "read" : kind == BindingKind::Uniform ? "uniform" : "read and write";
}

const char* kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::Storage: return "slot";
    case BufferKind::Weights: return "weights";
    case BufferKind::Params: return "parameters";
    case BufferKind::State: return "state";
    case BufferKind::Arguments: break;
  }
  return "arguments";
}

PageJson range_json(const BufferRange& range) { return {range.buffer, range.offset, range.size}; }

PageJson steps_json(const Plan& plan, const Profile& profile) {
  PageJson steps = PageJson::array();
  size_t timed = 0;  // dispatches are measured in their order
  for (const Step& step : plan.steps) {
    if (const auto* d = std::get_if<Dispatch>(&step)) {
      PageJson ranges = PageJson::array();
      for (const BufferRange& range : d->bindings) ranges.push_back(range_json(range));
      PageJson out = {{"kernel", d->kernel}, {"label", d->label}, {"groups", d->groups},
                      {"flops", d->flops},   {"bytes", d->bytes}, {"ranges", ranges}};
      if (timed < profile.steps.size()) {
        const StepTime& time = profile.steps[timed++];
        out["ns"] = time.end_ns - time.begin_ns;
      }
      steps.push_back(std::move(out));
    } else if (const auto* c = std::get_if<Copy>(&step)) {
      steps.push_back(
          {{"kind", "copy"}, {"bytes", c->from.size}, {"ranges", {range_json(c->from), range_json(c->to)}}});
    } else {
      const BufferRange& range = std::get<Clear>(step).range;
      steps.push_back({{"kind", "clear"}, {"bytes", range.size}, {"ranges", {range_json(range)}}});
    }
  }
  return steps;
}

PageJson kernels_json(const Plan& plan) {
  PageJson kernels = PageJson::array();
  for (const PlanKernel& kernel : plan.kernels) {
    PageJson bindings = PageJson::array();
    for (BindingKind kind : kernel.bindings) bindings.push_back(kind_name(kind));
    kernels.push_back({{"name", kernel.name},
                       {"entry", kernel.entry},
                       {"workgroup", kernel.workgroup_size},
                       {"memory", kernel.workgroup_bytes},
                       {"bindings", bindings},
                       {"wgsl", kernel.wgsl}});
  }
  return kernels;
}

}  // namespace

std::string plan_page(const PlanPage& page) {
  Tables tables;
  PageJson graphs = PageJson::array(), node_steps = PageJson::array(), buffers = PageJson::array(),
           slots = PageJson::array();
  for (const auto& [name, graph] : page.graphs) graphs.push_back(graph_json(name, graph, tables));
  graphs.push_back(graph_json("as planned", page.trace.graph, tables));
  for (const PlanTrace::Steps& range : page.trace.nodes) node_steps.push_back({range.begin, range.end});
  uint64_t fixed = 0;
  for (const PlanBuffer& buffer : page.plan.buffers) {
    buffers.push_back({buffer.label, kind_name(buffer.kind)});
    if (buffer.kind == BufferKind::Storage)
      slots.push_back(buffer.size);
    else
      fixed += buffer.size;
  }
  PageJson tenants = PageJson::array();
  for (const PlanTrace::Tenant& t : page.trace.memory) tenants.push_back({t.label, t.bytes, t.first, t.last, t.buffer});
  const PageJson data = {{"title", page.title},
                         {"about", page.about},
                         {"facts", page.facts},
                         {"graphs", graphs},
                         {"signatures", tables.signatures()},
                         {"strings", tables.strings()},
                         {"nodeSteps", node_steps},
                         {"steps", steps_json(page.plan, page.profile)},
                         {"kernels", kernels_json(page.plan)},
                         {"buffers", buffers},
                         {"slots", slots},
                         {"fixed", fixed},
                         {"tenants", tenants}};
  std::string json = Tables::text_of(data);
  // Nothing in it may end the script that holds it.
  for (size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + 6)) json.replace(at, 1, "\\u003c");
  std::string text = kPlanPageText;
  const std::string mark = "@DATA@";
  return text.replace(text.find(mark), mark.size(), json);
}

}  // namespace gyrus::cli
