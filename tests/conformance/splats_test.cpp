// Gaussian splats on a device against a renderer in doubles that knows no tiles: Gaussians in the order of their depth,
// each over all pixels that it may cover.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/ops.h"
#include "gyrus/program.h"
#include "gyrus/splats.h"
#include "op_cases.h"
#include "reference/reference.h"
#include "support/device_tests.h"
#include "train/autodiff.h"

namespace gyrus::test {
namespace {

using Numbers = std::vector<double>;
constexpr std::array<const char*, 5> kParts = {"means", "scales", "rotations", "opacities", "colours"};

struct Scene {
  int64_t count = 0, harmonics = 1;
  std::map<std::string, Numbers> parts;

  Shape shape(const std::string& part) const {
    if (part == "opacities") return {count};
    if (part == "colours") return {count, harmonics, 3};
    return {count, part == "rotations" ? 4 : 3};
  }
};

struct Eye {
  int64_t width, height;
  Numbers view, lens;  // [3,4], [4]
};

Scene make_scene(int64_t count, int64_t harmonics, double size, Rng& rng) {
  Scene scene{count, harmonics, {}};
  for (const char* part : kParts) scene.parts[part].resize(static_cast<size_t>(element_count(scene.shape(part))));
  const auto fill = [&](const char* part, double lo, double hi) {
    for (double& value : scene.parts[part]) value = static_cast<float>(rng.uniform(lo, hi));
  };
  fill("means", -1, 1);
  fill("scales", 0.2 * size, size);
  fill("rotations", -1, 1);
  fill("opacities", 0.1, 0.95);
  fill("colours", -0.6, 0.6);
  return scene;
}

// From beside the scene, which lies around the origin.
Eye make_eye(int64_t width, int64_t height) {
  const double c = std::cos(0.3), s = std::sin(0.3), focal = 0.9 * static_cast<double>(width);
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  Eye eye{width, height, {c, 0, s, 0.05, 0, 1, 0, -0.03, -s, 0, c, 2.6}, {focal, focal * 1.03, 0.48 * w, 0.53 * h}};
  for (Numbers* numbers : {&eye.view, &eye.lens})
    for (double& value : *numbers) value = static_cast<float>(value);
  return eye;
}

// A Gaussian on the picture.
struct Flat {
  double depth = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0, opacity = 0, colour[3] = {};
};

void add_colour(const Scene& scene, size_t i, const Numbers& way, Flat& flat) {
  const double length = std::sqrt(way[0] * way[0] + way[1] * way[1] + way[2] * way[2]);
  const double x = way[0] / length, y = way[1] / length, z = way[2] / length, pi = std::acos(-1.0);
  // The real harmonics with the factors that they are defined by, of degree 0 to 3.
  const double a = std::sqrt(3 / (4 * pi)), b = std::sqrt(15 / (4 * pi)), c = std::sqrt(5 / (16 * pi));
  const double d = std::sqrt(35 / (32 * pi)), e = std::sqrt(105 / (4 * pi)), f = std::sqrt(21 / (32 * pi));
  const double basis[16] = {1 / std::sqrt(4 * pi),
                            -a * y,
                            a * z,
                            -a * x,
                            b * x * y,
                            -b * y * z,
                            c * (3 * z * z - 1),
                            -b * x * z,
                            b / 2 * (x * x - y * y),
                            -d * y * (3 * x * x - y * y),
                            e * x * y * z,
                            -f * y * (5 * z * z - 1),
                            std::sqrt(7 / (16 * pi)) * z * (5 * z * z - 3),
                            -f * x * (5 * z * z - 1),
                            e / 2 * z * (x * x - y * y),
                            -d * x * (x * x - 3 * y * y)};
  for (size_t channel = 0; channel < 3; ++channel) {
    double sum = 0.5;
    for (size_t k = 0; k < static_cast<size_t>(scene.harmonics); ++k)
      sum += basis[k] * scene.parts.at("colours")[(i * static_cast<size_t>(scene.harmonics) + k) * 3 + channel];
    flat.colour[channel] = std::max(0.0, sum);
  }
}

Flat flatten(const Scene& scene, const Eye& eye, size_t i, const SplatOptions& how) {
  const double *mean = scene.parts.at("means").data() + 3 * i, *view = eye.view.data();
  double p[3], axes[3][3];
  for (size_t r = 0; r < 3; ++r)
    p[r] = view[4 * r] * mean[0] + view[4 * r + 1] * mean[1] + view[4 * r + 2] * mean[2] + view[4 * r + 3];
  Numbers q(scene.parts.at("rotations").begin() + static_cast<std::ptrdiff_t>(4 * i),
            scene.parts.at("rotations").begin() + static_cast<std::ptrdiff_t>(4 * i + 4));
  const double size = std::sqrt(std::inner_product(q.begin(), q.end(), q.begin(), 0.0));
  for (double& value : q) value /= size;
  // A vector v turns to v + 2 u x (u x v + w v), for each axis.
  for (size_t axis = 0; axis < 3; ++axis) {
    const double v[3] = {axis == 0 ? 1.0 : 0, axis == 1 ? 1.0 : 0, axis == 2 ? 1.0 : 0}, *u = q.data() + 1;
    const double t[3] = {u[1] * v[2] - u[2] * v[1] + q[0] * v[0], u[2] * v[0] - u[0] * v[2] + q[0] * v[1],
                         u[0] * v[1] - u[1] * v[0] + q[0] * v[2]};
    const double turned[3] = {v[0] + 2 * (u[1] * t[2] - u[2] * t[1]), v[1] + 2 * (u[2] * t[0] - u[0] * t[2]),
                              v[2] + 2 * (u[0] * t[1] - u[1] * t[0])};
    for (size_t r = 0; r < 3; ++r)
      axes[r][axis] = scene.parts.at("scales")[3 * i + axis] *
                      (view[4 * r] * turned[0] + view[4 * r + 1] * turned[1] + view[4 * r + 2] * turned[2]);
  }
  Flat flat;
  flat.depth = p[2];
  if (p[2] <= how.nearest) return flat;
  flat.x = eye.lens[0] * p[0] / p[2] + eye.lens[2];
  flat.y = eye.lens[1] * p[1] / p[2] + eye.lens[3];
  const double wide = 0.65 * static_cast<double>(eye.width) / eye.lens[0];
  const double high = 0.65 * static_cast<double>(eye.height) / eye.lens[1];
  const double tx = std::clamp(p[0] / p[2], -wide, wide), ty = std::clamp(p[1] / p[2], -high, high);
  double xx = how.blur, xy = 0, yy = how.blur;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double a = eye.lens[0] / p[2] * (axes[0][axis] - tx * axes[2][axis]);
    const double b = eye.lens[1] / p[2] * (axes[1][axis] - ty * axes[2][axis]);
    xx += a * a;
    xy += a * b;
    yy += b * b;
  }
  const double determinant = xx * yy - xy * xy;
  flat.xx = yy / determinant;
  flat.xy = -xy / determinant;
  flat.yy = xx / determinant;
  flat.opacity = scene.parts.at("opacities")[i];
  Numbers way(3);
  for (size_t r = 0; r < 3; ++r) way[r] = mean[r] + view[r] * view[3] + view[4 + r] * view[7] + view[8 + r] * view[11];
  add_colour(scene, i, way, flat);
  return flat;
}

// Colour and light of every pixel.
Numbers draw(const Scene& scene, const Eye& eye, const SplatOptions& how) {
  std::vector<Flat> flats;
  for (size_t i = 0; i < static_cast<size_t>(scene.count); ++i) flats.push_back(flatten(scene, eye, i, how));
  std::stable_sort(flats.begin(), flats.end(), [](const Flat& a, const Flat& b) { return a.depth < b.depth; });
  Numbers pixels(static_cast<size_t>(4 * eye.width * eye.height), 0);
  std::vector<bool> done(static_cast<size_t>(eye.width * eye.height), false);
  for (size_t i = 3; i < pixels.size(); i += 4) pixels[i] = 1;
  for (const Flat& f : flats) {
    if (f.depth <= how.nearest || f.opacity < 1.0 / 255) continue;
    // Where 255 · opacity · exp(-distance) is 1, along each axis, from the inverse of the inverse covariance.
    const double determinant = f.xx * f.yy - f.xy * f.xy, reach = 2 * std::log(255 * f.opacity);
    const double wide = std::sqrt(reach * f.yy / determinant) + 1, high = std::sqrt(reach * f.xx / determinant) + 1;
    const auto from = [](double v) { return std::max<int64_t>(0, static_cast<int64_t>(std::max(v, 0.0))); };
    for (int64_t y = from(f.y - high); y < std::min(eye.height, from(f.y + high + 1)); ++y)
      for (int64_t x = from(f.x - wide); x < std::min(eye.width, from(f.x + wide + 1)); ++x) {
        const auto at = static_cast<size_t>(y * eye.width + x);
        const double dx = f.x - static_cast<double>(x) - 0.5, dy = f.y - static_cast<double>(y) - 0.5;
        const double covered =
            std::min(0.99, f.opacity * std::exp(-0.5 * (f.xx * dx * dx + f.yy * dy * dy) - f.xy * dx * dy));
        double* pixel = pixels.data() + 4 * at;
        if (done[at] || covered < 1.0 / 255) continue;
        done[at] = pixel[3] * (1 - covered) < how.threshold;
        if (done[at]) continue;
        for (size_t c = 0; c < 3; ++c) pixel[c] += f.colour[c] * covered * pixel[3];
        pixel[3] *= 1 - covered;
      }
  }
  return pixels;
}

Tensor tensor_of(const Numbers& numbers, const Shape& shape) {
  Tensor tensor(DType::F32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, numbers[static_cast<size_t>(i)]);
  return tensor;
}

std::map<std::string, Tensor> inputs_of(const Scene& scene, const Eye& eye) {
  std::map<std::string, Tensor> inputs = {{"view", tensor_of(eye.view, {3, 4})}, {"lens", tensor_of(eye.lens, {4})}};
  for (const char* part : kParts) inputs[part] = tensor_of(scene.parts.at(part), scene.shape(part));
  return inputs;
}

// The picture as an output "picture" [height,width,4], of inputs.
Value add_picture(Graph& graph, const Scene& scene, const SplatOptions& how) {
  std::vector<Value> parts;
  for (const char* part : kParts) parts.push_back(graph.input(part, DType::F32, scene.shape(part)));
  const SplatPicture made =
      render({parts[0], parts[1], parts[2], parts[3], parts[4]},
             {graph.input("view", DType::F32, {3, 4}), graph.input("lens", DType::F32, {4})}, how);
  return concat({made.colour, reshape(made.light, {how.height, how.width, 1})}, 2);
}

double decibels(const Tensor& found, const Numbers& wanted) {
  double error = 0;
  for (int64_t i = 0; i < found.size(); ++i) error += std::pow(get(found, i) - wanted[static_cast<size_t>(i)], 2);
  return -10 * std::log10(error / static_cast<double>(found.size()) + 1e-30);
}

SplatOptions options_of(const Eye& eye, int64_t capacity) {
  SplatOptions how;
  how.width = eye.width;
  how.height = eye.height;
  how.capacity = capacity;
  return how;
}

double compare(const Scene& scene, const Eye& eye, int64_t capacity, const ProgramOptions& options = {}) {
  const SplatOptions how = options_of(eye, capacity);
  Graph graph;
  graph.output("picture", add_picture(graph, scene, how));
  const Tensor picture = Program(device(), graph, options).run(inputs_of(scene, eye)).outputs.at("picture");
  const double found = decibels(picture, draw(scene, eye, how));
  std::printf("%ld Gaussians at %ld x %ld: %.1f dB\n", static_cast<long>(scene.count), static_cast<long>(eye.width),
              static_cast<long>(eye.height), found);
  return found;
}

TEST(Splats, EqualARendererInDoubles) {
  Rng rng(1);
  for (const int64_t harmonics : {1, 4, 9, 16})
    EXPECT_GE(compare(make_scene(harmonics == 16 ? 700 : 60, harmonics, 0.12, rng), make_eye(100, 70), 12000), 60);
  ProgramOptions tiny;
  tiny.limits = tiny_limits();
  EXPECT_GE(compare(make_scene(600, 4, 0.06, rng), make_eye(60, 40), 6000, tiny), 60);
}

// Thousands of pixels long and less than one wide, right before the camera.
TEST(Splats, LongOnesKeepTheirShape) {
  Rng rng(5);
  Scene scene = make_scene(3, 1, 0.12, rng);
  for (size_t i = 0; i < 3; ++i) {
    const double turn = 0.5 + 0.4 * static_cast<double>(i);
    const double numbers[] = {0.05 * static_cast<double>(i), 0, -2, std::cos(turn), 0, 0, std::sin(turn)};
    std::copy_n(numbers, 3, scene.parts["means"].begin() + static_cast<std::ptrdiff_t>(3 * i));
    std::copy_n(numbers + 3, 4, scene.parts["rotations"].begin() + static_cast<std::ptrdiff_t>(4 * i));
    for (size_t axis = 0; axis < 3; ++axis) scene.parts["scales"][3 * i + axis] = axis == 0 ? 40 : 1e-3;
  }
  for (auto& [part, values] : scene.parts)
    for (double& value : values) value = static_cast<float>(value);
  EXPECT_GE(compare(scene, make_eye(100, 70), 12000), 60);
}

TEST(Splats, HundredThousandEqualARendererInDoubles) {
  if (!std::getenv("GYRUS_TEST_FULL")) GTEST_SKIP() << "only with GYRUS_TEST_FULL";
  Rng rng(2);
  EXPECT_GE(compare(make_scene(100000, 4, 0.02, rng), make_eye(512, 512), 1 << 21), 60);
}

TEST(Splats, SayHowManyPlacesAreMissing) {
  Rng rng(3);
  const Scene scene = make_scene(60, 1, 0.12, rng);
  const Eye eye = make_eye(100, 70);
  try {
    compare(scene, eye, 50);
    FAIL() << "was drawn";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidInput);
    EXPECT_NE(std::string(error.what()).find(" places and has 50: give it more"), std::string::npos) << error.what();
  }
}

// Loss and its gradients in the parts of a scene: the mean square of differences from a picture.
Graph loss_graph(const Scene& scene, const Eye& eye, const Tensor& wanted) {
  Graph graph;
  const Value picture = add_picture(graph, scene, options_of(eye, 3000));
  graph.output("loss", reduce_mean(square(picture - graph.constant(wanted))));
  Graph made = differentiable(graph);
  std::vector<ValueId> of;
  for (const Port& port : made.inputs()) of.push_back(port.value);
  const ValueId one = made.add_constant("one", tensor_of({1}, {}));
  const std::vector<ValueId> found = add_gradients(made, {{made.outputs()[0].value, one}}, of);
  for (size_t i = 0; i < of.size(); ++i)
    if (found[i] != kNoValue) made.add_output("d_" + made.inputs()[i].name, found[i]);
  return made;
}

double loss_of(const Scene& scene, const Eye& eye, const Tensor& wanted) {
  const Numbers pixels = draw(scene, eye, options_of(eye, 3000));
  double sum = 0;
  for (size_t i = 0; i < pixels.size(); ++i) sum += std::pow(pixels[i] - get(wanted, static_cast<int64_t>(i)), 2);
  return sum / static_cast<double>(pixels.size());
}

// Differences of the loss of the renderer in doubles, for every number of one part.
Numbers differences(const Scene& scene, const std::string& part, const Eye& eye, const Tensor& wanted) {
  Numbers found;
  constexpr double kStep = 1e-7;  // small, so that none carries a Gaussian over the threshold of a pixel
  for (size_t i = 0; i < scene.parts.at(part).size(); ++i) {
    Scene more = scene, less = scene;
    more.parts[part][i] += kStep;
    less.parts[part][i] -= kStep;
    found.push_back((loss_of(more, eye, wanted) - loss_of(less, eye, wanted)) / (2 * kStep));
  }
  return found;
}

TEST(Splats, GradientsEqualDifferences) {
  Rng rng(4);
  const Scene scene = make_scene(50, 4, 0.15, rng), other = make_scene(50, 4, 0.15, rng);
  const Eye eye = make_eye(40, 30);
  const Tensor wanted = tensor_of(draw(other, eye, options_of(eye, 3000)), {30, 40, 4});
  const Graph graph = loss_graph(scene, eye, wanted);
  const auto exact = reference::run(graph, inputs_of(scene, eye));
  const RunResult result = Program(device(), graph).run(inputs_of(scene, eye));
  EXPECT_NEAR(exact.at("loss").data[0], loss_of(scene, eye, wanted), 1e-9);
  for (const std::string part : kParts) {
    const Numbers slopes = differences(scene, part, eye, wanted);
    const Numbers& own = exact.at("d_" + part).data;
    const Tensor& on_device = result.outputs.at("d_" + part);
    double largest = 0, by_differences = 0, by_device = 0;
    for (size_t i = 0; i < slopes.size(); ++i) {
      largest = std::max(largest, std::abs(slopes[i]));
      by_differences = std::max(by_differences, std::abs(own[i] - slopes[i]));
      by_device = std::max(by_device, std::abs(get(on_device, static_cast<int64_t>(i)) - own[i]));
    }
    std::printf("%s: differences %.1e, device %.1e of the largest\n", part.c_str(), by_differences / largest,
                by_device / largest);
    EXPECT_LE(by_differences, 2e-6 * largest) << part;
    EXPECT_LE(by_device, 1e-5 * largest) << part;
  }
}

// Steps of descent with moments (Adam), on the host in doubles, along gradients that `run` gives.
template <class Run>
Numbers losses_of_fit(Scene scene, int steps, Run run) {
  std::map<std::string, Numbers> first, second;
  Numbers losses;
  for (int step = 1; step <= steps; ++step) {
    std::map<std::string, Numbers> gradients;
    losses.push_back(run(scene, gradients));
    for (auto& [part, numbers] : scene.parts) {
      first[part].resize(numbers.size());
      second[part].resize(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) {
        const double g = gradients.at(part)[i];
        first[part][i] = 0.9 * first[part][i] + 0.1 * g;
        second[part][i] = 0.99 * second[part][i] + 0.01 * g * g;
        numbers[i] -= 0.01 * first[part][i] / (1 - std::pow(0.9, step)) /
                      (std::sqrt(second[part][i] / (1 - std::pow(0.99, step))) + 1e-8);
      }
    }
    for (double& scale : scene.parts["scales"]) scale = std::max(scale, 0.01);
    for (double& opacity : scene.parts["opacities"]) opacity = std::clamp(opacity, 0.02, 0.98);
  }
  return losses;
}

TEST(Splats, FitAsInDoubles) {
  const bool everything = std::getenv("GYRUS_TEST_FULL") != nullptr;
  Rng rng(6);
  const Scene scene = make_scene(40, 1, 0.15, rng), other = make_scene(40, 1, 0.15, rng);
  const Eye eye = make_eye(48, 32);
  const Tensor wanted = tensor_of(draw(other, eye, options_of(eye, 3000)), {32, 48, 4});
  const Graph graph = loss_graph(scene, eye, wanted);
  Program program(device(), graph);
  const int steps = everything ? 200 : 40;
  const Numbers on_device =
      losses_of_fit(scene, steps, [&](const Scene& at, std::map<std::string, Numbers>& gradients) {
        const RunResult result = program.run(inputs_of(at, eye));
        for (const std::string part : kParts)
          for (int64_t i = 0; i < result.outputs.at("d_" + part).size(); ++i)
            gradients[part].push_back(get(result.outputs.at("d_" + part), i));
        return get(result.outputs.at("loss"), 0);
      });
  const Numbers exact = losses_of_fit(scene, steps, [&](const Scene& at, std::map<std::string, Numbers>& gradients) {
    const auto result = reference::run(graph, inputs_of(at, eye));
    for (const std::string part : kParts) gradients[part] = result.at("d_" + part).data;
    return result.at("loss").data[0];
  });
  std::printf("loss %.5f to %.6f, in doubles %.6f\n", exact.front(), on_device.back(), exact.back());
  EXPECT_LT(exact.back(), exact.front() / 3);
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(on_device[i], exact[i], 0.02 * exact[i]) << "step " << i;
}

}  // namespace
}  // namespace gyrus::test
