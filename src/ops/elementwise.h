#pragma once
#include <string>

#include "ops/common.h"

// What the elementwise ops share. Their WGSL expressions may repeat an argument, so arguments are names or literals,
// never loads. Bytes (u8) travel as u32 in WGSL.

namespace gyrus {

// out[i] = eval(in0[i], in1[i], …) after broadcasting; the `reference` of every elementwise op but "fused".
void elementwise_reference(const Node& node, const std::vector<const RefTensor*>& inputs,
                           std::vector<RefTensor>& outputs);

// A number as WGSL text that reads back as the same f32, always with a point or an exponent.
std::string wgsl_number(double value);

// "vec4<f32>" → "f32"; a scalar type stays.
std::string scalar_of(const std::string& type);
// `type` with its scalar replaced: ("vec4<f32>", "u32") → "vec4<u32>".
std::string with_scalar(const std::string& type, const std::string& scalar);

}  // namespace gyrus
