// A head as a composition of signed distances (millimetres, negative inside): smooth unions of ellipsoids and capsules,
// bent by low-frequency noise. Sulci are the zero sheets of a smooth noise field, cut into the brain to a depth; grey
// matter is what lies within a few millimetres of CSF. Intensities blend across a voxel at every border, as partial
// volumes do. Only additions, products, divisions and square roots are used, which IEEE 754 defines to the last bit.
#include "volume/phantom.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "volume/parallel.h"
#include "volume/random.h"

namespace gyrus {

namespace {

constexpr double kFieldOfView = 256;  // mm
constexpr double kScalp = 6;          // mm, thickness
constexpr double kBone = 6;           // mm
constexpr double kCortex = 4.2;       // mm, thickness of grey matter
constexpr double kSulcus = 1.3;       // mm, half its width
constexpr double kSulcusDepth = 17;   // mm below the hull

// Mean grey level of each layer before bias and noise.
constexpr double kAir = 4, kScalpGrey = 208, kBoneGrey = 84, kCsfGrey = 42, kGreyGrey = 112, kWhiteGrey = 164;

double length(double x, double y, double z) { return std::sqrt(x * x + y * y + z * z); }
double square(double v) { return v * v; }

// Gradient noise on a lattice (Perlin 2002): smooth, mean 0, about ±0.7, features of unit size.
class Noise {
 public:
  explicit Noise(uint64_t seed) : seed_(mix(seed)) {}

  double operator()(double x, double y, double z) const {
    const double fx = std::floor(x), fy = std::floor(y), fz = std::floor(z);
    const auto ix = static_cast<int64_t>(fx), iy = static_cast<int64_t>(fy), iz = static_cast<int64_t>(fz);
    const double dx = x - fx, dy = y - fy, dz = z - fz;
    const double wx = fade(dx), wy = fade(dy), wz = fade(dz);
    double planes[2];
    for (int64_t k = 0; k < 2; ++k) {
      const double a0 = corner(ix, iy, iz + k, dx, dy, dz - static_cast<double>(k));
      const double b0 = corner(ix + 1, iy, iz + k, dx - 1, dy, dz - static_cast<double>(k));
      const double a1 = corner(ix, iy + 1, iz + k, dx, dy - 1, dz - static_cast<double>(k));
      const double b1 = corner(ix + 1, iy + 1, iz + k, dx - 1, dy - 1, dz - static_cast<double>(k));
      const double row0 = a0 + wx * (b0 - a0), row1 = a1 + wx * (b1 - a1);
      planes[k] = row0 + wy * (row1 - row0);
    }
    return planes[0] + wz * (planes[1] - planes[0]);
  }

 private:
  static double fade(double t) { return t * t * t * (t * (t * 6 - 15) + 10); }
  // One of the twelve directions to the edges of a cube.
  double corner(int64_t ix, int64_t iy, int64_t iz, double dx, double dy, double dz) const {
    const uint64_t packed = (static_cast<uint64_t>(ix) & 0xffff) | (static_cast<uint64_t>(iy) & 0xffff) << 16 |
                            (static_cast<uint64_t>(iz) & 0xffff) << 32;
    const uint64_t h = mix(seed_ ^ packed) % 12;
    const double u = h < 8 ? dx : dy;
    const double v = h < 4 ? dy : dz;
    return ((h & 1) != 0 ? -u : u) + ((h & 2) != 0 ? -v : v);
  }
  uint64_t seed_;
};

struct Point {
  double x, y, z;  // mm: right, anterior, superior
};

// First-order distance to an ellipsoid: exact on the surface, close to it near by.
double ellipsoid(const Point& p, const Point& centre, const Point& radii) {
  const double x = (p.x - centre.x) / radii.x, y = (p.y - centre.y) / radii.y, z = (p.z - centre.z) / radii.z;
  const double k0 = length(x, y, z);
  const double k1 = length(x / radii.x, y / radii.y, z / radii.z);
  if (k1 < 1e-9) return -std::min({radii.x, radii.y, radii.z});
  return k0 * (k0 - 1) / k1;
}

double capsule(const Point& p, const Point& a, const Point& b, double radius) {
  const Point ab{b.x - a.x, b.y - a.y, b.z - a.z}, ap{p.x - a.x, p.y - a.y, p.z - a.z};
  const double t =
      std::clamp((ap.x * ab.x + ap.y * ab.y + ap.z * ab.z) / (square(ab.x) + square(ab.y) + square(ab.z)), 0.0, 1.0);
  return length(ap.x - t * ab.x, ap.y - t * ab.y, ap.z - t * ab.z) - radius;
}

double smooth_union(double a, double b, double k) {
  const double h = std::max(k - std::abs(a - b), 0.0) / k;
  return std::min(a, b) - h * h * k * 0.25;
}
double smooth_intersection(double a, double b, double k) { return -smooth_union(-a, -b, k); }

struct Sample {
  Tissue tissue;
  double grey;
};

// One head: shapes and folds drawn from a seed.
class Head {
 public:
  Head(const PhantomOptions& options, double voxel)
      : warp_{Noise(options.seed * 11 + 1), Noise(options.seed * 11 + 2), Noise(options.seed * 11 + 3)},
        folds_(options.seed * 11 + 4),
        fine_folds_(options.seed * 11 + 5),
        texture_(options.seed * 11 + 6),
        blend_(voxel) {
    for (size_t i = 0; i < 3; ++i) scale_[i] = 1 + 0.05 * (2 * uniform_at(options.seed, 100 + i) - 1);
    ventricle_ = 0.9 + 0.35 * uniform_at(options.seed, 103);
  }

  Sample at(Point p) const {
    const double nearest = outer(p);
    if (nearest > 14) return {Tissue::Background, kAir};  // the bend below moves no surface that far
    p = bend(p);
    const double skin = outer(p);
    const double skin_cover = inside(skin);
    if (skin > 0.75 * blend_) return {Tissue::Background, kAir};
    const double cavity = cranial_cavity(p);
    if (cavity > blend_) {
      const double grey = kAir + skin_cover * (soft_tissue(p, cavity) - kAir);
      return {skin > 0 ? Tissue::Background : Tissue::Skull, grey};
    }
    const Sample brain = inside_cavity(p);
    const double cover = inside(cavity);
    const double grey = kBoneGrey + cover * (brain.grey - kBoneGrey);
    return {cavity > 0 ? Tissue::Skull : brain.tissue, grey};
  }

 private:
  // How much of a voxel lies inside a surface at this distance.
  double inside(double distance) const { return std::clamp(0.5 - distance / blend_, 0.0, 1.0); }

  Point bend(const Point& p) const {
    const double f = 1.0 / 55;
    const double w[3] = {warp_[0](p.x * f, p.y * f, p.z * f), warp_[1](p.x * f, p.y * f, p.z * f),
                         warp_[2](p.x * f, p.y * f, p.z * f)};
    return {(p.x + 7 * w[0]) / scale_[0], (p.y + 7 * w[1]) / scale_[1], (p.z + 7 * w[2]) / scale_[2]};
  }

  static double cranium(const Point& p) { return ellipsoid(p, {0, -4, 16}, {75, 94, 84}); }

  static double outer(const Point& p) {
    const double face = ellipsoid(p, {0, 42, -42}, {52, 50, 58});
    const double neck = capsule(p, {0, -18, -40}, {0, -34, -180}, 47);
    const double nose = ellipsoid(p, {0, 92, -28}, {12, 16, 20});
    const double head = smooth_union(smooth_union(cranium(p), face, 25), neck, 30);
    return smooth_union(head, nose, 14);
  }

  static double cranial_cavity(const Point& p) {
    const double vault = cranium(p) + kScalp + kBone;
    const double room = smooth_intersection(vault, floor_of(p) - 5, 14);
    const double fossa = smooth_intersection(vault, cerebellum(p) - 5, 10);
    const double canal = capsule(p, {0, -26, -40}, {0, -38, -180}, 11);
    return smooth_union(smooth_union(room, fossa, 8), canal, 6);
  }

  double soft_tissue(const Point& p, double cavity) const {
    const double texture = 1 + 0.10 * texture_(p.x / 13, p.y / 13, p.z / 13);
    const double flesh = kScalpGrey * texture;
    const double bone = std::clamp(0.5 - (cavity - kBone) / std::max(blend_, 1.5), 0.0, 1.0);
    return flesh + bone * (kBoneGrey - flesh);
  }

  // The plane that the cerebrum rests on; it rises towards the front.
  static double floor_of(const Point& p) { return (-24 - p.z + 0.22 * (p.y + 20)) * 0.97; }
  // The brain's hull without its folds.
  static double cerebrum(const Point& p) {
    const double sides = ellipsoid(p, {p.x > 0 ? 3.0 : -3.0, -4, 17}, {57, 79, 69});
    return smooth_intersection(sides, floor_of(p), 16);
  }
  static double cerebellum(const Point& p) { return ellipsoid(p, {0, -50, -33}, {43, 27, 19}); }
  static double brainstem(const Point& p) { return capsule(p, {0, -16, -8}, {0, -36, -140}, 9.5); }

  // Half the thickness of the sheet between the hemispheres, above and around the corpus callosum.
  static double fissure(const Point& p) {
    const double callosum = ellipsoid(p, {0, -6, 6}, {200, 46, 27});
    const double depth = std::max(0.0, -callosum);
    return length(p.x, depth, 0) - kSulcus;
  }

  double ventricles(const Point& p) const {
    const Point q{std::abs(p.x), p.y, p.z};
    const double v = ventricle_;
    // Body and horns: an ellipsoid whose ends bend outwards and down.
    const double bend = square(p.y + 6) / 900;
    const double body = ellipsoid(q, {10 + 5.5 * bend, -6, 17 - 6 * bend}, {7.5 * v, 37, 9.5 * v});
    const double third = ellipsoid(p, {0, -6, 2}, {3.2 * v, 12, 11});
    const double fourth = ellipsoid(p, {0, -38, -30}, {6 * v, 5, 8});
    return std::min({body, third, fourth});
  }

  static double deep_grey(const Point& p) {
    const Point q{std::abs(p.x), p.y, p.z};
    const double thalamus = ellipsoid(q, {12, -14, 3}, {9, 14, 8});
    const double putamen = ellipsoid(q, {27, 4, 3}, {6, 18, 10});
    const double caudate = ellipsoid(q, {19, 12, 12}, {6, 13, 8});
    return std::min({thalamus, putamen, caudate});
  }

  // Distance to the nearest CSF of surface and sulci, negative in it. `hull` is the distance to the brain's hull.
  double cortical(const Point& p, double hull) const {
    const double f = 1.0 / 21;
    const double n =
        folds_(p.x * f, p.y * f, p.z * f) + 0.30 * fine_folds_(p.x * 2.1 * f, p.y * 2.1 * f, p.z * 2.1 * f);
    // The noise's slope is about 1.1 per lattice unit: dividing by it makes a distance of it.
    const double across = std::abs(n) / (1.1 * f);
    const double below = std::max(0.0, -hull - kSulcusDepth);
    // Grooves narrow towards their ground.
    const double sulcus =
        length(across, below, 0) - kSulcus * (1 - 0.5 * std::min(1.0, std::max(0.0, -hull) / kSulcusDepth));
    return std::min({-hull, sulcus, fissure(p)});
  }

  // Thin leaves of the cerebellum: white branches in grey.
  Sample cerebellar(const Point& p) const {
    const double core = ellipsoid(p, {0, -46, -32}, {27, 13, 9});
    const double leaves = 4.5 * fine_folds_(p.x / 15, p.y / 9, p.z / 7);
    const double white = core + leaves;
    return blend(Tissue::Grey, kGreyGrey, Tissue::White, kWhiteGrey, white);
  }

  // b where distance is negative, a elsewhere.
  Sample blend(Tissue a, double grey_a, Tissue b, double grey_b, double distance) const {
    return {distance < 0 ? b : a, grey_a + inside(distance) * (grey_b - grey_a)};
  }
  Sample over(const Sample& under, Tissue tissue, double grey, double distance) const {
    if (distance > blend_) return under;
    return {distance < 0 ? tissue : under.tissue, under.grey + inside(distance) * (grey - under.grey)};
  }

  Sample inside_cavity(const Point& p) const {
    const double hull = cerebrum(p), lesser = cerebellum(p), stem = brainstem(p);
    Sample out{Tissue::Csf, kCsfGrey};
    if (stem < blend_) out = over(out, Tissue::White, kWhiteGrey * 0.94, stem);
    if (lesser < blend_) {
      const Sample leaf = cerebellar(p);
      out = over(out, leaf.tissue, leaf.grey, lesser);
    }
    if (hull < blend_) {
      const double csf = cortical(p, hull);
      Sample brain = blend(Tissue::Grey, kGreyGrey, Tissue::White, kWhiteGrey, kCortex - csf);
      brain = over(brain, Tissue::Grey, kGreyGrey, deep_grey(p));
      out = over(out, brain.tissue, brain.grey, -csf);
    }
    return over(out, Tissue::Ventricle, kCsfGrey * 0.95, ventricles(p));
  }

  Noise warp_[3];
  Noise folds_, fine_folds_, texture_;
  double blend_;  // mm: a voxel's width
  double scale_[3];
  double ventricle_;
};

// A smooth field around 1: products of low powers of the coordinates (each in -1 … 1) with drawn weights.
class BiasField {
 public:
  BiasField(uint64_t seed, double amount) : amount_(amount) {
    double sum = 0;
    for (size_t i = 0; i < 9; ++i) {
      weights_[i] = 2 * uniform_at(seed, 200 + i) - 1;
      sum += std::abs(weights_[i]);
    }
    for (double& w : weights_) w /= sum;
  }
  double at(double x, double y, double z) const {
    const double terms[9] = {x, y, z, x * y, x * z, y * z, 2 * x * x - 1, 2 * y * y - 1, 2 * z * z - 1};
    double v = 0;
    for (size_t i = 0; i < 9; ++i) v += weights_[i] * terms[i];
    return 1 + amount_ * std::clamp(1.6 * v, -1.0, 1.0);
  }

 private:
  double amount_;
  double weights_[9];
};

void check(const PhantomOptions& options) {
  for (int64_t n : options.dims)
    if (n < 2 || n > 2048)
      fail(ErrorCode::InvalidInput, "phantom", "size ", to_string(options.dims),
           "; each side must be 2 to 2048 voxels");
  if (!(options.noise >= 0 && options.noise <= 100) || !(options.bias >= 0 && options.bias < 1))
    fail(ErrorCode::InvalidInput, "phantom", "noise ", options.noise, " and bias ", options.bias,
         " must be 0 to 100 and 0 to 1");
}

// Centres of voxels at -128 … 128 mm: x from right to left, y from top to bottom, z from back to front.
Affine phantom_affine(const Dims& dims) {
  const double sx = kFieldOfView / static_cast<double>(dims[0]), sy = kFieldOfView / static_cast<double>(dims[1]),
               sz = kFieldOfView / static_cast<double>(dims[2]);
  Affine affine;
  affine.rows = {{{-sx, 0, 0, 0.5 * (kFieldOfView - sx)},
                  {0, 0, sz, -0.5 * (kFieldOfView - sz)},
                  {0, -sy, 0, 0.5 * (kFieldOfView - sy)}}};
  return affine;
}

}  // namespace

const char* to_string(Tissue tissue) {
  static constexpr const char* kNames[] = {"background", "skull", "CSF", "grey matter", "white matter", "ventricles"};
  return kNames[static_cast<size_t>(tissue)];
}

Phantom make_phantom(const PhantomOptions& options) {
  check(options);
  Phantom out{Volume(options.dims, VoxelType::U8), Volume(options.dims, VoxelType::U8)};
  const Affine affine = phantom_affine(options.dims);
  for (Volume* volume : {&out.image, &out.truth}) {
    set_affine(*volume, affine);
    volume->description = cat("gyrus phantom, seed ", options.seed);
    volume->name = "phantom";
  }
  const Vec3d spacing = out.image.spacing();
  const Head head(options, std::max({spacing[0], spacing[1], spacing[2]}));
  const BiasField bias(options.seed, options.bias);
  const uint64_t noise_seed = mix(options.seed ^ 0x6e6f697365ull);
  parallel_ranges(options.dims[2], 1, [&](int64_t begin, int64_t end) {
    for (int64_t z = begin; z < end; ++z)
      for (int64_t y = 0; y < options.dims[1]; ++y)
        for (int64_t x = 0; x < options.dims[0]; ++x) {
          const Vec3d p = map_point(affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
          const Sample sample = head.at({p[0], p[1], p[2]});
          const auto i = out.image.index(x, y, z);
          // The magnitude of a complex signal with noise in both parts: Rician, as scanners give it.
          const auto n = static_cast<uint64_t>(i) * 2;
          const double signal = sample.grey * bias.at(p[0] / 128, p[1] / 128, p[2] / 128);
          const double real = signal + options.noise * normal_at(noise_seed, n);
          const double imaginary = options.noise * normal_at(noise_seed, n + 1);
          const double magnitude = std::sqrt(real * real + imaginary * imaginary);
          out.image.as<uint8_t>()[i] = static_cast<uint8_t>(std::min(255.0, magnitude + 0.5));
          out.truth.as<uint8_t>()[i] = static_cast<uint8_t>(sample.tissue);
        }
  });
  return out;
}

}  // namespace gyrus
