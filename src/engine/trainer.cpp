#include "gyrus/trainer.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "gyrus/random.h"
#include "import/safetensors.h"

namespace gyrus {
namespace {

constexpr const char* kCounts = "trainer/counts";  // of a saved file: updates, collected steps, all steps, seed
constexpr int64_t kCountsKept = 4;
constexpr const char* kScaling = "trainer/loss_scaling";  // scale, good updates since it changed, skipped updates

bool begins_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The shapes of states are those of the graph, whatever comes in.
Program::Make maker(Graph graph, std::function<Graph(const Graph&)> make) {
  return [graph = std::move(graph), make = std::move(make)](const Shapes& shapes) {
    Shapes known;
    for (const Port& input : graph.inputs())
      if (const auto found = shapes.find(input.name); found != shapes.end()) known.insert(*found);
    return make(known.empty() ? graph : with_shapes(graph, known));
  };
}

}  // namespace

struct TrainerImpl {
  Device device;
  Graph graph;
  TrainerOptions options;
  Memory memory;
  Program update, collect, inference;
  std::vector<std::string> names;
  mutable std::mutex mutex;
  int64_t updates = 0, collected = 0, steps = 0;
  double scale = 1;
  int64_t good = 0, skipped = 0;  // updates since the scale changed, and not made

  TrainerImpl(const Device& on, Graph network, const Memory& shared, const TrainerOptions& wanted)
      : device(on),
        graph(std::move(network)),
        options(wanted),
        memory(shared),
        update(program(true)),
        collect(program(false)),
        inference(device, maker(inference_graph(graph, options.training), [](const Graph& g) { return g; }), memory,
                  options.program),
        names(trainable(graph, options.training)) {
    training_graph(graph, options.training);  // what is wrong is said now
    learning_rate(options.schedule, 0);
    reset_scale();
  }

  Program program(bool with_update) {
    return {
        device,
        maker(graph, [t = options.training, with_update](const Graph& g) { return training_graph(g, t, with_update); }),
        memory, options.program};
  }

  void reset_scale() {
    scale = options.training.loss_scaling ? options.training.loss_scaling->start : 1;
    good = skipped = 0;
  }

  // After an update, or one that was not made.
  void adapt_scale(bool overflow) {
    const LossScaling& s = *options.training.loss_scaling;
    skipped += overflow ? 1 : 0;
    good = overflow ? 0 : good + 1;
    if (overflow) scale = std::max(scale / 2, s.least);
    if (good < s.patience) return;
    scale = std::min(scale * 2, s.most);
    good = 0;
  }

  // States are in the memory once a program was planned for the shapes of the graph.
  void prepare() {
    if (!names.empty() && memory.has(names.front())) return;
    Shapes shapes;
    for (const Port& input : graph.inputs()) shapes[input.name] = graph.type(input.value).shape;
    update.prepare(shapes);
  }

  StepResult step(const std::map<std::string, Tensor>& inputs, RunOptions run) {
    const std::lock_guard lock(mutex);
    const bool updates_now = collected + 1 >= options.training.accumulate;
    if (updates_now) {
      run.arguments[kLearningRate] = learning_rate(options.schedule, updates);
      run.arguments[kStep] = static_cast<double>(updates + 1);
    }
    for (const Argument& a : graph.arguments()) {
      if (a.name == kRandomSeed) run.arguments[kRandomSeed] = options.seed;
      if (a.name == kRandomStep) run.arguments[kRandomStep] = static_cast<double>(steps);
    }
    const bool scales = options.training.loss_scaling.has_value();
    const auto asked = std::find(run.captures.begin(), run.captures.end(), kOverflow) != run.captures.end();
    if (scales) run.arguments[kLossScale] = scale;
    if (scales && updates_now && !asked) run.captures.emplace_back(kOverflow);
    std::vector<std::string> wanted = run.outputs.value_or(std::vector<std::string>{});
    if (std::find(wanted.begin(), wanted.end(), options.training.loss) == wanted.end())
      wanted.push_back(options.training.loss);
    run.outputs = wanted;
    RunResult result = (updates_now ? update : collect).run(inputs, run);
    StepResult made{get(result.outputs.at(options.training.loss), 0), updates_now, false, std::move(result.outputs),
                    std::move(result.profile)};
    if (!std::isfinite(made.loss)) refuse(inputs, run, made.loss);
    if (scales && updates_now) {
      made.skipped = get(made.outputs.at(kOverflow), 0) != 0;
      made.updated = !made.skipped;
      if (!asked) made.outputs.erase(kOverflow);
      if (made.skipped && scale <= options.training.loss_scaling->least) {
        collected = 0;
        fail(ErrorCode::NonFinite, "training", "gradients of step ", updates + 1,
             " are not finite at the least loss scale, ", scale,
             "; parameters are those of the last good step; lower the learning rate, clip gradients, give a "
             "smaller least scale or store maps in f32");
      }
      adapt_scale(made.skipped);
    }
    collected = updates_now ? 0 : collected + 1;
    updates += made.updated ? 1 : 0;
    ++steps;
    return made;
  }

  // Nothing was updated. The step again, with every value tested, says where it went wrong.
  [[noreturn]] void refuse(const std::map<std::string, Tensor>& inputs, RunOptions run, double loss) {
    std::string where = "; every node is finite when it is run again";
    try {
      run.arguments.erase(kLearningRate);
      run.arguments.erase(kStep);
      run.arguments.erase(kLossScale);
      ProgramOptions settings = options.program;
      settings.check_finite = true;
      Program checked(device, maker(graph, forward_graph), memory, settings);
      run.captures.clear();
      checked.run(inputs, run);
    } catch (const Error& error) {
      where = std::string("; ") + error.what();
    }
    const char* kept = are_parameters_finite() ? "parameters are those of the last good step"
                                               : "parameters are not finite since the update before, whose gradients "
                                                 "or rate were too large: load what was saved";
    fail(ErrorCode::NonFinite, "training", "the loss of step ", updates + 1, " is ", loss, "; ", kept, where);
  }

  bool are_parameters_finite() const {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const Tensor values = memory.read(name);
      for (int64_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(get(values, i))) return false;
      return true;
    });
  }
};

Trainer::Trainer(const Device& device, Graph graph, const Memory& memory, const TrainerOptions& options)
    : impl_(std::make_shared<TrainerImpl>(device, std::move(graph), memory, options)) {}
Trainer::Trainer(const Device& device, Graph graph, const TrainerOptions& options)
    : Trainer(device, std::move(graph), Memory(device), options) {}

StepResult Trainer::step(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  return impl_->step(inputs, options);
}

std::future<StepResult> Trainer::step_async(std::map<std::string, Tensor> inputs, RunOptions options) {
  return std::async(std::launch::async, [impl = impl_, inputs = std::move(inputs), options = std::move(options)] {
    return impl->step(inputs, options);
  });
}

RunResult Trainer::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  return impl_->inference.run(inputs, options);
}

std::vector<std::string> Trainer::names() const { return impl_->names; }

std::map<std::string, Tensor> Trainer::parameters() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  std::map<std::string, Tensor> all;
  for (const std::string& name : impl_->names) all[name] = impl_->memory.read(name);
  return all;
}

void Trainer::set_parameters(const std::map<std::string, Tensor>& values, bool partial) {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  std::vector<std::string> unknown, missing;
  for (const auto& [name, value] : values)
    if (std::find(impl_->names.begin(), impl_->names.end(), name) == impl_->names.end()) unknown.push_back(name);
  for (const std::string& name : impl_->names)
    if (values.count(name) == 0) missing.push_back(name);
  if (!unknown.empty())
    fail(ErrorCode::InvalidInput, "parameters", "there are none of the names ", list(unknown),
         "; there are: ", list(impl_->names));
  if (!partial && !missing.empty())
    fail(ErrorCode::InvalidInput, "parameters", "missing are ", list(missing),
         "; give all, or say that some are enough");
  impl_->memory.write(values);
}

void Trainer::reset_optimizer() {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  std::vector<std::string> states;
  for (const std::string& name : impl_->memory.names())
    if (begins_with(name, kOptimizerPrefix) || begins_with(name, kAccumulatedPrefix)) states.push_back(name);
  if (!states.empty()) impl_->memory.reset(states);
  impl_->updates = impl_->collected = impl_->steps = 0;
  impl_->reset_scale();
}

int64_t Trainer::updates() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->updates;
}

int64_t Trainer::steps() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->steps;
}

double Trainer::rate() const {
  const std::lock_guard lock(impl_->mutex);
  return learning_rate(impl_->options.schedule, impl_->updates);
}

double Trainer::loss_scale() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->scale;
}

int64_t Trainer::skipped() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->skipped;
}

void Trainer::set_schedule(const Schedule& schedule) {
  learning_rate(schedule, 0);  // what is wrong is said now
  const std::lock_guard lock(impl_->mutex);
  impl_->options.schedule = schedule;
}

std::vector<std::byte> Trainer::save() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  std::map<std::string, Tensor> all;
  for (const std::string& name : impl_->memory.names()) all[name] = impl_->memory.read(name);
  Tensor counts(DType::I32, {kCountsKept});
  set(counts, 0, static_cast<double>(impl_->updates));
  set(counts, 1, static_cast<double>(impl_->collected));
  set(counts, 2, static_cast<double>(impl_->steps));
  set(counts, 3, impl_->options.seed);
  all[kCounts] = std::move(counts);
  if (impl_->options.training.loss_scaling) {
    Tensor scaling(DType::F32, {3});
    set(scaling, 0, impl_->scale);
    set(scaling, 1, static_cast<double>(impl_->good));
    set(scaling, 2, static_cast<double>(impl_->skipped));
    all[kScaling] = std::move(scaling);
  }
  return write_safetensors(all);
}

void Trainer::load(const std::vector<std::byte>& file) {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  std::map<std::string, Tensor> all = read_safetensors_exactly(std::span(file), "checkpoint");
  const auto counts = all.find(kCounts);
  if (counts == all.end() || counts->second.dtype != DType::I32 || counts->second.shape != Shape{kCountsKept})
    fail(ErrorCode::InvalidInput, "checkpoint", "has no '", kCounts, "': it was not saved by a trainer");
  const auto updates = static_cast<int64_t>(get(counts->second, 0));
  const auto collected = static_cast<int64_t>(get(counts->second, 1));
  const auto steps = static_cast<int64_t>(get(counts->second, 2));
  const auto seed = static_cast<int32_t>(get(counts->second, 3));
  all.erase(counts);
  const auto scaling = all.find(kScaling);
  const bool scales = impl_->options.training.loss_scaling.has_value();
  if (scales && (scaling == all.end() || scaling->second.dtype != DType::F32 || scaling->second.shape != Shape{3}))
    fail(ErrorCode::InvalidInput, "checkpoint", "has no '", kScaling, "': it was saved without loss scaling");
  const Tensor scale = scales ? scaling->second : Tensor{};
  if (scaling != all.end()) all.erase(scaling);
  std::vector<std::string> missing;
  for (const std::string& name : impl_->memory.names())
    if (all.count(name) == 0) missing.push_back(name);
  if (!missing.empty()) fail(ErrorCode::InvalidInput, "checkpoint", "has no ", list(missing));
  impl_->memory.write(all);
  impl_->updates = updates;
  impl_->collected = collected;
  impl_->steps = steps;
  impl_->options.seed = seed;
  if (!scales) return;
  impl_->scale = get(scale, 0);
  impl_->good = static_cast<int64_t>(get(scale, 1));
  impl_->skipped = static_cast<int64_t>(get(scale, 2));
}

Memory& Trainer::memory() {
  const std::lock_guard lock(impl_->mutex);
  impl_->prepare();
  return impl_->memory;
}

}  // namespace gyrus
