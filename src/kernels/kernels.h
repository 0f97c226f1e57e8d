#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gyrus {

struct EmbeddedKernel {
  std::string_view name;  // of the file, without suffix
  std::string_view text;
};

// Every src/kernels/*.wgsl, made at build time.
const std::vector<EmbeddedKernel>& embedded_kernels();

}  // namespace gyrus
