#include <cstdio>

#include "checks.h"
#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "volume/conform.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

struct ConformArguments {
  std::string in, out;
  int64_t volume = -1;
  bool quiet = false;
};

void run(const ConformArguments& arguments) {
  check_other_file(arguments.in, arguments.out);
  volume_format(arguments.out);
  check_writable(arguments.out);
  ReadOptions read;
  read.frame = arguments.volume;
  read.cancel = &interrupted();
  Volume scan = read_volume(arguments.in, read);
  take_nonfinite_as_zero(scan);
  const Volume result = conform(scan).volume;
  check_interrupted();
  write_volume(arguments.out, result);
  if (arguments.quiet) return;
  for (const std::string& notice : scan.notices) say(cat("[", arguments.in, "] ", notice));
  for (const std::string& notice : result.notices)
    if (std::find(scan.notices.begin(), scan.notices.end(), notice) == scan.notices.end())
      say(cat("[", arguments.in, "] ", notice));
}

}  // namespace

void add_conform(CLI::App& app) {
  CLI::App* command = app.add_subcommand("conform", "Bring a scan to 256 voxels of 1 mm a side, as segment does");
  auto arguments = std::make_shared<ConformArguments>();
  command->add_option("IN", arguments->in, "NIfTI or MGH file; - is standard input")->required();
  command->add_option("OUT", arguments->out, "File to write (.nii, .nii.gz, .mgh, .mgz); - is standard output, gzipped")
      ->required();
  command->add_option("--volume", arguments->volume, "Which volume of a 4-D file, from 0")->type_name("K");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
