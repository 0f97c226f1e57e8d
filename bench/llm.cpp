// Language models with random weights in the shapes of Llama-3.2-1B and Llama-3.1-8B: tokens per second behind a text
// of 100 tokens with the share of the rate at which a kernel copies, and a prompt of 512 tokens with the share of the
// rate of a product of 4096 × 4096 matrices in f32, in the same run.
//   llm [--quick] [--precision f32|f16] [--only WORD] [--default-limits] [--json FILE]
// --precision f16 lets matrix units multiply prompts. --quick measures a small shape, for software adapters.
// bench/peers/torch_llm.py measures the same shapes in PyTorch.
#include <chrono>
#include <cstring>

#include "common.h"
#include "gyrus/ops.h"
#include "llm/runner.h"
#include "ops/cache.h"
#include "passes/passes.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

constexpr const char* kUsage = "llm [--quick] [--precision f32|f16] [--only WORD] [--default-limits] [--json FILE]";
constexpr int kTokens = 30, kRepeats = 3;
constexpr int64_t kPosition = 100, kPrompt = 512;

struct Sized {
  std::string name;
  llm::Config config;
  bool tied = false;
};

llm::Config config_of(int64_t layers, int64_t width, int64_t heads, int64_t kv_heads, int64_t hidden,
                      int64_t vocabulary) {
  llm::Config c;
  c.architecture = "llama";
  c.layers = layers;
  c.width = width;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.depth = c.turning = width / heads;
  c.hidden = hidden;
  c.vocabulary = vocabulary;
  c.context = 4096;
  c.rope_base = 500000;
  c.attention_scale = 1 / std::sqrt(static_cast<double>(c.depth));
  return c;
}

std::vector<Sized> shapes(bool quick) {
  if (quick) return {{"small", config_of(2, 256, 8, 2, 512, 1024), true}};
  return {{"Llama-3.2-1B", config_of(16, 2048, 32, 8, 8192, 128256), true},
          {"Llama-3.1-8B", config_of(32, 4096, 32, 8, 14336, 128256), false}};
}

// One stretch of random blocks serves for all matrices: only their sizes matter here.
class RandomWeights {
 public:
  RandomWeights(const Sized& sized, BlockType type) : sized_(sized), type_(type) {
    const llm::Config& c = sized.config;
    const auto most = static_cast<uint64_t>(std::max(c.vocabulary, 2 * c.hidden) * c.width);
    const BlockFormat& format = block_format(type);
    blocks_.resize(block_bytes(type, most));
    uint64_t state = 1;
    for (size_t at = 0; at + format.bytes <= blocks_.size(); at += format.bytes) {
      for (size_t i = 0; i < format.bytes; ++i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        blocks_[at + i] = static_cast<std::byte>(state >> 56);
      }
      const uint16_t scale = float_to_half(0.002F);
      std::memcpy(blocks_.data() + at, &scale, 2);
      if (type == BlockType::Q4_K) std::memcpy(blocks_.data() + at + 2, &scale, 2);
    }
    ones_.assign(static_cast<size_t>(c.width), 1.0F);
  }

  std::optional<llm::Source> operator()(const std::string& name) const {
    const llm::Config& c = sized_.config;
    const auto ends = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (ends(".bias") || ends("qkv") || ends("q_norm") || ends("k_norm") || ends("rope")) return std::nullopt;
    if (ends("norm"))
      return llm::Source{
          BlockType::F32, {c.width}, {reinterpret_cast<const std::byte*>(ones_.data()), ones_.size() * 4}};
    if (name == "output.weight" && sized_.tied) return std::nullopt;
    if (name == "token_embd.weight" || name == "output.weight") return matrix(c.vocabulary, c.width);
    if (ends("attn_q.") || ends("attn_output")) return matrix(c.width, c.width);
    if (ends("attn_k") || ends("attn_v")) return matrix(c.kv_heads * c.depth, c.width);
    if (ends("ffn_down")) return matrix(c.width, c.hidden);
    if (ends("ffn_gate.") || ends("ffn_up")) return matrix(c.hidden, c.width);
    return std::nullopt;
  }

 private:
  llm::Source matrix(int64_t rows, int64_t columns) const {
    const uint64_t bytes = block_bytes(type_, static_cast<uint64_t>(rows * columns));
    return {type_, {rows, columns}, Bytes(blocks_.data(), bytes)};
  }

  Sized sized_;
  BlockType type_;
  std::vector<std::byte> blocks_;
  std::vector<float> ones_;
};

double copy_rate(WarmUp& warm_up, const Device& device) {
  const uint64_t bytes = uint64_t{is_software(device) ? 16u : 128u} << 20;
  PlanKernel kernel;
  kernel.name = "copy";
  kernel.workgroup_size = {256, 1, 1};
  kernel.bindings = {BindingKind::ReadStorage, BindingKind::ReadWriteStorage};
  kernel.wgsl =
      "@group(0) @binding(0) var<storage, read> data: array<vec4<f32>>;\n"
      "@group(0) @binding(1) var<storage, read_write> copied: array<vec4<f32>>;\n"
      "@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u,\n"
      "                                      @builtin(num_workgroups) groups: vec3u) {\n"
      "  for (var i = id.x; i < arrayLength(&copied); i += groups.x * 256u) { copied[i] = data[i]; }\n}\n";
  Executor executor(device, one_dispatch(std::move(kernel), 2, bytes, 8192, 0, 2.0 * static_cast<double>(bytes)));
  RunOptions options;
  options.profile = true;
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    warm_up.run();
    for (const StepTime& step : executor.run({}, options).profile.steps)
      best = std::max(best, step.bytes / static_cast<double>(step.end_ns - step.begin_ns) * 1e9);
  }
  return best;
}

double matmul_rate(WarmUp& warm_up, const Device& device) {
  const int64_t side = is_software(device) ? 512 : 4096;
  Graph graph;
  const Value a = graph.input("a", DType::F32, {side, side}), b = graph.input("b", DType::F32, {side, side});
  graph.output("y", reduce_sum(matmul(a, b)));
  Executor executor(device, make_plan(optimize(graph, Precision::F32), device.target(), plan_options(device)));
  RunOptions options;
  options.profile = true;
  double best = 0;
  const Tensor x(DType::F32, {side, side});
  for (int i = 0; i < kRepeats; ++i) {
    warm_up.run();
    for (const StepTime& step : executor.run({{"a", x}, {"b", x}}, options).profile.steps)
      if (step.kernel.find("matmul") == 0 && step.flops > 0)
        best = std::max(best, step.flops / static_cast<double>(step.end_ns - step.begin_ns) * 1e9);
  }
  return best;
}

// Where the time of a step goes: microseconds and dispatches of each kernel, the slowest first.
void print_kernels(const Device& device, llm::Runner& runner, int64_t rows, int64_t position) {
  Tensor table(DType::I32, {rows, kStepColumns});
  for (int64_t i = 0; i < rows; ++i) table.as<int32_t>()[i * kStepColumns + 2] = static_cast<int32_t>(position + i);
  const std::map<std::string, Tensor> inputs = {{"rows", table}, {"params", Tensor(DType::I32, {1, 8})}};
  const PlanOptions plan = plan_options(device);
  Executor executor(device, llm::step_plan(runner.model(), rows, llm::StepKind::Last, device.target(), plan),
                    runner.memory());
  RunOptions options;
  options.profile = true;
  if (rows > 1) options.arguments["last"] = static_cast<double>(rows - 1);
  std::map<std::string, std::pair<double, int>> sums;
  executor.run(inputs, options);
  for (const StepTime& step : executor.run(inputs, options).profile.steps) {
    sums[step.kernel].first += static_cast<double>(step.end_ns - step.begin_ns) * 1e-3;
    ++sums[step.kernel].second;
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, sum] : sums) order.emplace_back(sum.first, name);
  std::sort(order.rbegin(), order.rend());
  for (const auto& [time, name] : order)
    std::printf("    %4lld rows %-40s %4d × %9.2f us\n", static_cast<long long>(rows), name.c_str(), sums[name].second,
                time / sums[name].second);
}

std::vector<llm::StepRow> rows_from(int64_t first, int64_t count) {
  std::vector<llm::StepRow> rows;
  for (int64_t i = first; i < first + count; ++i) rows.push_back({static_cast<int32_t>(i % 1000), 0, i});
  return rows;
}

// Bytes of weights that a token reads: of the embedding only a row, unless the output reads it whole.
double bytes_per_token(const llm::Model& model, bool tied) {
  double bytes = 0;
  for (const llm::WeightState& weight : model.weights())
    if (tied || weight.name != "token_embd.weight")
      bytes +=
          static_cast<double>(element_count(weight.type.shape)) * static_cast<double>(byte_size(weight.type.dtype));
  return bytes;
}

// Seconds of all tokens as a text is written, each step started before the token of the last one is back: by the clock,
// and on the GPU.
std::pair<double, double> decode(llm::Runner& runner) {
  const auto start = std::chrono::steady_clock::now();
  const auto step = [&](int64_t i) {
    llm::StepRow row = rows_from(kPosition + i, 1).front();
    if (i > 0) row.token = -1;
    return runner.start_decode({row}, {{}});
  };
  double on_gpu = 0;
  llm::PendingStep under = step(0);
  for (int64_t i = 1; i < kTokens; ++i) {
    llm::PendingStep next = step(i);
    on_gpu += under.finish().profile.gpu_seconds;
    under = std::move(next);
  }
  on_gpu += under.finish().profile.gpu_seconds;
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), on_gpu};
}

nlohmann::json measure(WarmUp& warm_up, const Device& device, const Sized& sized, BlockType type, Precision precision,
                       double copy, double product) {
  const auto weights = std::make_shared<RandomWeights>(sized, type);
  TextOptions options;
  options.context = 1024;
  options.chunk = kPrompt;
  options.cache = CacheFormat::F16;
  options.precision = precision;
  const auto model = std::make_shared<llm::Model>(
      sized.config, [weights](const std::string& name) { return (*weights)(name); }, options, sized.name);
  llm::Runner runner(device, model);
  runner.prefill(rows_from(0, kPrompt), {});
  double wall = 0, gpu = 0, prompt = 0, prompt_gpu = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    warm_up.run();
    const auto [sum, on_gpu] = decode(runner);
    if (wall == 0 || sum < wall) {
      wall = sum;
      gpu = on_gpu;
    }
    const Profile profile = runner.prefill(rows_from(0, kPrompt), {}).profile;
    if (prompt == 0 || profile.wall_seconds < prompt) {
      prompt = profile.wall_seconds;
      prompt_gpu = profile.gpu_seconds;
    }
  }
  wall /= kTokens;
  gpu /= kTokens;
  const llm::Config& c = sized.config;
  const double bytes = bytes_per_token(*model, sized.tied);
  const double layer = static_cast<double>(c.width) *
                       static_cast<double>((c.heads + 2 * c.kv_heads) * c.depth + c.heads * c.depth + 3 * c.hidden);
  const double flops = 2.0 * static_cast<double>(kPrompt * c.layers) * layer;
  const size_t dispatches = llm::step_plan(*model, 1, llm::StepKind::Last, device.target()).steps.size();
  std::printf(
      "%-14s %-5s %8.2f MB  decode %8.1f tokens/s (GPU %7.3f ms, wall %7.3f ms, %zu dispatches) %5.1f %% of the copy "
      "rate, GPU alone %5.1f %%\n",
      sized.name.c_str(), to_string(type), bytes * 1e-6, 1 / wall, gpu * 1e3, wall * 1e3, dispatches,
      100 * bytes / wall / copy, 100 * bytes / gpu / copy);
  std::printf("%-14s %-5s %8lld tok prompt %8.1f tokens/s (GPU %7.2f ms) %7.2f TFLOP/s, %5.1f %% of the matmul rate\n",
              sized.name.c_str(), to_string(type), static_cast<long long>(kPrompt),
              static_cast<double>(kPrompt) / prompt, prompt_gpu * 1e3, flops / prompt_gpu * 1e-12,
              100 * flops / prompt_gpu / product);
  print_kernels(device, runner, 1, kPosition);
  print_kernels(device, runner, kPrompt, 0);
  return {{"name", sized.name},
          {"format", to_string(type)},
          {"precision", to_string(precision.storage)},
          {"bytes_per_token", bytes},
          {"decode_wall_ms", wall * 1e3},
          {"decode_gpu_ms", gpu * 1e3},
          {"dispatches", dispatches},
          {"copy_bytes_per_s", copy},
          {"decode_share", bytes / wall / copy},
          {"prompt_ms", prompt * 1e3},
          {"prompt_gpu_ms", prompt_gpu * 1e3},
          {"prompt_flops", flops},
          {"matmul_flops_per_s", product},
          {"prompt_share", flops / prompt_gpu / product}};
}

int run(int argc, char** argv) {
  std::vector<char*> rest;
  Precision precision{};
  for (int i = 0; i < argc; ++i) {
    if (std::string(argv[i]) != "--precision" || i + 1 == argc) {
      rest.push_back(argv[i]);
      continue;
    }
    const std::string named = argv[++i];
    if (named != "f32" && named != "f16") fail(ErrorCode::InvalidInput, "bench", "usage: ", kUsage);
    if (named == "f16") precision = Precision::F16;
  }
  const Arguments a = parse(static_cast<int>(rest.size()), rest.data(), kUsage);
  const Limits limits = default_limits();
  const Device device = open_best(a.default_limits ? &limits : nullptr);
  WarmUp warm_up(device);
  const double copy = copy_rate(warm_up, device), product = matmul_rate(warm_up, device);
  std::printf("%s: copies %.1f GB/s, multiplies %.2f TFLOP/s\n", device.adapter().name.c_str(), copy * 1e-9,
              product * 1e-12);
  nlohmann::json report = report_of(device);
  for (const Sized& sized : shapes(a.quick))
    for (const BlockType type : {BlockType::Q4_0, BlockType::Q4_K}) {
      if (!a.only.empty() && (sized.name + " " + to_string(type)).find(a.only) == std::string::npos) continue;
      report["results"].push_back(measure(warm_up, device, sized, type, precision, copy, product));
      save(a, report);
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llm: %s\n", error.what());
    return 1;
  }
}
