// Running a loaded plan: upload, submissions of bounded length with at most two on their way, readback. What is small
// is read back on the last submission.

#include <algorithm>
#include <chrono>
#include <deque>

#include "core/error.h"
#include "runtime/device_tensor_impl.h"
#include "runtime/executor_impl.h"

namespace gyrus {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kInFlight = 2;            // one runs, the next waits: the GPU is never idle
constexpr double kFirstSubmission = 0.25;  // of the usual length, since nothing was measured yet

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

const std::string& label_of(const Step& step) {
  static const std::string copy = "copy", clear = "clear";
  if (const auto* dispatch = std::get_if<Dispatch>(&step)) return dispatch->label;
  return std::holds_alternative<Copy>(step) ? copy : clear;
}

// Steps [begin, end) on their way.
struct Submission {
  size_t end = 0;
  WGPUFuture done{};
  double predicted = 0;  // seconds
  Clock::time_point submitted;
};

class Runner {
 public:
  Runner(ExecutorImpl& executor, const RunOptions& options, const ChosenPorts& ports, RunResult& result);
  void submit_steps();
  void await_steps();
  void read_results();
  void finish_profile();
  bool state_changed() const { return submitted_ > executor_.writes.first; }

 private:
  void plan_readbacks();
  void encode_head(WGPUCommandEncoder encoder) const;
  void encode_tail(WGPUCommandEncoder encoder) const;
  size_t next_end(size_t begin, double& predicted) const;
  void submit(size_t begin, size_t end, double predicted);
  void encode(WGPUCommandEncoder encoder, size_t begin, size_t end);
  Handle<WGPUComputePassEncoder> begin_pass(WGPUCommandEncoder encoder, size_t step, size_t end);
  void await_first();
  void stop_if_cancelled(bool wanted);
  bool is_dispatch(size_t step) const { return std::holds_alternative<Dispatch>(plan_.steps[step]); }

  ExecutorImpl& executor_;
  DeviceImpl& device_;
  const Plan& plan_;
  const RunOptions& options_;
  const ChosenPorts& ports_;
  RunResult& result_;
  Profile& profile_;
  std::map<const PlanPort*, std::shared_ptr<DeviceTensorImpl>> kept_;
  uint32_t report_[4] = {0, 0, 0, 0};
  std::vector<uint64_t> times_;
  std::unique_ptr<RidingReadback> riding_;
  std::vector<Readback> waiting_;           // what is too large to ride
  std::unique_ptr<Timestamps> step_times_;  // two for each dispatch, when profiling
  const Timestamps* timestamps_ = nullptr;
  std::vector<uint32_t> dispatches_;  // steps that are dispatches
  uint32_t encoded_dispatches_ = 0;
  std::vector<double> weights_;  // of each step in the progress
  double done_weight_ = 0;
  double total_weight_ = 0;
  size_t done_ = 0;       // steps
  size_t submitted_ = 0;  // steps
  std::deque<Submission> flying_;
};

Runner::Runner(ExecutorImpl& executor, const RunOptions& options, const ChosenPorts& ports, RunResult& result)
    : executor_(executor),
      device_(*executor.device),
      plan_(*executor.plan),
      options_(options),
      ports_(ports),
      result_(result),
      profile_(result.profile),
      timestamps_(executor.total_time.get()) {
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    if (is_dispatch(i)) dispatches_.push_back(static_cast<uint32_t>(i));
    weights_.push_back(device_.pace.seconds(plan_.steps[i]));
    total_weight_ += weights_.back();
  }
  if (options.profile && !dispatches_.empty()) {
    if (!device_.features.timestamp_query)
      fail(ErrorCode::Unsupported, device_.adapter.name,
           "a profile needs the timestamp-query feature, which the device was opened without");
    step_times_ = std::make_unique<Timestamps>(device_, static_cast<uint32_t>(2 * dispatches_.size()));
    timestamps_ = step_times_.get();
  }
  for (const PlanPort* port : ports_.keep) kept_[port] = allocate_tensor(executor_.device, *port);
  plan_readbacks();
}

uint64_t size_of(const std::vector<Readback>& ranges) {
  uint64_t bytes = 0;
  for (const Readback& range : ranges) bytes += range.size;
  return bytes;
}

void Runner::plan_readbacks() {
  std::vector<Readback> riding;
  for (const PlanPort* port : ports_.read) {
    Tensor& tensor = result_.outputs[port->name] = Tensor(port->dtype, port->shape);
    for (const Piece& piece : port->pieces) {
      if (piece.host_offset >= tensor.data.size()) continue;
      waiting_.push_back({executor_.buffers[piece.range.buffer], piece.range.offset, piece.range.size,
                          tensor.data.data() + piece.host_offset,
                          std::min<uint64_t>(piece.range.size, tensor.data.size() - piece.host_offset)});
    }
  }
  if (size_of(waiting_) <= kRidingBytes) std::swap(riding, waiting_);
  if (plan_.report)
    riding.push_back({executor_.buffers[plan_.report->buffer], plan_.report->offset, sizeof report_,
                      reinterpret_cast<std::byte*>(report_), sizeof report_});
  if (timestamps_) riding.push_back(timestamps_->readback(times_));
  profile_.read_back_bytes = size_of(riding) + size_of(waiting_);
  riding_ = std::make_unique<RidingReadback>(device_, std::move(riding));
}

// Before the first step: nothing is reported, and inputs that lie on the device go where the plan wants them.
void Runner::encode_head(WGPUCommandEncoder encoder) const {
  if (plan_.report)
    wgpuCommandEncoderClearBuffer(encoder, executor_.buffers[plan_.report->buffer], plan_.report->offset,
                                  plan_.report->size);
  for (const PlanPort& port : plan_.inputs) {
    const auto found = options_.device_inputs.find(port.name);
    if (found == options_.device_inputs.end()) continue;
    const DeviceTensorImpl& source = found->second.impl();
    encode_copy(encoder, source.port, source.handles(), port, executor_.buffers);
  }
}

// After the last one: results that stay on the device, and small readbacks.
void Runner::encode_tail(WGPUCommandEncoder encoder) const {
  for (const auto& [port, tensor] : kept_)
    encode_copy(encoder, *port, executor_.buffers, tensor->port, tensor->handles());
  if (timestamps_) timestamps_->resolve(encoder);
  riding_->encode(encoder);
}

// Where the submission that starts at `begin` ends: after at least one step, and before it is predicted to be too long.
size_t Runner::next_end(size_t begin, double& predicted) const {
  const double budget = executor_.options.submission_seconds * (begin == 0 ? kFirstSubmission : 1);
  size_t end = begin;
  for (predicted = 0; end < plan_.steps.size(); ++end) {
    const double more = device_.pace.seconds(plan_.steps[end]);
    if (end > begin && predicted + more > budget) break;
    predicted += more;
  }
  return end;
}

Handle<WGPUComputePassEncoder> Runner::begin_pass(WGPUCommandEncoder encoder, size_t step, size_t end) {
  WGPUComputePassDescriptor descriptor{};
  WGPUPassTimestampWrites writes{};
  if (step_times_) {
    writes = step_times_->writes(2 * encoded_dispatches_, 2 * encoded_dispatches_ + 1);
    descriptor.timestampWrites = &writes;
  } else if (timestamps_) {
    size_t pass_end = step;
    while (pass_end < end && is_dispatch(pass_end)) ++pass_end;
    const bool first = step == dispatches_.front();
    const bool last = dispatches_.back() < pass_end;
    if (first || last) {
      writes = timestamps_->writes(first ? 0 : Timestamps::kNone, last ? 1 : Timestamps::kNone);
      descriptor.timestampWrites = &writes;
    }
  }
  return Handle<WGPUComputePassEncoder>(wgpuCommandEncoderBeginComputePass(encoder, &descriptor));
}

void Runner::encode(WGPUCommandEncoder encoder, size_t begin, size_t end) {
  Handle<WGPUComputePassEncoder> pass;
  const auto end_pass = [&] {
    if (pass) wgpuComputePassEncoderEnd(pass.get());
    pass.reset();
  };
  for (size_t i = begin; i < end; ++i) {
    if (const auto* dispatch = std::get_if<Dispatch>(&plan_.steps[i])) {
      if (!pass) pass = begin_pass(encoder, i, end);
      wgpuComputePassEncoderSetPipeline(pass.get(), executor_.pipelines[dispatch->kernel]->pipeline.get());
      wgpuComputePassEncoderSetBindGroup(pass.get(), 0, executor_.groups[i].get(), 0, nullptr);
      const auto& groups = dispatch->groups;
      wgpuComputePassEncoderDispatchWorkgroups(pass.get(), groups[0], groups[1], groups[2]);
      ++encoded_dispatches_;
      if (step_times_) end_pass();
      continue;
    }
    end_pass();
    if (const auto* copy = std::get_if<Copy>(&plan_.steps[i])) {
      wgpuCommandEncoderCopyBufferToBuffer(encoder, executor_.buffers[copy->from.buffer], copy->from.offset,
                                           executor_.buffers[copy->to.buffer], copy->to.offset, copy->from.size);
    } else {
      const BufferRange& range = std::get<Clear>(plan_.steps[i]).range;
      wgpuCommandEncoderClearBuffer(encoder, executor_.buffers[range.buffer], range.offset, range.size);
    }
  }
  end_pass();
}

void Runner::submit(size_t begin, size_t end, double predicted) {
  auto encoder = create_encoder(device_);
  if (begin == 0) encode_head(encoder.get());
  encode(encoder.get(), begin, end);
  if (end == plan_.steps.size()) encode_tail(encoder.get());
  device_.submit(std::move(encoder));
  submitted_ = end;
  flying_.push_back({end, device_.work_done(), predicted, Clock::now()});
  ++profile_.submissions;
}

void Runner::await_first() {
  const Submission submission = flying_.front();
  flying_.pop_front();
  static const std::string none = "nothing";
  const std::string& label = submission.end > 0 ? label_of(plan_.steps[submission.end - 1]) : none;
  device_.wait_for(submission.done);
  device_.pace.observe(submission.predicted, device_.pace.taken(submission.submitted, Clock::now()));
  device_.check(cat("running '", label, "'"));
  for (; done_ < submission.end; ++done_) done_weight_ += weights_[done_];
  const double fraction = done_ == plan_.steps.size() ? 1.0 : std::min(1.0, done_weight_ / total_weight_);
  if (options_.progress) stop_if_cancelled(!options_.progress(fraction, label));
}

void Runner::stop_if_cancelled(bool wanted) {
  if (!wanted && !(options_.cancel && options_.cancel->load())) return;
  for (const Submission& submission : flying_) device_.wait_for(submission.done);
  fail(ErrorCode::Cancelled, "run", "cancelled after ", done_, " of ", plan_.steps.size(), " steps");
}

// The last of them are still on their way then.
void Runner::submit_steps() {
  stop_if_cancelled(false);
  do {
    if (flying_.size() == kInFlight) await_first();
    stop_if_cancelled(false);
    double predicted = 0;
    const size_t end = next_end(submitted_, predicted);
    submit(submitted_, end, predicted);
  } while (submitted_ < plan_.steps.size());
}

void Runner::await_steps() {
  while (!flying_.empty()) await_first();
}

void Runner::read_results() {
  riding_->land();
  device_.check("reading back the results");
  check_report(plan_, report_);
  read_back(device_, waiting_);
  device_.check("reading back the results");
  for (const auto& [port, tensor] : kept_) result_.kept.emplace(port->name, DeviceTensor(tensor));
}

void Runner::finish_profile() {
  if (!timestamps_) return;
  const std::vector<uint64_t>& times = times_;
  const uint64_t first = times.front();
  // A driver that loses or reorders timestamps must not give a huge difference.
  const auto since_first = [&](uint64_t t) { return t > first ? t - first : 0; };
  const auto last = *std::max_element(times.begin(), times.end());
  if (last > first) {
    profile_.gpu_seconds = static_cast<double>(last - first) * 1e-9;
    profile_.gpu_timestamps = true;
  }
  if (!step_times_) return;
  for (size_t i = 0; i < dispatches_.size(); ++i) {
    const auto& dispatch = std::get<Dispatch>(plan_.steps[dispatches_[i]]);
    const uint64_t begin = since_first(times[2 * i]);
    const uint64_t end = std::max(begin, since_first(times[2 * i + 1]));
    profile_.steps.push_back(
        {dispatch.label, plan_.kernels[dispatch.kernel].name, begin, end, dispatch.flops, dispatch.bytes});
  }
}

// The error of a run with what it did to states.
Error with_states(const Error& error, bool changed) {
  if (!changed) return error;
  return Error(error.code(), cat(error.what(), "; states may have changed"), error.hints(), true);
}

}  // namespace

void ExecutorImpl::upload_inputs(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options,
                                 Profile& profile) {
  for (const PlanPort& port : plan->inputs) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) continue;  // it lies on the device
    const std::vector<std::byte>& data = found->second.data;
    for (const Piece& piece : port.pieces) {
      const uint64_t given = piece.host_offset < data.size() ? data.size() - piece.host_offset : 0;
      upload(*device, buffers[piece.range.buffer], piece.range.offset, piece.range.size,
             given ? data.data() + piece.host_offset : nullptr, std::min(given, piece.range.size));
      profile.uploaded_bytes += piece.range.size;
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (plan->buffers[i].kind != BufferKind::Arguments) continue;
    const std::vector<std::byte> bytes = argument_bytes(*plan, run_options.arguments, plan->buffers[i].size);
    upload(*device, buffers[i], 0, bytes.size(), bytes.data(), bytes.size());
    profile.uploaded_bytes += bytes.size();
  }
}

// From the first upload to the results.
struct RunImpl {
  ExecutorImpl& executor;
  const RunOptions options;
  const ChosenPorts ports;
  RunResult result{};
  const Clock::time_point start = Clock::now();
  uint64_t uploaded = 0;  // ns since the start
  std::optional<Runner> runner{};

  uint64_t now_ns() const { return static_cast<uint64_t>(seconds_between(start, Clock::now()) * 1e9); }
  // What goes wrong in a run: the error says so where states have changed.
  template <class Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      const bool changed = runner && runner->state_changed();
      if (changed) executor.memory.impl()->set_defined(executor.writes.names, false);
      throw with_states(error, changed);
    }
  }
};

std::unique_ptr<RunImpl> ExecutorImpl::begin(const std::map<std::string, Tensor>& inputs,
                                             const RunOptions& run_options) {
  const ChosenPorts ports = check_run(*plan, inputs, run_options);
  for (const auto& [name, tensor] : run_options.device_inputs)
    if (tensor.impl().device != device) fail(ErrorCode::InvalidInput, name, "lies on another device");
  for (const PlanState& state : plan->states) memory.impl()->check_defined({state.name});
  device->check("starting a run");
  std::unique_ptr<RunImpl> run(new RunImpl{*this, run_options, ports});
  run->guarded([&] {
    run->runner.emplace(*this, run->options, run->ports, run->result);
    upload_inputs(inputs, run->options, run->result.profile);
    run->uploaded = run->now_ns();
    run->runner->submit_steps();
  });
  return run;
}

RunResult ExecutorImpl::end(RunImpl& run) {
  Profile& profile = run.result.profile;
  run.guarded([&] {
    run.runner->await_steps();
    const uint64_t done = run.now_ns();
    profile.stages = {{"upload", 0, run.uploaded}, {"run", run.uploaded, done}};
    profile.gpu_begin_ns = run.uploaded;
    profile.gpu_seconds = static_cast<double>(done - run.uploaded) * 1e-9;
    run.runner->read_results();
    profile.stages.push_back({"readback", done, run.now_ns()});
  });
  run.runner->finish_profile();
  profile.wall_seconds = seconds_between(run.start, Clock::now());
  return std::move(run.result);
}

RunResult ExecutorImpl::run(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options) {
  std::optional<MemoryImpl::Turn> turn;
  if (!plan->states.empty()) turn.emplace(*memory.impl(), /*run=*/true);
  return end(*begin(inputs, run_options));
}

PendingRun::PendingRun(std::unique_ptr<RunImpl> run) : run_(std::move(run)) {}
PendingRun::PendingRun(RunResult result) : result_(std::move(result)) {}
PendingRun::PendingRun(PendingRun&&) noexcept = default;
PendingRun& PendingRun::operator=(PendingRun&&) noexcept = default;
PendingRun::~PendingRun() = default;

RunResult PendingRun::finish() {
  if (!run_) return std::move(result_);
  const std::unique_ptr<RunImpl> run = std::move(run_);
  return run->executor.end(*run);
}

PendingRun ExecutorImpl::start(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options) {
  std::optional<MemoryImpl::Turn> turn;
  if (!plan->states.empty()) turn.emplace(*memory.impl(), /*run=*/true);
  return PendingRun(begin(inputs, run_options));
}

}  // namespace gyrus
