#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gyrus {

// One dispatch on the GPU. Times are nanoseconds since the run's first dispatch began.
struct StepTime {
  std::string label;
  std::string kernel;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  double flops = 0;
  double bytes = 0;
};

// One stage of a run on the host. Times are nanoseconds since the run began.
struct StageTime {
  std::string name;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// Where a run spent its time.
struct Profile {
  double gpu_seconds = 0;       // from the first dispatch to the end of the last
  bool gpu_timestamps = false;  // gpu_seconds was measured by the device, not by the host
  double wall_seconds = 0;      // of the whole run with transfers
  uint32_t submissions = 0;
  uint64_t uploaded_bytes = 0;   // from the host to the device: inputs and arguments
  uint64_t read_back_bytes = 0;  // and back: outputs, captures, the report and times
  uint64_t gpu_begin_ns = 0;     // when the first submission was made, on the host's clock of `stages`
  std::vector<StageTime> stages;
  std::vector<StepTime> steps;  // empty unless asked for
};

// A table by kernel, longest first: calls, ms, part of the total, TFLOP/s, GB/s.
std::string profile_table(const Profile& profile);

// The run as Chrome/Perfetto trace JSON: one track for the GPU, one for the host's stages. Times in microseconds.
std::string trace_json(const Profile& profile);

}  // namespace gyrus
