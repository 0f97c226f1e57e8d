#pragma once
#include <string>

#include "gyrus/verify.h"

// What `gyrus verify` found, for people, programs and bug reports.

namespace gyrus::cli {

struct VerifyContext {
  std::string model, precision;
  uint64_t seed = 1;
  AdapterInfo adapter;
};

// One line for each node.
std::string verify_table(const Verified& found);
// The first node that is wrong: its operands, kernels and driver. Ends with a newline.
std::string verify_first(const Verified& found, const VerifyContext& context);
std::string verify_json(const Verified& found, const VerifyContext& context);

// Everything that is needed to look at the first wrong node elsewhere: report.json, input_N_NAME.npy,
// output_N_NAME.npy, expected_N_NAME.npy, kernel_N.wgsl and steps.json.
void write_bundle(const std::string& folder, const Verified& found, const VerifyContext& context);

}  // namespace gyrus::cli
