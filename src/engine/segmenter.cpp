#include "gyrus/gyrus.h"

#include <cstring>

#include "core/error.h"
#include "engine/model_store.h"
#include "engine/pipeline.h"

namespace gyrus {
namespace {

PipelineOptions pipeline_options(const SegmenterOptions& options) {
  PipelineOptions out;
  out.conform = false;
  out.session.precision = options.precision;
  out.session.device = options.device;
  out.session.limits = options.limits;
  if (!options.normalize.empty()) out.normalize = parse_normalize(options.normalize);
  out.largest_component = options.largest_component;
  out.fill_holes = options.fill_holes;
  out.allow_empty = options.allow_empty;
  return out;
}

}  // namespace

struct SegmenterImpl {
  SegmenterImpl(const std::string& name, const Dims& size, const SegmenterOptions& options)
      : model(open_model(name)),
        dims(size),
        progress(options.progress),
        device(choose_adapter(options.device).name),
        pipeline(model, pipeline_options(options)) {}

  DescribedModel model;
  Dims dims;
  std::function<bool(double)> progress;
  std::string device;
  ScanPipeline pipeline;
  double gpu_seconds = 0;

  std::vector<uint8_t> run(VoxelType type, const void* voxels, size_t count) {
    Volume volume(dims, type);
    if (count != static_cast<size_t>(volume.voxels()))
      fail(ErrorCode::InvalidInput, "segmenter", "got ", count, " voxels, expected ", volume.voxels(), " (",
           to_string(dims), ")");
    std::memcpy(volume.data.data(), voxels, volume.data.size());
    volume.name = "segmenter";
    Segmentation item = pipeline.prepare(std::move(volume), "segmenter");
    RunOptions options;
    if (progress) options.progress = [&](double fraction, const std::string&) { return progress(fraction); };
    pipeline.compute(item, options);
    pipeline.finish(item);
    gpu_seconds = item.profile.gpu_seconds;
    const uint8_t* labels = item.labels.as<uint8_t>();
    return {labels, labels + item.labels.voxels()};
  }
};

const char* version() { return GYRUS_VERSION; }

Segmenter::Segmenter(const std::string& model, std::array<int64_t, 3> size, const SegmenterOptions& options) {
  for (int64_t extent : size)
    if (extent < 1) fail(ErrorCode::InvalidInput, "segmenter", "the size ", to_string(size), " is not positive");
  impl_ = std::make_unique<SegmenterImpl>(model, size, options);
  if (classes() > 256)
    fail(ErrorCode::Unsupported, impl_->model.model.name, "has ", classes(), " classes; labels here are bytes");
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

int64_t Segmenter::classes() const { return impl_->model.model.classes; }
uint64_t Segmenter::gpu_bytes() const {
  const Session* session = impl_->pipeline.session();
  return session ? session->allocated_bytes() : 0;
}
double Segmenter::gpu_seconds() const { return impl_->gpu_seconds; }
const std::string& Segmenter::device() const { return impl_->device; }

}  // namespace gyrus
