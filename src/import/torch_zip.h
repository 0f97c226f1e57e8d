#pragma once
#include <string>

#include "import/state_dict.h"

namespace gyrus {

// Whether the bytes start like a zip; torch.save has written zips since version 1.6.
bool is_torch_zip(Bytes file);
// Whether the bytes start like the format that torch.save wrote before.
bool is_legacy_torch(Bytes file);

// The state dict in a file of torch.save: a dict of tensors, or one under "state_dict", "model_state_dict" or "model"
// of a checkpoint, whose other members are ignored. Tensors are made contiguous; "module." is taken from the names if
// all have it. Throws InvalidModel or Unsupported.
StateDict read_torch_zip(Bytes file, const std::string& subject);

}  // namespace gyrus
