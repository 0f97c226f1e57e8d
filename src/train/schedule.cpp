#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "gyrus/train_fields.h"

namespace gyrus {
namespace {

// From x to y as f goes from 0 to 1.
double between(double x, double y, double f, bool linear) {
  return linear ? x + (y - x) * f : y + (x - y) / 2 * (1 + std::cos(std::numbers::pi * f));
}

double cosine(const Schedule& s, double t) {
  const double f = std::min(1.0, t / static_cast<double>(s.total));
  return s.least + (s.rate - s.least) * (1 + std::cos(std::numbers::pi * f)) / 2;
}

double one_cycle(const Schedule& s, double t) {
  const double peak = s.rising * static_cast<double>(s.total) - 1, last = static_cast<double>(s.total) - 1;
  const double first = s.rate / s.div;
  if (t <= peak) return between(first, s.rate, peak > 0 ? t / peak : 1, s.linear);
  return between(s.rate, first / s.final_div, std::min(1.0, (t - peak) / (last - peak)), s.linear);
}

void check(const Schedule& schedule) {
  each_schedule_field([&](const auto& field, auto member) {
    if (!field.is_of(schedule.kind)) return;
    const auto check_number = [&](double value) {
      if (!(value >= field.least && value <= field.most))
        fail(ErrorCode::InvalidInput, "schedule", field.name, " is ", value, ", expected ", field.least, " to ",
             field.most);
    };
    if constexpr (std::is_same_v<decltype(member), std::vector<int64_t> Schedule::*>)
      for (const int64_t value : schedule.*member) check_number(static_cast<double>(value));
    else
      check_number(static_cast<double>(schedule.*member));
  });
}

}  // namespace

double learning_rate(const Schedule& schedule, int64_t step) {
  check(schedule);
  const auto t = static_cast<double>(step);
  switch (schedule.kind) {
    case ScheduleKind::Constant: break;
    case ScheduleKind::ByStep:
      return schedule.rate * std::pow(schedule.gamma, std::floor(t / static_cast<double>(schedule.step_size)));
    case ScheduleKind::MultiStep: {
      const auto passed = std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                                        [&](int64_t milestone) { return milestone <= step; });
      return schedule.rate * std::pow(schedule.gamma, static_cast<double>(passed));
    }
    case ScheduleKind::Exponential: return schedule.rate * std::pow(schedule.gamma, t);
    case ScheduleKind::Cosine: return cosine(schedule, t);
    case ScheduleKind::WarmupCosine: {
      const auto warmup = static_cast<double>(schedule.warmup);
      if (t < warmup) return schedule.rate * (schedule.start + (1 - schedule.start) * t / warmup);
      return cosine(schedule, t - warmup);
    }
    case ScheduleKind::OneCycle: return one_cycle(schedule, t);
  }
  return schedule.rate;
}

}  // namespace gyrus
