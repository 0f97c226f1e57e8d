#pragma once
// gyrus in another program. Segmenter (segmenter.h) labels volumes in memory; models.h brings models by name. Below
// them stands what any network needs: a Graph (graph.h) built from ops (ops.h) and layers (nn.h) or read from files, a
// Device (device.h), a Memory (memory.h) that keeps states on it, and a Program (program.h) that plans and runs. A
// Trainer (trainer.h) teaches networks, a TextGenerator (text.h) runs language models. Error (error.h) is all that is
// thrown.
#include "gyrus/augment.h"
#include "gyrus/device.h"
#include "gyrus/error.h"
#include "gyrus/graph.h"
#include "gyrus/losses.h"
#include "gyrus/memory.h"
#include "gyrus/models.h"
#include "gyrus/neighbours.h"
#include "gyrus/nn.h"
#include "gyrus/ops.h"
#include "gyrus/program.h"
#include "gyrus/random.h"
#include "gyrus/routing.h"
#include "gyrus/scans.h"
#include "gyrus/segmenter.h"
#include "gyrus/signal.h"
#include "gyrus/splats.h"
#include "gyrus/text.h"
#include "gyrus/train.h"
#include "gyrus/trainer.h"
#include "gyrus/verify.h"

namespace gyrus {

// "0.2.0", of the library that runs; semantic versions.
const char* version();

}  // namespace gyrus
