#include "engine/segment.h"

#include "volume/volume_tensor.h"

namespace gyrus {

Segmentation segment(Session& session, const Volume& volume, const Normalization& normalization,
                     const RunOptions& options) {
  Segmentation out;
  RunResult result = session.run(to_tensor(volume, session.plan().inputs.at(0).dtype), normalization, options);
  out.labels = to_volume(result.outputs.at("labels"), volume);
  out.profile = std::move(result.profile);
  return out;
}

}  // namespace gyrus
