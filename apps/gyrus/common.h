#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "engine/session.h"
#include "gyrus/error.h"

// What the commands share.

namespace CLI {
class App;
}

namespace gyrus::cli {

// Exit statuses, as docs/cli.md lists them.
inline constexpr int kUnexpected = 1;
inline constexpr int kSomeFailed = 9;  // of several scans
int exit_status(ErrorCode code);
// What the process ends with when no error ends it.
void set_exit_code(int status);
int exit_code();

// The message of an error with its hints as options of this program.
std::string worded(const Error& error);

// "gyrus: …" on standard error, each line of the text.
void say(const std::string& line);
// On standard output; throws Io where it cannot be written, on a full disk say.
void print_out(const std::string& text);
// The same, only with --verbose or GYRUS_VERBOSE set.
void whisper(const std::string& line);
bool verbose();
// Gives --verbose and --offline to the program and every command.
void add_shared_flags(CLI::App& app);

// --device, --limits, --precision and --matrix.
struct DeviceArguments {
  std::string device;
  int threads = 0;  // of the CPU; 0: as many as there are
  std::string limits = "adapter";
  std::string precision = "auto";
  std::string matrix = "auto";
};
void add_device_options(CLI::App& command, DeviceArguments& arguments);

// What --limits asks for; nothing set means what the adapter has.
struct LimitsChoice {
  std::optional<Limits> limits;
  std::optional<uint64_t> memory_bytes;
};
// "adapter", "default" or a JSON file with limits named as in WebGPU and, optionally, "memory" in bytes. What the file
// leaves out is the specification's default.
LimitsChoice read_limits(const std::string& text);

// The use of matrix units that was asked for; `on` makes "auto" the precision f16, and refuses f32.
MatrixUse matrix_use(const DeviceArguments& arguments, PrecisionChoice& precision);

SessionOptions session_options(const DeviceArguments& arguments);

// The device for what only WebGPU has (`wanted_for`, for the error); `usual` where none is named. Throws InvalidInput
// for the CPU.
AdapterInfo webgpu_adapter(const std::string& device, const char* usual, const char* wanted_for);

// The device that `gyrus plan` and `gyrus info` plan for. Opens nothing; only --limits adapter looks for one.
CompileTarget plan_target(const DeviceArguments& arguments);

// Looks for GPUs. What drivers and the Vulkan loader print meanwhile is dropped unless verbose(): the one line that
// counts is ours.
std::vector<AdapterInfo> find_adapters();

// "256" (a cube) or "AxBxC"; throws InvalidInput on anything else.
Shape parse_size(const std::string& text);

// The file name that a scan's results are called after: no folder, no .nii, .nii.gz, .mgz …; "stdin" for "-".
std::string stem_of(const std::string& path);

// Ctrl-C sets the flag that runs look at; a second one ends the process at once.
void catch_interrupts();
const std::atomic<bool>& interrupted();
// Throws Cancelled after Ctrl-C.
void check_interrupted();

}  // namespace gyrus::cli
