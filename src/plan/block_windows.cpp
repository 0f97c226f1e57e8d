#include "plan/block_windows.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {
namespace {

std::string kernel_file(BlockType type) {
  if (integer_bits(type) != 0) return "block_integers";
  std::string name = cat("block_", to_string(type));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

// What the kernel file of integers is told.
KernelVars format_vars(const BlockMatrix& matrix) {
  const uint32_t bits = integer_bits(matrix.type);
  if (bits == 0) return {};
  return {{"bits", std::to_string(bits)},
          {"zeros", matrix.zeros ? "1" : "0"},
          {"whole", has_whole_groups(matrix) ? "1" : "0"}};
}

}  // namespace

bool has_whole_groups(const BlockMatrix& matrix) {
  return matrix.group == matrix.columns || matrix.group % kBlockUnit == 0;
}

std::vector<RowWindow> cut_rows(const BlockMatrix& matrix, const Storage& storage, const Limits& limits,
                                const std::string& label) {
  const auto words = static_cast<uint64_t>(matrix.shape()[3]);
  const int64_t together = matrix.rows_in_group(), groups = matrix.shape()[2];
  std::vector<RowWindow> parts;
  for (int64_t at = 0; at < groups;) {
    const auto fits = [&](int64_t count) {
      return fits_window(storage, static_cast<uint64_t>(at) * words, static_cast<uint64_t>(count) * words, limits);
    };
    int64_t least = 0, most = groups - at;
    while (least < most) {
      const int64_t middle = (least + most + 1) / 2;
      if (fits(middle))
        least = middle;
      else
        most = middle - 1;
    }
    if (least == 0)
      fail(ErrorCode::OverLimits, label, "a row of ", matrix.row_bytes(), " bytes is larger than a binding may be");
    RowWindow part;
    part.words = window(storage, static_cast<uint64_t>(at) * words, static_cast<uint64_t>(least) * words, limits);
    part.first = at * together;
    part.last = std::min((at + least) * together, matrix.rows) - 1;
    part.begin = part.words.skip * 4;
    parts.push_back(part);
    at += least;
  }
  return parts;
}

StoragePtr whole_rows(Lowering& lowering, const BlockMatrix& matrix, const StoragePtr& in, const std::string& label) {
  const auto words = static_cast<uint64_t>(matrix.shape()[3]);
  const bool whole =
      std::all_of(in->chunks.begin(), in->chunks.end(), [&](const Chunk& chunk) { return chunk.first % words == 0; });
  if (whole) return in;
  const StoragePtr copy = lowering.make_scratch({DType::U32, matrix.shape(), Layout::Plain}, label);
  lowering.builder().copy(*in, *copy);
  return copy;
}

void add_matrix(Kernel& k, const BlockMatrix& matrix, const Storage& storage, const RowWindow& part) {
  k.read("weights", part.words.range, array_type(storage));
  k.param("first_n", part.first).param("last_n", part.last).param("w_begin", part.begin);
  k.param("row_bytes", matrix.row_bytes())
      .param("units", ceil_div(matrix.columns, kBlockUnit))
      .param("k", matrix.columns);
  k.text("format", to_string(matrix.type)).text("unpack", expand_kernel(kernel_file(matrix.type), format_vars(matrix)));
  if (matrix.integers()) {
    const IntegerRow row = matrix.integer_row();
    k.param("group", row.group).param("scales", row.groups()).param("values", row.values_at() / 4);
  }
  k.flag("aligned", matrix.row_bytes() % 4 == 0 && block_format(matrix.type).bytes % 4 == 0);
}

}  // namespace gyrus
