#pragma once
#include <functional>
#include <map>
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
  bool profile = false;
};

// A scan on its way.
struct Item {
  std::string path;
  Volume scan;                      // as read
  std::optional<Volume> conformed;  // where it had to be
  Volume labels;                    // on the grid of the network, then on that of the results
  Normalization normalization;
  Profile profile;
  std::vector<std::string> notices;  // one line each

  const Volume& network_input() const { return conformed ? *conformed : scan; }
  // The scan on the grid of the labels once they are finished.
  const Volume& result_scan(Space space) const { return conformed && space == Space::Conformed ? *conformed : scan; }
};

Item prepare(const std::string& path, const PipelineOptions& options, Timeline& timeline);
void finish(Item& item, const PipelineOptions& options, Timeline& timeline);

// Runs the network; keeps the session for the next scan of the same size and type.
class Computer {
 public:
  Computer(const Model& model, const PipelineOptions& options, Timeline& timeline)
      : model_(model), options_(options), timeline_(timeline) {}

  using Progress = std::function<bool(double fraction, const std::string& label)>;
  void compute(Item& item, const Progress& progress = {});
  const Session* session() const { return session_ ? &*session_ : nullptr; }

 private:
  void open_session(Item& item);

  const Model& model_;
  const PipelineOptions& options_;
  Timeline& timeline_;
  std::optional<Session> session_;
  Shape spatial_;
  DType input_ = DType::F32;
};

}  // namespace gyrus::cli
