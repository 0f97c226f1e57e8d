// Scans whose body is a running result or a linear recurrence become one op, and give what the steps one by one give.
#include <gtest/gtest.h>

#include <algorithm>

#include "import/onnx_import.h"
#include "reference/reference.h"
#include "support/onnx_writer.h"

namespace gyrus {
namespace {

using namespace test::onnx_file;

struct ScanCase {
  const char* op;    // that it becomes
  const char* join;  // node of the body, or "Linear"
  int64_t in_axis, in_back, out_axis, out_back;
};

// Two sequences of [3,4] vectors along an axis; `opaque` hides what the body does.
std::string scan_model(const ScanCase& c, bool opaque) {
  const bool linear = std::string(c.join) == "Linear";
  std::string body = input("s", Float, {4}) + input("a", Float, {4}) + input("b", Float, {4});
  if (linear)
    body += node("Mul", {"a", "s"}, {"scaled"}) + node("Add", {"b", "scaled"}, {"made"});
  else
    body += node("Identity", {"b"}, {"same"}) + node(c.join, {"s", "same"}, {"made"});
  body += opaque ? node("Neg", {"made"}, {"turned"}) + node("Neg", {"turned"}, {"next"})
                 : node("Identity", {"made"}, {"next"});
  body += node("Identity", {"next"}, {"all"}) + node("Identity", {"s"}, {"before"});
  body += output("next") + output("all") + output("before");
  const auto both = [](int64_t x) { return std::vector<int64_t>{x, x}; };
  const std::vector<int64_t> shape = c.in_axis == 0 ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4, 3};
  return model(input("start", Float, {4}) + input("x", Float, shape) + input("y", Float, shape) +
               node("Scan", {"start", "x", "y"}, {"last", "all", "before"},
                    graph_attribute("body", body) + attribute("num_scan_inputs", 2) +
                        attribute("scan_input_axes", both(c.in_axis)) +
                        attribute("scan_input_directions", both(c.in_back)) +
                        attribute("scan_output_axes", both(c.out_axis)) +
                        attribute("scan_output_directions", both(c.out_back))) +
               output("last") + output("all") + output("before"));
}

onnx::Imported imported(const std::string& file) {
  const onnx::ImportOptions options;
  return onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), options.subject), options);
}

bool has(const onnx::Imported& model, const std::string& op) {
  return std::any_of(model.graph.nodes().begin(), model.graph.nodes().end(),
                     [&](const Node& node) { return node.op == op; });
}

TEST(OnnxScan, KnownBodiesBecomeOneOp) {
  for (const ScanCase& c :
       {ScanCase{"cumsum", "Add", 0, 0, 0, 0}, ScanCase{"cumsum", "Add", 1, 1, 0, 0},
        ScanCase{"cumprod", "Mul", 0, 0, 1, 1}, ScanCase{"cummax", "Max", 1, 0, 1, 0},
        ScanCase{"linear_scan", "Linear", 0, 1, 0, 1}, ScanCase{"linear_scan", "Linear", 1, 0, -1, 0}}) {
    SCOPED_TRACE(c.op);
    const onnx::Imported known = imported(scan_model(c, false)), steps = imported(scan_model(c, true));
    EXPECT_TRUE(has(known, c.op));
    EXPECT_FALSE(has(steps, c.op));
    std::map<std::string, Tensor> inputs;
    for (const Port& port : known.graph.inputs()) {
      Tensor tensor(DType::F32, known.graph.type(port.value).shape);
      for (int64_t i = 0; i < tensor.size(); ++i)
        set(tensor, i,
            static_cast<double>((i * 37 + static_cast<int64_t>(port.name.size()) * 11 + port.name[0]) % 17) / 8 - 1);
      inputs[port.name] = tensor;
    }
    const auto found = reference::run(known.graph, inputs), wanted = reference::run(steps.graph, inputs);
    ASSERT_EQ(found.size(), 3u);
    for (const auto& [name, tensor] : wanted) {
      EXPECT_EQ(found.at(name).shape, tensor.shape) << name;
      for (size_t i = 0; i < tensor.data.size(); ++i)
        EXPECT_NEAR(found.at(name).data[i], tensor.data[i], 1e-12) << name;
    }
  }
}

}  // namespace
}  // namespace gyrus
