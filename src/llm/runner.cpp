#include "llm/runner.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus::llm {
namespace {

// How long a submission may hold the GPU: a token goes in one.
constexpr double kTokenSeconds = 8, kChunkSeconds = 0.05;

}  // namespace

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

StepResult PendingStep::finish() {
  RunResult run = run_.finish();
  StepResult result;
  const Tensor& tokens = run.outputs.at("tokens");
  result.tokens.assign(tokens.as<int32_t>(), tokens.as<int32_t>() + tokens.size());
  if (logits_) result.logits = std::move(run.outputs.at("logits"));
  result.profile = std::move(run.profile);
  return result;
}

PendingStep Runner::started(Executor& executor, const std::map<std::string, Tensor>& inputs, RunOptions options,
                            bool logits) {
  if (logits) options.captures = {"logits"};
  return {executor.start(inputs, options), logits};
}

PendingStep Runner::start_prefill(const std::vector<StepRow>& rows, const Choice& choice, bool logits) {
  const int64_t size = step_size(model_->options(), rows.size());
  RunOptions options;
  if (size > 1) options.arguments["last"] = static_cast<double>(rows.size()) - 1;
  return started(executor(size, StepKind::Last),
                 {{"rows", row_table(rows, size, model_->options())}, {"params", choice_table({choice})}}, options,
                 logits);
}

PendingStep Runner::start_decode(const std::vector<StepRow>& rows, const std::vector<Choice>& choices, bool logits) {
  const auto count = static_cast<int64_t>(rows.size());
  return started(executor(count, StepKind::Each),
                 {{"rows", row_table(rows, count, model_->options())}, {"params", choice_table(choices)}}, {}, logits);
}

int64_t Runner::rows_of_values() const { return llm::rows_of_values(model_->options(), model_->config().vocabulary); }

Tensor Runner::values(const std::vector<StepRow>& rows, StepKind kind, const char* name) {
  const int64_t count = rows_of_values();
  if (static_cast<int64_t>(rows.size()) > count)
    fail(ErrorCode::InvalidInput, "model", rows.size(), " rows at once, expected at most ", count);
  RunResult run = executor(count, kind).run({{"rows", row_table(rows, count, model_->options())}});
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
