#pragma once
#include <string>

#include "engine/manifest.h"
#include "gyrus/models.h"

// Models by the user's word for them.

namespace gyrus {

// The path of a model: `text` where that is one, else the folder of that name in the store. Throws Io where there is
// neither; downloads nothing.
std::string resolve_model(const std::string& text);

// The model and what its folder, or its weights, tell of it.
DescribedModel open_model(const std::string& text);

}  // namespace gyrus
