#pragma once
#include <map>
#include <memory>
#include <string>

#include "cpu/network.h"
#include "gyrus/memory.h"
#include "gyrus/run.h"
#include "plan/plan.h"
#include "runtime/device_impl.h"
#include "runtime/memory_impl.h"

namespace gyrus {

// A network on the CPU, with the ports, states and reports of runs that executors of plans have. Inputs are read where
// they are; states change when all steps are done, so a run that fails leaves them as they were.
class CpuExecutor {
 public:
  CpuExecutor(const Device& device, std::shared_ptr<cpu::Network> network, const Memory& memory);

  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options);

  const Plan& plan() const { return *plan_; }
  Memory& memory() { return memory_; }
  uint64_t allocated_bytes() const { return plan_->peak_bytes(); }

 private:
  void bind(const std::map<std::string, Tensor>& inputs, const RunOptions& options);
  void run_steps(const RunOptions& options, Profile& profile);
  void update_states();
  Tensor result(const PlanPort& port) const;

  std::shared_ptr<DeviceImpl> device_;
  std::shared_ptr<cpu::Network> network_;
  Memory memory_;
  std::shared_ptr<const Plan> plan_;
  std::vector<std::byte> arguments_;
};

}  // namespace gyrus
