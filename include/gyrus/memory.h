#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/tensor.h"

namespace gyrus {

// A part of a state, in elements of its row-major tensor.
struct StateRange {
  uint64_t offset = 0;
  uint64_t count = 0;
};

struct StateInfo {
  DType dtype = DType::F32;
  Shape shape;
};

struct MemoryImpl;

// Named states on a device: tensors that stay there from run to run. Every executor that is made with it brings the
// states of its plan: a name that is not there yet is allocated and gets its start, one that is there is shared and
// must have the same type, shape and cut. The buffers are freed when the last copy of the Memory and the last of its
// executors are gone.
//
// Any thread may call it. Runs of its executors and calls of its own take turns; a run's progress callback may not call
// it (InvalidInput). Names that are not there are InvalidInput, with a list of those that are.
//
// A run that fails after it may have changed states (Error::state_changed) leaves those that its plan writes undefined:
// runs with them and reads are refused until they are written as a whole, reset or loaded.
class Memory {
 public:
  explicit Memory(const Device& device);

  uint64_t bytes() const;  // of all states on the device
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  StateInfo describe(const std::string& name) const;
  std::vector<std::string> undefined() const;

  // A state, or a range of its elements as a tensor of one axis.
  Tensor read(const std::string& name, std::optional<StateRange> range = {}) const;
  // Replaces a state, or a range of its elements by a tensor of one axis.
  void write(const std::string& name, const Tensor& value, std::optional<StateRange> range = {});
  // Replaces bytes of a state, from `offset` on: raw ranges of a file go to the device without another copy.
  void write_bytes(const std::string& name, uint64_t offset, const std::byte* data, uint64_t bytes);
  // Replaces several; all are checked before the first is written.
  void write(const std::map<std::string, Tensor>& values);
  // Gives states their first contents again: all, or those named.
  void reset();
  void reset(const std::vector<std::string>& names);
  // States as the bytes of a safetensors file: all, or those named.
  std::vector<std::byte> save() const;
  std::vector<std::byte> save(const std::vector<std::string>& names) const;
  // Replaces states by the tensors of a safetensors file; all are checked before the first is written.
  void load(const std::vector<std::byte>& file);

  const std::shared_ptr<MemoryImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<MemoryImpl> impl_;
};

}  // namespace gyrus
