#pragma once
#include <string>
#include <vector>

#include "gyrus/models.h"
#include "import/model.h"

namespace gyrus {

// What gyrus knows of a model of brainchop (https://github.com/neuroneural/brainchop-models) without being told.
struct KnownModel {
  std::string name, title;
  std::string normalize;           // as parse_normalize reads it
  std::string class_names;         // with commas, for folders without a colour map; empty: none
  bool largest_component = false;  // only where a class is one thing: most have a part in each hemisphere
  int64_t classes = 0, parameters = 0;
  std::string weights;           // weights_sha256() of it
  std::vector<ModelFile> files;  // that the importer uses, as they were when gyrus was tested with them
};

inline constexpr const char* kKnownLicence = "MIT";
inline constexpr const char* kKnownCitation =
    "Masoud M, Hu F, Plis S. Brainchop: In-browser MRI volumetric segmentation and rendering. "
    "Journal of Open Source Software 8(83), 5098, 2023. doi:10.21105/joss.05098";

const std::vector<KnownModel>& known_models();

// SHA-256 over the weights and biases of all convolutions in the order of the network, f32 as imported: the same for
// every file format and folder.
std::string weights_sha256(const Model& model);

// The known model that has exactly these weights; null for others.
const KnownModel* recognise(const Model& model);

}  // namespace gyrus
