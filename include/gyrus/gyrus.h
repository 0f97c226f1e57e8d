#pragma once
// gyrus in another program: Segmenter (segmenter.h) labels volumes in memory, models.h brings models by name; Error
// (error.h) is all that is thrown.
#include "gyrus/error.h"
#include "gyrus/limits.h"
#include "gyrus/models.h"
#include "gyrus/segmenter.h"

namespace gyrus {

// "0.2.0", of the library that runs; semantic versions.
const char* version();

}  // namespace gyrus
