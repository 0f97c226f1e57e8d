#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyrus {

// Bytes of workgroup memory that the declarations `var<workgroup> name: type;` of a kernel take, each rounded up to 16
// as WebGPU counts them. Types are f32, i32, u32, atomics, vectors and arrays of literal length; nothing where a type
// is another.
std::optional<uint64_t> workgroup_bytes(std::string_view wgsl);

}  // namespace gyrus
