#include "training/validate.h"

#include <algorithm>
#include <array>

#include "core/tensor.h"
#include "training/step_graph.h"
#include "volume/volume_tensor.h"

namespace gyrus {
namespace {

// Dice of each class; negative where neither has it.
std::vector<double> overlaps(const std::vector<uint8_t>& made, const std::vector<uint8_t>& truth, int64_t classes) {
  std::vector<std::array<int64_t, 3>> counts(static_cast<size_t>(classes));
  for (size_t i = 0; i < made.size(); ++i) {
    ++counts[made[i]][0];
    ++counts[truth[i]][1];
    if (made[i] == truth[i]) ++counts[made[i]][2];
  }
  std::vector<double> dice;
  for (const auto& [a, b, common] : counts)
    dice.push_back(a + b == 0 ? -1 : 2 * static_cast<double>(common) / static_cast<double>(a + b));
  return dice;
}

Volume volume_of(const Tensor& tensor, const Subject& subject) {
  Volume grid({subject.extents[0], subject.extents[1], subject.extents[2]}, VoxelType::U8);
  set_affine(grid, subject.affine);
  return to_volume(tensor, grid);
}

Tensor bytes_tensor(const std::vector<uint8_t>& values, const Shape& extents) {
  Tensor tensor(DType::U8, extents);
  std::copy(values.begin(), values.end(), tensor.as<uint8_t>());
  return tensor;
}

}  // namespace

SamplePicture sample_of(const Tensor& image, const Tensor& classes) {
  Subject subject;
  subject.extents = {classes.shape[1], classes.shape[2], classes.shape[3]};
  // Axes as conformed scans have them: L, I, A.
  subject.affine.rows = {{{-1, 0, 0, 0}, {0, 0, 1, 0}, {0, -1, 0, 0}}};
  Tensor first(DType::F32, subject.extents), labels(DType::U8, subject.extents);
  for (int64_t i = 0; i < first.size(); ++i) {
    set(first, i, get(image, i));
    set(labels, i, get(classes, i));
  }
  return {volume_of(std::move(first), subject), volume_of(std::move(labels), subject), {}};
}

Validator::Validator(const Device& device, const TrainNetwork& network, const Memory& memory,
                     const ProgramOptions& options, const std::function<std::string(const std::string&)>& called)
    : multiple_(network.multiple()),
      program_(device, Program::Make([&network, called](const Shapes& shapes) {
                 const Shape& image = shapes.at("image");
                 return label_graph(network, {image[2], image[3], image[4]}, called);
               }),
               memory, options) {}

std::vector<uint8_t> Validator::labels_of(const Subject& subject) {
  const Shape& n = subject.extents;
  Shape padded = n;
  for (int64_t& extent : padded) extent = ceil_div(extent, multiple_) * multiple_;
  Tensor image(DType::F32, {1, 1, padded[0], padded[1], padded[2]});
  const auto rows = [&](auto&& copy) {
    for (int64_t x = 0; x < n[0]; ++x)
      for (int64_t y = 0; y < n[1]; ++y) copy((x * n[1] + y) * n[2], (x * padded[1] + y) * padded[2]);
  };
  rows([&](int64_t own, int64_t wide) { std::copy_n(subject.image.data() + own, n[2], image.as<float>() + wide); });
  const Tensor made = program_.run({{"image", std::move(image)}}).outputs.at("labels");
  std::vector<uint8_t> labels(subject.labels.size());
  rows([&](int64_t own, int64_t wide) { std::copy_n(made.as<uint8_t>() + wide, n[2], labels.data() + own); });
  return labels;
}

Validation Validator::run(const Subjects& subjects, int64_t classes, std::optional<SamplePicture>* sample) {
  std::vector<double> sums(static_cast<size_t>(classes)), counts(sums.size());
  for (size_t i = 0; i < subjects.size(); ++i) {
    const auto subject = subjects.get(i);
    const std::vector<uint8_t> labels = labels_of(*subject);
    const std::vector<double> dice = overlaps(labels, subject->labels, classes);
    for (size_t c = 0; c < dice.size(); ++c) {
      if (dice[c] < 0) continue;
      sums[c] += dice[c];
      ++counts[c];
    }
    if (i == 0 && sample)
      *sample = SamplePicture{volume_of(Tensor::from_floats(subject->extents, subject->image), *subject),
                              volume_of(bytes_tensor(subject->labels, subject->extents), *subject),
                              volume_of(bytes_tensor(labels, subject->extents), *subject)};
  }
  Validation validation;
  double present = 0;
  for (size_t c = 0; c < sums.size(); ++c) {
    validation.of_labels.push_back(counts[c] > 0 ? sums[c] / counts[c] : 1);
    if (c == 0 || counts[c] == 0) continue;
    validation.dice += validation.of_labels[c];
    ++present;
  }
  validation.dice = present > 0 ? validation.dice / present : 1;
  return validation;
}

}  // namespace gyrus
