#pragma once
#include "gyrus/graph.h"
#include "training/config.h"
#include "training/networks.h"
#include "training/subjects.h"

namespace gyrus {

// Captures of a step: what the network sees, behind augmentation, f32 [N,1,x,y,z] and classes [N,x,y,z].
inline constexpr const char* kInputImage = "input/image";
inline constexpr const char* kInputClasses = "input/classes";

// What a Trainer is given: inputs as make_batch() makes them, augmentation, network, output "loss". For inputs of
// `extents`, x, y, z.
Graph step_graph(const TrainConfig& config, const TrainNetwork& network, const LabelMap& labels, const Shape& extents);

// Input "image" f32 [1,1,x,y,z], output "labels" u8 [1,x,y,z]: the network as it will be used. Its states are called as
// `called` says.
Graph label_graph(const TrainNetwork& network, const Shape& extents,
                  const std::function<std::string(const std::string&)>& called);

}  // namespace gyrus
