// The template language of kernels: every construct, every error.
#include "kernels/kernels.h"
#include "plan_support.h"

namespace gyrus::test {
namespace {

std::string complaint(const std::string& text, const KernelVars& vars = {}) {
  try {
    return "expanded to: " + expand_template(text, vars);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidGraph);
    return error.what();
  }
}

TEST(Template, PutsValuesIn) {
  EXPECT_EQ(expand_template("", {}), "");
  EXPECT_EQ(expand_template("no tags } { }", {}), "no tags } { }");
  EXPECT_EQ(expand_template("array<{{T}}, {{n}}>", {{"T", "f32"}, {"n", "4"}}), "array<f32, 4>");
  EXPECT_EQ(expand_template("{{a}}{{a}}", {{"a", "{{b}}"}}), "{{b}}{{b}}") << "values are not expanded again";
}

TEST(Template, KeepsBlocksByTheirVariable) {
  const std::string text = "{{#a}}yes{{/a}}{{^a}}no{{/a}}";
  EXPECT_EQ(expand_template(text, {{"a", "1"}}), "yes");
  EXPECT_EQ(expand_template(text, {{"a", "text"}}), "yes");
  for (const KernelVars& vars : {KernelVars{}, KernelVars{{"a", ""}}, KernelVars{{"a", "0"}}})
    EXPECT_EQ(expand_template(text, vars), "no");
}

TEST(Template, NestsBlocksOfTheSameName) {
  const std::string text = "{{#a}}1{{#b}}2{{#a}}3{{/a}}{{/b}}{{^a}}4{{/a}}5{{/a}}6";
  EXPECT_EQ(expand_template(text, {{"a", "1"}, {"b", "1"}}), "12356");
  EXPECT_EQ(expand_template(text, {{"a", "1"}}), "156");
  EXPECT_EQ(expand_template(text, {}), "6");
}

TEST(Template, DropsWhatIsInADroppedBlock) {
  EXPECT_EQ(expand_template("{{#a}}{{unknown}}{{>nothing}}{{/a}}x", {}), "x");
}

TEST(Template, Repeats) {
  EXPECT_EQ(expand_template("{{@i=3}}<{{i}}>{{/i}}", {}), "<0><1><2>");
  EXPECT_EQ(expand_template("{{@i=n}}{{i}}{{/i}}", {{"n", "2"}}), "01");
  EXPECT_EQ(expand_template("{{@i=0}}never{{/i}}", {}), "");
  EXPECT_EQ(expand_template("{{@i=2}}{{@k=2}}{{i}}{{k}} {{/k}}{{/i}}", {}), "00 01 10 11 ");
  EXPECT_EQ(expand_template("{{@i=3}}{{@k=i}}{{i}}{{k}} {{/k}}{{/i}}", {}), "10 20 21 ") << "a loop's number counts";
  EXPECT_EQ(expand_template("{{@i=2}}{{#i}}later{{/i}}{{^i}}first {{/i}}{{/i}}", {}), "first later");
}

TEST(Template, IncludesKernelFiles) {
  const std::string text = expand_template("a {{>group_index}} b", {});
  EXPECT_NE(text.find("fn group_index("), std::string::npos);
  EXPECT_EQ(expand_kernel("group_index", {}), text.substr(2, text.size() - 4));
}

TEST(Template, ErrorsHaveAName) {
  EXPECT_EQ(complaint("{{a}}"), "[kernel] template variable 'a' has no value");
  EXPECT_EQ(complaint("{{@i=n}}x{{/i}}"), "[kernel] template variable 'n' has no value");
  EXPECT_EQ(complaint("{{>nothing}}"), "[kernel] no kernel file 'nothing'");
  EXPECT_EQ(complaint("x {{a"), "[kernel] a template tag is never closed");
  EXPECT_EQ(complaint("{{#a}} x {{b", {{"a", "1"}}), "[kernel] a template tag is never closed");
  EXPECT_EQ(complaint("{{}}"), "[kernel] a template tag is empty");
  EXPECT_EQ(complaint("{{#a}}x"), "[kernel] block 'a' is never closed");
  EXPECT_EQ(complaint("{{@i=2}}x{{/k}}"), "[kernel] block 'i' is never closed");
  EXPECT_EQ(complaint("{{#a}}{{#b}}{{/a}}{{/b}}", {{"a", "1"}}), "[kernel] block 'b' is never closed");
  EXPECT_EQ(complaint("x{{/a}}"), "[kernel] block 'a' is closed but not open");
  EXPECT_EQ(complaint("{{@i}}x{{/i}}"), "[kernel] the loop 'i' has no count; expected name=count");
  for (const std::string count : {"many", "-1", "1.5", "", "99999999999"})
    EXPECT_EQ(complaint("{{@i=n}}x{{/i}}", {{"n", count}}),
              "[kernel] '" + count + "' is no count of a loop; expected 0 to 4096");
}

TEST(Template, EveryKernelFileIsEmbeddedAndOpensWithItsName) {
  EXPECT_GE(embedded_kernels().size(), 12u);
  for (const EmbeddedKernel& kernel : embedded_kernels()) {
    if (kernel.name == "group_index") continue;  // a fragment
    const std::string opening = cat("// ", kernel.name, ".wgsl: ");
    EXPECT_EQ(kernel.text.substr(0, opening.size()), opening);
  }
}

}  // namespace
}  // namespace gyrus::test
