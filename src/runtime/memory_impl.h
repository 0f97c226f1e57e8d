#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gyrus/memory.h"
#include "runtime/device_impl.h"

namespace gyrus {

// A state as it lies on the device: its bytes in buffers, one after another.
struct Resident {
  StateInfo info;
  std::vector<Buffer> buffers;
  std::vector<std::byte> host;       // on the CPU, instead of buffers
  std::shared_ptr<const Plan> plan;  // holds the start
  std::optional<uint64_t> start;     // in the plan's weights; none: zeros
  bool defined = true;

  uint64_t bytes() const;
};

struct MemoryImpl {
  std::shared_ptr<DeviceImpl> device;
  std::map<std::string, Resident> residents;

  // The buffers of the plan's states, by their number in the plan. What is new is allocated and filled.
  std::map<uint32_t, WGPUBuffer> attach(const std::shared_ptr<const Plan>& plan);
  Resident& find(const std::string& name);
  void fill(Resident& resident);
  void check_defined(const std::vector<std::string>& names);
  void set_defined(const std::vector<std::string>& names, bool defined);

  // Holds the memory for one call or run; throws InvalidInput inside of a run, which only its own callback can do.
  class Turn {
   public:
    Turn(MemoryImpl& memory, bool run);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    MemoryImpl& memory_;
    std::unique_lock<std::recursive_mutex> lock_;
    bool run_;
  };

 private:
  std::recursive_mutex mutex_;
  bool running_ = false;
};

}  // namespace gyrus
