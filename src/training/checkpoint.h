#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What lies in a training's folder beside its model: the log and checkpoints. A checkpoint is a file of states and
// checkpoint.json, which names it and is replaced last: whenever the program ends, one of them is whole.

namespace gyrus {

struct LoopState {
  int64_t step = 0;    // done
  double seconds = 0;  // spent
  std::optional<double> best_dice;
  int64_t best_step = 0;
  std::string best_file;  // weights of the best validation, in the folder; empty: none
  int64_t stale = 0;      // validations since then
};

struct Checkpoint {
  LoopState state;
  std::string config;  // hash
  std::vector<std::byte> trainer;
};

// Writes it and takes older ones away.
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint);
// The last one; nothing where there is none. Throws InvalidInput where it is not what write_checkpoint wrote.
std::optional<Checkpoint> read_checkpoint(const std::string& folder);

struct LogPoint {
  int64_t step = 0;
  double value = 0;
};
// What the curves show of a log.
struct LogCurves {
  std::vector<LogPoint> loss, rate;
  std::vector<LogPoint> dice;                         // mean
  std::vector<std::vector<LogPoint>> dice_of_labels;  // of each class
};

// log.jsonl: a line for each step that is logged, one for each validation. Lines are there when a call returns.
class TrainLog {
 public:
  // Goes on behind the lines up to `step`; those of later steps are dropped.
  TrainLog(const std::string& folder, int64_t step);
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;
  ~TrainLog();

  void add_step(int64_t step, double loss, double rate, double seconds);
  void add_validation(int64_t step, double dice, const std::vector<double>& of_labels,
                      const std::vector<std::string>& names);
  const LogCurves& curves() const { return curves_; }

 private:
  void note(const std::string& line);
  void write(const std::string& line);

  std::string path_;
  int file_ = -1;
  LogCurves curves_;
};

}  // namespace gyrus
