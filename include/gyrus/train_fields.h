#pragma once
#include <initializer_list>

#include "gyrus/train.h"

// What optimisers and schedules are called, and their fields: once for all who are given them from outside, in configs,
// TypeScript and Python.

namespace gyrus {

template <class Kind>
struct KindName {
  const char* name;
  Kind kind;
};
inline constexpr KindName<OptimizerKind> kOptimizerKinds[] = {
    {"adam", OptimizerKind::Adam},       {"adamw", OptimizerKind::AdamW},     {"sgd", OptimizerKind::Sgd},
    {"rmsprop", OptimizerKind::RmsProp}, {"adagrad", OptimizerKind::Adagrad}, {"lion", OptimizerKind::Lion}};
inline constexpr KindName<ScheduleKind> kScheduleKinds[] = {
    {"constant", ScheduleKind::Constant},    {"step", ScheduleKind::ByStep},
    {"multi_step", ScheduleKind::MultiStep}, {"exponential", ScheduleKind::Exponential},
    {"cosine", ScheduleKind::Cosine},        {"warmup_cosine", ScheduleKind::WarmupCosine},
    {"one_cycle", ScheduleKind::OneCycle}};

// One of that kind with its defaults: PyTorch's, and those of who wrote of Lion; but no decay, and the same eps, unless
// they are given.
inline Optimizer optimizer_of(OptimizerKind kind) {
  Optimizer optimizer;
  optimizer.kind = kind;
  if (kind == OptimizerKind::Lion) optimizer.beta2 = 0.99;
  return optimizer;
}

// The name of a field, the kinds that look at it (none named: all), and the least and the most that it may be.
template <class Kind>
struct FieldOf {
  const char* name;
  std::initializer_list<Kind> kinds;
  double least = 0, most = 1;

  bool is_of(Kind kind) const {
    for (const Kind each : kinds)
      if (each == kind) return true;
    return kinds.size() == 0;
  }
};

// Calls visit(field, member) for each, members being of doubles, truth values, integers and lists of them.
template <class Visit>
void each_optimizer_field(Visit&& visit) {
  using Kind = OptimizerKind;
  using Field = FieldOf<Kind>;
  visit(Field{"weight_decay", {}, 0, 1e30}, &Optimizer::weight_decay);
  visit(Field{"momentum", {Kind::Sgd, Kind::RmsProp}}, &Optimizer::momentum);
  visit(Field{"dampening", {Kind::Sgd}}, &Optimizer::dampening);
  visit(Field{"nesterov", {Kind::Sgd}}, &Optimizer::nesterov);
  visit(Field{"beta1", {Kind::Adam, Kind::AdamW, Kind::Lion}, 0, 0.999999}, &Optimizer::beta1);
  visit(Field{"beta2", {Kind::Adam, Kind::AdamW, Kind::Lion}, 0, 0.9999999}, &Optimizer::beta2);
  visit(Field{"eps", {Kind::Adam, Kind::AdamW, Kind::RmsProp, Kind::Adagrad}}, &Optimizer::eps);
  visit(Field{"amsgrad", {Kind::Adam, Kind::AdamW}}, &Optimizer::amsgrad);
  visit(Field{"alpha", {Kind::RmsProp}}, &Optimizer::alpha);
  visit(Field{"centered", {Kind::RmsProp}}, &Optimizer::centered);
  visit(Field{"lr_decay", {Kind::Adagrad}, 0, 1e30}, &Optimizer::lr_decay);
  visit(Field{"initial_accumulator", {Kind::Adagrad}, 0, 1e30}, &Optimizer::initial_accumulator);
}

template <class Visit>
void each_schedule_field(Visit&& visit) {
  using Kind = ScheduleKind;
  using Field = FieldOf<Kind>;
  constexpr double kSteps = 1e8;
  visit(Field{"rate", {}, 0, 1e6}, &Schedule::rate);
  visit(Field{"gamma", {Kind::ByStep, Kind::MultiStep, Kind::Exponential}, 0, 10}, &Schedule::gamma);
  visit(Field{"step_size", {Kind::ByStep}, 1, kSteps}, &Schedule::step_size);
  visit(Field{"milestones", {Kind::MultiStep}, 0, kSteps}, &Schedule::milestones);
  visit(Field{"least", {Kind::Cosine, Kind::WarmupCosine}, 0, 1e6}, &Schedule::least);
  visit(Field{"total", {Kind::Cosine, Kind::WarmupCosine, Kind::OneCycle}, 1, kSteps}, &Schedule::total);
  visit(Field{"warmup", {Kind::WarmupCosine}, 0, kSteps}, &Schedule::warmup);
  visit(Field{"start", {Kind::WarmupCosine}}, &Schedule::start);
  visit(Field{"rising", {Kind::OneCycle}}, &Schedule::rising);
  visit(Field{"div", {Kind::OneCycle}, 1, 1e30}, &Schedule::div);
  visit(Field{"final_div", {Kind::OneCycle}, 1, 1e30}, &Schedule::final_div);
  visit(Field{"linear", {Kind::OneCycle}}, &Schedule::linear);
}

}  // namespace gyrus
