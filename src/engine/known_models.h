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

// Of MindGrab, which has a paper of its own.
inline constexpr const char* kMindGrabCitation =
    "MindGrab for BrainChop: Fast and Accurate Skull Stripping for Command Line and "
    "Browser. arXiv:2506.11860, 2025";

const std::vector<KnownModel>& known_models();

// The paper to cite for a known model.
const char* citation_of(const KnownModel& model);

// Another word for a known model, for people: "tissue-fast" for model5_gw_ae. Empty where there is none.
std::string alias_of(const std::string& name);
// The name that a name or alias in letters of any size stands for, with - or _; the text itself where it is none.
std::string name_behind(const std::string& text);

// SHA-256 over every parameter (weights, biases, norms) in the order of the network, f32 as imported, with strides,
// dilations, groups and epsilons: the same for every file format and folder. Of an ONNX model,
// over the bytes of its file and of the tensors outside of it.
std::string weights_sha256(const Model& model);

// The known model that has exactly these weights; null for others.
const KnownModel* recognise(const Model& model);

}  // namespace gyrus
