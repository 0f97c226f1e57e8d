#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/augment.h"
#include "gyrus/losses.h"
#include "gyrus/train.h"
#include "volume/normalize.h"
#include "volume/volume.h"

// What `gyrus train` is told: docs/training.md describes every key.

namespace gyrus {

// The network: one of the built-in kinds, or that of a file.
struct NetworkConfig {
  enum class Kind : uint8_t { MeshNet, UNet, File };
  Kind kind = Kind::MeshNet;
  std::vector<int64_t> channels{5};                     // MeshNet: one number; UNet: of each level, from the top
  std::vector<int64_t> dilations{1, 2, 4, 8, 4, 2, 1};  // MeshNet
  std::string norm = "batch";                           // "none", "instance", "batch"
  bool affine = true;                                   // the norm scales and shifts
  double momentum = 0.1;                                // of batch norms: the share of a step in the running statistics
  std::string activation = "relu";
  double dropout = 0;
  std::string file;  // a model's folder, layer list or ONNX file
};

// Heads of the phantom generator.
struct PhantomConfig {
  int64_t count = 0;
  uint64_t seed = 1;                // of the first; the others count on
  std::vector<int64_t> sizes{128};  // taken in turn
  std::pair<double, double> noise{4, 4}, bias{0.1, 0.1};
};

struct PairConfig {
  std::string image;  // empty where images are synthesised
  std::string labels;
};

// Volumes with labels: files or phantoms.
struct SubjectsConfig {
  std::vector<PairConfig> pairs;
  PhantomConfig phantoms;
  bool empty() const { return pairs.empty() && phantoms.count == 0; }
};

struct DataConfig {
  SubjectsConfig subjects;
  std::map<int64_t, int64_t> classes;  // label of the files → class; empty: they are the classes
  NormalizeOptions normalize{NormalizeKind::Quantile, 0.02, 0.98};
  bool conform = false;
  std::vector<int64_t> patch;  // x, y, z; empty: whole volumes
  int64_t margin = 0;     // voxels around a patch, which augmentation may move into it; the network sees none of them
  int64_t samples = 1;    // of each volume in an epoch
  double foreground = 0;  // part of the patches whose middle has a label
};

struct LossTerm {
  enum class Kind : uint8_t { CrossEntropy, Dice, Focal };
  Kind kind = Kind::CrossEntropy;
  double weight = 1;
  std::vector<double> class_weights;
  double label_smoothing = 0;
  std::optional<int64_t> ignore;
  double gamma = 2;
  DiceOptions dice{};
};

struct ValidationConfig {
  SubjectsConfig subjects;
  double share = 0;  // of the training's subjects, taken from it
  int64_t every = 0;
};

// Phantoms that show how good the trained network is, at several levels of noise and bias.
struct EvaluationConfig {
  struct Level {
    double noise = 4, bias = 0.1;
  };
  PhantomConfig phantoms;
  std::vector<Level> levels;
};

struct AdapterConfig {
  int64_t rank = 0;  // 0: none
  std::string pattern = "*";
};

struct TrainConfig {
  std::string file;  // for messages
  std::string hash;  // of all that decides losses
  std::string title, description, licence, citation;
  std::vector<std::string> labels;  // names of the classes, the background first
  bool largest_component = false, fill_holes = false, allow_empty = false;
  NetworkConfig network;
  DataConfig data;
  int64_t batch = 1;
  std::vector<LossTerm> loss;
  TrainingOptions training;
  Schedule schedule;
  AugmentOptions augment;
  bool augmented = false;
  ValidationConfig validation;
  EvaluationConfig evaluation;
  int64_t patience = 0;  // validations without a better Dice before it stops; 0: never
  double least_gain = 0;
  int64_t steps = 0;
  uint64_t seed = 1;
  int64_t checkpoint_every = 0, log_every = 1;
  std::string out;
  std::string start;  // weights: a file or a model's folder
  AdapterConfig adapters;
  bool keep_best = true;
  bool halves = false;  // feature maps of training are stored in f16, with loss scaling
  bool write_safetensors = false, write_onnx = false;

  int64_t classes() const { return static_cast<int64_t>(labels.size()); }
};

// Throws InvalidInput in one line that names the key. Paths are taken from the config's folder.
// `steps` is taken instead of the config's.
TrainConfig parse_config(const std::string& text, const std::string& file, std::optional<int64_t> steps = {});
TrainConfig read_config(const std::string& path, std::optional<int64_t> steps = {});

// Pairs of a list: lines of an image, a tab and its labels; or of labels alone.
std::vector<PairConfig> read_pair_list(const std::string& path);

}  // namespace gyrus
