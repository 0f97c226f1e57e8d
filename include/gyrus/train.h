#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/graph.h"
#include "gyrus/program.h"

// Training: a graph with a loss becomes one that also computes gradients and updates its parameters. Parameters are the
// states of floats that the graph itself does not update.

namespace gyrus {

enum class OptimizerKind : uint8_t { Sgd, Adam, AdamW, RmsProp, Adagrad, Lion };

// What each means by its numbers is what PyTorch means; those of other kinds are not looked at.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::Adam;
  double weight_decay = 0;  // AdamW and Lion: taken off the parameter; others: added to the gradient
  double momentum = 0;      // Sgd, RmsProp
  double dampening = 0;     // Sgd
  bool nesterov = false;    // Sgd
  double beta1 = 0.9;       // Adam, AdamW, Lion
  double beta2 = 0.999;
  double eps = 1e-8;               // Adam, AdamW, RmsProp, Adagrad
  bool amsgrad = false;            // Adam, AdamW
  double alpha = 0.99;             // RmsProp
  bool centered = false;           // RmsProp
  double lr_decay = 0;             // Adagrad
  double initial_accumulator = 0;  // Adagrad
};

enum class ScheduleKind : uint8_t { Constant, ByStep, MultiStep, Exponential, Cosine, WarmupCosine, OneCycle };

// The learning rate of every step; nothing is compiled again for it.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double rate = 1e-3;                 // the base; of OneCycle the largest
  double gamma = 0.1;                 // ByStep, MultiStep, Exponential
  int64_t step_size = 0;              // ByStep: at least 1
  std::vector<int64_t> milestones{};  // MultiStep
  double least = 0;                   // Cosine, WarmupCosine
  int64_t total = 0;                  // Cosine, WarmupCosine: steps of the cosine; OneCycle: all; at least 1
  int64_t warmup = 0;                 // WarmupCosine: steps before it
  double start = 0;                   // WarmupCosine: part of the rate at step 0
  double rising = 0.3;                // OneCycle: part of all steps
  double div = 25, final_div = 1e4;   // OneCycle: largest over first, first over last
  bool linear = false;                // OneCycle: not by cosines
};
// That of step t = 0, 1, … Throws InvalidInput where a number is none that it may be (gyrus/train_fields.h).
double learning_rate(const Schedule& schedule, int64_t step);

// Parameters whose names match, with what differs for them. The first group that matches counts.
struct ParameterGroup {
  std::string pattern;  // "*" stands for any characters
  std::optional<double> weight_decay{};
  double rate = 1;      // times the learning rate
  bool frozen = false;  // not trained
};

// Keeps small gradients from becoming 0 where maps are stored in halves (ProgramOptions::precision): the loss is
// multiplied before gradients are taken, and they are divided again. A step whose gradients are not finite changes
// nothing and halves the scale, at the least scale it is an error; after `patience` good updates in a row it is
// doubled.
struct LossScaling {
  double start = 65536;
  int64_t patience = 2000;
  double least = 1, most = 16777216;
};

// What the way back makes again, from what it was made of, instead of keeping it.
enum class Recompute : uint8_t {
  None,
  Norms,  // the results of norms, behind their statistics
  Cheap,  // those, and everything elementwise: activations, dropout
};

struct TrainingOptions {
  std::string loss = "loss";  // the output, one f32, that is made smaller
  Optimizer optimizer{};
  std::vector<ParameterGroup> groups{};
  std::optional<double> clip_norm{};   // of all gradients together
  double norm_type = 2;                // 1, 2 or infinity
  std::optional<double> clip_value{};  // of every element, before the norm
  int64_t accumulate = 1;              // gradients of so many steps are averaged before parameters change
  std::optional<double> average{};     // an exponential average of every parameter, with this decay, in "average/NAME"
  std::optional<LossScaling> loss_scaling{};
  Recompute recompute = Recompute::Norms;
};

// The names that a training graph adds: its arguments, states and captures.
inline constexpr const char* kLearningRate = "learning_rate";
inline constexpr const char* kStep = "step";             // updates so far, with this one
inline constexpr const char* kLossScale = "loss_scale";  // with loss scaling
inline constexpr const char* kOverflow = "overflow";  // a capture, with loss scaling: 1 where gradients are not finite
inline constexpr const char* kGradientPrefix = "gradient/";
inline constexpr const char* kOptimizerPrefix = "optimizer/";
inline constexpr const char* kAveragePrefix = "average/";
inline constexpr const char* kAccumulatedPrefix = "accumulated/";

// The graph of a model's file (load_graph) for training: its constants of floats that have names become parameters,
// but for the running statistics of batch norms. The shapes of its inputs stay as they are.
Graph with_parameters(const Graph& graph);
// The graph with an input "target" and the output "loss" of its output `of` (by default the first) against it:
// "cross_entropy", "dice" (their sum: "dice_cross_entropy") and "focal" take classes, i32 [N,spatial…] for scores
// [N,C,spatial…]; "bce", "mse", "l1" and "huber" take floats in the shape of the output.
Graph with_loss(const Graph& graph, const std::string& loss, const std::string& of = {});

// The parameters that would be trained, in the order of the graph.
std::vector<std::string> trainable(const Graph& graph, const TrainingOptions& options);

// The graph of one step: outputs as before, a capture "gradient/NAME" for every parameter, and its update. With
// `accumulate`, steps that only collect (`updates` false) differ from the one that updates.
Graph training_graph(const Graph& graph, const TrainingOptions& options, bool updates = true);
// The graph as it is, loss included, with states that stay as they are.
Graph forward_graph(const Graph& graph);
// The graph without its loss and what only that needs: outputs and inputs of the network alone, without dropout.
Graph inference_graph(const Graph& graph, const TrainingOptions& options);

}  // namespace gyrus
