#include "core/error.h"
#include "outline.h"

namespace gyrus::cli {
namespace {

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr Variable kVariables[] = {
    {"XDG_CACHE_HOME", "The user's cache, in which gyrus/models holds models; ~/.cache if not set."},
    {"GYRUS_MODELS", "Another folder for models that are given by name."},
    {"GYRUS_MODELS_URL", "A mirror from which models are fetched."},
    {"GYRUS_MODELS_TABLE", "A JSON file that takes the place of the built-in table of models."},
    {"GYRUS_WEB_DIR",
     "The folder with the built parts of web/, for export and web; else it is looked for beside gyrus."},
    {"GYRUS_OFFLINE", "As --offline."},
    {"GYRUS_VERBOSE", "As --verbose."},
    {"GYRUS_NO_CACHE", "Keep no compiled pipelines between runs."},
    {"GYRUS_LOG_SECONDS", "Seconds between lines of progress in logs; 60 if not set."},
    {"GYRUS_CLAIM_SECONDS",
     "How often a batch says that it still works on a scan; 60 if not set. Ten times as long without "
     "that, others take the scan over."},
    {"GYRUS_MAX_SCAN_MIB", "Refuse scans whose voxels need more memory than so many MiB; 16384 if not set."},
    {"SOURCE_DATE_EPOCH", "The date in results, in seconds since 1970, instead of the present."},
    {"GYRUS_NO_EGL_ICD", "Do not try NVIDIA's EGL driver where the Vulkan loader finds no GPU."},
    {"LP_NUM_THREADS", "Of software Vulkan (Mesa's lavapipe): how many cores it takes."},
    {"GYRUS_CURL", "The libcurl to load for downloads."},
    {"NO_COLOR", "Nothing is ever coloured, with it or without."},
};

constexpr const char* kDescription =
    "gyrus labels the voxels of MRI scans of the head with a neural network, on any GPU that has Vulkan, or without "
    "one. "
    "A scan in any orientation and resolution is brought to 256x256x256 voxels of 1 mm, segmented, and the labels are "
    "carried back to its own grid. Results say what made them. They are for research, not for diagnosis.";
constexpr const char* kFiles =
    "~/.cache/gyrus/models holds models that were fetched by name, the rest of ~/.cache/gyrus compiled kernels and "
    "tunings. NAME.PID.part is a file that is being written, NAME.claim says that a process works on a scan.";

// Text for roff: a dash is a minus, a backslash itself, and no line is taken for a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else
      out += c;
  }
  return out;
}

std::string option_entry(const OptionOutline& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += cat(names.empty() ? "" : ", ", option.positional ? "\\fI" : "\\fB", roff(name), "\\fR");
  if (!option.type.empty() && !option.positional) names += cat(" \\fI", roff(option.type), "\\fR");
  return cat(".TP\n", names, "\n", roff(option.description), "\n");
}

std::string command_section(const CommandOutline& command) {
  std::string usage = command.path;
  for (const OptionOutline& positional : command.positionals) usage += " " + positional.names[0];
  std::string out = cat(".SS \"", roff(usage), "\"\n", roff(command.description), ".\n");
  for (const OptionOutline& positional : command.positionals) out += option_entry(positional);
  for (const OptionOutline& option : command.options) out += option_entry(option);
  if (!command.footer.empty()) out += cat(".PP\n.nf\n", roff(command.footer), "\n.fi\n");
  return out;
}

}  // namespace

std::string manual_page(const CommandOutline& root, const std::string& version) {
  std::string out =
      cat(".TH GYRUS 1 \"\" \"", roff(version), "\" \"User Commands\"\n.SH NAME\ngyrus \\- ", roff(root.description),
          "\n.SH SYNOPSIS\n\\fBgyrus\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n", roff(kDescription),
          "\n.SH OPTIONS\n");
  for (const OptionOutline& option : root.options) out += option_entry(option);
  out += ".SH COMMANDS\n";
  for (const CommandOutline* command : all_commands(root))
    if (command != &root) out += command_section(*command);
  out += cat(".SH EXIT STATUS\n", roff(root.footer), "\n.SH FILES\n", roff(kFiles), "\n.SH ENVIRONMENT\n");
  for (const Variable& variable : kVariables)
    out += cat(".TP\n\\fB", variable.name, "\\fR\n", roff(variable.meaning), "\n");
  return out;
}

}  // namespace gyrus::cli
