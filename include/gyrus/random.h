#pragma once
#include <cstdint>

#include "gyrus/ops.h"

// Random numbers inside graphs. They are a function of a key {seed, step}, a stream and the place of an element
// (Threefry2x32 with 20 rounds), so that the same key gives the same numbers on every device, in the browser and on the
// reference, and a gradient draws again what the way forward drew. Every call takes a stream of its own.

namespace gyrus {

// The names of the arguments that random_key adds. A Trainer gives them (TrainerOptions::seed, and the steps so far);
// other programs take them in RunOptions::arguments.
inline constexpr const char* kRandomSeed = "random_seed";
inline constexpr const char* kRandomStep = "random_step";

// The key of a graph, i32 [2]; made once.
Value random_key(Graph& graph);

// Of a shape, f32; `key` is i32 [2]: random_key, an input or a constant.
// From 0 to below 1: multiples of 2^-24, the same everywhere.
Value random_uniform(Value key, int64_t stream, const Shape& shape);
// Mean 0, variance 1: the same everywhere but for rounding.
Value random_normal(Value key, int64_t stream, const Shape& shape);
// Words of 32 bits, u32, and whole numbers from 0 to below `count`, i32: the same everywhere.
Value random_bits(Value key, int64_t stream, const Shape& shape);
Value random_integers(Value key, int64_t stream, const Shape& shape, int64_t count);
// The same in the shape of a value, which may change with the shapes that a program is given.
Value random_uniform(Value key, int64_t stream, Value like);
Value random_normal(Value key, int64_t stream, Value like);

// A share p of the elements becomes 0, the others x / (1 - p). No mask is kept. Where a network only runs
// (inference_graph, Trainer::run) it is x.
Value dropout(Value x, Value key, int64_t stream, double p = 0.5);
// The same for whole channels of x [N,C,…].
Value dropout_channels(Value x, Value key, int64_t stream, double p = 0.5);

}  // namespace gyrus
