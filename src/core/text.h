#pragma once
#include <cstdint>
#include <string>

#include "gyrus/tensor.h"

// Numbers as people read them.

namespace gyrus {

std::string bytes_text(uint64_t bytes);          // "1.82 GiB"
std::string count_text(double count);            // "4.91 T"
std::string extents_text(const Shape& extents);  // "256x256x256"
std::string seconds_text(double seconds);        // "12.3 ms", "4.56 s"

}  // namespace gyrus
