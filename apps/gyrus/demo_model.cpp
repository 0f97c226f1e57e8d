// Layer 1 smooths a little and makes a basis of broken lines of the intensity. Layer 2 forms a tent over the grey level
// of each tissue from them and averages it over the neighbourhood: soft local histograms. Layers 3 and 4 carry these
// on and average some of them over wider neighbourhoods (dilated taps). So every voxel knows its own grey level and
// which tissues surround it near by and further off, which is what tells ventricles from other CSF and bone from grey
// matter. A layer of hidden units and the classifier, both 1×1×1, are fitted by gradient descent (Adam) on the
// cross-entropy.
#include "demo_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "volume/parallel.h"
#include "volume/phantom.h"
#include "volume/random.h"
#include "volume/volume_tensor.h"

namespace gyrus {

namespace {

constexpr int64_t kBaseSize = 128;  // the size for which the dilations are written down
struct TrainingHead {
  int64_t size;
  uint64_t seed;
};
// Several sizes, so that the fit does not lean on what only one voxel size shows.
constexpr TrainingHead kTrainingHeads[] = {{64, 1000081}, {96, 1000003}, {160, 1000033}};
constexpr int64_t kFeatures = 12;
constexpr int64_t kHidden = 16;
constexpr int64_t kClasses = kTissues;
constexpr int64_t kKnots = 8;
constexpr double kKnot[kKnots] = {0.0, 0.10, 0.22, 0.34, 0.48, 0.66, 0.84, 0.98};

DemoLayer make_layer(const char* label, int64_t in, int64_t out, int64_t kernel, int64_t dilation, bool relu = true) {
  DemoLayer layer{label, in, out, kernel, dilation, relu, {}, {}};
  layer.weight.resize(static_cast<size_t>(in * out * kernel * kernel * kernel));
  layer.bias.resize(static_cast<size_t>(out));
  return layer;
}

float* taps(DemoLayer& layer, int64_t out, int64_t in) {
  return layer.weight.data() + (out * layer.in + in) * layer.kernel * layer.kernel * layer.kernel;
}

// Passes channel `in` on as `out`.
void carry(DemoLayer& layer, int64_t out, int64_t in, double weight = 1) {
  taps(layer, out, in)[13] = static_cast<float>(weight);
}

// Adds the weighted mean of the 27 taps, with weights falling from the centre: 1 : side.
void average(DemoLayer& layer, int64_t out, int64_t in, double weight, double side = 1) {
  const double total = std::pow(1 + 2 * side, 3);
  for (int64_t t = 0; t < 27; ++t) {
    const int64_t away = (t / 9 != 1) + (t / 3 % 3 != 1) + (t % 3 != 1);
    taps(layer, out, in)[t] += static_cast<float>(weight * std::pow(side, static_cast<double>(away)) / total);
  }
}

// relu(s - knot) for every knot, s the slightly smoothed image.
DemoLayer lines_layer() {
  DemoLayer layer = make_layer("lines", 1, kKnots, 3, 1);
  for (int64_t k = 0; k < kKnots; ++k) {
    average(layer, k, 0, 1, 0.12);
    layer.bias[static_cast<size_t>(k)] = static_cast<float>(-kKnot[k]);
  }
  return layer;
}

// Channel 0 the intensity; 1 … 6 the share of the neighbourhood in each of six bands of intensity, air to fat.
DemoLayer bands_layer(int64_t dilation) {
  DemoLayer layer = make_layer("bands", kKnots, kFeatures, 3, dilation);
  carry(layer, 0, 0);
  // A tent over knots k-1, k, k+1 is a sum of three broken lines; the outer bands stay at 1 beyond their knot.
  for (int64_t band = 0; band < 6; ++band) {
    const int64_t k = band + 1;
    const double up = 1 / (kKnot[k] - kKnot[k - 1]), down = 1 / (kKnot[k + 1] - kKnot[k]);
    const int64_t channel = band + 1;
    if (band == 0) {
      layer.bias[static_cast<size_t>(channel)] = 1;
    } else {
      average(layer, channel, k - 1, up);
      average(layer, channel, k, -up);
    }
    if (band < 5) {
      average(layer, channel, k, -down);
      average(layer, channel, k + 1, down);
    }
  }
  return layer;
}

// Channels 0 … 6 stay; 7 … 11 are averages of the bands, taken from the narrow ones or, further on, from themselves.
DemoLayer widen_layer(const char* label, int64_t dilation, bool first) {
  DemoLayer layer = make_layer(label, kFeatures, kFeatures, 3, dilation);
  for (int64_t c = 0; c < 7; ++c) carry(layer, c, c);
  constexpr int64_t kSources[5] = {1, 2, 4, 5, 6};  // air, CSF, grey, white, fat
  for (int64_t i = 0; i < 5; ++i) average(layer, 7 + i, first ? kSources[i] : 7 + i, 1);
  return layer;
}

std::vector<DemoLayer> filter_layers(int64_t size) {
  const auto scaled = [&](int64_t dilation) {
    return std::max<int64_t>(1, (2 * dilation * size + kBaseSize) / (2 * kBaseSize));
  };
  return {lines_layer(), bands_layer(scaled(1)), widen_layer("widen1", scaled(2), true),
          widen_layer("widen2", scaled(4), false)};
}

// out[o] += weight * in[i] shifted by the tap, where the tap lies inside the grid.
void add_shifted(const float* in, float* out, const std::array<int64_t, 3>& n, const std::array<int64_t, 3>& shift,
                 float weight, int64_t x_begin, int64_t x_end) {
  const int64_t z0 = std::max<int64_t>(0, -shift[2]), z1 = std::min(n[2], n[2] - shift[2]);
  const int64_t y0 = std::max<int64_t>(0, -shift[1]), y1 = std::min(n[1], n[1] - shift[1]);
  const int64_t x0 = std::max(x_begin, -shift[0]), x1 = std::min(x_end, n[0] - shift[0]);
  for (int64_t x = x0; x < x1; ++x)
    for (int64_t y = y0; y < y1; ++y) {
      float* row = out + (x * n[1] + y) * n[2];
      const float* from = in + ((x + shift[0]) * n[1] + y + shift[1]) * n[2] + shift[2];
      for (int64_t z = z0; z < z1; ++z) row[z] += weight * from[z];
    }
}

std::vector<float> run_layer(const DemoLayer& layer, const std::vector<float>& in, const std::array<int64_t, 3>& n) {
  const int64_t voxels = n[0] * n[1] * n[2];
  const int64_t half = layer.kernel / 2, kernel3 = layer.kernel * layer.kernel * layer.kernel;
  std::vector<float> out(static_cast<size_t>(layer.out * voxels));
  parallel_ranges(n[0], 4, [&](int64_t begin, int64_t end) {
    for (int64_t o = 0; o < layer.out; ++o) {
      float* to = out.data() + o * voxels;
      std::fill(to + begin * n[1] * n[2], to + end * n[1] * n[2], layer.bias[static_cast<size_t>(o)]);
      for (int64_t i = 0; i < layer.in; ++i)
        for (int64_t t = 0; t < kernel3; ++t) {
          const float weight = layer.weight[static_cast<size_t>((o * layer.in + i) * kernel3 + t)];
          if (weight == 0) continue;
          const std::array<int64_t, 3> shift{(t / (layer.kernel * layer.kernel) - half) * layer.dilation,
                                             (t / layer.kernel % layer.kernel - half) * layer.dilation,
                                             (t % layer.kernel - half) * layer.dilation};
          add_shifted(in.data() + i * voxels, to, n, shift, weight, begin, end);
        }
      if (layer.relu)
        for (int64_t v = begin * n[1] * n[2]; v < end * n[1] * n[2]; ++v) to[v] = std::max(0.0f, to[v]);
    }
  });
  return out;
}

// The phantom as the network gets it: normalised, [X][Y][Z].
std::vector<float> normalized(const Volume& image) {
  const Normalization n = normalization_of(image, demo_normalize());
  const Tensor tensor = to_tensor(image);
  std::vector<float> out(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(
        std::clamp(static_cast<double>(tensor.as<float>()[i]) * n.scale + n.shift, n.clamp_low, n.clamp_high));
  return out;
}

struct Samples {
  std::vector<float> features;  // [samples][kFeatures]
  std::vector<uint8_t> labels;
};

// Voxels of a phantom, drawn so that small tissues are not forgotten.
void add_samples(Samples& samples, const TrainingHead& head) {
  const int64_t n = head.size, voxels = n * n * n;
  const Phantom phantom = make_phantom({{n, n, n}, head.seed});
  const std::vector<float> features = run_demo_layers(filter_layers(n), normalized(phantom.image), n, n, n);
  const Tensor truth = to_tensor(phantom.truth, DType::U8);
  std::array<double, kClasses> count{};
  for (int64_t v = 0; v < voxels; ++v) ++count[truth.as<uint8_t>()[v]];
  for (int64_t v = 0; v < voxels; ++v) {
    const uint8_t label = truth.as<uint8_t>()[v];
    // The square root of a tissue's size: between equal numbers and the proportions of the head.
    const double wanted = 20 * std::sqrt(count[label]);
    if (uniform_at(head.seed ^ 0x73616d70ull, static_cast<uint64_t>(v)) * count[label] > wanted) continue;
    for (int64_t c = 0; c < kFeatures; ++c) samples.features.push_back(features[static_cast<size_t>(c * voxels + v)]);
    samples.labels.push_back(label);
  }
}

// Hidden layer and classifier with their Adam state, all in one vector of parameters.
class Classifier {
 public:
  static constexpr size_t kW1 = 0, kB1 = kW1 + kHidden * kFeatures, kW2 = kB1 + kHidden, kB2 = kW2 + kClasses * kHidden,
                          kCount = kB2 + kClasses;

  Classifier() : value_(kCount), gradient_(kCount), first_(kCount), second_(kCount) {
    for (size_t i = 0; i < kCount; ++i) {
      const bool bias = (i >= kB1 && i < kW2) || i >= kB2;
      const double spread = i < kB1 ? std::sqrt(2.0 / kFeatures) : std::sqrt(1.0 / kHidden);
      value_[i] = bias ? 0.0f : static_cast<float>(spread * normal_at(42, i));
    }
  }

  // Adds the gradient of -log p(label) for one sample.
  void accumulate(const float* x, uint8_t label) {
    float hidden[kHidden], scores[kClasses];
    forward(x, hidden, scores);
    float largest = scores[0], sum = 0, back[kHidden] = {};
    for (float s : scores) largest = std::max(largest, s);
    for (float& s : scores) sum += s = std::exp(s - largest);
    for (size_t c = 0; c < kClasses; ++c) {
      const float delta = scores[c] / sum - (c == label ? 1.0f : 0.0f);
      gradient_[kB2 + c] += delta;
      for (size_t h = 0; h < kHidden; ++h) {
        gradient_[kW2 + c * kHidden + h] += delta * hidden[h];
        back[h] += delta * value_[kW2 + c * kHidden + h];
      }
    }
    for (size_t h = 0; h < kHidden; ++h) {
      if (hidden[h] <= 0) continue;
      gradient_[kB1 + h] += back[h];
      for (size_t f = 0; f < kFeatures; ++f) gradient_[kW1 + h * kFeatures + f] += back[h] * x[f];
    }
  }

  void step(double rate, int64_t number, double batch) {
    const double correction1 = 1 - std::pow(0.9, static_cast<double>(number));
    const double correction2 = 1 - std::pow(0.999, static_cast<double>(number));
    for (size_t i = 0; i < kCount; ++i) {
      const double g = gradient_[i] / batch;
      gradient_[i] = 0;
      first_[i] = 0.9 * first_[i] + 0.1 * g;
      second_[i] = 0.999 * second_[i] + 0.001 * g * g;
      value_[i] -= static_cast<float>(rate * (first_[i] / correction1) / (std::sqrt(second_[i] / correction2) + 1e-8));
    }
  }

  std::array<DemoLayer, 2> layers() const {
    std::array<DemoLayer, 2> out{make_layer("hidden", kFeatures, kHidden, 1, 1),
                                 make_layer("classes", kHidden, kClasses, 1, 1, false)};
    const auto part = [&](size_t begin, size_t end) {
      return std::vector<float>(value_.begin() + static_cast<long>(begin), value_.begin() + static_cast<long>(end));
    };
    out[0].weight = part(kW1, kB1);
    out[0].bias = part(kB1, kW2);
    out[1].weight = part(kW2, kB2);
    out[1].bias = part(kB2, kCount);
    return out;
  }

 private:
  void forward(const float* x, float* hidden, float* scores) const {
    for (size_t h = 0; h < kHidden; ++h) {
      float sum = value_[kB1 + h];
      for (size_t f = 0; f < kFeatures; ++f) sum += value_[kW1 + h * kFeatures + f] * x[f];
      hidden[h] = std::max(0.0f, sum);
    }
    for (size_t c = 0; c < kClasses; ++c) {
      float sum = value_[kB2 + c];
      for (size_t h = 0; h < kHidden; ++h) sum += value_[kW2 + c * kHidden + h] * hidden[h];
      scores[c] = sum;
    }
  }

  std::vector<float> value_;
  std::vector<double> gradient_, first_, second_;
};

std::array<DemoLayer, 2> fitted_layers() {
  Samples samples;
  for (const TrainingHead& head : kTrainingHeads) add_samples(samples, head);
  const auto count = static_cast<int64_t>(samples.labels.size());
  constexpr int64_t kBatch = 128, kSteps = 4500;
  Classifier classifier;
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (int64_t b = 0; b < kBatch; ++b) {
      const auto s =
          static_cast<size_t>(uniform_at(99, static_cast<uint64_t>(step * kBatch + b)) * static_cast<double>(count));
      classifier.accumulate(samples.features.data() + s * kFeatures, samples.labels[s]);
    }
    const double progress = static_cast<double>(step) / kSteps;
    classifier.step(0.012 * (1 - progress) + 0.0002, step, kBatch);
  }
  return classifier.layers();
}

}  // namespace

std::vector<DemoLayer> demo_layers(int64_t size) {
  if (size < 16 || size > 1024) fail(ErrorCode::InvalidInput, "demo", "size ", size, " is not between 16 and 1024");
  static const std::array<DemoLayer, 2> fitted = fitted_layers();
  std::vector<DemoLayer> layers = filter_layers(size);
  layers.insert(layers.end(), fitted.begin(), fitted.end());
  return layers;
}

Network demo_network(int64_t size) {
  Network network("demo", 3, 1);
  size_t x = network.image();
  for (const DemoLayer& layer : demo_layers(size)) {
    const int64_t k = layer.kernel, pad = layer.kernel / 2 * layer.dilation;
    const auto named = [&](const char* what, Shape shape, const std::vector<float>& values) {
      return NamedTensor{layer.label + what,
                         std::make_shared<const Tensor>(Tensor::from_floats(std::move(shape), values))};
    };
    Convolution conv;
    conv.label = layer.label;
    conv.weight = named(".weight", {layer.out, layer.in, k, k, k}, layer.weight);
    conv.bias = named(".bias", {layer.out}, layer.bias);
    conv.stride = {1, 1, 1};
    conv.dilation = {layer.dilation, layer.dilation, layer.dilation};
    conv.pads = {pad, pad, pad, pad, pad, pad};
    x = network.conv(x, std::move(conv));
    if (layer.relu) x = network.activation(x, layer.label + ".relu", "relu");
  }
  network.set_output(x);
  return network;
}

std::vector<float> run_demo_layers(const std::vector<DemoLayer>& layers, std::vector<float> image, int64_t nx,
                                   int64_t ny, int64_t nz) {
  for (const DemoLayer& layer : layers) image = run_layer(layer, image, {nx, ny, nz});
  return image;
}

}  // namespace gyrus
