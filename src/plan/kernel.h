#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/wgsl.h"
#include "kernels/kernels.h"
#include "plan/builder.h"

namespace gyrus {

class Lowering;

// The bits of a float, as a parameter carries them.
uint32_t bits_of(float value);

// What a dispatch costs: operations, and the least traffic in bytes.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// One dispatch in the making. Bindings, parameters, numbers of the text and workgroup memory are declared once, here:
// the head of the kernel ({{head}}: parameters, bindings, workgroup memory) and what the plan says of it come from the
// same calls, so that the two cannot differ. {{main}} opens the entry point with group_index's arguments and `lane`.
class Kernel {
 public:
  // `file` is one of src/kernels; `label` the node it belongs to.
  Kernel(Lowering& lowering, std::string file, std::string label);

  // What profiles call it; by default the file.
  Kernel& name(std::string name);
  // Lanes of a workgroup, at most `wanted` and what the limits allow; {{wg}} in the text.
  Kernel& workgroup(uint32_t wanted);
  uint32_t workgroup() const { return spec_.workgroup; }

  // Binds a window of a storage as an array `name`. Its unit u has the index u + P.name_shift.
  Kernel& read(const std::string& name, const Storage& storage, const Window& window);
  Kernel& write(const std::string& name, const Storage& storage, const Window& window);
  // The same for all of a storage; throws OverLimits where that does not fit a binding.
  Kernel& read(const std::string& name, const Storage& storage);
  Kernel& write(const std::string& name, const Storage& storage);
  // Binds a range as an array of that type.
  Kernel& read(const std::string& name, const BufferRange& range, WgslType type);
  Kernel& write(const std::string& name, const BufferRange& range, WgslType type);
  // Binds constant words as a uniform of that WGSL type.
  Kernel& uniform(const std::string& name, const BufferRange& range, const std::string& type);

  // A number that changes from dispatch to dispatch: P.name, a u32 (of negative ones the bits).
  Kernel& param(const std::string& name, int64_t value);
  Kernel& param(const std::string& name, uint64_t value);
  Kernel& param(const std::string& name, float value);  // its bits; the kernel says bitcast<f32>
  // A number that is part of the text: {{name}}.
  Kernel& constant(const std::string& name, int64_t value);
  // The same as a u32 literal, for extents where that was measured to pay over a parameter.
  Kernel& literal(const std::string& name, uint64_t value);
  // A part of the text: {{name}}.
  Kernel& text(const std::string& name, std::string value);
  // Whether {{#name}} blocks are kept.
  Kernel& flag(const std::string& name, bool value);

  // An array in workgroup memory.
  Kernel& shared(const std::string& name, WgslType type, uint64_t count);
  // The same of a struct that the text declares.
  Kernel& shared(const std::string& name, const std::string& type, uint64_t element_bytes, uint64_t count);

  // The kernel multiplies matrices of halves: {{enable_matrices}} before everything else in its text. {{main}} gives
  // `subgroup`, the number of the lane's subgroup, and `place`, that of the lane in it.
  Kernel& matrices();

  // Lets the kernel call report(detail), which stops the run with an error of that kind naming the node.
  Kernel& reports(ReportKind kind);
  // With PlanOptions::check_finite: floats that are to be stored are tested first, and reported. Call it before
  // `stored`, once for a kernel.
  Kernel& checks_stored();
  // `value`, f32 lanes, as the array that holds the storage takes it.
  std::string stored(const Storage& storage, const std::string& value) const;

  // Emits as many workgroups in one line; the builder folds them into three axes.
  void dispatch(uint64_t groups, const Cost& cost = {});

 private:
  Kernel& bind(BindingKind kind, const std::string& name, const BufferRange& range, const std::string& type);
  std::string head() const;
  std::string wgsl() const;

  Lowering& lowering_;
  std::string file_;
  KernelVars vars_;
  std::vector<std::string> params_;
  std::string declarations_;
  bool reports_ = false;
  bool checks_ = false;
  DispatchSpec spec_;
};

}  // namespace gyrus
