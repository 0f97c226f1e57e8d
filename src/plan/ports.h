#pragma once
#include <map>
#include <vector>

#include "plan/lowering.h"

namespace gyrus {

// What goes into a plan and comes out of it. Inputs, states and arguments get their places before the nodes are
// lowered; afterwards outputs and captures are found, and states that were not updated in place get their next values
// by copies at the end.
class Ports {
 public:
  explicit Ports(Lowering& lowering) : lowering_(lowering) {}
  void lay_sources();
  void lay_results();
  // Writes the ports into the finished plan.
  void finish(Plan& plan);

 private:
  // Where the value will be when the run has ended: elsewhere, if copies at the end overwrite it.
  StoragePtr kept(ValueId id);

  Lowering& lowering_;
  std::vector<PlanPort> inputs_, outputs_, captures_;
  std::vector<PlanState> states_;
  std::vector<PlanArgument> arguments_;
  std::map<const Storage*, StoragePtr> overwritten_;  // storages of states, and the copies of what they were
};

}  // namespace gyrus
