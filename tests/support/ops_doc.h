#pragma once
#include <string>

namespace gyrus::test {

// docs/ops.md: every op with its family, what it decomposes into, the attributes and element types that the op table
// exercises, and its cases.
std::string ops_document();

}  // namespace gyrus::test
