#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/lifetimes.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "plan/storage.h"

namespace gyrus {

// A range bound to a kernel.
struct Binding {
  BindingKind kind = BindingKind::ReadStorage;
  BufferRange range;
};

// One dispatch, as Kernel (kernel.h) hands it over. `groups` counts workgroups in one line; the builder folds it into
// three axes.
struct DispatchSpec {
  std::string name;  // of the kernel
  std::string wgsl;
  uint32_t workgroup = 1;
  uint64_t workgroup_bytes = 0;
  std::vector<uint32_t> params;   // binding 0; the builder sets the first two: the first group and the count of groups
  std::vector<Binding> bindings;  // 1 …
  uint64_t groups = 1;
  std::string label;
  double flops = 0;
  double bytes = 0;
  Features features{};  // that the kernel uses
};

// Collects buffers, kernels and steps, then assigns memory by lifetimes.
class PlanBuilder {
 public:
  explicit PlanBuilder(Limits limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  uint32_t add_buffer(const std::string& label, uint64_t bytes);
  // A storage with its buffers, for a value computed on the device, or a state.
  Storage add_storage(const TensorType& type, const std::string& label, BufferKind kind = BufferKind::Storage);
  // A scalar in the buffer of arguments.
  Storage add_argument(DType dtype);
  // Bytes that a state starts from; where they stand in Plan::weights.
  uint64_t add_start(const std::vector<std::byte>& bytes);
  // Constant bytes; they share buffers with other constants, each from an aligned offset.
  BufferRange add_constant(const std::vector<std::byte>& bytes, const std::string& label);
  // The same to be bound as uniforms; the caller keeps within the limit of their bindings.
  BufferRange add_uniform(const std::vector<uint32_t>& words);

  // The words by which kernels report what they find wrong, and the number of one more report.
  BufferRange report_words();
  uint32_t add_report(ReportKind kind, const std::string& label);

  // Work in a dispatch from now on, at most, as far as workgroups allow it; 0: as it comes.
  void limit_dispatches(double flops) { most_flops_ = flops; }
  void dispatch(const DispatchSpec& spec);
  // Steps that copy a storage onto another one of as many bytes, however the two are cut.
  void copy(const Storage& from, const Storage& to);

  void keep_from_start(const Storage& storage) { mark(storage, true); }
  void keep_to_end(const Storage& storage) { mark(storage, false); }

  size_t step_count() const { return plan_.steps.size(); }

  // Buffers with disjoint lifetimes share memory, unless told not to; the result has its final buffer numbers.
  // `tenants` is told who lies where.
  Plan finish(bool share_memory = true, std::vector<PlanTrace::Tenant>* tenants = nullptr);
  // Maps a buffer number given by add_buffer to its number in the finished plan.
  uint32_t final_buffer(uint32_t buffer) const { return final_.at(buffer); }

 private:
  struct Lifetime {
    int64_t first = INT64_MAX;
    int64_t last = -1;
  };
  void mark(const Storage& storage, bool start);
  void touch(const BufferRange& range);
  uint32_t add_kernel(PlanKernel kernel);
  void check_bindings(const PlanKernel& kernel, const Dispatch& step) const;
  void emit(const DispatchSpec& spec, std::array<uint32_t, 3> groups, uint64_t first_group, double share);

  uint64_t groups_at_once(const DispatchSpec& spec, uint64_t left) const;

  Limits limits_;
  double most_flops_ = 0;
  Plan plan_;
  std::vector<Lifetime> lifetimes_;
  std::map<std::string, uint32_t> kernels_;
  std::map<std::vector<uint32_t>, BufferRange> uniforms_;
  std::map<size_t, std::vector<BufferRange>> constants_;  // by hash of their bytes: equal ones are stored once
  std::vector<std::vector<std::byte>> contents_;          // of each buffer: constants and parameters
  uint32_t open_constants_ = ~0u;
  uint32_t open_uniforms_ = ~0u;
  uint32_t arguments_ = ~0u;
  uint32_t report_buffer_ = ~0u;
  std::vector<uint32_t> final_;
};

}  // namespace gyrus
