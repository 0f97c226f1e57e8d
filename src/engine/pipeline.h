#pragma once
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/manifest.h"
#include "engine/session.h"
#include "engine/timeline.h"
#include "gyrus/error.h"
#include "volume/io.h"
#include "volume/volume.h"

// From a scan to its labels, as the model's manifest wants it: read, conform and normalise (prepare), run the network
// (compute), clean and carry back to the scan's grid (finish). The command line, Segmenter and the demo all go this
// way.

namespace gyrus {

enum class Space : uint8_t { Native, Conformed };

struct PipelineOptions {
  SessionOptions session;
  std::optional<NormalizeOptions> normalize;  // where these three are not given, the model's own way
  std::vector<std::string> channels;          // further scans of the subject, for a model that looks at several
  std::optional<bool> largest_component, fill_holes;
  bool conform = true;
  Space space = Space::Native;
  int64_t frame = -1;  // of a 4-D file; -1: the first
  bool probabilities = false;
  bool profile = false;
  bool check_finite = false;                  // test every value of the network, not only its scores
  double islands_mm3 = 0;                     // connected parts of a label below this volume go
  bool allow_empty = false;                   // labels may be nothing but background; also where the manifest says so
  Timeline* timeline = nullptr;               // where stages are noted
  const std::atomic<bool>* cancel = nullptr;  // set to stop waiting for a scan from a pipe
};

// What ran, for summaries.
struct RunFacts {
  AdapterInfo adapter;
  std::string precision;
  uint64_t peak_bytes = 0, allocated_bytes = 0;
  size_t steps = 0;
  double flops = 0, bytes = 0;
};

// A scan on its way to its labels.
struct Segmentation {
  std::string path;
  Volume scan;                            // as read
  SourceFile source;                      // what it was read from
  std::vector<SourceFile> other_sources;  // the same of its further channels
  std::optional<Volume> conformed;        // where it had to be
  NetworkOptions network;
  Normalization normalization;
  std::map<std::string, Tensor> inputs, outputs;  // of the network; empty once they were used
  RunFacts facts;
  Profile profile;
  Volume labels;                      // on the grid of the results
  std::vector<Volume> probabilities;  // of each class, likewise; empty where not asked for
  std::vector<std::string> notices;   // one line each

  const Volume& network_input() const { return conformed ? *conformed : scan; }
  // The scan on the grid of the labels.
  const Volume& result_scan(Space space) const { return conformed && space == Space::Conformed ? *conformed : scan; }
};

// A model on one device. prepare and finish may be called from any threads at once; compute by one at a time.
class ScanPipeline {
 public:
  // The model must outlive it.
  ScanPipeline(const DescribedModel& model, const PipelineOptions& options);

  const NormalizeOptions& normalize() const { return normalize_; }  // of the first channel
  // What the labels depend on beside model and scan, by name; "precision" only where one was asked for.
  std::map<std::string, std::string> label_options() const;
  const Session* session() const { return session_ ? &*session_ : nullptr; }  // of the last computation

  // The further channels of a model: those of the options, or named as nnU-Net does: scan_0000.nii.gz with
  // scan_0001.nii.gz beside it.
  std::vector<std::string> other_channels(const std::string& path) const;
  // And prepare.
  Segmentation read(const std::string& path) const;
  Segmentation prepare(Volume scan, const std::string& path, const std::vector<Volume>& channels = {}) const;
  // Keeps the session for the next scan of the same size and type. What is tried after a failure is in policy.h; the
  // options' `profile` is not looked at.
  void compute(Segmentation& item, const RunOptions& options = {});
  void finish(Segmentation& item) const;

 private:
  Volume read_scan(const std::string& path, SourceFile* source) const;
  void prepare_onnx(Segmentation& item, const std::vector<Volume>& channels) const;
  NormalizeOptions normalize_of(size_t channel) const;
  bool is_open_for(const Segmentation& item) const;
  void clean(Segmentation& item) const;
  Compiled compile_for(const Segmentation& item, Attempt& attempt, bool is_first);
  void load(const Segmentation& item, Compiled compiled);
  void run(Segmentation& item, RunOptions options);
  std::optional<Failure> failure_of(const Error& error) const;
  [[noreturn]] void fail_nonfinite(const Error& found, Segmentation& item, Attempt attempt, const RunOptions& options);

  const DescribedModel& model_;
  PipelineOptions options_;
  NormalizeOptions normalize_;
  bool largest_component_, fill_holes_, allow_empty_;
  std::optional<Session> session_;
  Shape spatial_;
  DType input_ = DType::F32;
};

}  // namespace gyrus
