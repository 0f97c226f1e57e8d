#pragma once
// The JSON form of a plan, for files, the browser and exported bundles: one object, one line for each entry of a list.
//
//   format      "gyrus-plan-2"
//   precision   "f32" | "f16"
//   needs       { maxBufferSize, … }: the limits, named as in the WebGPU specification
//   features    { shader-f16, subgroups, timestamp-query }: booleans; besides these
//   chromium-experimental-subgroup-matrix,
//               only where it is true: plans that do not use matrix units are read by executors that do not know it
//   weights     bytes in the binary file
//   buffers     [ { label, size, kind: "storage" | "weights" | "params" | "state" | "arguments", dataOffset } ]
//   kernels     [ { name, entry, workgroupSize: [x,y,z], workgroupBytes, bindings: ["read" | "write" | "uniform"],
//                   wgsl } ]
//   steps       [ { op: "dispatch", label, kernel, groups: [x,y,z], bindings: [range], flops, bytes }
//               | { op: "copy", from: range, to: range } | { op: "clear", range } ]
//   inputs, outputs, captures
//               [ { name, dtype, shape: […], pieces: [ [hostOffset, buffer, offset, size] ] } ]
//   states      [ { name, dtype, shape, pieces, start: offset in the weights | null } ]
//   arguments   [ { name, dtype: "f32" | "i32" | "u32", least, most, offset } ]
//   report      range | null
//   reports     [ { kind: "index" | "finite" | "room", label } ]
//
// A range is [buffer, offset, size], in bytes. Every key must be there and no other.
// The names and the fields of every entry stand here once, for writing and reading.

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/limits.h"
#include "plan/plan.h"

namespace gyrus::plan_json {

using Json = nlohmann::ordered_json;

// The key among the features that is absent where it is false.
inline constexpr const char* kSubgroupMatrixKey = "chromium-experimental-subgroup-matrix";

inline constexpr const char* kFormat = "gyrus-plan-2";

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// What the file says may end up in the message, which is to stay one line.
template <class... Args>
[[noreturn]] void invalid(const Args&... message) {
  std::string text = cat(message...);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  fail(ErrorCode::InvalidInput, "plan", text);
}

template <class Enum>
struct Name {
  Enum value;
  const char* text;
};
inline constexpr Name<BufferKind> kBufferKinds[] = {{BufferKind::Storage, "storage"},
                                                    {BufferKind::Weights, "weights"},
                                                    {BufferKind::Params, "params"},
                                                    {BufferKind::State, "state"},
                                                    {BufferKind::Arguments, "arguments"}};
inline constexpr Name<BindingKind> kBindingKinds[] = {
    {BindingKind::ReadStorage, "read"}, {BindingKind::ReadWriteStorage, "write"}, {BindingKind::Uniform, "uniform"}};
inline constexpr Name<DType> kDTypes[] = {
    {DType::F32, "f32"}, {DType::F16, "f16"}, {DType::I32, "i32"}, {DType::U32, "u32"}, {DType::U8, "u8"}};
inline constexpr Name<ReportKind> kReportKinds[] = {
    {ReportKind::Index, "index"}, {ReportKind::Finite, "finite"}, {ReportKind::Room, "room"}};

constexpr auto& names_of(BufferKind) { return kBufferKinds; }
constexpr auto& names_of(BindingKind) { return kBindingKinds; }
constexpr auto& names_of(DType) { return kDTypes; }
constexpr auto& names_of(ReportKind) { return kReportKinds; }

// visit(item, v) calls v(key, member) for every field; `item` may be const.
template <class T>
struct Fields;

template <>
struct Fields<Limits> {
  template <class T, class V>
  static void visit(T& limits, V&& v) {
    visit_limits(limits, v);
  }
};

template <>
struct Fields<Features> {
  template <class T, class V>
  static void visit(T& features, V&& v) {
    v("shader-f16", features.shader_f16);
    v("subgroups", features.subgroups);
    v("timestamp-query", features.timestamp_query);
  }
};

template <>
struct Fields<PlanBuffer> {
  template <class T, class V>
  static void visit(T& buffer, V&& v) {
    v("label", buffer.label);
    v("size", buffer.size);
    v("kind", buffer.kind);
    v("dataOffset", buffer.data_offset);
  }
};

template <>
struct Fields<PlanKernel> {
  template <class T, class V>
  static void visit(T& kernel, V&& v) {
    v("name", kernel.name);
    v("entry", kernel.entry);
    v("workgroupSize", kernel.workgroup_size);
    v("workgroupBytes", kernel.workgroup_bytes);
    v("bindings", kernel.bindings);
    v("wgsl", kernel.wgsl);
  }
};

template <>
struct Fields<Dispatch> {
  static constexpr const char* kOp = "dispatch";
  template <class T, class V>
  static void visit(T& dispatch, V&& v) {
    v("label", dispatch.label);
    v("kernel", dispatch.kernel);
    v("groups", dispatch.groups);
    v("bindings", dispatch.bindings);
    v("flops", dispatch.flops);
    v("bytes", dispatch.bytes);
  }
};

template <>
struct Fields<Copy> {
  static constexpr const char* kOp = "copy";
  template <class T, class V>
  static void visit(T& copy, V&& v) {
    v("from", copy.from);
    v("to", copy.to);
  }
};

template <>
struct Fields<Clear> {
  static constexpr const char* kOp = "clear";
  template <class T, class V>
  static void visit(T& clear, V&& v) {
    v("range", clear.range);
  }
};

template <>
struct Fields<PlanPort> {
  template <class T, class V>
  static void visit(T& port, V&& v) {
    v("name", port.name);
    v("dtype", port.dtype);
    v("shape", port.shape);
    v("pieces", port.pieces);
  }
};

template <>
struct Fields<PlanState> {
  template <class T, class V>
  static void visit(T& state, V&& v) {
    Fields<PlanPort>::visit(state, v);
    v("start", state.start);
  }
};

template <>
struct Fields<PlanArgument> {
  template <class T, class V>
  static void visit(T& argument, V&& v) {
    v("name", argument.name);
    v("dtype", argument.dtype);
    v("least", argument.least);
    v("most", argument.most);
    v("offset", argument.offset);
  }
};

template <>
struct Fields<PlanReport> {
  template <class T, class V>
  static void visit(T& report, V&& v) {
    v("kind", report.kind);
    v("label", report.label);
  }
};

// What follows the head of the file.
template <>
struct Fields<Plan> {
  template <class T, class V>
  static void visit(T& plan, V&& v) {
    v("buffers", plan.buffers);
    v("kernels", plan.kernels);
    v("steps", plan.steps);
    v("inputs", plan.inputs);
    v("outputs", plan.outputs);
    v("captures", plan.captures);
    v("states", plan.states);
    v("arguments", plan.arguments);
    v("report", plan.report);
    v("reports", plan.reports);
  }
};

}  // namespace gyrus::plan_json
