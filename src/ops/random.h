#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "ops/elementwise.h"

// Random numbers that are a function of where they stand: Threefry2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011) of the counter {position, stream} under the key {seed, step}. It
// adds, turns and combines words alone, so that every device gives the same ones.

namespace gyrus {

std::array<uint32_t, 2> threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);

// The rows that draw them. Operands are x, which gives shape and element type, and the two words of the key; the
// attribute `stream` tells the draws of one graph apart.
std::vector<Elementwise> random_rows();

}  // namespace gyrus
