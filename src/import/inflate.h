#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/bytes.h"

namespace gyrus {

// Decompresses a raw deflate stream that fills `data` and gives exactly `size` bytes; throws InvalidModel otherwise.
std::vector<std::byte> inflate(Bytes data, uint64_t size, const std::string& subject);

}  // namespace gyrus
