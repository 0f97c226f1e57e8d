#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// The store of models: a folder in which those that gyrus knows by name lie. Nothing is downloaded unless asked for.

namespace gyrus {

// Where models are found by name: $GYRUS_MODELS, else gyrus/models in the user's cache. Empty where there is no home.
std::string models_folder();

struct ModelFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // hexadecimal
};

// A model that can be had by name.
struct ModelEntry {
  std::string name, title, licence;
  int64_t classes = 0;
  std::vector<ModelFile> files;

  uint64_t bytes() const;
};

// Those of brainchop; or those of the JSON file that $GYRUS_MODELS_TABLE names (docs/models.md).
std::vector<ModelEntry> list_models();

enum class ModelState : uint8_t { Absent, Stored, Changed };  // Changed: a folder is there, with other files in it
ModelState state_of(const ModelEntry& model);

struct FetchOptions {
  // Nothing for the public repository or $GYRUS_MODELS_URL; else a folder, a file of that folder, or the address under
  // which the files lie.
  std::string from{};
  std::function<void(double fraction, const std::string& file)> progress{};
  std::function<void(const std::string&line)> notice{}, detail{};  // what was done; what was tried
  const std::atomic<bool>* cancel = nullptr;                       // set from another thread to stop
};

// Brings a model into models_folder() and returns its folder. Every file is checked against its SHA-256; the folder
// appears when all of them are right. $GYRUS_OFFLINE set to other than 0 forbids to download. Throws InvalidInput, Io,
// Cancelled or, for a wrong file, InvalidModel.
std::string fetch_model(const std::string& name, const FetchOptions& options = {});

}  // namespace gyrus
