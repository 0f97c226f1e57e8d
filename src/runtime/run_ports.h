#pragma once
#include <string>
#include <vector>

#include "runtime/executor.h"

// What the caller of a run gives and gets, against what the plan says.

namespace gyrus {

struct ChosenPorts {
  std::vector<const PlanPort*> read;  // back to the host
  std::vector<const PlanPort*> keep;  // on the device
};

// Throws InvalidInput where a run cannot be made with this.
ChosenPorts check_run(const Plan& plan, const std::map<std::string, Tensor>& inputs, const RunOptions& options);

// The contents of the buffer of arguments.
std::vector<std::byte> argument_bytes(const Plan& plan, const std::map<std::string, double>& arguments, uint64_t size);

// Throws what a kernel reported, if one did: InvalidInput or NonFinite.
void check_report(const Plan& plan, const uint32_t (&words)[4]);

// The states that steps of the plan write, and the first step that does.
struct StateWrites {
  std::vector<std::string> names;
  size_t first = SIZE_MAX;
};
StateWrites state_writes(const Plan& plan);

}  // namespace gyrus
