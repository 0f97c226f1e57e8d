// Ops one by one on the adapter at hand: time, GFLOP/s, GB/s, and their share of what two kernels of this program, one
// of fused multiply-adds and one that copies, reach on the same device.
//   ops [--quick] [--only WORD] [--default-limits] [--json FILE]
// Rates count the work of the definition: a convolution that saves multiplications can pass the peak. Bytes are the
// least traffic: every operand once.
#include <functional>

#include "common.h"
#include "encoder.h"
#include "gyrus/neighbours.h"
#include "gyrus/nn.h"
#include "passes/passes.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

constexpr const char* kUsage = "ops [--quick] [--only WORD] [--default-limits] [--json FILE]";

// The least time from the first kernel to the last.
double whole_ms(WarmUp& warm_up, Executor& executor, const std::map<std::string, Tensor>& inputs) {
  double best = 0;
  for (int repeat = 0; repeat < kMeasured; ++repeat) {
    warm_up.run();
    const double ms = executor.run(inputs).profile.gpu_seconds * 1e3;
    if (best == 0 || ms < best) best = ms;
  }
  return best;
}

Plan copy_plan(bool software) {
  const uint64_t bytes = uint64_t{software ? 16u : 128u} << 20;
  PlanKernel kernel;
  kernel.name = "copy";
  kernel.workgroup_size = {256, 1, 1};
  kernel.bindings = {BindingKind::ReadStorage, BindingKind::ReadWriteStorage};
  const auto threads = static_cast<uint32_t>(bytes / 16 / 4);  // each copies four vec4
  kernel.wgsl =
      cat("@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;\n",
          "@group(0) @binding(1) var<storage, read_write> result: array<vec4<f32>>;\n",
          "@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {\n",
          "  for (var i = 0u; i < 4u; i++) { let at = id.x + i * ", threads, "u; result[at] = source[at]; }\n}\n");
  return one_dispatch(std::move(kernel), 2, bytes, threads / 256, 0, 2.0 * static_cast<double>(bytes));
}

struct Case {
  std::string op, name;
  std::function<Graph()> build;
  bool whole = false;  // a network: timed from its first kernel to its last
  bool ends = false;   // bytes are those of input and output, however many kernels there are
};

constexpr const char* kSpread = "spread";  // makes the channels that the op under test reads
constexpr const char* kGather = "gather";  // and takes what it gives

// One channel in, `channels` through `body`, one channel out.
Graph packed(int64_t size, int64_t channels, const std::function<ValueId(Graph&, ValueId)>& body) {
  Graph graph;
  const ValueId image = graph.add_input("x", {DType::F32, {1, 1, size, size, size}});
  const ValueId x = body(graph, conv(graph, image, 1, channels, 1, 1, kSpread));
  graph.add_output("y", conv(graph, x, channels, 1, 1, 1, kGather));
  return graph;
}

Graph plain(const Shape& shape, const std::function<ValueId(Graph&, ValueId)>& body) {
  Graph graph;
  graph.add_output("y", body(graph, graph.add_input("x", {DType::F32, shape})));
  return graph;
}

void add_convolutions(std::vector<Case>& cases, int64_t size, bool quick) {
  const std::vector<int64_t> all_channels =
      quick ? std::vector<int64_t>{5, 16, 32} : std::vector<int64_t>{5, 8, 11, 16, 21, 32, 64};
  const std::vector<int64_t> all_dilations = quick ? std::vector<int64_t>{1, 8} : std::vector<int64_t>{1, 2, 4, 8, 16};
  for (int64_t channels : all_channels)
    for (int64_t dilation : all_dilations)
      if (dilation * 2 < size)
        cases.push_back({"conv 3x3x3", cat(channels, " channels, dilation ", dilation), [=] {
                           return packed(size, channels, [=](Graph& g, ValueId x) {
                             return conv(g, x, channels, channels, 3, dilation, "conv");
                           });
                         }});
}

void add_norm(std::vector<Case>& cases, int64_t size) {
  const int64_t channels = 16;
  cases.push_back({"norm + gelu", cat(channels, " channels"), [=] {
                     return packed(size, channels, [=](Graph& g, ValueId x) {
                       const ValueId y = g.add("norm_stats", {x}, {}, kGather);
                       return g.add("gelu",
                                    {g.add("norm_apply", {x, y}, {{"groups", channels}, {"eps", 1e-5}}, "norm")}, {},
                                    "norm");
                     });
                   }});
}

void add_plain(std::vector<Case>& cases, int64_t size) {
  const Shape shape{1, 4, size / 2, size, size};
  const std::vector<int64_t> last_first{0, 2, 3, 4, 1};
  cases.push_back({"elementwise", "x * x + x, sigmoid", [=] {
                     return plain(shape, [](Graph& g, ValueId x) {
                       return g.add("sigmoid", {g.add("add", {g.add("mul", {x, x}), x})});
                     });
                   }});
  cases.push_back({"reduce_sum", "over rows", [=] {
                     return plain(shape, [](Graph& g, ValueId x) {
                       return g.add("reduce_sum", {x}, {{"axes", std::vector<int64_t>{4}}});
                     });
                   }});
  cases.push_back({"reduce_sum", "over all", [=] {
                     return plain(shape, [](Graph& g, ValueId x) {
                       return g.add("reduce_sum", {x}, {{"axes", std::vector<int64_t>{0, 1, 2, 3, 4}}});
                     });
                   }});
  cases.push_back(
      {"transpose", "channels last", [=] {
         return plain(shape, [=](Graph& g, ValueId x) { return g.add("transpose", {x}, {{"perm", last_first}}); });
       }});
  cases.push_back({"argmax", "4 classes", [=] {
                     return plain(shape, [](Graph& g, ValueId x) {
                       return g.add("argmax", {x}, {{"axis", int64_t{1}}, {"dtype", std::string("u8")}});
                     });
                   }});
}

void add_matmul(std::vector<Case>& cases, int64_t size) {
  cases.push_back({"matmul", cat(size, "^3"), [=] {
                     return plain({size, size}, [](Graph& g, ValueId x) { return g.add("matmul", {x, x}); });
                   }});
  // By matrix units where there are some.
  cases.push_back({"matmul f16", cat(size, "^3"), [=] {
                     Graph graph;
                     const ValueId x = graph.add_input("x", {DType::F16, {size, size}});
                     graph.add_output("y", graph.add("matmul", {x, x}));
                     return graph;
                   }});
}

// The layers of a transformer's block over 512 tokens.
void add_linear(std::vector<Case>& cases, int64_t rows, int64_t width) {
  const auto add = [&](int64_t in, int64_t out) {
    cases.push_back({"linear", cat(rows, " x ", in, " to ", out), [=] {
                       return plain({rows, in}, [=](Graph& g, ValueId x) {
                         return g.add("matmul", {x, constant(g, {in, out}, "w"), constant(g, {out}, "b")});
                       });
                     }});
  };
  add(width, width);
  add(width, 3 * width);
  add(width, 4 * width);
  add(4 * width, width);
}

// Rows as transformers have them.
void add_rows(std::vector<Case>& cases, int64_t rows, int64_t extent) {
  for (const std::string op : {"softmax", "log_softmax", "layer_norm", "rms_norm"})
    cases.push_back(
        {op, cat(rows, " x ", extent), [=] {
           return plain({rows, extent}, [=](Graph& g, ValueId x) { return g.add(op, {x}, {{"axis", int64_t{-1}}}); });
         }});
}

void add_attention(std::vector<Case>& cases, int64_t heads, int64_t length, int64_t depth) {
  for (const int64_t causal : {0, 1})
    cases.push_back({causal ? "attention causal" : "attention", cat(heads, " x ", length, " x ", depth), [=] {
                       return plain({1, heads, length, depth}, [=](Graph& g, ValueId x) {
                         return g.add("attention", {x, x, x}, {{"causal", causal}});
                       });
                     }});
}

// Keys and their positions: one long line, or many shorter ones.
void add_sorts(std::vector<Case>& cases, int64_t keys) {
  for (const Shape& shape : {Shape{keys}, Shape{keys / 16384, 16384}})
    cases.push_back({"sort", to_string(shape), [=] {
                       return plain(shape, [](Graph& g, ValueId x) {
                         const Sorted sorted = sort({g, x});
                         g.add_output("positions", sorted.positions.id());
                         return sorted.values.id();
                       });
                     }});
}

void add_fft(std::vector<Case>& cases, int64_t length, int64_t lines, const std::string& kind = "complex") {
  const Shape shape = kind == "complex" ? Shape{lines, length, 2} : Shape{lines, length};
  cases.push_back({kind == "complex" ? "fft" : "fft " + kind, cat(lines, " x ", length),
                   [=] {
                     return plain(shape, [=](Graph& g, ValueId x) { return g.add("fft", {x}, {{"kind", kind}}); });
                   },
                   true, true});
}

Tensor ramp(const TensorType& type) {
  Tensor t(type.dtype, type.shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, static_cast<double>(i % 101) * 0.01);
  return t;
}

// Numbers in no order, as good as all different.
Tensor scrambled(const Shape& shape) {
  Tensor t(DType::F32, shape);
  uint32_t state = 1;
  for (int64_t i = 0; i < t.size(); ++i)
    t.as<float>()[i] = static_cast<float>(static_cast<int32_t>(state = state * 1664525 + 1013904223)) * 0x1p-20f;
  return t;
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a = parse(argc, argv, kUsage);
  const Limits limits = a.default_limits ? default_limits() : choose_adapter("webgpu").limits;
  const Device device = bench::open_best(&limits);
  const bool software = is_software(device);
  const int64_t size = software ? 48 : a.quick ? 192 : 256;
  std::vector<Case> cases;
  add_convolutions(cases, size, a.quick || software);
  add_norm(cases, size);
  add_plain(cases, size);
  for (int64_t side : {int64_t{1024}, int64_t{4096}}) add_matmul(cases, software ? side / 8 : side);
  add_linear(cases, software ? 64 : 512, software ? 96 : 768);
  add_rows(cases, software ? 256 : 8192, software ? 512 : 4096);
  add_attention(cases, software ? 2 : 16, software ? 256 : 4096, 64);
  add_sorts(cases, software ? 1 << 18 : 1 << 24);
  const int64_t numbers = int64_t{1} << (software ? 18 : 24);
  for (const int64_t length : {int64_t{256}, int64_t{1000}, int64_t{4096}, int64_t{65536}, int64_t{65537}})
    add_fft(cases, length, numbers / length);
  add_fft(cases, 400, numbers / 400, "real");
  const int64_t tokens = software ? 32 : 512, width = software ? 128 : 768;
  for (const bool apart : {false, true})
    cases.push_back({apart ? "encoder q, k, v" : "encoder", cat("12 layers, ", tokens, " x ", width),
                     [=] { return encoder(12, tokens, width, apart); }, true});
  WarmUp warm_up(device);
  Executor fma(device, fma_plan(software));
  Executor copy(device, copy_plan(software));
  const double peak_flops = measure(warm_up, fma, {}, {}).gflops();
  const double peak_bytes = measure(warm_up, copy, {}, {}).gbytes();
  std::printf("%s, %ld^3; measured peaks: %.0f GFLOP/s, %.0f GB/s\n", device.adapter().name.c_str(),
              static_cast<long>(size), peak_flops, peak_bytes);
  std::printf("%-16s %-24s %10s %10s %7s %10s %7s\n", "op", "", "ms", "GFLOP/s", "%", "GB/s", "%");
  nlohmann::json report = report_of(device);
  report["size"] = size;
  report["peak_gflops"] = peak_flops;
  report["peak_gbytes"] = peak_bytes;
  for (const Case& c : cases) {
    if (!a.only.empty() && (c.op + " " + c.name).find(a.only) == std::string::npos) continue;
    const Graph graph = optimize(c.build(), Precision::F32);
    const TensorType type = graph.type(graph.inputs()[0].value);
    const std::map<std::string, Tensor> inputs = {{"x", c.op == "sort" ? scrambled(type.shape) : ramp(type)}};
    Target target = device.target();
    target.limits = limits;
    Executor executor(device, make_plan(graph, target, plan_options(device)));
    Rates r = measure(warm_up, executor, inputs, {kSpread, kGather});
    if (c.whole) r.ms = whole_ms(warm_up, executor, inputs);
    if (c.ends)
      r.bytes = static_cast<double>(
          4 * (element_count(type.shape) + element_count(graph.type(graph.outputs()[0].value).shape)));
    std::printf("%-16s %-24s %10.3f %10.1f %7.1f %10.1f %7.1f\n", c.op.c_str(), c.name.c_str(), r.ms, r.gflops(),
                100 * r.gflops() / peak_flops, r.gbytes(), 100 * r.gbytes() / peak_bytes);
    std::fflush(stdout);
    report["results"].push_back({{"op", c.op},
                                 {"case", c.name},
                                 {"ms", r.ms},
                                 {"flops", r.flops},
                                 {"bytes", r.bytes},
                                 {"gflops", r.gflops()},
                                 {"gbytes", r.gbytes()},
                                 {"share_flops", r.gflops() / peak_flops},
                                 {"share_bytes", r.gbytes() / peak_bytes}});
    save(a, report);
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "ops: %s\n", error.what());
  return 1;
}
