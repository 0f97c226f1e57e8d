#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "unit/plan_samples.h"

namespace gyrus::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Expects that the text is refused with InvalidInput, in one line that contains `part`.
void expect_refused(const std::string& text, const std::string& part, std::vector<std::byte> weights) {
  const Error error = thrown_by([&] { parse_plan(text, std::move(weights)); });
  EXPECT_EQ(error.code(), ErrorCode::InvalidInput) << error.what() << "\n" << text.substr(0, 300);
  EXPECT_THAT(error.what(), HasSubstr(part));
  EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
}

TEST(PlanJson, RoundTripIsByteIdentical) {
  const Plan plan = sample_plan();
  const std::string text = to_json(plan);
  const Plan again = parse_plan(text, plan.weights);
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.weights, plan.weights);
  EXPECT_EQ(again.needs, plan.needs);
  EXPECT_EQ(again.features, plan.features);
  EXPECT_EQ(again.kernels[0].wgsl, plan.kernels[0].wgsl);
  EXPECT_EQ(std::get<Dispatch>(again.steps[1]).flops, std::get<Dispatch>(plan.steps[1]).flops);
  EXPECT_EQ(again.outputs[0].shape, plan.outputs[0].shape);
  EXPECT_EQ(again.inputs[0].pieces[1].range.offset, 1024u);
  EXPECT_EQ(again.states[0].start, 512u);
  EXPECT_FALSE(again.states[1].start);
  EXPECT_EQ(again.arguments[1].least, -1);
  EXPECT_EQ(again.report->buffer, 8u);
  EXPECT_EQ(again.reports[1].label, "conv1");
  EXPECT_EQ(again.peak_bytes(), 4096u + 4096 + 512 + 256 + 64 + 36 + 4 + 16 + 16);
  EXPECT_EQ(again.flops(), plan.flops());
  EXPECT_EQ(again.bytes(), plan.bytes());
}

TEST(PlanJson, EmptyPlanRoundTrips) {
  Plan plan;
  plan.precision = "f32";
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(parse_plan(text, {})), text);
}

TEST(PlanJson, EveryKeyIsRequiredAndNoOtherAllowed) {
  const Plan plan = sample_plan();
  const Json whole = Json::parse(to_json(plan));
  // Visits every object in the document by its pointer.
  const Json flat = whole.flatten();
  std::set<std::string> objects;
  for (const auto& [pointer, value] : flat.items()) {
    for (auto p = Json::json_pointer(pointer); !p.empty(); p.pop_back())
      if (whole.at(p.parent_pointer()).is_object()) objects.insert(p.to_string());
  }
  ASSERT_GT(objects.size(), 50u);
  for (const std::string& pointer : objects) {
    SCOPED_TRACE(pointer);
    const auto p = Json::json_pointer(pointer);
    Json missing = whole;
    missing.at(p.parent_pointer()).erase(p.back());
    expect_refused(missing.dump(), cat("'", p.back(), "'"), plan.weights);
    Json surplus = whole;
    surplus.at(p.parent_pointer())["surplus"] = 1;
    expect_refused(surplus.dump(), "unknown key 'surplus'", plan.weights);
    for (const Json& wrong : {Json(nullptr), Json(-1), Json(1.5), Json("text"), Json(true), Json::array(),
                              Json::array({1, 2}), Json::object(), Json(UINT64_MAX)}) {
      Json changed = whole;
      changed.at(p) = wrong;
      const std::string text = changed.dump();
      // Where the value is allowed there, it must round-trip; elsewhere it must be refused, and never crash.
      try {
        EXPECT_EQ(Json::parse(to_json(parse_plan(text, plan.weights))), changed);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidInput) << error.what();
      }
    }
  }
}

TEST(PlanJson, RefusesBrokenText) {
  const Plan plan = sample_plan();
  const std::string text = to_json(plan);
  for (size_t length = 0; length + 2 < text.size(); length += 7)
    expect_refused(text.substr(0, length), "plan", plan.weights);
  expect_refused("[]", "not an object", plan.weights);
  expect_refused("null", "not an object", plan.weights);
  expect_refused(text + "x", "well-formed", plan.weights);
  expect_refused(std::string(100000, '['), "well-formed", plan.weights);
  std::string twice = text;
  twice.replace(twice.find("\"precision\": \"f16\""), 18, "\"precision\": \"f16\", \"precision\": \"f32\"");
  expect_refused(twice, "twice", plan.weights);
}

TEST(PlanJson, RefusesOtherFormatsAndWeights) {
  const Plan plan = sample_plan();
  const std::string text = to_json(plan);
  std::string other = text;
  other.replace(other.find("gyrus-plan-2"), 12, "gyrus-plan-1");
  expect_refused(other, "format 'gyrus-plan-1'; this version reads 'gyrus-plan-2'", plan.weights);
  expect_refused(text, "768", std::vector<std::byte>(767));
  std::string precision = text;
  precision.replace(precision.find("\"f16\""), 5, "\"f64\"");
  expect_refused(precision, "f64", plan.weights);
}

TEST(PlanJson, RefusesInconsistentPlans) {
  Plan plan = sample_plan();
  std::get<Dispatch>(plan.steps[1]).kernel = 7;
  expect_refused(to_json(plan), "kernel 7", plan.weights);
  plan = sample_plan();
  plan.outputs[0].pieces[0].range.buffer = 77;
  expect_refused(to_json(plan), "buffer 77", plan.weights);
}

TEST(PlanJson, MessagesStayOneLine) {
  const Plan plan = sample_plan();
  Json json = Json::parse(to_json(plan));
  json["two\nlines"] = 1;
  expect_refused(json.dump(), "unknown key 'two lines'", plan.weights);
  json = Json::parse(to_json(plan));
  json["steps"][1]["label"] = "conv\n1";
  expect_refused(json.dump(), "steps[1].label has control characters", plan.weights);
}

TEST(PlanJson, WritesOnlyWhatCanBeRead) {
  Plan plan = sample_plan();
  std::get<Dispatch>(plan.steps[1]).flops = std::nan("");
  EXPECT_EQ(thrown_by([&] { to_json(plan); }).code(), ErrorCode::InvalidInput);
  plan = sample_plan();
  plan.arguments[0].most = INFINITY;
  EXPECT_EQ(thrown_by([&] { to_json(plan); }).code(), ErrorCode::InvalidInput);
  plan = sample_plan();
  plan.buffers[0].label = "\xFF";
  EXPECT_EQ(thrown_by([&] { to_json(plan); }).code(), ErrorCode::InvalidInput);
}

}  // namespace
}  // namespace gyrus::test
