#include "training/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/files.h"

namespace gyrus {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "gyrus-checkpoint-1";
constexpr const char* kIndex = "checkpoint.json";

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

std::string text_of(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Files of earlier checkpoints, and of best weights that another one replaced.
void drop_older(const std::string& folder, const std::string& file, const std::string& best) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.rfind("checkpoint-", 0) == 0 || name.rfind("best-", 0) == 0;
    if (ours && name != file && name != best) fs::remove(entry.path(), failed);
  }
}

}  // namespace

void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint) {
  const LoopState& state = checkpoint.state;
  const std::string file = cat("checkpoint-", state.step, ".safetensors");
  write_file_durably(in(folder, file), checkpoint.trainer);
  Json json = {{"format", kFormat},           {"step", state.step},       {"file", file},
               {"config", checkpoint.config}, {"seconds", state.seconds}, {"stale", state.stale}};
  if (state.best_dice)
    json["best"] = {{"dice", *state.best_dice}, {"step", state.best_step}, {"file", state.best_file}};
  const std::string text = json.dump(1) + "\n";
  write_file_durably(in(folder, kIndex), std::as_bytes(std::span(text.data(), text.size())));
  drop_older(folder, file, state.best_file);
}

std::optional<Checkpoint> read_checkpoint(const std::string& folder) {
  const std::string index = in(folder, kIndex);
  std::error_code failed;
  if (!fs::exists(index, failed)) return {};
  const Json json = Json::parse(text_of(index), nullptr, false);
  Checkpoint checkpoint;
  try {
    if (json.at("format") != kFormat) throw std::invalid_argument("format");
    checkpoint.state.step = json.at("step").get<int64_t>();
    checkpoint.state.seconds = json.at("seconds").get<double>();
    checkpoint.state.stale = json.at("stale").get<int64_t>();
    checkpoint.config = json.at("config").get<std::string>();
    if (json.contains("best")) {
      checkpoint.state.best_dice = json.at("best").at("dice").get<double>();
      checkpoint.state.best_step = json.at("best").at("step").get<int64_t>();
      checkpoint.state.best_file = json.at("best").at("file").get<std::string>();
    }
    checkpoint.trainer = read_file(in(folder, json.at("file").get<std::string>()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(ErrorCode::InvalidInput, index, "is no checkpoint of this version; take it away to start anew");
  }
  return checkpoint;
}

TrainLog::TrainLog(const std::string& folder, int64_t step) : path_(in(folder, "log.jsonl")) {
  std::error_code failed;
  std::string kept;
  if (step > 0 && fs::exists(path_, failed)) {
    std::istringstream lines(text_of(path_));
    try {
      for (std::string line; std::getline(lines, line);) {
        if (Json::parse(line).at("step").get<int64_t>() > step) break;
        note(line);
        kept += line + "\n";
      }
    } catch (const Json::exception&) {  // the end of the program cut the line
    }
  }
  write_file(path_, kept);
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) fail(ErrorCode::Io, path_, "cannot be written: ", std::strerror(errno));
}

TrainLog::~TrainLog() {
  if (file_ >= 0) close(file_);
}

void TrainLog::note(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  const auto step = json.at("step").get<int64_t>();
  if (json.contains("loss")) {
    curves_.loss.push_back({step, json.at("loss").get<double>()});
    curves_.rate.push_back({step, json.value("rate", 0.0)});
  }
  if (!json.contains("dice")) return;
  curves_.dice.push_back({step, json.at("dice").get<double>()});
  size_t label = 0;
  for (const auto& [name, value] : json.at("labels").items()) {
    if (curves_.dice_of_labels.size() <= label) curves_.dice_of_labels.emplace_back();
    curves_.dice_of_labels[label++].push_back({step, value.get<double>()});
  }
}

// In one call, so that a line is there as a whole or not at all.
void TrainLog::write(const std::string& line) {
  note(line);
  const std::string text = line + "\n";
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    fail(ErrorCode::Io, path_, "cannot be written: ", std::strerror(written < 0 ? errno : ENOSPC));
}

void TrainLog::add_step(int64_t step, double loss, double rate, double seconds) {
  write(Json{{"step", step}, {"loss", loss}, {"rate", rate}, {"seconds", seconds}}.dump());
}

void TrainLog::add_validation(int64_t step, double dice, const std::vector<double>& of_labels,
                              const std::vector<std::string>& names) {
  Json labels;
  for (size_t i = 0; i < of_labels.size(); ++i) labels[names[i]] = of_labels[i];
  write(Json{{"step", step}, {"dice", dice}, {"labels", labels}}.dump());
}

}  // namespace gyrus
