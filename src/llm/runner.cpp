#include "llm/runner.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "engine/program_plan.h"
#include "ops/cache.h"

namespace gyrus::llm {
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

Tensor choice_table(const std::vector<Choice>& choices, size_t count) {
  Tensor table(DType::I32, {static_cast<int64_t>(count), kChoiceWords});
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

// How long a submission may hold the GPU: a token goes in one.
constexpr double kTokenSeconds = 8, kChunkSeconds = 0.05;

bool is_state(const PlanBuffer& buffer) { return buffer.kind == BufferKind::State; }

}  // namespace

std::vector<int64_t> step_sizes(const TextOptions& options) {
  std::vector<int64_t> sizes = {1};
  if (options.chunk > kFew) sizes.push_back(kFew);
  if (options.chunk > 1) sizes.push_back(options.chunk);
  return sizes;
}

Plan step_plan(const Model& model, int64_t rows, StepKind kind, const Target& target, const PlanOptions& options) {
  Target used = target;
  if (model.options().limits) used.limits = *model.options().limits;
  return *plan_program(model.step(rows, kind), used, Precision::F32, options).plan;
}

TextMemory planned_memory(const Model& model, const Target& target, const PlanOptions& options) {
  TextMemory memory;
  for (const int64_t rows : step_sizes(model.options())) {
    const Plan plan = step_plan(model, rows, StepKind::Last, target, options);
    for (const PlanBuffer& buffer : plan.buffers)
      if (!is_state(buffer)) memory.scratch += buffer.size;
    if (memory.weights > 0) continue;
    std::map<std::string, bool> weights;
    for (const WeightState& weight : model.weights()) weights[weight.name] = true;
    for (const PlanState& state : plan.states)
      for (const Piece& piece : state.pieces)
        (weights.count(state.name) ? memory.weights : memory.cache) += piece.range.size;
  }
  return memory;
}

Runner::Runner(const Device& device, std::shared_ptr<const Model> model)
    : device_(device), model_(std::move(model)), memory_(device), target_(device.target()) {
  if (device.adapter().type == AdapterType::Software) plan_options_ = software_options();
  const auto have = device.adapter().memory_bytes;
  const TextMemory needed = planned_memory(*model_, target_, plan_options_);
  if (have && needed.total() > *have)
    fail(ErrorCode::OverLimits, device.adapter().name, "the model needs ", needed.total(),
         " bytes of GPU memory, the device has ", *have,
         ": take a shorter context, a smaller cache or a smaller model");
  for (const int64_t rows : step_sizes(model_->options())) executor(rows, StepKind::Last);
  upload();
}

void Runner::upload() {
  std::vector<std::byte> unpacked;
  for (const WeightState& weight : model_->weights())
    for (const WeightPart& part : weight.parts) {
      const Bytes bytes = model_->bytes(part, unpacked);
      memory_.write_bytes(weight.name, part.offset, bytes.data(), bytes.size());
    }
}

TextMemory Runner::allocated() const {
  TextMemory memory;
  for (const WeightState& weight : model_->weights()) {
    const StateInfo info = memory_.describe(weight.name);
    memory.weights += static_cast<uint64_t>(element_count(info.shape)) * byte_size(info.dtype);
  }
  memory.cache = memory_.bytes() - memory.weights;
  for (const auto& [key, executor] : executors_) memory.scratch += executor.allocated_bytes();
  return memory;
}

Executor& Runner::executor(int64_t rows, StepKind kind) {
  // A step of one row gives the same token whether it is the last one or each of one.
  if (rows == 1 && kind == StepKind::Each) kind = StepKind::Last;
  const auto key = std::make_pair(rows, kind);
  auto found = executors_.find(key);
  if (found == executors_.end())
    found = executors_
                .emplace(key, Executor(device_, step_plan(*model_, rows, kind, target_, plan_options_), memory_,
                                       {rows == 1 || kind == StepKind::Each ? kTokenSeconds : kChunkSeconds}))
                .first;
  return found->second;
}

Tensor Runner::row_table(const std::vector<StepRow>& rows, int64_t count) const {
  Tensor table(DType::I32, {count, kStepColumns});
  const TextOptions& options = model_->options();
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

StepResult Runner::chosen(Executor& executor, std::map<std::string, Tensor> inputs, RunOptions options, bool logits) {
  if (logits) options.captures = {"logits"};
  RunResult run = executor.run(inputs, options);
  StepResult result;
  const Tensor& tokens = run.outputs.at("tokens");
  result.tokens.assign(tokens.as<int32_t>(), tokens.as<int32_t>() + tokens.size());
  if (logits) result.logits = std::move(run.outputs.at("logits"));
  result.profile = std::move(run.profile);
  return result;
}

StepResult Runner::prefill(const std::vector<StepRow>& rows, const Choice& choice, bool logits) {
  const auto count = static_cast<int64_t>(rows.size());
  const std::vector<int64_t> sizes = step_sizes(model_->options());
  const auto size = std::find_if(sizes.begin(), sizes.end(), [&](int64_t s) { return s >= count; });
  if (count == 0 || size == sizes.end())
    fail(ErrorCode::InvalidInput, "model", count, " rows at once, expected 1 to ", sizes.back());
  RunOptions options;
  if (*size > 1) options.arguments["last"] = static_cast<double>(count - 1);
  return chosen(executor(*size, StepKind::Last),
                {{"rows", row_table(rows, *size)}, {"params", choice_table({choice}, 1)}}, options, logits);
}

StepResult Runner::decode(const std::vector<StepRow>& rows, const std::vector<Choice>& choices, bool logits) {
  const auto count = static_cast<int64_t>(rows.size());
  return chosen(executor(count, StepKind::Each),
                {{"rows", row_table(rows, count)}, {"params", choice_table(choices, rows.size())}}, {}, logits);
}

int64_t Runner::rows_of_values() const {
  const auto row = static_cast<uint64_t>(model_->config().vocabulary) * 4;
  const auto most = static_cast<int64_t>(std::max<uint64_t>(1, kMostLogits / row));
  return std::min({model_->options().chunk, most, kFew});
}

Tensor Runner::values(const std::vector<StepRow>& rows, StepKind kind, const char* name) {
  const int64_t count = rows_of_values();
  if (static_cast<int64_t>(rows.size()) > count)
    fail(ErrorCode::InvalidInput, "model", rows.size(), " rows at once, expected at most ", count);
  RunResult run = executor(count, kind).run({{"rows", row_table(rows, count)}});
  Tensor all = std::move(run.outputs.at(name));
  all.data.resize(all.data.size() / static_cast<size_t>(count) * rows.size());
  all.shape[0] = static_cast<int64_t>(rows.size());
  return all;
}

void Runner::set_seen(int64_t sequence, const std::vector<int32_t>& tokens) {
  const int64_t width = model_->config().vocabulary;
  Tensor row(DType::U32, {width});
  for (const int32_t token : tokens)
    if (token >= 0 && token < width) row.as<uint32_t>()[token] = 1;
  memory_.write("seen", row, StateRange{static_cast<uint64_t>(sequence * width), static_cast<uint64_t>(width)});
}

}  // namespace gyrus::llm
