#pragma once
// gyrus in another program: Segmenter (segmenter.h) labels volumes in memory; Error (error.h) is all that is thrown.
#include "gyrus/error.h"
#include "gyrus/limits.h"
#include "gyrus/segmenter.h"
