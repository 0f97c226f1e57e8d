#include "common.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/limits.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

std::atomic<bool> interrupt_flag{false};
int final_status = 0;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void on_interrupt(int) {
  interrupt_flag.store(true);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

template <class T>
void read_number(const nlohmann::json& value, const std::string& file, const std::string& key, T& out) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<T>::max())
    fail(ErrorCode::InvalidInput, file, "\"", key, "\" is no number that this limit can have");
  out = value.get<T>();
}

LimitsChoice parse_limits(const std::string& text, const std::string& file) {
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object()) fail(ErrorCode::InvalidInput, file, "is no JSON object of limits");
  LimitsChoice choice;
  choice.limits = default_limits();
  for (const auto& [key, value] : root.items()) {
    bool known = key == "memory";
    if (known) read_number(value, file, key, choice.memory_bytes.emplace());
    visit_limits(*choice.limits, [&, &k = key, &v = value](const char* name, auto& limit) {
      if (k != name) return;
      read_number(v, file, k, limit);
      known = true;
    });
    if (!known) fail(ErrorCode::InvalidInput, file, "\"", key, "\" is no limit that gyrus knows");
  }
  return choice;
}

// Standard error goes nowhere while in scope. For the time before other threads write to it.
class SilentStderr {
 public:
  SilentStderr() : saved_(dup(STDERR_FILENO)) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved_ >= 0 && nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    if (nowhere >= 0) close(nowhere);
  }
  SilentStderr(const SilentStderr&) = delete;
  SilentStderr& operator=(const SilentStderr&) = delete;
  ~SilentStderr() {
    std::fflush(stderr);
    if (saved_ >= 0) {
      dup2(saved_, STDERR_FILENO);
      close(saved_);
    }
  }

 private:
  int saved_;
};

const char* words_for(Hint hint) {
  switch (hint) {
    case Hint::HalfPrecision: return "--precision f16";
    case Hint::SinglePrecision: return "--precision f32";
    case Hint::SmallerVolume: return "a smaller volume";
    case Hint::SmallerModel: return "a smaller model";
    case Hint::OtherModel: return "another --model (gyrus models lists them)";
    case Hint::OtherDevice: return "another --device";
    case Hint::CheckFinite: return "--nan-check";
    case Hint::AllowEmpty: return "--allow-empty";
    case Hint::FetchModel: return "gyrus models fetch NAME";
    case Hint::FetchFromFolder: return "gyrus models fetch NAME --from FOLDER";
  }
  return "";
}

}  // namespace

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidInput: return 2;
    case ErrorCode::Io: return 3;
    case ErrorCode::InvalidModel:
    case ErrorCode::InvalidGraph: return 4;
    case ErrorCode::Unsupported: return 5;
    case ErrorCode::OverLimits: return 6;
    case ErrorCode::Device: return 7;
    case ErrorCode::NonFinite: return 8;
    case ErrorCode::Cancelled: return 130;
  }
  return kUnexpected;
}

std::string worded(const Error& error) {
  std::string line = error.what();
  const std::vector<Hint>& hints = error.hints();
  for (size_t i = 0; i < hints.size(); ++i)
    line += cat(i == 0 ? "; try " : i + 1 < hints.size() ? ", " : " or ", words_for(hints[i]));
  return line;
}

void set_exit_code(int status) { final_status = status; }
int exit_code() { return final_status; }

void say(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) std::fprintf(stderr, "gyrus: %s\n", line.c_str());
}

void print_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0 ||
      std::ferror(stdout) != 0)
    fail(ErrorCode::Io, "standard output", "cannot be written: ", std::strerror(errno));
}

void whisper(const std::string& line) {
  if (verbose()) say(line);
}

bool verbose() {
  const char* const value = std::getenv("GYRUS_VERBOSE");
  return value && *value;
}

// Before the command too, as some write it.
void add_shared_flags(CLI::App& app) {
  // Through the environment, so that libraries below the command line see it too.
  app.add_flag_callback(
      "--verbose", [] { setenv("GYRUS_VERBOSE", "1", 1); }, "Say more: files, addresses, what drivers print");
  app.add_flag_callback(
      "--offline", [] { setenv("GYRUS_OFFLINE", "1", 1); }, "Download nothing");
  for (CLI::App* command : app.get_subcommands(nullptr)) add_shared_flags(*command);
}

void add_device_options(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option("--device", arguments.device,
                  "Where to compute: cpu, gpu, or a number or part of a name of gyrus devices")
      ->envname("GYRUS_DEVICE")
      ->type_name("cpu|gpu|N|NAME");
  command
      .add_option("--threads", arguments.threads, "Threads on the CPU; as many as there are cores to use by default")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command
      .add_option("--limits", arguments.limits,
                  "Plan for the limits of the adapter, WebGPU's defaults, or a JSON file's")
      ->type_name("adapter|default|FILE")
      ->capture_default_str();
  command
      .add_option("--precision", arguments.precision,
                  "Feature maps, and what matrix units multiply: f32, f16, or f32 where it fits")
      ->check(CLI::IsMember({"f32", "f16", "auto"}))
      ->type_name("f32|f16|auto")
      ->capture_default_str();
  command
      .add_option("--matrix", arguments.matrix,
                  "Matrix units, which multiply halves: where they pay with --precision f16, always (and then with "
                  "f16), or never")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->type_name("auto|on|off")
      ->capture_default_str();
}

MatrixUse matrix_use(const DeviceArguments& arguments, PrecisionChoice& precision) {
  const MatrixUse use = parse_matrix(arguments.matrix);
  if (use != MatrixUse::On) return use;
  if (precision == PrecisionChoice::F32)
    fail(ErrorCode::InvalidInput, "--matrix",
         "matrix units multiply halves, which f32 never goes through; give "
         "--precision f16, or leave --matrix on out");
  precision = PrecisionChoice::F16;
  return use;
}

LimitsChoice read_limits(const std::string& text) {
  if (text == "adapter") return {};
  if (text == "default") return {default_limits(), std::nullopt};
  const std::vector<std::byte> bytes = read_file(text);
  return parse_limits(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), text);
}

SessionOptions session_options(const DeviceArguments& arguments) {
  find_adapters();
  SessionOptions options;
  options.precision = parse_precision(arguments.precision);
  options.matrix = matrix_use(arguments, options.precision);
  options.device = arguments.device;
  options.threads = arguments.threads;
  const LimitsChoice choice = read_limits(arguments.limits);
  options.limits = choice.limits;
  options.memory_bytes = choice.memory_bytes;
  return options;
}

std::vector<AdapterInfo> find_adapters() {
  if (verbose()) return list_adapters();
  const SilentStderr silent;
  return list_adapters();
}

AdapterInfo webgpu_adapter(const std::string& device, const char* usual, const char* wanted_for) {
  find_adapters();
  const AdapterInfo adapter = choose_adapter(device.empty() ? usual : device);
  if (adapter.type == AdapterType::Cpu)
    fail(ErrorCode::InvalidInput, "--device", wanted_for,
         " are for WebGPU, and the CPU needs none; name another device");
  return adapter;
}

CompileTarget plan_target(const DeviceArguments& arguments) {
  const LimitsChoice choice = read_limits(arguments.limits);
  if (!choice.limits) {
    const AdapterInfo adapter = webgpu_adapter(arguments.device, "webgpu", "plans (without --limits default)");
    CompileTarget target = target_of(adapter);
    target.tuning.matrix = parse_matrix(arguments.matrix);
    return target;
  }
  CompileTarget target = default_target();
  target.tuning.matrix = parse_matrix(arguments.matrix);
  target.limits = *choice.limits;
  if (choice.memory_bytes) target.memory = MemoryBudget{*choice.memory_bytes};
  if (arguments.limits != "default") target.name = arguments.limits;
  return target;
}

Shape parse_size(const std::string& text) {
  Shape shape;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, 'x');) {
    if (part.empty() || part.size() > 5 || part.find_first_not_of("0123456789") != std::string::npos ||
        std::stol(part) < 1)
      fail(ErrorCode::InvalidInput, "--size", "\"", text, "\" is neither a number of voxels nor AxBxC");
    shape.push_back(std::stol(part));
  }
  if (shape.size() == 1) shape = {shape[0], shape[0], shape[0]};
  if (shape.size() != 3)
    fail(ErrorCode::InvalidInput, "--size", "\"", text, "\" is neither a number of voxels nor AxBxC");
  return shape;
}

std::string stem_of(const std::string& path) {
  if (path == "-") return "stdin";
  std::string name = std::filesystem::path(path).filename().string();
  std::string small = name;
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* end : {".nii.gz", ".nii", ".mgz", ".mgh.gz", ".mgh", ".hdr.gz", ".img.gz", ".hdr", ".img"})
    if (small.ends_with(end) && small != end) return name.substr(0, name.size() - std::string(end).size());
  return name;
}

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

const std::atomic<bool>& interrupted() { return interrupt_flag; }

void check_interrupted() {
  if (interrupt_flag.load()) fail(ErrorCode::Cancelled, "gyrus", "interrupted; nothing was left half-written");
}

}  // namespace gyrus::cli
