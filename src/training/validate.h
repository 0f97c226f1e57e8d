#pragma once
#include <functional>
#include <optional>
#include <string>

#include "gyrus/memory.h"
#include "gyrus/program.h"
#include "training/networks.h"
#include "training/subjects.h"
#include "training/train.h"

namespace gyrus {

// A volume with what the network made of it.
struct SamplePicture {
  Volume image, truth;
  std::optional<Volume> labels;
};
// The first sample of a step, image [N,1,x,y,z] and classes [N,x,y,z]; the network's labels are not known.
SamplePicture sample_of(const Tensor& image, const Tensor& classes);

// Runs the network on whole volumes, with the weights that a Memory holds.
class Validator {
 public:
  Validator(const Device& device, const TrainNetwork& network, const Memory& memory, const ProgramOptions& options,
            const std::function<std::string(const std::string&)>& called);

  // Volumes get zeros behind them up to a multiple of what the network wants. `sample` becomes the first of them.
  Validation run(const Subjects& subjects, int64_t classes, std::optional<SamplePicture>* sample = nullptr);

 private:
  std::vector<uint8_t> labels_of(const Subject& subject);

  int64_t multiple_;
  Program program_;
};

}  // namespace gyrus
