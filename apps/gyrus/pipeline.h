#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common.h"
#include "engine/segment.h"
#include "manifest.h"
#include "timeline.h"
#include "volume/volume.h"

// The way of one scan: read and conform (prepare), run the network (compute), clean and carry back to the scan's grid
// (finish). The three steps may run on different threads for different scans; only compute needs the GPU.

namespace gyrus::cli {

enum class Space : uint8_t { Native, Conformed };

struct PipelineOptions {
  SessionOptions session;
  NormalizeOptions normalize;
  bool conform = true;
  Space space = Space::Native;
  int64_t frame = -1;  // of a 4-D file; -1: the first
  bool largest_component = false;
  bool fill_holes = false;
  bool probabilities = false;
  bool profile = false;
};

// What ran, for summaries.
struct RunFacts {
  AdapterInfo adapter;
  std::string precision;
  uint64_t peak_bytes = 0, allocated_bytes = 0;
  size_t steps = 0;
  double flops = 0, bytes = 0;
};

// A scan on its way.
struct Item {
  std::string path;
  Volume scan;                      // as read
  std::optional<Volume> conformed;  // where it had to be
  NetworkOptions network;
  Tensor image;  // for the network; empty once it ran
  Normalization normalization;
  std::map<std::string, Tensor> outputs;  // of the network; empty once they are volumes
  RunFacts facts;
  Profile profile;
  Volume labels;                      // on the grid of the results
  std::vector<Volume> probabilities;  // of each class, likewise; empty where not asked for
  std::vector<std::string> notices;   // one line each

  const Volume& network_input() const { return conformed ? *conformed : scan; }
  // The scan on the grid of the labels.
  const Volume& result_scan(Space space) const { return conformed && space == Space::Conformed ? *conformed : scan; }
};

Item prepare(const std::string& path, const PipelineOptions& options, Timeline& timeline);
// The second half of prepare: everything but reading.
void make_ready(Item& item, const PipelineOptions& options, Timeline& timeline);
void finish(Item& item, const PipelineOptions& options, Timeline& timeline);

// Runs the network on one device; keeps the session for the next scan of the same size and type.
class Computer {
 public:
  Computer(const Model& model, const PipelineOptions& options, std::string device, Timeline& timeline)
      : model_(model), options_(options), device_(std::move(device)), timeline_(timeline) {}

  using Progress = std::function<bool(double fraction, const std::string& label)>;
  // After a lost device tries once more on a new one.
  void compute(Item& item, const Progress& progress = {});

 private:
  void open_session(Item& item);
  void run(Item& item, const Progress& progress);

  const Model& model_;
  const PipelineOptions& options_;
  std::string device_;
  Timeline& timeline_;
  std::optional<Session> session_;
  Shape spatial_;
  DType input_ = DType::F32;
};

}  // namespace gyrus::cli
