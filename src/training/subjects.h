#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gyrus/tensor.h"
#include "training/config.h"

// The volumes that a network is trained on, and what is cut out of them for a step.

namespace gyrus {

// One head, z fastest.
struct Subject {
  Shape extents;                // x, y, z
  Affine affine;                // voxel → RAS millimetres
  std::vector<float> image;     // normalised; empty where images are synthesised
  std::vector<uint8_t> labels;  // classes, or where images are synthesised places in LabelMap::values
  size_t bytes() const { return image.size() * sizeof(float) + labels.size(); }
};

// The labels of the files and what they become.
struct LabelMap {
  std::vector<int64_t> values;  // that occur, in order; only where images are synthesised
  std::map<int64_t, int64_t> classes;
  int64_t count = 0;  // of classes

  // Of a label that the config allows, or of the 0 around volumes: the background, unless the config says otherwise.
  int64_t class_of(int64_t label) const;
  bool knows(int64_t label) const;
};

// Reads and checks its subjects when it is made: a file that is missing or unreadable, grids that differ, labels
// without a class are InvalidInput or Io, in a line that names the file. Volumes are kept in memory up to a limit and
// read again beyond. Any thread may call it.
class Subjects {
 public:
  Subjects(const TrainConfig& config, SubjectsConfig subjects, bool synthesized);

  size_t size() const { return extents_.size(); }
  const Shape& extents(size_t i) const { return extents_[i]; }
  std::string name(size_t i) const;
  std::shared_ptr<const Subject> get(size_t i) const;
  const LabelMap& labels() const { return labels_; }
  const std::vector<int64_t>& class_voxels() const { return class_voxels_; }  // over all subjects
  // Takes the labels of another set too, so that both have the same places in values.
  void set_values(std::vector<int64_t> values);

 private:
  Subject load(size_t i) const;
  Subject load_files(const PairConfig& pair) const;
  Subject load_phantom(size_t i) const;
  std::vector<uint8_t> mapped(const Volume& labels, const std::string& name) const;

  const TrainConfig& config_;
  SubjectsConfig from_;
  bool synthesized_;
  LabelMap labels_;
  std::vector<Shape> extents_;
  std::vector<int64_t> class_voxels_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::shared_ptr<const Subject>> kept_;
  mutable size_t kept_bytes_ = 0;
};

// The subjects of training and validation.
struct DataSets {
  std::unique_ptr<Subjects> training, validation;  // validation null where there is none
};
DataSets load_data(const TrainConfig& config);

// The extents of a training input, x, y, z: the patch, or those of all volumes. Throws InvalidInput where whole volumes
// differ, or are no multiples of what the network wants.
Shape input_extents(const TrainConfig& config, const Subjects& subjects);
// The same with the margin: what a step is given.
Shape with_margin(const TrainConfig& config, Shape extents);

// Whether steps draw random numbers on the device.
bool is_random(const TrainConfig& config);
// What a step is given: "image" f32 [N,1,x,y,z] (unless synthesised), "labels" u8 [N,x,y,z] and, where
// anything is random, "key" i32 [2]. It is a
// function of the config and the step alone.
std::map<std::string, Tensor> make_batch(const TrainConfig& config, const Subjects& subjects, const Shape& extents,
                                         int64_t step);

}  // namespace gyrus
