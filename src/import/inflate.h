#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/bytes.h"

namespace gyrus {

// Decompresses a raw deflate stream that fills `data` and gives exactly `size` bytes; throws InvalidModel otherwise.
std::vector<std::byte> inflate(Bytes data, uint64_t size, const std::string& subject);

struct Inflated {
  std::vector<std::byte> bytes;
  size_t used = 0;        // bytes of the data; where the stream did not end, of no meaning
  bool complete = false;  // the stream ended
};
// Decompresses the raw deflate stream that `data` starts with, until it ends or would give more than `most` bytes.
// Throws InvalidModel where it is damaged.
Inflated inflate_start(Bytes data, uint64_t most, const std::string& subject);

}  // namespace gyrus
