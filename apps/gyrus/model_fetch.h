#pragma once
#include <string>

#include "engine/model_store.h"

namespace gyrus::cli {

// fetch_model with a progress bar, stopped by Ctrl-C.
std::string fetch(const std::string& name, const std::string& from, bool quiet);

// open_model, but the default model is fetched where it is absent and the network may be used.
DescribedModel ready_model(const std::string& text, bool quiet);

}  // namespace gyrus::cli
