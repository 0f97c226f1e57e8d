#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "batch.h"
#include "checks.h"
#include "commands.h"
#include "core/error.h"
#include "model_fetch.h"
#include "segment_arguments.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

bool wants(const SegmentArguments& arguments, const std::string& output) {
  return std::find(arguments.outputs.begin(), arguments.outputs.end(), output) != arguments.outputs.end();
}

std::vector<std::string> read_list(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path, &interrupted());
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> scans;
  constexpr const char* kBlanks = " \t\r\v\f";
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(kBlanks) + 1);
    line.erase(0, line.find_first_not_of(kBlanks));
    if (!line.empty() && line[0] != '#') scans.push_back(line);
  }
  return scans;
}

// A folder stands for the volumes in it, in the order of their names; not for those below.
std::vector<std::string> scans_in(const std::string& folder) {
  std::vector<std::string> scans;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const bool image = name.ends_with(".img") || name.ends_with(".img.gz");  // their headers stand for them
    if (!image && stem_of(name) != name && name[0] != '.') scans.push_back(entry->path().string());
  }
  if (failed) fail(ErrorCode::Io, folder, "cannot be read: ", failed.message());
  if (scans.empty()) return {folder};  // fails as a scan that cannot be read, and stops no other
  std::sort(scans.begin(), scans.end());
  return scans;
}

Job single_job(const SegmentArguments& arguments, const std::string& scan) {
  Job job{scan, {}};
  OutputPaths& paths = job.outputs;
  paths.labels = arguments.output.empty() ? stem_of(scan) + "_labels.nii.gz" : arguments.output;
  paths.mask = arguments.mask;
  paths.brain = arguments.brain;
  paths.distance = arguments.distance;
  paths.aseg = arguments.aseg;
  paths.probabilities = arguments.probabilities;
  paths.report = arguments.report;
  paths.picture = arguments.picture;
  if (arguments.tables) {
    const std::string stem = (fs::path(paths.labels).parent_path() / stem_of(paths.labels)).string();
    paths.sidecar = stem + ".json";
    paths.itksnap = stem + "_itksnap.txt";
    paths.freesurfer = stem + "_freesurfer.txt";
  }
  return job;
}

Job folder_job(const SegmentArguments& arguments, const std::string& scan) {
  const std::string stem = (fs::path(arguments.out_dir) / result_name(arguments.name, scan)).string();
  Job job{scan, {}};
  OutputPaths& paths = job.outputs;
  paths.labels = stem + "_labels.nii.gz";
  if (wants(arguments, "mask")) paths.mask = stem + "_mask.nii.gz";
  if (wants(arguments, "brain")) paths.brain = stem + "_brain.nii.gz";
  if (wants(arguments, "distance")) paths.distance = stem + "_distance.nii.gz";
  if (wants(arguments, "freesurfer")) paths.aseg = stem + "_aseg.mgz";
  if (wants(arguments, "probabilities")) paths.probabilities = stem + "_probability.nii.gz";
  if (wants(arguments, "report")) paths.report = stem + "_report.json";
  if (wants(arguments, "picture")) paths.picture = stem + "_picture.png";
  if (wants(arguments, "tables")) {
    paths.sidecar = stem + "_labels.json";
    paths.itksnap = stem + "_labels_itksnap.txt";
    paths.freesurfer = stem + "_labels_freesurfer.txt";
  }
  return job;
}

std::vector<std::string> all_scans(const SegmentArguments& arguments) {
  std::vector<std::string> given = arguments.scans, scans;
  if (!arguments.list.empty()) {
    const std::vector<std::string> listed = read_list(arguments.list);
    given.insert(given.end(), listed.begin(), listed.end());
  }
  for (const std::string& one : given) {
    std::error_code ignored;
    // Without --out-dir a folder is a mistake; reading it says so.
    if (!arguments.out_dir.empty() && fs::is_directory(one, ignored)) {
      const std::vector<std::string> inside = scans_in(one);
      scans.insert(scans.end(), inside.begin(), inside.end());
    } else {
      scans.push_back(one);
    }
  }
  if (scans.empty()) fail(ErrorCode::InvalidInput, "segment", "no scan was given");
  return scans;
}

std::vector<Job> make_jobs(const SegmentArguments& arguments) {
  const std::vector<std::string> scans = all_scans(arguments);
  if (arguments.out_dir.empty()) {
    if (scans.size() > 1) fail(ErrorCode::InvalidInput, "segment", "several scans need --out-dir");
    return {single_job(arguments, scans[0])};
  }
  if (scans.size() > 1 && !arguments.channels.empty())
    fail(ErrorCode::InvalidInput, "--channel", "is for one scan; name those of several subjects _0000, _0001 …");
  for (const std::string* one : {&arguments.output, &arguments.mask, &arguments.brain, &arguments.distance,
                                 &arguments.aseg, &arguments.probabilities, &arguments.report, &arguments.picture})
    if (!one->empty())
      fail(ErrorCode::InvalidInput, "--out-dir", "chooses the names itself: say --outputs instead of ", *one);
  std::vector<Job> jobs;
  for (const std::string& scan : scans) jobs.push_back(folder_job(arguments, scan));
  check_distinct(jobs, "--name '{parent}_{stem}' puts the folder into the names");
  return jobs;
}

void check_streams(const SegmentArguments& arguments) {
  int to_stdout = arguments.json ? 1 : 0;
  for (const std::string* one :
       {&arguments.output, &arguments.mask, &arguments.brain, &arguments.distance, &arguments.aseg,
        &arguments.probabilities, &arguments.report, &arguments.picture, &arguments.qc, &arguments.table})
    to_stdout += *one == "-";
  if (to_stdout > 1)
    fail(ErrorCode::InvalidInput, "-", "standard output can take one thing only: one of -o -, --json and the others");
}

void check_arguments(const SegmentArguments& arguments) {
  check_streams(arguments);
  check_common_arguments(arguments);
  if (!arguments.outputs.empty() && arguments.out_dir.empty())
    fail(ErrorCode::InvalidInput, "--outputs", "is for --out-dir; one scan has an option for each file");
  if (arguments.name != "{stem}" && arguments.out_dir.empty())
    fail(ErrorCode::InvalidInput, "--name", "is for --out-dir; of one scan, -o names the labels");
  const bool masks = !arguments.mask.empty() || !arguments.brain.empty() || !arguments.distance.empty() ||
                     wants(arguments, "mask") || wants(arguments, "brain") || wants(arguments, "distance");
  const bool brain = !arguments.brain.empty() || wants(arguments, "brain");
  if (arguments.all_volumes && (!brain || arguments.space != "native"))
    fail(ErrorCode::InvalidInput, "--all-volumes", "is for --brain in the scan's own space");
  if (arguments.all_volumes && std::find(arguments.scans.begin(), arguments.scans.end(), "-") != arguments.scans.end())
    fail(ErrorCode::InvalidInput, "--all-volumes", "reads the scan twice; give it as a file");
  if (arguments.border != 0 && !masks)
    fail(ErrorCode::InvalidInput, "--border", "changes mask, brain and distance, and none was asked for");
}

std::string folder_name(const fs::path& path, const std::string& scan, const std::string& word) {
  if (path.filename().empty() || path.filename() == "." || path.filename() == "..")
    fail(ErrorCode::InvalidInput, scan, "has no ", word, " for --name; give its path with more folders");
  return path.filename().string();
}

std::string name_part(const std::string& word, const std::string& scan) {
  const fs::path folder = fs::path(scan).parent_path();
  if (word == "stem") return stem_of(scan);
  if (word == "parent") return folder_name(folder, scan, "{parent}");
  if (word == "grandparent") return folder_name(folder.parent_path(), scan, "{grandparent}");
  if (word == "path") {
    const fs::path plain = folder.lexically_normal();
    if (!plain.empty() && *plain.begin() == "..")
      fail(ErrorCode::InvalidInput, scan, "leads out of this folder, so {path} cannot be used in --name");
    return plain.relative_path().string();
  }
  fail(ErrorCode::InvalidInput, "--name", "{", word, "} is none of {stem}, {parent}, {grandparent}, {path}");
}

}  // namespace

std::string result_name(const std::string& pattern, const std::string& scan) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const size_t end = pattern[i] == '{' ? pattern.find('}', i) : std::string::npos;
    if (end == std::string::npos) {
      name += pattern[i];
      continue;
    }
    name += name_part(pattern.substr(i + 1, end - i - 1), scan);
    i = end;
  }
  const fs::path plain = fs::path(name).lexically_normal();
  if (plain.is_absolute() || plain.filename().empty() || *plain.begin() == "..")
    fail(ErrorCode::InvalidInput, "--name", "\"", pattern, "\" gives \"", name, "\", which is no name in the folder");
  return plain.string();
}

void check_common_arguments(const SegmentArguments& arguments) {
  static const std::set<std::string> kOutputs = {"mask",          "brain",  "distance", "freesurfer",
                                                 "probabilities", "report", "picture",  "tables"};
  for (const std::string& output : arguments.outputs)
    if (!kOutputs.count(output))
      fail(ErrorCode::InvalidInput, "--outputs", "\"", output,
           "\" is none of mask, brain, distance, freesurfer, probabilities, report, picture, tables");
  if (!(std::abs(arguments.border) <= 1000))
    fail(ErrorCode::InvalidInput, "--border", arguments.border, " is no distance; -1000 to 1000 mm are possible");
  if (!(arguments.islands >= 0 && arguments.islands < 1e9))
    fail(ErrorCode::InvalidInput, "--islands", arguments.islands, " is no volume in mm³");
  if (!arguments.devices.empty() && !arguments.device.device.empty())
    fail(ErrorCode::InvalidInput, "--devices", "says which GPUs; leave --device out");
  if (!arguments.normalize.empty()) parse_normalize(arguments.normalize);
}

PipelineOptions pipeline_options(const SegmentArguments& arguments) {
  PipelineOptions options;
  options.session = session_options(arguments.device);
  if (!arguments.normalize.empty()) options.normalize = parse_normalize(arguments.normalize);
  options.channels = arguments.channels;
  options.conform = !arguments.no_conform;
  options.space = arguments.space == "native" ? Space::Native : Space::Conformed;
  options.frame = arguments.volume;
  if (!arguments.components.empty()) options.largest_component = arguments.components == "largest";
  if (arguments.fill_holes) options.fill_holes = true;
  options.islands_mm3 = arguments.islands;
  options.allow_empty = arguments.allow_empty;
  options.check_finite = arguments.nan_check;
  options.probabilities = !arguments.probabilities.empty() || wants(arguments, "probabilities");
  options.profile = arguments.profile || !arguments.trace.empty();
  options.cancel = &interrupted();
  return options;
}

namespace {

void add_result_options(CLI::App& command, SegmentArguments& arguments) {
  command.add_option("--border", arguments.border, "Grow (or, negative, shrink) mask and brain by so many mm")
      ->type_name("MM")
      ->capture_default_str();
  command.add_option("--islands", arguments.islands, "Remove connected parts of a label below so many mm³")
      ->type_name("MM3");
  command.add_option("--opacity", arguments.opacity, "Of the labels' colours in pictures, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("X");
  command.add_flag("--contours", arguments.contours, "Draw labels in pictures as outlines");
  command.add_option("--qc", arguments.qc, "Write one HTML page to look through the results")->type_name("FILE.html");
  command.add_option("--table", arguments.table, "Write one table with the volumes of all scans (.csv, .tsv)")
      ->type_name("FILE");
}

void add_run_options(CLI::App& command, SegmentArguments& arguments) {
  add_device_options(command, arguments.device);
  command.add_option("--devices", arguments.devices, "Several GPUs at once, as for --device")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--require-gpu", arguments.require_gpu,
                   "Fail where there is no GPU, instead of computing on the CPU");
  command.add_option("--jobs", arguments.jobs, "Threads that read and write scans while the GPU works")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command.add_flag("--again", arguments.again, "Also segment scans whose labels exist in the folder");
  command.add_flag("--dry-run", arguments.dry_run, "Only say which files would be made");
  command.add_flag("--profile", arguments.profile, "Print GPU time by kernel");
  command.add_option("--trace", arguments.trace, "Write a Chrome/Perfetto trace")->type_name("FILE");
  command.add_flag("-q,--quiet", arguments.quiet, "Say nothing unless it fails");
  command.add_flag("--json", arguments.json, "Print a summary as JSON on standard output");
}

}  // namespace

void add_common_segment_options(CLI::App& command, SegmentArguments& arguments) {
  command.add_flag("--no-conform", arguments.no_conform,
                   "Take the volume's grid as it is, not the network's (256³, 1 mm)");
  command
      .add_option("--space", arguments.space,
                  "Grid of the results: the scan's own, or the network's (256³, 1 mm, for most)")
      ->check(CLI::IsMember({"native", "conformed"}))
      ->capture_default_str();
  command.add_option("--volume", arguments.volume, "Which volume of a 4-D file, from 0; the first if not given")
      ->check(CLI::TypeValidator<uint32_t>())
      ->type_name("K");
  command
      .add_option("--normalize", arguments.normalize,
                  "How intensities are prepared, docs/models.md; the model's own way if not given")
      ->type_name("minmax|quantile[:lo,hi]|none|…");
  command
      .add_option("--components", arguments.components,
                  "Keep all connected parts of a label, or the largest of each; the model's own way if not given")
      ->check(CLI::IsMember({"keep", "largest"}));
  command.add_flag("--fill-holes", arguments.fill_holes, "Fill background that is enclosed by labels");
  command.add_flag("--allow-empty", arguments.allow_empty, "Accept results without any label");
  command.add_flag("--nan-check", arguments.nan_check,
                   "Test every value of the network; name the first layer that overflows");
  add_result_options(command, arguments);
  add_run_options(command, arguments);
}

void add_segment(CLI::App& app) {
  CLI::App* command = app.add_subcommand("segment", "Label the voxels of one scan or of many");
  auto arguments = std::make_shared<SegmentArguments>();
  command->add_option("VOLUME", arguments->scans,
                      "NIfTI or MGH files, or with --out-dir folders of them; - is standard input");
  command->add_option("-m,--model", arguments->model, "A model's folder, file or name (gyrus models lists the names)")
      ->capture_default_str();
  command
      ->add_option("--channel", arguments->channels,
                   "A further scan of the subject, for a model that looks at several; once for each, in its order")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      ->add_option("-o,--output", arguments->output,
                   "Label map to write (.nii, .nii.gz, .mgh, .mgz); - is standard output, gzipped; "
                   "else SCAN_labels.nii.gz here")
      ->check(CLI::Validator([](std::string& text) { return text.empty() ? "a file has a name" : ""; }, ""))
      ->type_name("FILE");
  command->add_option("--mask", arguments->mask, "Also write a brain mask")->type_name("FILE");
  command->add_option("--brain", arguments->brain, "Also write the scan with zero outside the mask")->type_name("FILE");
  command->add_flag("--all-volumes", arguments->all_volumes,
                    "Of a 4-D scan --brain holds all volumes, with the mask of one (--volume)");
  command
      ->add_option("--distance", arguments->distance,
                   "Also write the distance of every voxel to the border of the mask, in mm, negative within")
      ->type_name("FILE");
  command
      ->add_option("--freesurfer", arguments->aseg,
                   "Also write the labels in FreeSurfer's numbers, left and right apart (by the midline, where the "
                   "model has one label for both)")
      ->type_name("FILE");
  command->add_option("--probabilities", arguments->probabilities, "Also write a map of each class, 0 to 1")
      ->type_name("FILE");
  command->add_option("--report", arguments->report, "Also write volumes and intensities of labels (.json, .csv, .tsv)")
      ->type_name("FILE");
  command->add_option("--picture", arguments->picture, "Also write slices with the labels in colours (.png)")
      ->type_name("FILE");
  command->add_flag("--tables", arguments->tables,
                    "Also write names and colours of labels: JSON, ITK-SNAP, FreeSurfer");
  command->add_option("--out-dir", arguments->out_dir, "Write the results of all scans to this folder")
      ->type_name("DIR");
  command
      ->add_option("--name", arguments->name,
                   "With --out-dir, what results are called after: {stem}, {parent}, {grandparent}, {path} of the scan")
      ->type_name("PATTERN")
      ->capture_default_str();
  command->add_option("--list", arguments->list, "A file that names a scan in each line; - is standard input")
      ->type_name("FILE");
  command
      ->add_option(
          "--outputs", arguments->outputs,
          "With --out-dir, beside labels: mask, brain, distance, freesurfer, probabilities, report, picture, tables")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_common_segment_options(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  gyrus segment scan.nii.gz -o labels.nii.gz --brain brain.nii.gz --picture look.png\n"
      "  gyrus segment *.nii.gz -m model18cls --out-dir results --outputs report,picture --qc results/qc.html\n"
      "  gyrus segment sub-*/T1.nii.gz --out-dir results --name '{parent}_{stem}' --table results/volumes.csv");
  command->callback([arguments] {
    check_arguments(*arguments);
    const std::vector<Job> jobs = make_jobs(*arguments);
    run_jobs(jobs, ready_model(arguments->model, arguments->quiet), *arguments);
  });
}

}  // namespace gyrus::cli
