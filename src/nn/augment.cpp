// Deformation: voxel p of the result comes from M (p - c) + c + t + d(p), c the centre of the volume and d a
// displacement made of cubic B-splines. Blur and loss of resolution along an axis are one matrix for each sample:
// slices that lie r apart, each a Gaussian mean, and lines between them. Images from labels follow Billot et al.,
// "SynthSeg", Medical Image Analysis 86 (2023).
#include "gyrus/augment.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "gyrus/random.h"

namespace gyrus {
namespace {

// The streams of one call of augment; other calls of random functions count from 0.
constexpr int64_t kFirstStream = int64_t{1} << 20, kStreams = 8;
constexpr int64_t kUniform = 0, kNormal = 1, kElastic = 2, kBias = 3, kNoise = 4, kTissue = 5, kMeans = 6,
                  kDeviations = 7;

// Places of a sample's numbers in the list of uniform ones.
constexpr int64_t kFlip = 0, kRotate = 3, kScale = 6, kShear = 9, kTranslate = 15, kNoiseLevel = 18, kBiasLevel = 19,
                  kContrast = 20, kBrightness = 21, kBlur = 22, kResolution = 23, kAxis = 24, kAir = 25, kNumbers = 26;

constexpr double kLeastVariance = 0.01;   // of a Gaussian mean, in voxels²: a single voxel to ten digits
constexpr double kSliceVariance = 0.18;   // of a slice of thickness 1: its half width is its thickness
constexpr double kTissueDeviation = 0.1;  // the largest within a label of a synthetic image

Tensor listed(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::F32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, values[static_cast<size_t>(i)]);
  return tensor;
}

constexpr int64_t kAll = std::numeric_limits<int32_t>::max();  // as an end: all that there is

// x from `begin` to `end` along an axis.
Value cut(Value x, size_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> starts(x.shape().size(), 0), ends(x.shape().size(), kAll);
  starts[axis] = begin;
  ends[axis] = end;
  return slice(x, starts, ends);
}

std::vector<double> counted_from(double first, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<double>(i));
  return values;
}

void check(const AugmentOptions& o, Value image, Value labels) {
  const auto refuse = [](const char* what, double found, const char* expected) {
    fail(ErrorCode::InvalidInput, "augment", what, " is ", found, ", expected ", expected);
  };
  const std::pair<const char*, double> amounts[] = {
      {"rotate", o.rotate},     {"scale", o.scale},           {"shear", o.shear}, {"translate", o.translate},
      {"elastic", o.elastic},   {"noise", o.noise},           {"bias", o.bias},   {"gamma", o.gamma},
      {"contrast", o.contrast}, {"brightness", o.brightness}, {"blur", o.blur},   {"resolution", o.resolution}};
  for (const auto& [name, amount] : amounts)
    if (!(amount >= 0 && std::isfinite(amount))) refuse(name, amount, "0 or more");
  if (o.scale >= 1) refuse("scale", o.scale, "less than 1");
  if (o.elastic > 0 && o.elastic_spacing < 1)
    refuse("elastic_spacing", static_cast<double>(o.elastic_spacing), "1 or more");
  if (o.bias > 0 && o.bias_spacing < 1) refuse("bias_spacing", static_cast<double>(o.bias_spacing), "1 or more");
  if (o.synthesize && o.labels < 1)
    refuse("labels", static_cast<double>(o.labels), "how many there are in the label maps");
  const Shape shape = labels ? labels.shape() : Shape{};
  if (shape.size() != 4 || labels.dtype() != DType::I32)
    fail(ErrorCode::InvalidGraph, "augment", "labels are ", labels ? to_string(labels.dtype()) : "absent",
         to_string(shape), ", expected i32 [N,D,H,W]");
  if (!image && !o.synthesize)
    fail(ErrorCode::InvalidGraph, "augment", "the image is absent; give one, or synthesize it");
  if (image && (image.dtype() != DType::F32 || image.shape() != Shape{shape[0], 1, shape[1], shape[2], shape[3]}))
    fail(ErrorCode::InvalidGraph, "augment", "the image is ", to_string(image.dtype()), to_string(image.shape()),
         ", expected f32 [N,1,D,H,W] for labels ", to_string(shape));
}

class Augmenter {
 public:
  Augmenter(Value image, Value labels, Value key, int64_t stream, const AugmentOptions& options)
      : graph_(labels.graph()),
        image_(image),
        labels_(labels),
        key_(key),
        stream_(kFirstStream + stream * kStreams),
        o_(options),
        size_(labels.shape()) {
    size_.erase(size_.begin());
    // 0 for each sample: what it is added to has as many samples as there are, whatever the shapes will be.
    const Value first = slice(labels, {0, 0, 0, 0}, {kAll, 1, 1, 1});
    sample_ = reshape(affine(cast(first, DType::F32), 0, 0), {-1, 1, 1, 1, 1});
  }

  Augmented run() {
    uniform_ = random_uniform(key_, stream_ + kUniform, like({kNumbers, 1, 1, 1}));
    Value labels = labels_, image = image_;
    if (moves()) {
      const std::vector<Value> at = coordinates();
      const Value map = reshape(labels, {-1, 1, size_[0], size_[1], size_[2]});
      labels = reshape(gyrus::sample(map, at, "nearest"), {-1, size_[0], size_[1], size_[2]});
      if (!o_.synthesize) image = gyrus::sample(image, at);
    }
    if (o_.synthesize) image = synthesized(labels);
    image = changed(image);
    if (image_ && image.id() != image_.id()) image = in_training(image_, image);
    return {image, labels};
  }

 private:
  // Zeros [N, …] to draw in the shape of.
  Value like(Shape shape) {
    shape.insert(shape.begin(), 1);
    return sample_ + graph_.constant(Tensor(DType::F32, shape));
  }

  Value constant(const Shape& shape, const std::vector<double>& values) {
    return graph_.constant(listed(shape, values));
  }

  // Numbers of each sample, uniform in 0…1, [N,count,1,1,1].
  Value number(int64_t place, int64_t count = 1) { return cut(uniform_, 1, place, place + count); }
  // The same uniform in ±1.
  Value signed_number(int64_t place, int64_t count = 1) { return affine(number(place, count), 2, -1); }

  bool turns() const { return o_.flip[0] || o_.flip[1] || o_.flip[2] || o_.rotate > 0 || o_.scale > 0 || o_.shear > 0; }
  bool moves() const { return turns() || o_.translate > 0 || o_.elastic > 0; }

  // The three rotations [N,3,3,3] of one matrix each: ones, cosines and sines at their places.
  Value rotation() {
    std::vector<double> fixed(27, 0), cosines(27, 0), sines(27, 0);
    for (size_t a = 0; a < 3; ++a) {
      const size_t b = (a + 1) % 3, c = (a + 2) % 3;
      fixed[a * 9 + a * 3 + a] = 1;
      cosines[a * 9 + b * 3 + b] = cosines[a * 9 + c * 3 + c] = 1;
      sines[a * 9 + b * 3 + c] = -1;
      sines[a * 9 + c * 3 + b] = 1;
    }
    const Shape shape = {1, 3, 3, 3};
    const Value angle =
        reshape(affine(signed_number(kRotate, 3), o_.rotate * std::numbers::pi / 180, 0), {-1, 3, 1, 1});
    const Value all =
        constant(shape, fixed) + cos(angle) * constant(shape, cosines) + sin(angle) * constant(shape, sines);
    const auto one = [&](int64_t a) { return reshape(cut(all, 1, a, a + 1), {-1, 3, 3}); };
    return matmul(matmul(one(0), one(1)), one(2));
  }

  // M, [N,3,3].
  Value matrix() {
    std::vector<double> ones(9, 0), others(9, 1);
    for (size_t a = 0; a < 3; ++a) ones[a * 4] = 1, others[a * 4] = 0;
    Value m = reshape(sample_, {-1, 1, 1}) + constant({1, 3, 3}, ones);
    if (o_.shear > 0) {
      // Six numbers at the places beside the diagonal.
      std::vector<double> places(54, 0);
      size_t k = 0;
      for (size_t i = 0; i < 9; ++i)
        if (others[i] != 0) places[k++ * 9 + i] = o_.shear;
      const Value drawn = reshape(signed_number(kShear, 6), {-1, 1, 6});
      m = m + reshape(matmul(drawn, constant({1, 6, 9}, places)), {-1, 3, 3});
    }
    std::vector<double> halves(3, -2);
    for (size_t a = 0; a < 3; ++a)
      if (o_.flip[a]) halves[a] = 0.5;
    // -1 where a number is below 1/2 along an axis that may be mirrored.
    const Value below = step(constant({1, 1, 3}, halves) - reshape(number(kFlip, 3), {-1, 1, 3}));
    Value factor = affine(below, -2, 1);
    if (o_.scale > 0) factor = factor * affine(reshape(signed_number(kScale, 3), {-1, 1, 3}), o_.scale, 1);
    m = m * factor;
    return o_.rotate > 0 ? matmul(rotation(), m) : m;
  }

  // Where voxels come from, [N,D,H,W] for each axis.
  std::vector<Value> coordinates() {
    const Value m = turns() ? matrix() : Value{};
    std::vector<Value> shift = o_.elastic > 0 ? displacement() : std::vector<Value>{};
    std::vector<Value> at;
    const Value t = o_.translate > 0 ? affine(signed_number(kTranslate, 3), o_.translate, 0) : Value{};
    for (size_t a = 0; a < 3; ++a) {
      const auto axis = static_cast<int64_t>(a);
      const double centre = static_cast<double>(size_[a] - 1) / 2;
      Value place;
      for (size_t b = 0; b < 3; ++b) {
        const bool counts = m || a == b;  // else zeros, for the shape
        Shape shape = {1, 1, 1, 1};
        shape[b + 1] = size_[b];
        const double first = counts ? -static_cast<double>(size_[b] - 1) / 2 : 0;
        Value part = constant(
            shape, counts ? counted_from(first, size_[b]) : std::vector<double>(static_cast<size_t>(size_[b]), 0));
        if (m) {
          const auto other = static_cast<int64_t>(b);
          part = part * reshape(cut(cut(m, 1, axis, axis + 1), 2, other, other + 1), {-1, 1, 1, 1});
        }
        // Half voxels from the centre, then whole ones: exact where nothing turns but by right angles.
        if (a == b) part = affine(part, 1, centre);
        place = place ? place + part : part + reshape(sample_, {-1, 1, 1, 1});
      }
      if (t) place = place + reshape(cut(t, 1, axis, axis + 1), {-1, 1, 1, 1});
      at.push_back(shift.empty() ? place : place + shift[a]);
    }
    return at;
  }

  // Cubic B-splines of points `spacing` apart at every voxel of an axis, [extent, points].
  Value splines(size_t axis, int64_t spacing) {
    const int64_t extent = size_[axis], points = spline_points(axis, spacing);
    std::vector<double> values(static_cast<size_t>(extent * points), 0);
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t cell = i / spacing;
      const double t = static_cast<double>(i % spacing) / static_cast<double>(spacing), s = 1 - t;
      const double weights[4] = {s * s * s / 6, (4 - 6 * t * t + 3 * t * t * t) / 6,
                                 (4 - 6 * s * s + 3 * s * s * s) / 6, t * t * t / 6};
      for (int64_t k = 0; k < 4; ++k) values[static_cast<size_t>(i * points + cell + k)] = weights[k];
    }
    return constant({1, extent, points}, values);
  }
  int64_t spline_points(size_t axis, int64_t spacing) const { return (size_[axis] - 1) / spacing + 4; }

  // Smooth fields of variance 1 on average, [N,D,H,W] each.
  std::vector<Value> fields(int64_t count, int64_t spacing, int64_t stream) {
    const int64_t d = spline_points(0, spacing), h = spline_points(1, spacing), w = spline_points(2, spacing);
    // The variance of a sum of splines, on average over a cell of each axis, is 151/315.
    const double scale = std::pow(315.0 / 151, 1.5);
    Value drawn = affine(random_normal(key_, stream_ + stream, like({count, d, h, w})), scale, 0);
    drawn = matmul(reshape(drawn, {1, -1, w}), splines(2, spacing), {.transpose_b = true});
    drawn = matmul(splines(1, spacing), reshape(drawn, {-1, h, size_[2]}));
    drawn = reshape(drawn, {-1, count, d, size_[1] * size_[2]});
    std::vector<Value> all;
    for (int64_t k = 0; k < count; ++k) {
      const Value one = reshape(cut(drawn, 1, k, k + 1), {-1, d, size_[1] * size_[2]});
      all.push_back(reshape(matmul(splines(0, spacing), one), {-1, size_[0], size_[1], size_[2]}));
    }
    return all;
  }

  std::vector<Value> displacement() {
    std::vector<Value> all = fields(3, o_.elastic_spacing, kElastic);
    for (Value& one : all) one = affine(one, o_.elastic, 0);
    return all;
  }

  // A tissue for each label. Air is black in half of the samples.
  Value synthesized(Value labels) {
    const Value table = like({1, o_.labels});
    Value means = random_uniform(key_, stream_ + kMeans, reshape(table, {-1, 1, o_.labels}));
    Value deviations =
        affine(random_uniform(key_, stream_ + kDeviations, reshape(table, {-1, 1, o_.labels})), kTissueDeviation, 0);
    std::vector<double> first(static_cast<size_t>(o_.labels), 0);
    first[0] = 1;
    const Value black = step(affine(reshape(number(kAir), {-1, 1, 1}), -1, 0.5)) * constant({1, 1, o_.labels}, first);
    const Value lit = affine(black, -1, 1);
    means = means * lit;
    deviations = deviations * lit;
    const Value place = cast(labels, DType::F32);
    const Value mean = gyrus::sample(means, {place}, "nearest"),
                deviation = gyrus::sample(deviations, {place}, "nearest");
    return mean + deviation * random_normal(key_, stream_ + kTissue, mean);
  }

  Value changed(Value image) {
    const bool any = o_.synthesize || o_.noise > 0 || o_.bias > 0 || o_.gamma > 0 || o_.contrast > 0 ||
                     o_.brightness > 0 || o_.blur > 0 || o_.resolution > 1;
    if (!any) return image;
    if (o_.blur > 0 || o_.resolution > 1) image = blurred(image);
    if (o_.bias > 0) image = biased(image);
    if (o_.synthesize || o_.bias > 0) {
      // To 0…1 again.
      image = relu(image);
      image = image / max(reduce_max(image, {{1, 2, 3, 4}, true}), scalar(image, 1e-3));
    }
    if (o_.gamma > 0) {
      const Value power = exp(affine(random_normal(key_, stream_ + kNormal, sample_), o_.gamma, 0));
      image = pow(clamp(image, 0, 1), power);
    }
    if (o_.contrast > 0) {
      const Value mean = reduce_mean(image, {{1, 2, 3, 4}, true});
      image = (image - mean) * affine(signed_number(kContrast), o_.contrast, 1) + mean;
    }
    if (o_.brightness > 0) image = image + affine(signed_number(kBrightness), o_.brightness, 0);
    if (o_.noise > 0)
      image = image + random_normal(key_, stream_ + kNoise, image) * affine(number(kNoiseLevel), o_.noise, 0);
    return clamp(image, 0, 1);
  }

  Value biased(Value image) {
    const Value field = reshape(fields(1, o_.bias_spacing, kBias)[0], {-1, 1, size_[0], size_[1], size_[2]});
    return image * exp(field * affine(number(kBiasLevel), o_.bias, 0));
  }

  // Gaussian means around places [N,E,1] of the voxels of an axis, as rows [N,E,E].
  Value means_around(Value place, Value variance, int64_t extent) {
    const Value voxel = constant({1, 1, extent}, counted_from(0, extent));
    const Value weight = exp(affine(square(place - voxel), -0.5, 0) / variance);
    return weight / reduce_sum(weight, {{2}, true});
  }

  // Slices r apart, and lines between them.
  Value smoothing(int64_t extent, Value variance, Value r) {
    const Value voxel = constant({1, extent, 1}, counted_from(0, extent));
    if (!r) return means_around(voxel, variance, extent);
    const double last = static_cast<double>(extent - 1);
    const Value at = voxel / r, low = floor(at), share = at - low;
    const Value spread = variance + affine(square(r), kSliceVariance, -kSliceVariance);
    const auto slice_at = [&](Value k) { return means_around(clamp(k * r, 0, last), spread, extent); };
    return slice_at(low) * affine(share, -1, 1) + slice_at(affine(low, 1, 1)) * share;
  }

  Value blurred(Value image) {
    const auto scalars = [](Value x) { return reshape(x, {-1, 1, 1}); };
    // Where there is no blur, the least variance.
    Value variance = reshape(sample_, {-1, 1, 1});
    if (o_.blur > 0) variance = square(affine(scalars(number(kBlur)), o_.blur, 0));
    variance = affine(variance, 1, kLeastVariance);
    Value x = reshape(image, {-1, size_[0], size_[1], size_[2]});
    for (size_t a = 0; a < 3; ++a) {
      Value r;
      if (o_.resolution > 1) {
        // The axis whose third of 0…1 holds the number.
        const double begin = static_cast<double>(a) / 3, end = static_cast<double>(a + 1) / 3;
        const Value chosen = scalars(number(kAxis));
        const Value here =
            affine(step(affine(chosen, 1, -begin)) * step(affine(chosen, -1, end)), o_.resolution - 1, 0);
        r = affine(here * scalars(number(kResolution)), 1, 1);
      }
      const Value m = smoothing(size_[a], variance, r);
      const Value apart = a == 0 ? m : reshape(m, {-1, 1, size_[a], size_[a]});
      if (a == 0) x = matmul(m, reshape(x, {-1, size_[0], size_[1] * size_[2]}));
      x = reshape(x, {-1, size_[0], size_[1], size_[2]});
      if (a == 1) x = matmul(apart, x);
      if (a == 2) x = matmul(x, apart, {.transpose_b = true});
    }
    return reshape(x, {-1, 1, size_[0], size_[1], size_[2]});
  }

  Graph& graph_;
  Value image_, labels_, key_;
  int64_t stream_;
  const AugmentOptions& o_;
  Shape size_;  // D, H, W
  Value sample_, uniform_;
};

}  // namespace

Augmented augment(Value image, Value labels, Value key, int64_t stream, const AugmentOptions& options) {
  check(options, image, labels);
  if (stream < 0 || stream > 1000000)
    fail(ErrorCode::InvalidInput, "augment", "stream is ", stream, ", expected 0 to 1000000");
  Graph& graph = labels.graph();
  const std::string label = graph.label();
  graph.set_label("augment");
  const Augmented made = Augmenter(image, labels, key, stream, options).run();
  graph.set_label(label);
  return made;
}

}  // namespace gyrus
