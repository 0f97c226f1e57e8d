#include "engine/segment.h"

#include "core/error.h"
#include "volume/volume_tensor.h"

namespace gyrus {

NetworkOptions network_options(const Volume& volume, const NormalizeOptions& normalize, NetworkOutput output) {
  NetworkOptions options;
  options.input = volume.type == VoxelType::U8 && !volume.is_scaled() ? DType::U8 : DType::F32;
  options.clamp = normalize.kind != NormalizeKind::None;
  options.output = output;
  return options;
}

Shape spatial_shape(const Model& model, const Volume& volume) {
  if (model.spatial_rank != 3 || model.input_channels != 1)
    fail(ErrorCode::Unsupported, model.name, "takes ", model.input_channels, " channels in ", model.spatial_rank,
         " dimensions; segmentation needs one channel in three");
  return {volume.dims[0], volume.dims[1], volume.dims[2]};
}

Segmentation segment(Session& session, const Volume& volume, const Normalization& normalization,
                     const RunOptions& options) {
  Segmentation out;
  RunResult result = session.run(to_tensor(volume, session.plan().inputs.at(0).dtype), normalization, options);
  out.labels = to_volume(result.outputs.at("labels"), volume);
  out.profile = std::move(result.profile);
  return out;
}

}  // namespace gyrus
