// A scene fitted to pictures: three shaded balls are seen from all around, and Gaussian splats learn to look like them.
//   splats PICTURE.png [GAUSSIANS [STEPS]]
// The picture shows a view that was not among those learnt from, as it should be and as it became.
#include <gyrus/gyrus.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "arguments.h"
#include "core/files.h"
#include "volume/image.h"

namespace {

using namespace gyrus;
using Vec = std::array<double, 3>;

constexpr int64_t kSide = 96, kViews = 16;
constexpr double kFocal = 110, kDistance = 4;

double dot(const Vec& a, const Vec& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// The camera's axes in the world, seen from a place on a circle around the scene.
struct Eye {
  Vec right, down, forward, place;
};

Eye eye_at(double angle) {
  const double height = 0.6 * std::sin(2 * angle), length = std::sqrt(kDistance * kDistance + height * height);
  const Vec place = {kDistance * std::sin(angle), height, -kDistance * std::cos(angle)};
  const Vec forward = {-place[0] / length, -place[1] / length, -place[2] / length};
  const double level = std::hypot(forward[0], forward[2]);
  const Vec right = {forward[2] / level, 0, -forward[0] / level};
  const Vec down = {forward[1] * right[2] - forward[2] * right[1], forward[2] * right[0] - forward[0] * right[2],
                    forward[0] * right[1] - forward[1] * right[0]};
  return {right, down, forward, place};
}

Tensor view_of(const Eye& eye) {
  Tensor view(DType::F32, {3, 4});
  const std::array<Vec, 3> rows = {eye.right, eye.down, eye.forward};
  for (int64_t r = 0; r < 3; ++r) {
    const Vec& row = rows[static_cast<size_t>(r)];
    for (int64_t c = 0; c < 3; ++c) set(view, r * 4 + c, row[static_cast<size_t>(c)]);
    set(view, r * 4 + 3, -dot(row, eye.place));
  }
  return view;
}

// What a ray from the eye meets: the nearest ball, lit from above, or black.
Vec colour_along(const Vec& place, const Vec& way) {
  struct Ball {
    Vec middle, colour;
    double radius;
  };
  constexpr Ball kBalls[] = {{{-0.5, 0.1, 0}, {0.9, 0.3, 0.2}, 0.5},
                             {{0.45, -0.2, 0.3}, {0.2, 0.6, 0.9}, 0.4},
                             {{0.2, 0.4, -0.4}, {0.9, 0.8, 0.3}, 0.3}};
  double nearest = 1e9;
  Vec seen = {0, 0, 0};
  for (const Ball& ball : kBalls) {
    const Vec apart = {place[0] - ball.middle[0], place[1] - ball.middle[1], place[2] - ball.middle[2]};
    const double half = dot(apart, way), inside = half * half - dot(apart, apart) + ball.radius * ball.radius;
    const double along = -half - std::sqrt(std::max(inside, 0.0));
    if (inside < 0 || along < 0 || along > nearest) continue;
    nearest = along;
    const double up = -(apart[1] + along * way[1]) / ball.radius;  // y points down
    for (size_t c = 0; c < 3; ++c) seen[c] = ball.colour[c] * (0.55 + 0.45 * up);
  }
  return seen;
}

Tensor picture_from(const Eye& eye) {
  Tensor picture(DType::F32, {kSide, kSide, 3});
  for (int64_t i = 0; i < kSide * kSide; ++i) {
    const double x = (static_cast<double>(i % kSide) + 0.5 - kSide / 2) / kFocal;
    const double y = (static_cast<double>(i / kSide) + 0.5 - kSide / 2) / kFocal, length = std::sqrt(1 + x * x + y * y);
    Vec way;
    for (size_t c = 0; c < 3; ++c) way[c] = (eye.forward[c] + x * eye.right[c] + y * eye.down[c]) / length;
    const Vec seen = colour_along(eye.place, way);
    for (int64_t c = 0; c < 3; ++c) set(picture, 3 * i + c, seen[static_cast<size_t>(c)]);
  }
  return picture;
}

// Scales and opacities are learnt as what exp and the logistic function make them of, so that they stay in their range.
Graph scene(int64_t count) {
  Graph graph;
  uint64_t state = 7;
  const auto start = [&](const Shape& shape, double middle, double spread) {
    Tensor t(DType::F32, shape);
    for (int64_t i = 0; i < t.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      set(t, i, middle + spread * (static_cast<double>(state >> 40) * 0x1p-23 - 1));
    }
    return t;
  };
  Splats splats;
  splats.means = graph.parameter("means", start({count, 3}, 0, 1));
  splats.scales = exp(graph.parameter("scales", start({count, 3}, -2.5, 0.2)));
  splats.rotations = graph.parameter("rotations", start({count, 4}, 0.5, 0.5));
  splats.opacities = sigmoid(graph.parameter("opacities", start({count}, -1, 0.2)));
  splats.colours = graph.parameter("colours", start({count, 4, 3}, 0, 0.1));
  Tensor lens(DType::F32, {4});
  for (int64_t i = 0; i < 4; ++i) set(lens, i, i < 2 ? kFocal : kSide / 2);
  const SplatCamera camera{graph.input("view", DType::F32, {3, 4}), graph.constant(lens)};
  const Value picture = render(splats, camera, {.width = kSide, .height = kSide, .capacity = 36 * count}).colour;
  graph.output("picture", picture);
  graph.output("loss", mse(picture, graph.input("wanted", DType::F32, {kSide, kSide, 3})));
  return graph;
}

double decibels(const Tensor& a, const Tensor& b) {
  double error = 0;
  for (int64_t i = 0; i < a.size(); ++i) error += std::pow(get(a, i) - get(b, i), 2);
  return -10 * std::log10(error / static_cast<double>(a.size()));
}

void write_png(const char* file, const std::vector<Tensor>& pictures) {
  constexpr int kZoom = 3, kWidth = kZoom * static_cast<int>(kSide);
  Image image(kWidth * static_cast<int>(pictures.size()), kWidth);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      for (int c = 0; c < 3; ++c)
        image.pixel(x, y)[c] =
            static_cast<uint8_t>(255 * std::clamp(get(pictures[static_cast<size_t>(x / kWidth)],
                                                      3 * (y / kZoom * kSide + x % kWidth / kZoom) + c),
                                                  0.0, 1.0));
  write_file(file, encode_png(image));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: splats PICTURE.png [GAUSSIANS [STEPS]]\n", 2;
  const int64_t count = count_argument(argc, argv, 2, 800), steps = count_argument(argc, argv, 3, 600);
  std::vector<Tensor> views, pictures;
  for (int64_t i = 0; i < kViews; ++i) {
    const Eye eye = eye_at(6.283185307 * static_cast<double>(i) / kViews);
    views.push_back(view_of(eye));
    pictures.push_back(picture_from(eye));
  }
  const Eye other = eye_at(6.283185307 * 2.5 / kViews);
  const Tensor wanted = picture_from(other);

  TrainerOptions options;
  options.schedule = {.kind = ScheduleKind::Cosine, .rate = 0.02, .total = steps};
  Trainer trainer(open_gpu(), scene(count), options);
  const auto seen = [&] { return trainer.run({{"view", view_of(other)}}).outputs.at("picture"); };
  const Tensor before = seen();
  for (int64_t step = 0; step < steps; ++step) {
    const auto i = static_cast<size_t>(step * 5 % kViews);
    trainer.step({{"view", views[i]}, {"wanted", pictures[i]}});
  }
  const Tensor after = seen();
  write_png(argv[1], {wanted, after});
  std::cout << count << " Gaussians, " << steps << " steps: " << decibels(before, wanted) << " dB to "
            << decibels(after, wanted) << " dB for a view that was not learnt from\n";
} catch (const gyrus::Error& error) {
  return std::cerr << error.what() << "\n", 1;
}
