// A map of a head: voxels of the synthetic head, each with its neighbourhood as features, laid out in the plane by UMAP
// (McInnes, Healy and Melville, 2018). Neighbours, weights and layout are computed on the GPU.
//   umap PICTURE.png [VOXELS [STEPS]]
#include <gyrus/gyrus.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "arguments.h"
#include "core/files.h"
#include "volume/image.h"
#include "volume/phantom.h"

namespace {

using namespace gyrus;

constexpr int64_t kNeighbours = 15, kRepelled = 10, kSide = 64;
// 1 / (1 + a d^2b) is near a step from 1 to 0 at the least distance of 0.1 that points shall have in the plane.
constexpr double kA = 1.577, kB = 0.8951;

struct Voxels {
  Tensor features;              // [n, 27]
  std::vector<int64_t> tissue;  // of each
};

// Voxels of the head as good as at random, all with the grey levels around them.
Voxels take_voxels(int64_t count) {
  const Phantom head = make_phantom({.dims = {kSide, kSide, kSide}});
  const auto* image = reinterpret_cast<const uint8_t*>(head.image.data.data());
  const auto* truth = reinterpret_cast<const uint8_t*>(head.truth.data.data());
  Voxels voxels{Tensor(DType::F32, {count, 27}), {}};
  uint64_t state = 1;
  while (static_cast<int64_t>(voxels.tissue.size()) < count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto at = static_cast<int64_t>((state >> 33) % (kSide * kSide * kSide));
    const std::array<int64_t, 3> place = {at % kSide, at / kSide % kSide, at / kSide / kSide};
    if (truth[at] == 0 || *std::min_element(place.begin(), place.end()) == 0 ||
        *std::max_element(place.begin(), place.end()) == kSide - 1)
      continue;
    auto* row = voxels.features.as<float>() + 27 * voxels.tissue.size();
    for (int64_t k = 0; k < 27; ++k)
      row[k] = static_cast<float>(image[at + k % 3 - 1 + kSide * (k / 3 % 3 - 1) + kSide * kSide * (k / 9 - 1)]) / 255;
    voxels.tissue.push_back(truth[at]);
  }
  return voxels;
}

// 1 + a d^2b for squared distances.
Value spread(Value squares) { return 1.0 + kA * pow(squares, scalar(squares, kB)); }

Value squared_distance(Value a, Value b) { return reduce_sum(square(a - b), {{-1}}) + 1e-4; }

// Where points start: how bright a neighbourhood is, and how it changes from one side to the other.
Tensor start_of(const Tensor& features) {
  const int64_t n = features.shape[0];
  Tensor start(DType::F32, {n, 2});
  for (int64_t i = 0; i < n; ++i) {
    const float* row = features.as<float>() + 27 * i;
    double all = 0, change = 0;
    for (int64_t k = 0; k < 27; ++k) {
      all += row[k];
      change += row[k] * static_cast<double>(k / 9 - 1 + k / 3 % 3 - 1 + k % 3 - 1);
    }
    set(start, 2 * i, all - 13.5);
    set(start, 2 * i + 1, change);
  }
  return start;
}

// Points in the plane that are pulled to their neighbours and pushed from points drawn at random.
Graph layout(const Tensor& indices, const Tensor& shares, const Tensor& start) {
  const int64_t n = indices.shape[0], k = indices.shape[1];
  Graph graph;
  const Value places = graph.parameter("places", start), weights = graph.constant(shares);
  const Value own = reshape(places, {n, 1, 2});
  const Value near = gather(places, graph.constant(indices));
  const Value pull = reduce_sum(weights * log(spread(squared_distance(own, near))));
  const Value drawn = random_integers(random_key(graph), 0, {n, kRepelled}, n);
  const Value apart = squared_distance(own, detach(gather(places, drawn)));
  const Value push = log(spread(apart)) - log(spread(apart) - 1.0);  // -log(1 - 1 / spread)
  const Value strength = reduce_sum(weights, {{1}, true}) * (5.0 / kRepelled);
  graph.output("loss", (pull + reduce_sum(strength * push)) / static_cast<double>(n * k));
  graph.output("places", places * 1.0);
  return graph;
}

Image draw(const Tensor& places, const std::vector<int64_t>& tissue) {
  constexpr int kPixels = 600;
  constexpr Rgb kColours[kTissues] = {{0, 0, 0},     {150, 150, 150}, {60, 120, 220},
                                      {220, 80, 60}, {240, 200, 80},  {90, 190, 120}};
  Image image(kPixels, kPixels, {255, 255, 255});
  const float* p = places.as<float>();
  float low = p[0], high = p[0];
  for (int64_t i = 0; i < places.size(); ++i) {
    low = std::min(low, p[i]);
    high = std::max(high, p[i]);
  }
  for (size_t i = 0; i < tissue.size(); ++i) {
    const auto at = [&](float v) { return static_cast<int>((v - low) / (high - low) * (kPixels - 12)) + 5; };
    fill(image, at(p[2 * i]), at(p[2 * i + 1]), 3, 3, kColours[tissue[i]]);
  }
  return image;
}

// The share of points whose nearest one is of their tissue.
double agreement(const Device& device, const Tensor& points, const std::vector<int64_t>& tissue) {
  Graph graph;
  graph.output("nearest", nearest(graph.input("x", DType::F32, points.shape), 1).indices);
  const Tensor found = Program(device, graph).run({{"x", points}}).outputs.at("nearest");
  int64_t same = 0;
  for (size_t i = 0; i < tissue.size(); ++i)
    same += tissue[i] == tissue[static_cast<size_t>(get(found, static_cast<int64_t>(i)))];
  return static_cast<double>(same) / static_cast<double>(tissue.size());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: umap PICTURE.png [VOXELS [STEPS]]\n", 2;
  const int64_t count = count_argument(argc, argv, 2, 4000), steps = count_argument(argc, argv, 3, 300);
  const Device device = open_gpu();
  const Voxels voxels = take_voxels(count);

  Graph graph;
  const Neighbours near = nearest(graph.input("features", DType::F32, voxels.features.shape), kNeighbours);
  graph.output("indices", near.indices);
  graph.output("shares", fuzzy_graph(near.indices, sqrt(near.distances)).shares);
  const auto found = Program(device, graph).run({{"features", voxels.features}}).outputs;

  TrainerOptions options;
  options.schedule = {.kind = ScheduleKind::Cosine, .rate = 0.2, .total = steps};
  Trainer trainer(device, layout(found.at("indices"), found.at("shares"), start_of(voxels.features)), options);
  double first = 0, last = 0;
  for (int64_t step = 0; step < steps; ++step) {
    last = trainer.step({}).loss;
    if (step == 0) first = last;
  }
  const Tensor places = trainer.parameters().at("places");
  write_file(argv[1], encode_png(draw(places, voxels.tissue)));
  std::cout << count << " voxels, loss " << first << " to " << last << "; the nearest is of the same tissue for "
            << 100 * agreement(device, voxels.features, voxels.tissue) << " % by their features, "
            << 100 * agreement(device, places, voxels.tissue) << " % in the plane\n";
} catch (const gyrus::Error& error) {
  return std::cerr << error.what() << "\n", 1;
}
