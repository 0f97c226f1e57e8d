#include "llm/step_kind.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/cache.h"

namespace gyrus {

const char* to_string(CacheFormat format) {
  return format == CacheFormat::F32 ? "f32" : format == CacheFormat::F16 ? "f16" : "q8";
}

const char* to_string(Finish finish) {
  switch (finish) {
    case Finish::Length: return "length";
    case Finish::Stop: return "stop";
    case Finish::End: return "end";
    case Finish::Cancelled: return "cancelled";
  }
  return "";
}

namespace llm {
namespace {

constexpr int64_t kFew = 16;                 // rows of the plan between one and a chunk
constexpr int64_t kChoiceWords = 8;          // ops/choose.h
constexpr uint64_t kMostLogits = 64u << 20;  // bytes that a step gives at once

int32_t bits_of(double value) {
  const auto single = static_cast<float>(value);
  int32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return bits;
}

}  // namespace

Tensor row_table(const std::vector<StepRow>& rows, int64_t count, const TextOptions& options) {
  Tensor table(DType::I32, {count, kStepColumns});
  auto* to = table.as<int32_t>();
  for (int64_t i = 0; i < count; ++i, to += kStepColumns) {
    const StepRow row = i < static_cast<int64_t>(rows.size()) ? rows[static_cast<size_t>(i)] : StepRow{};
    if (row.position >= options.context || row.sequence < 0 || row.sequence >= options.sequences)
      fail(ErrorCode::InvalidInput, "model", "position ", row.position, " of sequence ", row.sequence,
           " is outside a cache of ", options.sequences, " sequences of ", options.context, " tokens");
    to[0] = row.token;
    to[1] = static_cast<int32_t>(row.sequence * options.context);
    to[2] = static_cast<int32_t>(row.position);
    to[3] = static_cast<int32_t>(row.sequence);
  }
  return table;
}

Tensor choice_table(const std::vector<Choice>& choices) {
  Tensor table(DType::I32, {static_cast<int64_t>(choices.size()), kChoiceWords});
  for (size_t i = 0; i < choices.size(); ++i) {
    const Sampling& s = choices[i].sampling;
    const int32_t words[kChoiceWords] = {bits_of(s.temperature),
                                         static_cast<int32_t>(std::min<int64_t>(s.top_k, INT32_MAX)),
                                         bits_of(s.top_p),
                                         bits_of(s.min_p),
                                         bits_of(s.repetition_penalty),
                                         static_cast<int32_t>(s.seed),
                                         static_cast<int32_t>(choices[i].step),
                                         static_cast<int32_t>(choices[i].sequence)};
    std::memcpy(table.as<int32_t>() + i * kChoiceWords, words, sizeof words);
  }
  return table;
}

std::vector<int64_t> step_sizes(const TextOptions& options) {
  std::vector<int64_t> sizes = {1};
  if (options.chunk > kFew) sizes.push_back(kFew);
  if (options.chunk > 1) sizes.push_back(options.chunk);
  return sizes;
}

int64_t step_size(const TextOptions& options, size_t rows) {
  const std::vector<int64_t> sizes = step_sizes(options);
  const auto count = static_cast<int64_t>(rows);
  const auto size = std::find_if(sizes.begin(), sizes.end(), [&](int64_t s) { return s >= count; });
  if (count == 0 || size == sizes.end())
    fail(ErrorCode::InvalidInput, "model", count, " rows at once, expected 1 to ", sizes.back());
  return *size;
}

int64_t rows_of_values(const TextOptions& options, int64_t vocabulary) {
  const auto row = static_cast<uint64_t>(vocabulary) * 4;
  const auto most = static_cast<int64_t>(std::max<uint64_t>(1, kMostLogits / row));
  return std::min({options.chunk, most, kFew});
}

}  // namespace llm
}  // namespace gyrus
