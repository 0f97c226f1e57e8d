#pragma once
#include <string>

namespace gyrus::cli {

struct InfoArguments {
  std::string model, size = "256";
  bool json = false;
  bool manifest = false;  // also licence, citation, labels with colours; not the layers
};

// Prints what `gyrus info` and `gyrus models describe` know of a model.
void print_info(const InfoArguments& arguments);

}  // namespace gyrus::cli
