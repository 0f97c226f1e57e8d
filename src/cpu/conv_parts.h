#pragma once
#include <vector>

#include "cpu/conv.h"

// The inside of a ConvPlan, shared by what makes it (conv.cpp) and by the two engines that run it (conv_direct.cpp,
// conv_winograd.cpp), which are compiled once for each instruction set.

namespace gyrus::cpu {

// Rows of the result that are made together, `count` of them from `first` on, a step of the tiling apart.
struct ConvTile {
  int64_t first = 0, count = 0;
};

// Rows of an axis in tiles of up to `size` on each of `step` lattices.
std::vector<ConvTile> lattice_tiles(int64_t extent, int64_t step, int64_t size);

struct ConvCall {
  const void* input = nullptr;  // singles or halves
  const float* bias = nullptr;
  float* output = nullptr;
  const ConvEpilogue* epilogue = nullptr;
};

// What an instruction set offers.
struct ConvTarget {
  int64_t lanes = 1;
  int64_t channels = 1, vectors = 1;  // the largest block of sums in registers
  void (*direct)(const ConvParts&, const ConvCall&, int64_t item) = nullptr;
  void (*winograd)(const ConvParts&, const ConvCall&, int64_t item) = nullptr;
};
ConvTarget conv_target();  // of the best set that this machine has
void (*winograd_engine())(const ConvParts&, const ConvCall&, int64_t item);

// Sums of taps as they stand. An item is some rows along H of one plane, or neighbouring columns of them.
struct DirectTiling {
  Extents input{}, output{};           // the shape's, or for pointwise convolutions all voxels in one row
  bool in_place = false;               // rows of the input need no copy with margins
  bool is_flat = false;                // short rows: lanes run on over the margins into the next row
  int64_t columns = 0;                 // of an item, at most
  int64_t step = 1;                    // rows of a tile lie so far apart
  int64_t rows = 1;                    // of a tile, at most
  int64_t slots = 1;                   // rows of the input with the same remainder by the stride, for a tile
  int64_t pitch = 0;                   // elements from slot to slot
  int64_t row_phases = 1, phases = 1;  // remainders by the strides along H and W
  int64_t channel_block = 1;           // input channels that are copied and summed at a time
  std::vector<ConvTile> tiles;
};

// Winograd's minimal filtering F(m, 3) along D and H on the lattices of the dilation; taps along W as they stand.
struct WinogradTiling {
  std::array<int64_t, 2> outputs{1, 1}, points{1, 1};  // of a tile along D and H
  int64_t columns = 0;                                 // of an item, at most
  int64_t group = 1;                                   // tiles along H in an item, side by side in its lanes
  int64_t pitch = 0;                                   // elements from tile to tile
  int64_t row = 0;                                     // elements from channel to channel
  int64_t batch = 1;                                   // blocks of output channels whose products are kept at a time
  std::array<std::vector<ConvTile>, 2> tiles;
};

struct ConvParts {
  ConvShape shape;
  ConvTarget target;
  bool is_winograd = false;
  bool whole_strips = false;
  DirectTiling direct;
  WinogradTiling winograd;
  std::vector<int64_t> blocks;  // first output channel of each block of a group, and the end
  std::vector<int64_t> parts;   // first block of each part of the channels that is an item of its own, and the end
  int64_t column_chunks = 1;    // items along W
  int64_t items = 0;
  int64_t scratch = 0;         // floats for a thread
  std::vector<float> weights;  // [group][block][point][channel, tap…][channel of the block]
};

// Where an item lies.
struct ConvItem {
  int64_t batch = 0, group_begin = 0, group_end = 1, part = 0, plane = 0, rows = 0, column = 0, columns = 0;
};

inline ConvItem locate(const ConvParts& parts, int64_t item, int64_t planes, int64_t row_items, int64_t columns,
                       int64_t width) {
  ConvItem at;
  at.column = item % parts.column_chunks * columns, item /= parts.column_chunks;
  at.columns = columns < width - at.column ? columns : width - at.column;
  at.rows = item % row_items, item /= row_items;
  at.plane = item % planes, item /= planes;
  const auto count = static_cast<int64_t>(parts.parts.size()) - 1;
  at.part = item % count, item /= count;
  if (parts.whole_strips) {
    at.group_end = parts.shape.groups;
  } else {
    at.group_begin = item % parts.shape.groups, item /= parts.shape.groups;
    at.group_end = at.group_begin + 1;
  }
  at.batch = item;
  return at;
}

// Memory of the calling thread, kept for its next call; aligned for every instruction set.
float* thread_scratch(int64_t floats);

}  // namespace gyrus::cpu
