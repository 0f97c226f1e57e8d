#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common.h"
#include "core/files.h"
#include "plan/plan.h"

// What exports of every kind of network share: the folder, the executor in it, the plan and its ports.

namespace gyrus::cli {

inline constexpr const char* kExportFormat = "gyrus-export-1";

// A folder under construction, beside its final name; gone unless it was put in place.
class ExportFolder {
 public:
  // Throws unless nothing of the user's would be lost, and unless the built parts of web/ are there.
  ExportFolder(const std::string& folder, bool force);
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;
  ~ExportFolder();

  template <class Bytes>
  void write(const std::string& name, const Bytes& bytes) {
    begin();
    write_file((path_ / name).string(), bytes);
    names_.push_back(name);
  }
  void copy(const std::filesystem::path& from) { write(from.filename().string(), read_file(from.string())); }
  // plan.json, plan.bin and the executor.
  void write_plan(const Plan& plan);
  // The page in `kind` of web/example, "" or a folder there, with the names in double braces of its README filled in.
  void write_page(const std::string& kind, const std::map<std::string, std::string>& values);
  // export.json from these fields, then all of it under its name. Answers with the bytes of its files.
  uint64_t put_in_place(const nlohmann::ordered_json& index);

 private:
  void begin();
  std::filesystem::path target_, path_, module_, types_, example_;
  std::vector<std::string> names_;
};

// What a plan is made for. Of an adapter's limits, alignments are no finer than the defaults: browsers offer none
// finer, whatever the GPU can do.
CompileTarget browser_target(const DeviceArguments& arguments);

nlohmann::ordered_json ports_json(const std::vector<PlanPort>& ports);
// Rows of a table in Markdown: way, name, type, shape.
std::string port_rows(const std::vector<PlanPort>& ports, const char* way);

}  // namespace gyrus::cli
