#include "training/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>

#include "core/error.h"
#include "core/files.h"
#include "engine/policy.h"
#include "engine/program_plan.h"
#include "gyrus/trainer.h"
#include "import/safetensors.h"
#include "training/checkpoint.h"
#include "training/model_folder.h"
#include "training/networks.h"
#include "training/onnx_write.h"
#include "training/pictures.h"
#include "training/step_graph.h"
#include "training/subjects.h"
#include "training/validate.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;
using Weights = std::map<std::string, Tensor>;

constexpr int64_t kMostLosses = 3;  // of the device behind one checkpoint

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// With adapters nothing else is trained.
TrainerOptions trainer_options(const TrainConfig& config, const TrainRun& run) {
  TrainerOptions options;
  options.training = config.training;
  options.schedule = config.schedule;
  options.program.limits = run.limits;
  if (config.halves) options.program.precision.storage = DType::F16;
  if (config.adapters.rank > 0) {
    options.training.groups = {{std::string(kAdapterPrefix) + "*"}, {"*"}};
    options.training.groups[1].frozen = true;
  }
  return options;
}

Weights read_weights(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  return read_safetensors_exactly(std::span(bytes), file);
}

// Those of a safetensors file or of a model's folder as they start from now on.
void start_from(TrainNetwork& network, const std::string& path) {
  const fs::path given(path);
  std::error_code failed;
  if (!fs::is_directory(given, failed)) return network.set_start(read_weights(path), path);
  const std::string onnx = (given / "model.onnx").string(), tensors = (given / "model.safetensors").string();
  const bool is_onnx = !fs::exists(tensors, failed) && fs::exists(onnx, failed);
  network.set_start(is_onnx ? onnx_weights(onnx, network.start()) : read_weights(tensors), path);
}

// Whether all states of a checkpoint are numbers. Where gradients overflow in a step with a good loss, weights are not,
// and the next loss will tell.
bool are_finite(const std::vector<std::byte>& states) {
  for (const auto& [name, tensor] : read_safetensors_exactly(std::span(states), "states")) {
    if (tensor.dtype != DType::F32) continue;
    const float* values = tensor.as<float>();
    if (!std::all_of(values, values + tensor.size(), [](float v) { return std::isfinite(v); })) return false;
  }
  return true;
}

// Everything that is known before a device is opened.
struct Prepared {
  DataSets data;
  Shape extents;
  std::unique_ptr<TrainNetwork> network;
  Graph graph;
};

Prepared prepare(const TrainConfig& config) {
  Prepared made;
  made.data = load_data(config);
  made.extents = input_extents(config, *made.data.training);
  made.network = make_network(config.network, config.classes(), config.seed, made.extents);
  for (const int64_t extent : made.extents)
    if (extent % made.network->multiple() != 0)
      fail(ErrorCode::InvalidInput, config.file, "data.patch: ", to_string(made.extents), " is no multiple of ",
           made.network->multiple(), ", which this network needs");
  if (!config.start.empty()) start_from(*made.network, config.start);
  if (config.adapters.rank > 0) made.network->add_adapters(config.adapters, config.seed);
  made.graph = step_graph(config, *made.network, made.data.training->labels(), made.extents);
  const TrainingOptions options = trainer_options(config, {}).training;
  if (trainable(made.graph, options).empty())
    fail(ErrorCode::InvalidInput, config.file, "groups: all weights are frozen, so that there is nothing to train");
  training_graph(made.graph, options);  // what is wrong with the options is said now
  return made;
}

class Training {
 public:
  Training(const TrainConfig& config, const TrainRun& run)
      : config_(config), run_(run), out_(run.out.empty() ? config.out : run.out), prepared_(prepare(config)) {}

  TrainResult go() {
    std::optional<Checkpoint> checkpoint = look_into_folder();
    open();
    if (run_.opened) run_.opened(device_->adapter());
    make_folder();
    if (checkpoint) {
      restore(*checkpoint);
    } else {
      save();  // so that there is always one
    }
    log_.emplace(out_, state_.step);
    if (!log_->curves().loss.empty()) loss_ = log_->curves().loss.back().value;
    int64_t lost_from = -1, losses = 0;
    for (;;) {
      try {
        loop();
        break;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Device || !device_->lost()) throw;
        checkpoint = read_checkpoint(out_);
        losses = checkpoint->state.step == lost_from ? losses + 1 : 1;
        if (losses > kMostLosses) throw;
        lost_from = checkpoint->state.step;
        say(cat("the device was lost at step ", state_.step + 1, "; going on from the checkpoint of step ", lost_from));
        next_ = {};
        open();
        restore(*checkpoint);
        log_.reset();
        log_.emplace(out_, state_.step);
      }
    }
    return finish();
  }

 private:
  // Refuses to overwrite a training and to go on with another config.
  std::optional<Checkpoint> look_into_folder() const {
    std::optional<Checkpoint> checkpoint = read_checkpoint(out_);
    if (checkpoint && !run_.resume)
      fail(ErrorCode::InvalidInput, out_, "holds a training that reached step ", checkpoint->state.step,
           "; go on with --resume, or name another folder");
    if (!checkpoint && run_.resume) fail(ErrorCode::InvalidInput, out_, "holds no checkpoint to go on from");
    if (checkpoint && checkpoint->config != config_.hash)
      fail(ErrorCode::InvalidInput, config_.file, "is not the config that ", out_,
           " was started with; only validation, stop, what concerns files and, where no schedule depends on them, "
           "steps may change");
    return checkpoint;
  }

  // Nothing is written before.
  void make_folder() const {
    std::error_code failed;
    fs::create_directories(out_, failed);
    if (failed) fail(ErrorCode::Io, out_, "cannot be made: ", failed.message());
  }

  void open() {
    validator_.reset();
    trainer_.reset();
    device_.emplace(open_best(run_.device, run_.threads));
    // No test holds gradients of maps in halves there.
    if (device_->is_cpu() && config_.halves)
      fail(ErrorCode::Unsupported, "precision", "the CPU trains in f32; write \"f32\", or train on a GPU");
    trainer_.emplace(*device_, prepared_.graph, trainer_options(config_, run_));
    if (prepared_.data.validation)
      validator_.emplace(*device_, *prepared_.network, trainer_->memory(), program_options(),
                         [this](const std::string& name) { return called(name); });
  }

  ProgramOptions program_options() const {
    ProgramOptions options;
    options.limits = run_.limits;
    return options;
  }

  // The state that holds a weight as it will be written: its average where there is one.
  std::string called(const std::string& name) {
    const std::string average = kAveragePrefix + name;
    return trainer_->memory().has(average) ? average : name;
  }

  Weights weights() {
    Weights all;
    const auto read = [&](const Weights& names) {
      for (const auto& [name, start] : names) all[name] = trainer_->memory().read(called(name));
    };
    read(prepared_.network->start());
    read(prepared_.network->adapter_start());
    return prepared_.network->merged(std::move(all));
  }

  void save() {
    state_.seconds = spent_ + since(begin_);
    std::vector<std::byte> states = trainer_->save();
    if (!are_finite(states))
      fail(ErrorCode::NonFinite, config_.file, "weights are not finite after step ", state_.step,
           ", though its loss was: lower the rate or clip gradients; the checkpoint of step ", saved_, " is kept in ",
           out_);
    write_checkpoint(out_, {state_, config_.hash, std::move(states)});
    saved_ = state_.step;
  }

  void restore(const Checkpoint& checkpoint) {
    trainer_->load(checkpoint.trainer);
    state_ = checkpoint.state;
    spent_ = state_.seconds;
    begin_ = Clock::now();
    first_ = saved_ = state_.step;
    stopped_ = config_.patience > 0 && state_.stale >= config_.patience;
  }

  std::map<std::string, Tensor> batch() {
    const auto make = [this](int64_t step) {
      return make_batch(config_, *prepared_.data.training, with_margin(config_, prepared_.extents), step);
    };
    std::map<std::string, Tensor> inputs = next_.valid() ? next_.get() : make(state_.step);
    if (state_.step + 1 < config_.steps) next_ = std::async(std::launch::async, make, state_.step + 1);
    return inputs;
  }

  void loop() {
    while (state_.step < config_.steps && !stopped_) {
      if (run_.cancel && run_.cancel->load()) {
        save();
        fail(ErrorCode::Cancelled, out_, "stopped at step ", state_.step, "; --resume goes on from there");
      }
      step();
      if (run_.after_step) run_.after_step(state_.step, *device_);
      if (config_.validation.every > 0 && (state_.step % config_.validation.every == 0 || state_.step == config_.steps))
        validate();
      if (state_.step % config_.checkpoint_every == 0 || state_.step == config_.steps || stopped_) save();
      show();
    }
  }

  void step() {
    const double rate = trainer_->rate();
    try {
      RunOptions options;
      const bool look = is_due();
      if (look) options.captures = {kInputImage, kInputClasses};
      const StepResult result = trainer_->step(batch(), options);
      loss_ = result.loss;
      if (look) input_ = sample_of(result.outputs.at(kInputImage), result.outputs.at(kInputClasses));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::NonFinite) throw;
      save();
      fail(ErrorCode::NonFinite, config_.file, "step ", state_.step + 1, ": ", error.what(),
           "; the checkpoint of step ", state_.step, " is kept in ", out_);
    }
    ++state_.step;
    if (state_.step % config_.log_every == 0 || state_.step == config_.steps)
      log_->add_step(state_.step, loss_, rate, spent_ + since(begin_));
    if (!run_.progress) return;
    TrainProgress progress{state_.step, config_.steps, loss_, rate, {}, 0};
    if (last_) progress.dice = last_->dice;
    progress.seconds_left =
        since(begin_) / static_cast<double>(state_.step - first_) * static_cast<double>(config_.steps - state_.step);
    run_.progress(progress);
  }

  void validate() {
    last_ = validator_->run(*prepared_.data.validation, config_.classes(), &sample_);
    log_->add_validation(state_.step, last_->dice, last_->of_labels, config_.labels);
    if (!state_.best_dice || last_->dice > *state_.best_dice + config_.least_gain) {
      best_ = last_;
      state_.best_dice = last_->dice;
      state_.best_step = state_.step;
      state_.best_file = cat("best-", state_.step, ".safetensors");
      state_.stale = 0;
      write_file((fs::path(out_) / state_.best_file).string(), write_safetensors(weights()));
    } else {
      ++state_.stale;
    }
    stopped_ = config_.patience > 0 && state_.stale >= config_.patience;
    shown_ = {};
  }

  // Curves and page are drawn at most every few seconds.
  bool is_due() const {
    constexpr double kSeconds = 5;
    return !shown_ || since(*shown_) >= kSeconds;
  }

  void show() {
    const bool last = state_.step == config_.steps || stopped_;
    if (!last && !is_due()) return;
    shown_ = Clock::now();
    write_pictures(out_, config_, log_->curves(), {sample_, input_}, {state_.step, spent_ + since(begin_), last});
  }

  TrainResult finish() {
    TrainResult result;
    result.steps = state_.step;
    result.loss = loss_;
    result.stopped_early = stopped_;
    Weights last = weights();
    result.validation = last_;
    if (config_.keep_best && !state_.best_file.empty()) {
      const std::string file = (fs::path(out_) / state_.best_file).string();
      last = read_weights(file);
      result.validation = best_ ? *best_ : Validation{*state_.best_dice, {}};
    }
    result.folder = write_model_folder(out_, config_, *prepared_.network, last);
    return result;
  }

  void say(const std::string& line) const {
    if (run_.say) run_.say(line);
  }

  const TrainConfig& config_;
  const TrainRun& run_;
  std::string out_;
  Prepared prepared_;
  std::optional<Device> device_;
  std::optional<Trainer> trainer_;
  std::optional<Validator> validator_;
  std::optional<TrainLog> log_;
  LoopState state_;
  double loss_ = 0;
  std::optional<Validation> last_, best_;
  std::optional<SamplePicture> sample_, input_;  // of the validation; of a step
  bool stopped_ = false;
  int64_t first_ = 0;  // the step where this run began
  int64_t saved_ = 0;  // that of the last checkpoint
  double spent_ = 0;   // seconds before this run
  Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> shown_;
  std::future<std::map<std::string, Tensor>> next_;
};

}  // namespace

TrainResult train(const TrainConfig& config, const TrainRun& run) { return Training(config, run).go(); }

std::vector<PhantomScore> evaluate(const TrainConfig& config, const TrainRun& run) {
  if (config.evaluation.levels.empty())
    fail(ErrorCode::InvalidInput, config.file, "evaluation: is missing; it says on which phantoms");
  const std::string out = run.out.empty() ? config.out : run.out;
  const int64_t size = config.evaluation.phantoms.sizes[0];
  // A network from a file is the one that was written.
  const std::string model = (fs::path(out) / "model").string();
  NetworkConfig wanted = config.network;
  const bool from_file = wanted.kind == NetworkConfig::Kind::File;
  if (from_file) wanted.file = model;
  const std::unique_ptr<TrainNetwork> network = make_network(wanted, config.classes(), config.seed, {size, size, size});
  if (!from_file) start_from(*network, model);
  const Device device = open_best(run.device, run.threads);
  ProgramOptions options;
  options.limits = run.limits;
  Validator validator(device, *network, Memory(device), options, {});
  std::vector<PhantomScore> scores;
  for (const EvaluationConfig::Level& level : config.evaluation.levels) {
    SubjectsConfig subjects;
    subjects.phantoms = config.evaluation.phantoms;
    subjects.phantoms.noise = {level.noise, level.noise};
    subjects.phantoms.bias = {level.bias, level.bias};
    scores.push_back({level.noise, level.bias, validator.run(Subjects(config, subjects, false), config.classes())});
  }
  return scores;
}

TrainOutline outline(const TrainConfig& config, const Target& target) {
  const Prepared prepared = prepare(config);
  TrainOutline out;
  out.subjects = prepared.data.training->size();
  out.validation_subjects = prepared.data.validation ? prepared.data.validation->size() : 0;
  out.extents = prepared.extents;
  out.class_voxels = prepared.data.training->class_voxels();
  out.parameters = prepared.network->parameters();
  const TrainerOptions trainer = trainer_options(config, {});
  const TrainingOptions& options = trainer.training;
  const std::vector<std::string> names = trainable(prepared.graph, options);
  for (const State& state : prepared.graph.states())
    if (std::find(names.begin(), names.end(), state.name) != names.end())
      out.trained += element_count(prepared.graph.type(state.value).shape);
  const ProgramPlan planned =
      plan_program(training_graph(prepared.graph, options), target, trainer.program.precision, {});
  out.peak_bytes = planned.plan->peak_bytes();
  TrainingOptions cheap = options;
  cheap.recompute = Recompute::Cheap;
  out.least_bytes =
      plan_program(training_graph(prepared.graph, cheap), target, trainer.program.precision, {}).plan->peak_bytes();
  for (const PlanBuffer& buffer : planned.plan->buffers)
    if (buffer.kind == BufferKind::State) out.state_bytes += buffer.size;
  out.flops = planned.plan->flops();
  return out;
}

}  // namespace gyrus
