// gyrus plan --html: one page that needs nothing else.
#include <algorithm>

#include "core/files.h"
#include "e2e/e2e_support.h"
#include "import/json.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

using namespace onnx_file;

class PlanPage : public Program {
 protected:
  std::string page_text(const std::string& name) const { return text_of(in_folder(name)); }
  static Json data_of(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(open) + open.size(), end = page.find("</script>", begin);
    EXPECT_NE(end, std::string::npos);
    return Json::parse(page.substr(begin, end - begin));
  }
};

TEST_F(PlanPage, ShowsGraphsStepsKernelsAndMemory) {
  write_model("net");
  const Outcome outcome = run_well({"plan", "net", "--size", "8", "--html", "plan.html", "--profile"});
  EXPECT_EQ(outcome.out.find("graph before"), std::string::npos) << "the page says it";
  const std::string page = page_text("plan.html");
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  const Json data = data_of(page);
  ASSERT_EQ(data.at("graphs").size(), 16u);  // as imported, fourteen passes, as planned
  EXPECT_EQ(data.at("graphs")[1].at("name"), "find_composites");
  const Json& planned = data.at("graphs").back();
  EXPECT_EQ(data.at("nodeSteps").size(), planned.at("nodes").size());
  const size_t steps = data.at("steps").size();
  EXPECT_GT(steps, 3u);
  EXPECT_EQ(data.at("nodeSteps").back()[1], steps);
  for (const Json& step : data.at("steps")) EXPECT_TRUE(step.contains("ns")) << step;
  for (const Json& kernel : data.at("kernels"))
    EXPECT_NE(kernel.at("wgsl").get<std::string>().find("@compute"), std::string::npos);
  // Nobody lies where another one still does.
  const Json& tenants = data.at("tenants");
  ASSERT_FALSE(tenants.empty());
  for (size_t a = 0; a < tenants.size(); ++a) {
    EXPECT_LE(tenants[a][1].get<uint64_t>(), data.at("slots")[tenants[a][4].get<size_t>()].get<uint64_t>());
    for (size_t b = 0; b < a; ++b)
      EXPECT_TRUE(tenants[a][4] != tenants[b][4] || tenants[a][3] < tenants[b][2] || tenants[b][3] < tenants[a][2])
          << tenants[a] << " and " << tenants[b];
  }
}

TEST_F(PlanPage, TakesOnnxModelsWithAnyNames) {
  write_file(in_folder("model.onnx"),
             model(input("x", Float, {-1, 8}) + node("Exp", {"x"}, {"e"}, {}, {}, "</script><b>\xff") +
                   node("Softmax", {"e"}, {"y"}) + output("y")));
  run_well({"plan", "model.onnx", "--shape", "x=2,8", "--html", "plan.html", "--limits", "default"});
  const std::string page = page_text("plan.html");
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(data_of(page).at("signatures").dump().find("</script><b>"), std::string::npos);
  const Outcome text = run_well({"plan", "model.onnx", "--shape", "x=2,8"});
  EXPECT_NE(text.out.find("graph after the passes"), std::string::npos);
  expect_refused({"plan", "model.onnx"}, 2, "float[");
  write_model("net");
  expect_refused({"plan", "net", "--shape", "image=1,1,8,8,8"}, 2, "--size");
}

}  // namespace
}  // namespace gyrus::test
