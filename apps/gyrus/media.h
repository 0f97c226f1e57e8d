#pragma once
#include <optional>
#include <string>
#include <vector>

#include "import/npy.h"

// Pictures, volumes and sound as inputs of a network (docs/cli.md, run).

namespace gyrus::cli {

// value = (stored * scale - mean[c]) / std[c]; `mean` and `std` are of one channel or of each.
struct MediaOptions {
  std::optional<double> scale;  // by default 1/255 for pictures that become floats, else 1
  std::vector<double> mean, std;
};

// An input as the model wants it: -1 for extents that it leaves open; empty where even the rank is not known.
struct WantedInput {
  std::string name;
  onnx::Elem elem = onnx::Elem::F32;
  Shape shape;
};

bool is_media(Bytes file, const std::string& path);
// Throws InvalidInput where the file does not fit the input.
Array read_media(Bytes file, const std::string& path, const WantedInput& wanted, const MediaOptions& options);

}  // namespace gyrus::cli
