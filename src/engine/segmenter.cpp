#include "gyrus/segmenter.h"

#include <cstring>

#include "core/error.h"
#include "engine/segment.h"
#include "import/model.h"

namespace gyrus {

struct SegmenterImpl {
  Model model;
  Dims dims{};
  SegmenterOptions options;
  NormalizeOptions normalize;
  std::string device;
  std::optional<Session> session;
  VoxelType compiled_for = VoxelType::U8;
  double gpu_seconds = 0;

  void prepare(const Volume& volume) {
    if (session && compiled_for == volume.type && !session->device().lost()) return;
    session.reset();  // its memory first
    SessionOptions wanted;
    wanted.precision = options.precision;
    wanted.device = options.device;
    wanted.limits = options.limits;
    wanted.network = network_options(volume, normalize);
    session.emplace(model, spatial_shape(model, volume), wanted);
    compiled_for = volume.type;
  }

  std::vector<uint8_t> run(VoxelType type, const void* voxels, size_t count) {
    Volume volume(dims, type);
    if (count != static_cast<size_t>(volume.voxels()))
      fail(ErrorCode::InvalidInput, "segmenter", "got ", count, " voxels, expected ", volume.voxels(), " (",
           to_string(dims), ")");
    std::memcpy(volume.data.data(), voxels, volume.data.size());
    volume.name = "segmenter";
    const Normalization normalization = normalization_of(volume, normalize);
    prepare(volume);
    RunOptions run_options;
    if (options.progress)
      run_options.progress = [&](double fraction, const std::string&) { return options.progress(fraction); };
    const Segmentation result = segment(*session, volume, normalization, run_options);
    gpu_seconds = result.profile.gpu_seconds;
    const uint8_t* labels = result.labels.as<uint8_t>();
    return {labels, labels + volume.voxels()};
  }
};

std::vector<GpuInfo> list_gpus() {
  std::vector<GpuInfo> gpus;
  for (const AdapterInfo& a : list_adapters())
    gpus.push_back({a.name, a.backend, a.driver, a.type == AdapterType::Software, a.memory_bytes});
  return gpus;
}

Segmenter::Segmenter(const std::string& model, std::array<int64_t, 3> size, const SegmenterOptions& options)
    : impl_(std::make_unique<SegmenterImpl>()) {
  for (int64_t extent : size)
    if (extent < 1) fail(ErrorCode::InvalidInput, "segmenter", "the size ", to_string(size), " is not positive");
  impl_->model = load_model(model);
  if (impl_->model.classes > 256)
    fail(ErrorCode::Unsupported, impl_->model.name, "has ", impl_->model.classes, " classes; labels here are bytes");
  impl_->dims = size;
  impl_->options = options;
  impl_->normalize = parse_normalize(options.normalize);
  impl_->device = choose_adapter(options.device).name;
}

Segmenter::Segmenter(Segmenter&&) noexcept = default;
Segmenter& Segmenter::operator=(Segmenter&&) noexcept = default;
Segmenter::~Segmenter() = default;

std::vector<uint8_t> Segmenter::run(std::span<const uint8_t> voxels) {
  return impl_->run(VoxelType::U8, voxels.data(), voxels.size());
}

std::vector<uint8_t> Segmenter::run(std::span<const float> voxels) {
  return impl_->run(VoxelType::F32, voxels.data(), voxels.size());
}

int64_t Segmenter::classes() const { return impl_->model.classes; }
uint64_t Segmenter::gpu_bytes() const { return impl_->session ? impl_->session->allocated_bytes() : 0; }
double Segmenter::gpu_seconds() const { return impl_->gpu_seconds; }
const std::string& Segmenter::device() const { return impl_->device; }

}  // namespace gyrus
