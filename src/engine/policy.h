#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "gyrus/limits.h"
#include "gyrus/segmenter.h"
#include "gyrus/tensor.h"

// What is decided for the user, written once for the command line, the library and (through WASM) the page: which plan
// is tried first, what is tried after a failure, and which results are no results. Knows no device and keeps no state.

namespace gyrus {

// One way to plan a network.
struct PlanChoice {
  bool halves = false;         // feature maps are stored in f16
  bool small_buffers = false;  // within WebGPU's default limits: less memory, a little more time
  bool operator==(const PlanChoice&) const = default;
};
// "the plan in f32 with WebGPU's default limits"
std::string to_string(const PlanChoice& choice);
// The limits to plan for: the device's own, or the sizes of buffers and bindings cut to WebGPU's defaults.
Limits limits_for(const PlanChoice& choice, const Limits& own);

// How much memory a plan may need.
struct MemoryBudget {
  uint64_t bytes = 0;
  bool certain = true;    // the driver told; otherwise a larger plan may still run
  std::string because{};  // of a guess
};

// What a browser tells of the machine around the GPU.
struct BrowserFacts {
  bool mobile = false;
  std::optional<double> memory_gib;  // of the machine, rounded by the browser and never said to be more than 8
};
// WebGPU does not tell a GPU's memory, so this is a guess:
//  - phones end pages that take much more than a gigabyte;
//  - an adapter with no more than WebGPU's default limits is small or old;
//  - with 4 GiB or less in the machine, an integrated GPU shares them with everything else: half;
//  - others have 4 GiB or more, or share the machine's memory. Where that is too much all the same, a refused
//    allocation says so, and a smaller plan is tried.
MemoryBudget likely_memory(const Limits& limits, const BrowserFacts& facts);

struct Decision {
  PlanChoice plan;
  std::string why;
  std::string notice;  // what to tell the user; empty for the plan that anyone would expect
};

// The bytes that a plan needs; nothing where no such plan keeps the limits.
using PlanBytes = std::function<std::optional<uint64_t>(const PlanChoice&)>;

// The first that fits: as wished, then with small buffers; with Auto f32 so, then f16 so. Without a budget everything
// fits. What was asked for is not questioned for the sake of a guess.
Decision choose_plan(PrecisionChoice wish, const std::optional<MemoryBudget>& budget, const PlanBytes& bytes_of);

enum class Failure : uint8_t { OutOfMemory, DeviceLost, NonFinite };

// One try to run a network.
struct Attempt {
  PrecisionChoice wish = PrecisionChoice::Auto;
  PlanChoice plan;
  bool check_finite = false;  // every value is tested, so that the first node that is not finite is named
  int losses = 0;             // of devices, with this plan
  bool on_cpu = false;        // where buffers have no limits
};

// What to try after a failure; nothing where only giving up is left. A lost device is opened again once; one that is
// lost twice is as good as one without memory, since drivers give up in either way. For less memory halves come first,
// then smaller buffers: an adapter may offer larger ones than its driver finds room for.
std::optional<Attempt> next_attempt(const Attempt& failed, Failure failure);
// What to tell the user about it; empty where the next attempt only finds out more.
std::string notice_of(const Attempt& failed, Failure failure, const Attempt& next);

// Throws NonFinite where an element of a result (f32 or f16; others pass) is infinite or not a number.
void refuse_nonfinite(const std::string& name, const Tensor& result);
// Throws Device (InvalidInput on the CPU) where every label is 0: a device that computes nothing gives zeros without an
// error.
void refuse_empty(const std::string& model, std::span<const std::byte> labels, bool on_cpu);

}  // namespace gyrus
