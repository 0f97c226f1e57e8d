#pragma once
#include <string>
#include <vector>

#include "ops/blocks.h"
#include "plan/lowering.h"

// Matrices in the blocks of GGUF files, as kernels bind them: in as many parts as bindings ask for, cut between rows.

namespace gyrus {

inline constexpr int64_t kBlockUnit = 32;  // elements that kernels unpack at a time

// Rows of a matrix that one binding holds.
struct RowWindow {
  int64_t first = 0, last = 0;  // included
  Window words;
  uint64_t begin = 0;  // byte of the binding at which row `first` starts
};
std::vector<RowWindow> cut_rows(const BlockMatrix& matrix, const Storage& storage, const Limits& limits,
                                const std::string& label);

// The matrix, copied where a group of rows lies in two buffers, as it may in constants.
StoragePtr whole_rows(Lowering& lowering, const BlockMatrix& matrix, const StoragePtr& in, const std::string& label);

// Of a matrix of integers: whether 32 elements that are unpacked together share a scale.
bool has_whole_groups(const BlockMatrix& matrix);

// What every kernel over blocks is told of a matrix.
void add_matrix(Kernel& k, const BlockMatrix& matrix, const Storage& storage, const RowWindow& part);

}  // namespace gyrus
