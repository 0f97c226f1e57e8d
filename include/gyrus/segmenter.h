#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gyrus/limits.h"

namespace gyrus {

// How feature maps are stored on the GPU; arithmetic is f32 in every case. Auto: f32 where it fits, if need be in
// smaller buffers, else f16.
enum class PrecisionChoice : uint8_t { F32, F16, Auto };

struct SegmenterOptions {
  PrecisionChoice precision = PrecisionChoice::Auto;
  std::string device{};  // "" the best, "N" by its place in list_adapters() (gyrus/device.h), else part of a name
  // How voxels are prepared and labels cleaned. What is not given is the model's own way, as its manifest says it
  // (docs/models.md) or as it is known by its weights.
  std::string normalize{};                          // "minmax", "quantile", "quantile:LOW,HIGH" or "none"
  std::optional<bool> largest_component{};          // keep only the largest connected part of each class
  std::optional<bool> fill_holes{};                 // background that is enclosed by a class becomes that class
  bool allow_empty = false;                         // do not throw where no voxel has a label
  std::optional<Limits> limits{};                   // plan for these instead of what the GPU offers
  std::function<bool(double fraction)> progress{};  // called while a run goes on; returning false cancels it
};

struct SegmenterImpl;

// A network on a GPU that labels volumes of one size, as many as wanted, one at a time.
class Segmenter {
 public:
  // `model` is a folder, a file of it, or the name of one in the store (gyrus/models.h). `size` counts voxels along x,
  // y, z. Throws gyrus::Error.
  Segmenter(const std::string& model, std::array<int64_t, 3> size, const SegmenterOptions& options = {});
  Segmenter(Segmenter&&) noexcept;
  Segmenter& operator=(Segmenter&&) noexcept;
  ~Segmenter();

  // The class of every voxel, as `gyrus segment --no-conform` gives it. Voxels lie as files store them: x fastest, then
  // y, then z. The first run of each element type compiles the network for it. A lost device is opened again. Throws
  // gyrus::Error, NonFinite where the network overflows; the segmenter stays usable.
  std::vector<uint8_t> run(std::span<const uint8_t> voxels);
  std::vector<uint8_t> run(std::span<const float> voxels);

  int64_t classes() const;
  uint64_t gpu_bytes() const;         // that the last compiled network holds; 0 before the first run
  double gpu_seconds() const;         // of the last run
  const std::string& device() const;  // its name

 private:
  std::unique_ptr<SegmenterImpl> impl_;
};

}  // namespace gyrus
