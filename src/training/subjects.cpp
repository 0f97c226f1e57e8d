#include "training/subjects.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/error.h"
#include "volume/conform.h"
#include "volume/grid.h"
#include "volume/io.h"
#include "volume/phantom.h"
#include "volume/random.h"
#include "volume/volume_tensor.h"

namespace gyrus {
namespace {

constexpr size_t kMostKept = size_t{16} << 30;  // bytes of volumes in memory
constexpr size_t kMostValues = 256;             // labels are bytes

// A label map: whole numbers alone.
Volume read_labels(const std::string& path) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  Volume labels = read_volume(path);
  for (int64_t i = 0; i < labels.voxels(); ++i)
    if (const double value = value_at(labels, i); !(std::abs(value) <= kMost) || value != std::floor(value))
      fail(ErrorCode::InvalidInput, path, "holds ", value, ", which is no label; is it an image?");
  return labels;
}

// Labels on another grid, by the nearest voxel; 0 outside.
Volume nearest(const Volume& labels, const Volume& grid) {
  Volume out = like(grid, VoxelType::I32);
  const Affine to_labels = inverse(labels.affine);
  for (int64_t z = 0; z < grid.dims[2]; ++z)
    for (int64_t y = 0; y < grid.dims[1]; ++y)
      for (int64_t x = 0; x < grid.dims[0]; ++x) {
        const Vec3d place =
            map_point(grid.affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        const Vec3d p = map_point(to_labels, place);
        int64_t at[3];
        bool inside = true;
        for (size_t a = 0; a < 3; ++a) {
          at[a] = std::llround(p[a]);
          inside = inside && at[a] >= 0 && at[a] < labels.dims[a];
        }
        if (inside)
          out.as<int32_t>()[out.index(x, y, z)] =
              static_cast<int32_t>(value_at(labels, labels.index(at[0], at[1], at[2])));
      }
  return out;
}

// Voxels of a file's order with z fastest.
template <class T, class F>
std::vector<T> turned(const Dims& dims, F&& value) {
  std::vector<T> out(static_cast<size_t>(voxel_count(dims)));
  size_t to = 0;
  for (int64_t x = 0; x < dims[0]; ++x)
    for (int64_t y = 0; y < dims[1]; ++y)
      for (int64_t z = 0; z < dims[2]; ++z) out[to++] = static_cast<T>(value(x + dims[0] * (y + dims[1] * z)));
  return out;
}

std::vector<float> prepared(const Volume& image, const NormalizeOptions& normalize) {
  const std::vector<float> values = normalized(image, normalization_of(image, normalize));
  return turned<float>(image.dims, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

double between(std::pair<double, double> range, uint64_t seed, uint64_t index) {
  return range.first + (range.second - range.first) * uniform_at(seed, index);
}

Shape shape_of(const Dims& dims) { return {dims[0], dims[1], dims[2]}; }

SubjectsConfig part_of(const SubjectsConfig& all, const std::vector<size_t>& chosen) {
  SubjectsConfig part;
  for (const size_t i : chosen) part.pairs.push_back(all.pairs[i]);
  return part;
}

// Takes a share of the pairs, or of the phantoms the last, for validation.
SubjectsConfig take_share(SubjectsConfig& all, double share, uint64_t seed, const std::string& file) {
  SubjectsConfig taken;
  if (!all.pairs.empty()) {
    std::vector<size_t> order(all.pairs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return mix(mix(seed) ^ a) < mix(mix(seed) ^ b); });
    const auto count = static_cast<size_t>(std::ceil(share * static_cast<double>(order.size())));
    if (count >= order.size())
      fail(ErrorCode::InvalidInput, file, "validation.share: of ", order.size(), " pairs none is left for training");
    std::vector<size_t> first(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<size_t> rest(order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
    std::sort(first.begin(), first.end());
    std::sort(rest.begin(), rest.end());
    taken = part_of(all, first);
    all.pairs = part_of(all, rest).pairs;
    return taken;
  }
  const auto count = static_cast<int64_t>(std::ceil(share * static_cast<double>(all.phantoms.count)));
  if (count >= all.phantoms.count)
    fail(ErrorCode::InvalidInput, file, "validation.share: of ", all.phantoms.count,
         " phantoms none is left for training");
  taken.phantoms = all.phantoms;
  taken.phantoms.count = count;
  all.phantoms.count -= count;
  taken.phantoms.seed += static_cast<uint64_t>(all.phantoms.count);
  return taken;
}

}  // namespace

bool LabelMap::knows(int64_t label) const {
  return classes.empty() ? label >= 0 && label < count : classes.count(label) != 0;
}

int64_t LabelMap::class_of(int64_t label) const {
  if (classes.empty()) return label;
  const auto found = classes.find(label);
  return found == classes.end() ? 0 : found->second;
}

Subjects::Subjects(const TrainConfig& config, SubjectsConfig subjects, bool synthesized)
    : config_(config), from_(std::move(subjects)), synthesized_(synthesized) {
  labels_.classes = config.data.classes;
  labels_.count = config.classes();
  class_voxels_.assign(static_cast<size_t>(config.classes()), 0);
  const size_t count = from_.pairs.size() + static_cast<size_t>(from_.phantoms.count);
  if (synthesized_) {
    // The values must be known before any map is turned into places. 0 lies around volumes that are smaller than a
    // patch.
    std::set<int64_t> values = {0};
    for (const PairConfig& pair : from_.pairs) {
      const Volume labels = read_labels(pair.labels);
      for (int64_t i = 0; i < labels.voxels(); ++i) values.insert(static_cast<int64_t>(value_at(labels, i)));
    }
    for (int64_t i = 0; i < (from_.phantoms.count > 0 ? kTissues : 0); ++i) values.insert(i);
    set_values({values.begin(), values.end()});
  }
  extents_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    // Phantoms are what they say: they are made when they are wanted.
    if (i >= from_.pairs.size()) {
      const int64_t size = from_.phantoms.sizes[(i - from_.pairs.size()) % from_.phantoms.sizes.size()];
      extents_[i] = {size, size, size};
      if (labels_.classes.empty() && labels_.count < kTissues)
        fail(ErrorCode::InvalidInput, config.file, "classes: the phantoms have ", kTissues, " labels, and there are ",
             labels_.count, " classes; give one for each, or data.map");
    } else {
      const auto subject = get(i);
      extents_[i] = subject->extents;
      for (const uint8_t label : subject->labels)
        ++class_voxels_[static_cast<size_t>(synthesized_ ? labels_.class_of(labels_.values[label]) : label)];
    }
  }
}

void Subjects::set_values(std::vector<int64_t> values) {
  if (values.size() > kMostValues)
    fail(ErrorCode::InvalidInput, config_.file, "data: the label maps hold ", values.size(),
         " different labels; images are synthesised from at most ", kMostValues);
  labels_.values = std::move(values);
  kept_.clear();
  kept_bytes_ = 0;
}

std::string Subjects::name(size_t i) const {
  if (i < from_.pairs.size()) return from_.pairs[i].image.empty() ? from_.pairs[i].labels : from_.pairs[i].image;
  return cat("phantom ", from_.phantoms.seed + (i - from_.pairs.size()));
}

std::shared_ptr<const Subject> Subjects::get(size_t i) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(i); found != kept_.end()) return found->second;
  }
  auto subject = std::make_shared<const Subject>(load(i));
  const std::lock_guard lock(mutex_);
  while (kept_bytes_ + subject->bytes() > kMostKept && !kept_.empty()) {
    kept_bytes_ -= kept_.begin()->second->bytes();
    kept_.erase(kept_.begin());
  }
  if (kept_.emplace(i, subject).second) kept_bytes_ += subject->bytes();
  return subject;
}

Subject Subjects::load(size_t i) const {
  return i < from_.pairs.size() ? load_files(from_.pairs[i]) : load_phantom(i - from_.pairs.size());
}

std::vector<uint8_t> Subjects::mapped(const Volume& labels, const std::string& name) const {
  return turned<uint8_t>(labels.dims, [&](int64_t i) {
    const auto label = static_cast<int64_t>(value_at(labels, i));
    if (!labels_.knows(label))
      fail(ErrorCode::InvalidInput, name, "holds label ", label,
           labels_.classes.empty() ? cat("; the classes are 0 to ", labels_.count - 1, " (", config_.file, ": classes)")
                                   : cat(", which has no class (", config_.file, ": data.map)"));
    if (!synthesized_) return labels_.class_of(label);
    return static_cast<int64_t>(std::lower_bound(labels_.values.begin(), labels_.values.end(), label) -
                                labels_.values.begin());
  });
}

Subject Subjects::load_files(const PairConfig& pair) const {
  Volume labels = read_labels(pair.labels);
  Subject subject;
  if (!pair.image.empty()) {
    Volume image = read_volume(pair.image);
    take_nonfinite_as_zero(image);
    if (!same_grid(image, labels))
      fail(ErrorCode::InvalidInput, pair.labels, "lies on another grid (", to_string(labels.dims), ") than ",
           pair.image, " (", to_string(image.dims), ")");
    if (config_.data.conform && !is_conformed(image)) {
      image = conform(image).volume;
      labels = nearest(labels, image);
    }
    if (!synthesized_) subject.image = prepared(image, config_.data.normalize);
  } else if (config_.data.conform) {
    Volume as_image = labels;
    if (!is_conformed(labels)) labels = nearest(labels, conform(as_image).volume);
  }
  subject.extents = shape_of(labels.dims);
  subject.affine = labels.affine;
  subject.labels = mapped(labels, pair.labels);
  return subject;
}

Subject Subjects::load_phantom(size_t i) const {
  const PhantomConfig& from = from_.phantoms;
  PhantomOptions options;
  const int64_t size = from.sizes[i % from.sizes.size()];
  options.dims = {size, size, size};
  options.seed = from.seed + i;
  options.noise = between(from.noise, options.seed ^ 0x6e6f6973, 0);
  options.bias = between(from.bias, options.seed ^ 0x62696173, 1);
  const Phantom phantom = make_phantom(options);
  Subject subject;
  subject.extents = shape_of(options.dims);
  subject.affine = phantom.truth.affine;
  if (!synthesized_) subject.image = prepared(phantom.image, config_.data.normalize);
  subject.labels = mapped(phantom.truth, name(from_.pairs.size() + i));
  return subject;
}

namespace {

// Label maps without labels: most often the wrong files, or a map that forgets them.
void refuse_one_class(const TrainConfig& config, const Subjects& subjects) {
  const std::vector<int64_t>& voxels = subjects.class_voxels();
  const auto seen = [](int64_t count) { return count > 0; };
  if (std::count_if(voxels.begin(), voxels.end(), seen) != 1) return;
  const auto only = std::find_if(voxels.begin(), voxels.end(), seen) - voxels.begin();
  if (config.data.subjects.phantoms.count == 0)
    fail(ErrorCode::InvalidInput, config.file, "data: every voxel of all label maps is \"",
         config.labels[static_cast<size_t>(only)], "\", so that there is nothing to learn");
}

}  // namespace

DataSets load_data(const TrainConfig& config) {
  SubjectsConfig training = config.data.subjects, validation = config.validation.subjects;
  if (config.validation.share > 0) {
    validation = take_share(training, config.validation.share, config.seed, config.file);
    if (config.augment.synthesize)
      for (const PairConfig& pair : validation.pairs)
        if (pair.image.empty())
          fail(ErrorCode::InvalidInput, config.file, "validation.share: ", pair.labels,
               " has no image to validate with; name pairs with images");
  }
  DataSets sets;
  sets.training = std::make_unique<Subjects>(config, std::move(training), config.augment.synthesize);
  refuse_one_class(config, *sets.training);
  if (!validation.empty()) sets.validation = std::make_unique<Subjects>(config, std::move(validation), false);
  return sets;
}

Shape input_extents(const TrainConfig& config, const Subjects& subjects) {
  if (!config.data.patch.empty()) return config.data.patch;
  for (size_t i = 1; i < subjects.size(); ++i)
    if (subjects.extents(i) != subjects.extents(0))
      fail(ErrorCode::InvalidInput, subjects.name(i), "has ", to_string(subjects.extents(i)), " voxels and ",
           subjects.name(0), " ", to_string(subjects.extents(0)),
           "; whole volumes must be of one size: give data.patch, or data.conform");
  return subjects.extents(0);
}

Shape with_margin(const TrainConfig& config, Shape extents) {
  for (int64_t& extent : extents) extent += 2 * config.data.margin;
  return extents;
}

namespace {

constexpr uint64_t kOrderSeed = 0x6f72646572, kPlaceSeed = 0x706c616365;
constexpr uint64_t kTries = 64;  // to find a voxel with a label

// Which subject item `index` of the run is: every epoch is all subjects in an order of its own.
size_t chosen(const TrainConfig& config, const Subjects& subjects, uint64_t index) {
  const uint64_t length = subjects.size() * static_cast<uint64_t>(config.data.samples);
  const uint64_t epoch = index / length, place = index % length;
  const uint64_t seed = mix(mix(config.seed ^ kOrderSeed) ^ epoch);
  std::vector<std::pair<uint64_t, uint64_t>> order(length);
  for (uint64_t i = 0; i < length; ++i) order[i] = {mix(seed ^ i), i};
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(place), order.end());
  return static_cast<size_t>(order[place].second % subjects.size());
}

// Where the patch begins, which may be before the volume where that is smaller.
std::array<int64_t, 3> patch_start(const TrainConfig& config, const Subject& subject, const LabelMap& labels,
                                   const Shape& extents, uint64_t index) {
  const uint64_t seed = mix(mix(config.seed ^ kPlaceSeed) ^ index);
  std::array<int64_t, 3> start{};
  std::array<int64_t, 3> middle{-1, -1, -1};
  if (uniform_at(seed, 0) < config.data.foreground) {
    for (uint64_t attempt = 0; attempt < kTries; ++attempt) {
      const auto voxel =
          static_cast<size_t>(uniform_at(seed, 10 + attempt) * static_cast<double>(subject.labels.size()));
      const int64_t label = subject.labels[voxel];
      if ((labels.values.empty() ? label : labels.class_of(labels.values[static_cast<size_t>(label)])) == 0) continue;
      const auto v = static_cast<int64_t>(voxel);
      middle = {v / (subject.extents[1] * subject.extents[2]), v / subject.extents[2] % subject.extents[1],
                v % subject.extents[2]};
      break;
    }
  }
  for (size_t a = 0; a < 3; ++a) {
    const int64_t room = subject.extents[a] - extents[a];
    if (room <= 0)
      start[a] = room / 2;
    else if (middle[0] >= 0)
      start[a] = std::clamp<int64_t>(middle[a] - extents[a] / 2, 0, room);
    else
      start[a] = static_cast<int64_t>(uniform_at(seed, 1 + a) * static_cast<double>(room + 1));
  }
  return start;
}

template <class T>
void copy_patch(const std::vector<T>& from, const Shape& size, const std::array<int64_t, 3>& start,
                const Shape& extents, T* to) {
  for (int64_t x = 0; x < extents[0]; ++x)
    for (int64_t y = 0; y < extents[1]; ++y) {
      const int64_t sx = start[0] + x, sy = start[1] + y;
      if (sx < 0 || sx >= size[0] || sy < 0 || sy >= size[1]) continue;
      const int64_t first = std::max<int64_t>(0, -start[2]);
      const int64_t last = std::min(extents[2], size[2] - start[2]);
      const T* row = from.data() + (sx * size[1] + sy) * size[2] + start[2];
      std::copy(row + first, row + last, to + (x * extents[1] + y) * extents[2] + first);
    }
}

}  // namespace

bool is_random(const TrainConfig& config) { return config.augmented || config.network.dropout > 0; }

std::map<std::string, Tensor> make_batch(const TrainConfig& config, const Subjects& subjects, const Shape& extents,
                                         int64_t step) {
  const int64_t voxels = element_count(extents);
  const bool with_image = !config.augment.synthesize;
  Tensor image(DType::F32, {config.batch, 1, extents[0], extents[1], extents[2]});
  Tensor labels(DType::U8, {config.batch, extents[0], extents[1], extents[2]});
  for (int64_t b = 0; b < config.batch; ++b) {
    const auto index = static_cast<uint64_t>(step * config.batch + b);
    const auto subject = subjects.get(chosen(config, subjects, index));
    const std::array<int64_t, 3> start = patch_start(config, *subject, subjects.labels(), extents, index);
    if (with_image) copy_patch(subject->image, subject->extents, start, extents, image.as<float>() + b * voxels);
    copy_patch(subject->labels, subject->extents, start, extents, labels.as<uint8_t>() + b * voxels);
  }
  Tensor key(DType::I32, {2});
  key.as<int32_t>()[0] = static_cast<int32_t>(config.seed);
  key.as<int32_t>()[1] = static_cast<int32_t>(step);
  std::map<std::string, Tensor> inputs;
  inputs["labels"] = std::move(labels);
  if (with_image) inputs["image"] = std::move(image);
  if (is_random(config)) inputs["key"] = std::move(key);
  return inputs;
}

}  // namespace gyrus
