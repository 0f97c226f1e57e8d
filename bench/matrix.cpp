// What matrix units multiply, beside the ordinary kernels in the same run and in turns: convolutions, products,
// attention and products with quantised weights, all with precision f16.
//   matrix [--quick] [--matrix on|off|both] [--only WORD] [--default-limits] [--json FILE]
// Times are the least of a few runs, conversions included; rates count the work of the definition. The last column is
// the mean squared difference of both results over the mean square of the ordinary one's.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include "common.h"
#include "ops/blocks.h"
#include "passes/passes.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

constexpr const char* kUsage = "matrix [--quick] [--matrix on|off|both] [--only WORD] [--default-limits] [--json FILE]";

struct Case {
  std::string op, name;
  std::function<Graph()> build;
};

constexpr const char* kSpread = "spread";  // makes the channels that a convolution under test reads
constexpr const char* kGather = "gather";  // and takes what it gives

ValueId input(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.add_input(name, {DType::F32, shape});
}

void add_convolutions(std::vector<Case>& cases, int64_t size) {
  for (const int64_t channels : {8, 16, 32, 64})
    for (const int64_t dilation : {1, 4})
      cases.push_back({"conv 3x3x3", cat(channels, " channels, dilation ", dilation), [=] {
                         Graph graph;
                         const ValueId image = input(graph, "x", {1, 1, size, size, size});
                         const ValueId x = conv(graph, image, 1, channels, 1, 1, kSpread);
                         const ValueId y = conv(graph, x, channels, channels, 3, dilation, "conv");
                         graph.add_output("y", conv(graph, y, channels, 1, 1, 1, kGather));
                         return graph;
                       }});
}

// Rows of tokens times weights, and square ones.
void add_products(std::vector<Case>& cases, int64_t side) {
  for (const auto& [m, k, n] : {std::array{side, side, side}, std::array{side / 8, side, 3 * side},
                                std::array{side / 8 + 3, side - 5, side + 1}})
    cases.push_back({"matmul", cat(m, " x ", k, " x ", n), [=, m = m, k = k, n = n] {
                       Graph graph;
                       const ValueId a = input(graph, "a", {m, k}), b = input(graph, "b", {k, n});
                       graph.add_output("y", graph.add("matmul", {a, b}));
                       return graph;
                     }});
}

void add_attention(std::vector<Case>& cases, int64_t heads, int64_t kv_heads, int64_t length, int64_t depth) {
  for (const int64_t causal : {0, 1})
    cases.push_back({causal ? "attention causal" : "attention", cat(heads, " x ", length, " x ", depth), [=] {
                       Graph graph;
                       const ValueId q = input(graph, "q", {1, heads, length, depth});
                       const ValueId k = input(graph, "k", {1, kv_heads, length, depth});
                       const ValueId v = input(graph, "v", {1, kv_heads, length, depth});
                       graph.add_output("y", graph.add("attention", {q, k, v}, {{"causal", causal}}));
                       return graph;
                     }});
}

// Random blocks with small scales.
Tensor blocks_of(const BlockMatrix& matrix) {
  Tensor words(DType::U32, matrix.shape());
  uint64_t state = 1;
  for (int64_t i = 0; i < words.size(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    words.as<uint32_t>()[i] = static_cast<uint32_t>(state >> 32);
  }
  const BlockFormat& format = block_format(matrix.type);
  const uint16_t scale = float_to_half(0.002F);
  const size_t place = matrix.type == BlockType::Q6_K ? 208 : 0;
  for (size_t at = 0; at + format.bytes <= words.data.size(); at += format.bytes)
    std::memcpy(words.data.data() + at + place, &scale, 2);
  if (matrix.type == BlockType::Q4_K)
    for (size_t at = 0; at + format.bytes <= words.data.size(); at += format.bytes)
      std::memcpy(words.data.data() + at + 2, &scale, 2);
  return words;
}

void add_blocks(std::vector<Case>& cases, int64_t rows, int64_t k, int64_t n) {
  for (const BlockType type : {BlockType::F16, BlockType::Q8_0, BlockType::Q4_0, BlockType::Q4_K, BlockType::Q6_K})
    cases.push_back({cat("blocks ", to_string(type)), cat(rows, " x ", k, " to ", n), [=] {
                       Graph graph;
                       const ValueId x = input(graph, "x", {rows, k});
                       const ValueId w = graph.add_constant("w", blocks_of({type, n, k}));
                       graph.add_output("y", graph.add("block_matmul", {x, w},
                                                       {{"formats", std::vector<int64_t>{static_cast<int64_t>(type)}},
                                                        {"rows", std::vector<int64_t>{n}}}));
                       return graph;
                     }});
}

// Numbers of both signs in no order, below 1.
Tensor scrambled(const TensorType& type, uint32_t state) {
  Tensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i)
    set(t, i, static_cast<double>(static_cast<int32_t>(state = state * 1664525 + 1013904223)) * 0x1p-31);
  return t;
}

double difference(const Tensor& got, const Tensor& want) {
  double off = 0, all = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    off += std::pow(get(got, i) - get(want, i), 2);
    all += std::pow(get(want, i), 2);
  }
  return all > 0 ? off / all : off;
}

struct Options {
  Arguments shared;
  bool off = true, on = true;
};

Options parse_all(int argc, char** argv) {
  Options options;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--matrix" || i + 1 == argc) {
      rest.push_back(argv[i]);
      continue;
    }
    const std::string use = argv[++i];
    if (use != "on" && use != "off" && use != "both") fail(ErrorCode::InvalidInput, "bench", "usage: ", kUsage);
    options.off = use != "on";
    options.on = use != "off";
  }
  options.shared = parse(static_cast<int>(rest.size()), rest.data(), kUsage);
  return options;
}

class Bench {
 public:
  Bench(const Options& options, const Device& device, const Limits& limits)
      : options_(options), device_(device), target_(device.target()), warm_up_(device), report_(report_of(device)) {
    target_.limits = limits;
    std::printf("%-16s %-30s %10s %10s %10s %7s %10s\n", "op", "", "off ms", "on ms", "GFLOP/s", "times", "differ");
  }

  void run(const Case& c) {
    const Graph graph = optimize(c.build(), Precision::F16);
    std::map<std::string, Tensor> inputs;
    for (const Port& port : graph.inputs())
      inputs[port.name] = scrambled(graph.type(port.value), static_cast<uint32_t>(inputs.size()) + 1);
    Side off, on;
    if (options_.off) off = side(graph, inputs, MatrixUse::Off);
    if (options_.on) on = side(graph, inputs, MatrixUse::On);
    const bool both = options_.on && options_.off;
    const Rates& shown = options_.on ? on.rates : off.rates;
    const double differ = both ? difference(on.result, off.result) : 0;
    std::printf("%-16s %-30s %10.3f %10.3f %10.1f %7.2f %10.1e%s\n", c.op.c_str(), c.name.c_str(), off.rates.ms,
                on.rates.ms, shown.gflops(), both ? off.rates.ms / on.rates.ms : 0, differ,
                options_.on && !on.used ? "  (not used)" : "");
    std::fflush(stdout);
    report_["results"].push_back({{"op", c.op},
                                  {"case", c.name},
                                  {"off_ms", off.rates.ms},
                                  {"on_ms", on.rates.ms},
                                  {"used", on.used},
                                  {"flops", shown.flops},
                                  {"difference", differ}});
    save(options_.shared, report_);
  }

 private:
  struct Side {
    Rates rates;
    Tensor result;
    bool used = false;
  };

  Side side(const Graph& graph, const std::map<std::string, Tensor>& inputs, MatrixUse use) {
    PlanOptions plan_options = bench::plan_options(device_);
    plan_options.matrix = use;
    const Plan plan = make_plan(graph, target_, plan_options);
    Side made;
    made.used = plan.features.subgroup_matrix;
    Executor executor(device_, plan);
    made.rates = measure(warm_up_, executor, inputs, {kSpread, kGather});
    made.result = executor.run(inputs).outputs.at("y");
    return made;
  }

  const Options& options_;
  const Device& device_;
  Target target_;
  WarmUp warm_up_;
  nlohmann::json report_;
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse_all(argc, argv);
  const Limits limits = options.shared.default_limits ? default_limits() : choose_adapter("webgpu").limits;
  const Device device = bench::open_best(&limits);
  const bool software = is_software(device), quick = options.shared.quick;
  std::vector<Case> cases;
  add_convolutions(cases, software ? 24 : quick ? 128 : 256);
  add_products(cases, software ? 64 : quick ? 1024 : 4096);
  add_attention(cases, software ? 2 : 16, software ? 2 : 16, software ? 64 : quick ? 1024 : 4096, 64);
  add_attention(cases, software ? 4 : 32, software ? 2 : 8, software ? 64 : quick ? 512 : 2048, 128);
  add_blocks(cases, software ? 16 : 512, software ? 256 : 4096, software ? 64 : 4096);
  if (!quick && !software) add_blocks(cases, 512, 4096, 14336);
  Bench bench(options, device, limits);
  for (const Case& c : cases)
    if (options.shared.only.empty() || (c.op + " " + c.name).find(options.shared.only) != std::string::npos)
      bench.run(c);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "matrix: %s\n", error.what());
  return 1;
}
