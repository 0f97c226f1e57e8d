#include "verify_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "gyrus/gyrus.h"
#include "network_inputs.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// Of floats how far they are off, of integers how many are.
std::string error_text(const VerifiedNode& node) {
  if (node.different > 0) return cat(node.different, node.error > 0 ? " + " + number_text(node.error) : "", " differ");
  return node.error == 0 ? "0" : number_text(node.error);
}

std::string range_text(const Tensor& tensor) {
  const ValueRange s = summary_of(tensor);
  return cat(to_string(tensor.dtype), to_string(tensor.shape), " from ", s.least, " to ", s.most,
             s.odd > 0 ? cat(", ", s.odd, " not finite") : "");
}

Json range_json(const VerifiedTensor& named) {
  const ValueRange s = summary_of(named.tensor);
  return {{"name", named.name},
          {"type", to_string(named.tensor.dtype)},
          {"shape", named.tensor.shape},
          {"constant", named.constant},
          {"min", s.least},
          {"max", s.most},
          {"notFinite", s.odd}};
}

Json kernel_json(const VerifiedKernel& kernel) {
  Json params = Json::object();
  for (const auto& [name, value] : kernel.params) params[name] = value;
  return {{"name", kernel.name},           {"file", kernel.file},     {"entry", kernel.entry},
          {"workgroup", kernel.workgroup}, {"groups", kernel.groups}, {"params", params}};
}

// JSON has no infinities.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const Verified& found, const VerifyContext& context) {
  Json nodes = Json::array();
  for (const VerifiedNode& node : found.nodes)
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"result", node.type},
                     {"error", finite(node.error)},
                     {"nmse", finite(node.nmse)},
                     {"different", node.different},
                     {"right", node.right}});
  Json out = {{"gyrus", version()},
              {"model", context.model},
              {"precision", context.precision},
              {"seed", context.seed},
              {"device",
               {{"name", context.adapter.name},
                {"type", to_string(context.adapter.type)},
                {"backend", context.adapter.backend},
                {"driver", context.adapter.driver},
                {"vendor", context.adapter.vendor},
                {"architecture", context.adapter.architecture}}},
              {"right", found.right()},
              {"nodes", nodes},
              {"wrongOutputs", found.wrong_outputs}};
  if (!found.first) return out;
  Json first = {{"node", found.first->node}, {"text", found.first->text}};
  for (const auto& [key, tensors] :
       {std::pair("inputs", &found.first->inputs), std::pair("outputs", &found.first->outputs),
        std::pair("expected", &found.first->expected)}) {
    first[key] = Json::array();
    for (const VerifiedTensor& named : *tensors) first[key].push_back(range_json(named));
  }
  first["kernels"] = Json::array();
  for (const VerifiedKernel& kernel : found.first->kernels) first["kernels"].push_back(kernel_json(kernel));
  out["first"] = first;
  return out;
}

std::string kernel_text(const VerifiedKernel& kernel) {
  const auto& w = kernel.workgroup;
  const auto& g = kernel.groups;
  std::string text =
      cat("  kernel   ", kernel.name, ", entry ", kernel.entry, kernel.file.empty() ? "" : " of ", kernel.file,
          ", workgroup ", w[0], "x", w[1], "x", w[2], ", groups ", g[0], "x", g[1], "x", g[2], "\n");
  std::string params;
  for (const auto& [name, value] : kernel.params) params += cat(params.empty() ? "" : ", ", name, "=", value);
  return params.empty() ? text : text + cat("           ", params, "\n");
}

}  // namespace

std::string verify_table(const Verified& found) {
  size_t name = 4, op = 2, type = 6;
  constexpr size_t kMost = 48;
  for (const VerifiedNode& node : found.nodes) {
    name = std::min(kMost, std::max(name, node.name.size()));
    op = std::min(kMost, std::max(op, node.op.size()));
    type = std::min(kMost, std::max(type, node.type.size()));
  }
  const auto line = [&](const std::string& a, const std::string& b, const std::string& c, const std::string& d,
                        const std::string& e) {
    char text[1024];
    std::snprintf(text, sizeof text, "%-*s  %-*s  %-*s  %14s  %s\n", static_cast<int>(name), a.c_str(),
                  static_cast<int>(op), b.c_str(), static_cast<int>(type), c.c_str(), d.c_str(), e.c_str());
    return std::string(text);
  };
  std::string out = line("node", "op", "result", "error", "verdict");
  for (const VerifiedNode& node : found.nodes)
    out += line(node.name, node.op, node.type, error_text(node), node.right ? "right" : "WRONG");
  return out;
}

std::string verify_first(const Verified& found, const VerifyContext& context) {
  std::string out;
  if (found.first) {
    const WrongNode& wrong = *found.first;
    out = cat("first wrong node: ", found.nodes[wrong.node].name, "\n  ", wrong.text, "\n");
    for (const VerifiedTensor& t : wrong.inputs)
      out += cat("  ", t.constant ? "constant " : "input    ", t.name, ": ", range_text(t.tensor), "\n");
    for (size_t i = 0; i < wrong.outputs.size(); ++i)
      out += cat("  result   ", wrong.outputs[i].name, ": ", range_text(wrong.outputs[i].tensor), "\n  expected ",
                 wrong.outputs[i].name, ": ", range_text(wrong.expected[i].tensor), "\n");
    for (const VerifiedKernel& kernel : wrong.kernels) out += kernel_text(kernel);
  }
  for (const std::string& name : found.wrong_outputs)
    out += cat("every node is right, but output ", name, " differs where memory is shared between them\n");
  return out +
         cat("  device   ", context.adapter.name, ", ", context.adapter.backend, ", ", context.adapter.driver, "\n");
}

std::string verify_json(const Verified& found, const VerifyContext& context) {
  return to_json(found, context).dump(2) + "\n";
}

void write_bundle(const std::string& folder, const Verified& found, const VerifyContext& context) {
  make_folder(folder);
  const auto write = [&](const std::string& name, const auto& bytes) {
    write_file((fs::path(folder) / name).string(), bytes);
  };
  write("report.json", verify_json(found, context));
  if (!found.first) return;
  std::set<std::string> taken;
  for (const auto& [kind, tensors] :
       {std::pair("input", &found.first->inputs), std::pair("output", &found.first->outputs),
        std::pair("expected", &found.first->expected)})
    for (size_t i = 0; i < tensors->size(); ++i) {
      const VerifiedTensor& named = (*tensors)[i];
      write(file_name(cat(kind, "_", i, "_", named.name), taken) + ".npy",
            write_npy(named.tensor, onnx::elem_of(named.tensor.dtype)));
    }
  for (size_t i = 0; i < found.first->kernels.size(); ++i)
    write(cat("kernel_", i, ".wgsl"), found.first->kernels[i].wgsl);
  write("steps.json", found.first->plan);
}

}  // namespace gyrus::cli
