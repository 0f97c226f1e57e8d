#include "demo.h"

#include "demo_model.h"
#include "volume/phantom.h"

namespace gyrus::cli {

Model demo_model(int64_t size) {
  const auto network = std::make_shared<const Network>(demo_network(size));
  Model model;
  model.name = "demo";
  model.format = "built in";
  model.input_channels = 1;
  model.classes = kTissues;
  model.spatial_rank = 3;
  model.build = [network](const Shape& spatial) { return network->build(spatial); };
  return model;
}

}  // namespace gyrus::cli
