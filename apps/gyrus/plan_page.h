#pragma once
#include <string>
#include <utility>
#include <vector>

#include "gyrus/profile.h"
#include "plan/planner.h"

// A plan to look through in a browser (gyrus plan --html).

namespace gyrus::cli {

struct PlanPage {
  std::string title, about;                                // the model; what it was planned for
  std::vector<std::pair<std::string, std::string>> facts;  // a line of them on top
  std::vector<std::pair<std::string, Graph>> graphs;       // as imported, and after each pass
  Plan plan;
  PlanTrace trace;  // its graph comes behind `graphs`
  Profile profile;  // without steps where nothing was measured
};

// One file that needs no other and no network.
std::string plan_page(const PlanPage& page);

}  // namespace gyrus::cli
