#pragma once
#include <cstdint>
#include <string>
#include <vector>

// The models that gyrus knows by name, and bringing them into the cache.

namespace gyrus::cli {

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // hexadecimal
};

struct StoredModel {
  std::string name;
  int64_t classes = 0;
  std::vector<StoredFile> files;
  std::string title = {}, licence = {};

  uint64_t bytes() const;
};

// Those of brainchop, without titles.
const std::vector<StoredModel>& built_in_models();
// The same with titles; or those of the JSON file that $GYRUS_MODELS_TABLE names (docs/models.md).
std::vector<StoredModel> known_models();

enum class ModelState { Absent, Cached, Changed };  // Changed: a folder is there, with other files in it
const char* to_string(ModelState state);
ModelState state_of(const StoredModel& model);

// Where a model comes from: nothing for its public repository or $GYRUS_MODELS_URL; else a folder, a file of that
// folder, or the address under which the files lie.
struct FetchOptions {
  std::string from;
  bool quiet = false;
};

// Brings a known model into models_folder() and returns its folder. Every file is checked against the SHA-256 known
// here; the folder appears when all of them are right. Throws InvalidInput, Io or, for a wrong file, InvalidModel.
std::string fetch_model(const std::string& name, const FetchOptions& options);

// resolve_model, but the default model is fetched where it is absent and the network may be used.
std::string ready_model(const std::string& text, bool quiet);

// --offline, or GYRUS_OFFLINE set to other than 0.
bool offline();

}  // namespace gyrus::cli
