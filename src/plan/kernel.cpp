#include "plan/kernel.h"

#include <cstring>

#include "core/error.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

constexpr uint64_t kSharedAlignment = 16;  // WebGPU counts every variable in workgroup memory as whole 16 bytes

uint64_t byte_size(WgslType type) { return uint64_t{type.lanes} * (type.scalar == Scalar::F16 ? 2 : 4); }

}  // namespace

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}

Kernel::Kernel(Lowering& lowering, std::string file, std::string label) : lowering_(lowering), file_(std::move(file)) {
  spec_.name = file_;
  spec_.label = std::move(label);
  param("first_group", uint64_t{0});
  param("groups", uint64_t{0});
}

Kernel& Kernel::name(std::string name) {
  spec_.name = std::move(name);
  return *this;
}

Kernel& Kernel::workgroup(uint32_t wanted) {
  spec_.workgroup = lowering_.workgroup(wanted);
  return constant("wg", spec_.workgroup);
}

Kernel& Kernel::bind(BindingKind kind, const std::string& name, const BufferRange& range, const std::string& type) {
  spec_.bindings.push_back({kind, range});
  const char* space = kind == BindingKind::Uniform       ? "uniform"
                      : kind == BindingKind::ReadStorage ? "storage, read"
                                                         : "storage, read_write";
  declarations_ += cat("@group(0) @binding(", spec_.bindings.size(), ") var<", space, "> ", name, ": ", type, ";\n");
  return *this;
}

Kernel& Kernel::read(const std::string& name, const BufferRange& range, WgslType type) {
  return bind(BindingKind::ReadStorage, name, range, cat("array<", to_string(type), ">"));
}

Kernel& Kernel::write(const std::string& name, const BufferRange& range, WgslType type) {
  return bind(BindingKind::ReadWriteStorage, name, range, cat("array<", to_string(type), ">"));
}

Kernel& Kernel::uniform(const std::string& name, const BufferRange& range, const std::string& type) {
  return bind(BindingKind::Uniform, name, range, type);
}

Kernel& Kernel::read(const std::string& name, const Storage& storage, const Window& window) {
  return read(name, window.range, array_type(storage)).param(name + "_shift", window.skip - window.first);
}

Kernel& Kernel::write(const std::string& name, const Storage& storage, const Window& window) {
  return write(name, window.range, array_type(storage)).param(name + "_shift", window.skip - window.first);
}

Kernel& Kernel::read(const std::string& name, const Storage& storage) {
  return read(name, storage, whole_window(storage, lowering_.limits(), spec_.label));
}

Kernel& Kernel::write(const std::string& name, const Storage& storage) {
  return write(name, storage, whole_window(storage, lowering_.limits(), spec_.label));
}

Kernel& Kernel::param(const std::string& name, uint64_t value) {
  params_.push_back(name);
  spec_.params.push_back(static_cast<uint32_t>(value));
  return *this;
}

Kernel& Kernel::param(const std::string& name, int64_t value) { return param(name, static_cast<uint64_t>(value)); }

Kernel& Kernel::param(const std::string& name, float value) { return param(name, uint64_t{bits_of(value)}); }

Kernel& Kernel::constant(const std::string& name, int64_t value) { return text(name, std::to_string(value)); }

Kernel& Kernel::literal(const std::string& name, uint64_t value) { return text(name, cat(value, "u")); }

Kernel& Kernel::text(const std::string& name, std::string value) {
  vars_[name] = std::move(value);
  return *this;
}

Kernel& Kernel::flag(const std::string& name, bool value) { return text(name, value ? "1" : ""); }

Kernel& Kernel::shared(const std::string& name, WgslType type, uint64_t count) {
  return shared(name, to_string(type), byte_size(type), count);
}

Kernel& Kernel::shared(const std::string& name, const std::string& type, uint64_t element_bytes, uint64_t count) {
  declarations_ += cat("var<workgroup> ", name, ": array<", type, ", ", count, ">;\n");
  spec_.workgroup_bytes += round_up(element_bytes * count, kSharedAlignment);
  return *this;
}

Kernel& Kernel::matrices() {
  spec_.features.shader_f16 = spec_.features.subgroups = spec_.features.subgroup_matrix = true;
  text("enable_matrices", "enable f16;\nenable subgroups;\nenable chromium_experimental_subgroup_matrix;\n");
  return flag("matrices", true);
}

Kernel& Kernel::reports(ReportKind kind) {
  reports_ = true;
  bind(BindingKind::ReadWriteStorage, "report_words", lowering_.builder().report_words(), "array<atomic<u32>, 4>");
  return param("report", uint64_t{lowering_.builder().add_report(kind, spec_.label)});
}

Kernel& Kernel::checks_stored() {
  if (!lowering_.options().check_finite) return *this;
  checks_ = true;
  return reports(ReportKind::Finite);
}

std::string Kernel::stored(const Storage& storage, const std::string& value) const {
  const bool floats = is_float(storage.dtype);
  const bool half = storage.dtype == DType::F16;
  return pack_unit(storage,
                   checks_ && floats ? cat("checked", half ? "_half" : "", storage.lanes, "(", value, ")") : value);
}

std::string Kernel::head() const {
  std::string text = "struct Params {\n";
  for (const std::string& name : params_) text += "  " + name + ": u32,\n";
  text += "}\n@group(0) @binding(0) var<uniform> P: Params;\n" + declarations_;
  if (reports_) text += expand_kernel("report", {{"checks", checks_ ? "1" : ""}});
  return text + expand_kernel("group_index", {});
}

std::string Kernel::wgsl() const {
  KernelVars vars = vars_;
  vars["head"] = head();
  vars["main"] = expand_kernel("main", vars_);
  return expand_kernel(file_, vars);
}

void Kernel::dispatch(uint64_t groups, const Cost& cost) {
  spec_.wgsl = wgsl();
  spec_.groups = groups;
  spec_.flops = cost.flops;
  spec_.bytes = cost.bytes;
  lowering_.builder().dispatch(spec_);
}

}  // namespace gyrus
