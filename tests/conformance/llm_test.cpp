// Language models on a device: against float64 forward passes of the same weights, and against themselves in other
// chunks, caches and limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/limits.h"
#include "engine/program_plan.h"
#include "gyrus/nn.h"
#include "import/json.h"
#include "import/safetensors.h"
#include "import/text_model_file.h"
#include "llm/runner.h"
#include "ops/blocks.h"
#include "support/device_tests.h"
#include "support/test_data.h"
#include "support/test_folder.h"

namespace gyrus::test {
namespace {

// What rounding to f32 leaves of logits of ordinary size, as the issue asks for it.
constexpr double kFloats = 1e-3, kBlocks = 2e-3, kGolden = 1e-4;
// Where operands of products keep 11 bits: logits of some 10 follow.
constexpr double kHalves = 0.05;

std::vector<std::byte> file_bytes(const std::filesystem::path& path) {
  const std::vector<uint8_t> raw = read_bytes(path);
  std::vector<std::byte> bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

template <class T>
std::vector<T> numbers_of(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Json reference_of(const std::filesystem::path& path) { return parse_json(bytes_of(file_bytes(path)), path.string()); }

template <class T>
double largest_difference(const Tensor& got, const std::vector<T>& want) {
  if (static_cast<size_t>(got.size()) != want.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(got.as<float>()[i] - static_cast<double>(want[i])));
  return largest;
}

// Of a difference to the number itself; of zeros none may differ.
double largest_ratio(const Tensor& got, const std::vector<float>& want) {
  if (static_cast<size_t>(got.size()) != want.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(got.as<float>()[i] - static_cast<double>(want[i]));
    if (off > 0) largest = std::max(largest, off / std::abs(static_cast<double>(want[i])));
  }
  return largest;
}

std::vector<llm::StepRow> rows_from(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  std::vector<llm::StepRow> rows;
  for (size_t i = begin; i < std::min(end, tokens.size()); ++i) rows.push_back({tokens[i], 0, static_cast<int64_t>(i)});
  return rows;
}

// The logits behind all of these tokens, `together` at a time.
Tensor forced(llm::Runner& runner, const std::vector<int32_t>& tokens, size_t together = 16) {
  Tensor all(DType::F32, {static_cast<int64_t>(tokens.size()), runner.model().config().vocabulary});
  size_t at = 0;
  for (size_t begin = 0; begin < tokens.size(); begin += together) {
    const Tensor some = runner.logits(rows_from(tokens, begin, begin + together));
    std::copy(some.data.begin(), some.data.end(), all.data.begin() + static_cast<std::ptrdiff_t>(at));
    at += some.data.size();
  }
  return all;
}

std::shared_ptr<const llm::Model> model_of(const std::shared_ptr<const TextModelFile>& file,
                                           const TextOptions& options) {
  const llm::Config config = llm::read_config(file->head());
  const auto sources = [file](const std::string& name) -> std::optional<llm::Source> {
    const GgufTensor* tensor = file->head().find(name);
    if (!tensor) return std::nullopt;
    return llm::Source{tensor->type, tensor->shape, file->bytes(*tensor)};
  };
  return std::make_shared<llm::Model>(config, sources, llm::with_context(options, config, "test"), "test");
}

llm::Runner runner_of(const std::filesystem::path& path, const TextOptions& options = {}) {
  return llm::Runner(device(), model_of(std::make_shared<TextModelFile>(path.string()), options));
}

std::filesystem::path stories(const std::string& format) {
  return test_data() / "llm/stories260K" / ("stories260K-" + format + ".gguf");
}

struct NamedLimits {
  const char* name;
  std::optional<Limits> limits;
};
const std::vector<NamedLimits>& all_limits() {
  static const std::vector<NamedLimits> all = {
      {"adapter", std::nullopt}, {"default", default_limits()}, {"tiny", tiny_limits()}};
  return all;
}

TextOptions under(const std::optional<Limits>& limits) {
  TextOptions options;
  options.context = 256;
  options.chunk = 32;
  options.limits = limits;
  return options;
}

TEST(Stories, WriteWhatTheReferenceWrites) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const std::vector<uint8_t> raw = read_bytes(test_data() / "llm/stories260K/expected.txt");
  const std::string expected(raw.begin(), raw.end());
  for (const char* format : {"f32", "f16"})
    for (const NamedLimits& limits : all_limits()) {
      SCOPED_TRACE(std::string(format) + " " + limits.name);
      TextGenerator generator(device(), stories(format).string(), under(limits.limits));
      GenerateOptions options;
      options.tokens = 200;
      const Generated made = generator.generate(std::string(), options);
      EXPECT_EQ(made.text, expected);
      EXPECT_EQ(made.finish, Finish::Length);
      if (!std::getenv("GYRUS_TEST_FULL") && std::string(format) == "f16") break;
    }
}

TEST(Stories, LogitsMatchFloat64) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const Json reference = reference_of(test_data() / "llm/stories260K/reference.json");
  for (const char* format : {"f32", "f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"})
    for (const NamedLimits& limits : all_limits()) {
      const bool floats = format[0] == 'f';
      if (!floats && limits.limits && !std::getenv("GYRUS_TEST_FULL")) continue;
      SCOPED_TRACE(std::string(format) + " " + limits.name);
      llm::Runner runner = runner_of(stories(format), under(limits.limits));
      const auto tokens = reference.at(format).at("teacher_forced_tokens").get<std::vector<int32_t>>();
      const auto want =
          numbers_of<float>(stories(format).string().substr(0, stories(format).string().size() - 5) + ".logits.f32");
      const double off = largest_difference(forced(runner, tokens), want);
      EXPECT_LE(off, floats ? kFloats : kBlocks);
      std::printf("stories260K-%s %s: logits within %.2e\n", format, limits.name, off);
    }
}

TEST(Stories, CachesInHalvesAndBytesAreNearlyTheSame) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const Json reference = reference_of(test_data() / "llm/stories260K/reference.json");
  const auto tokens = reference.at("f32").at("teacher_forced_tokens").get<std::vector<int32_t>>();
  const auto want = numbers_of<float>(test_data() / "llm/stories260K/stories260K-f32.logits.f32");
  // Keys and values are stored with 11 bits each, and with 8 bits for the largest of a head: logits of some 10 follow.
  for (const auto& [format, most] : {std::pair{CacheFormat::F16, 0.05}, std::pair{CacheFormat::Q8, 1.0}}) {
    TextOptions options = under({});
    options.cache = format;
    llm::Runner runner = runner_of(stories("f32"), options);
    const double off = largest_difference(forced(runner, tokens), want);
    EXPECT_LE(off, most) << to_string(format);
    EXPECT_GT(off, 1e-5) << to_string(format) << ": that is no cache of fewer bits";
    std::printf("cache %s: logits within %.2e\n", to_string(format), off);
  }
}

// Precision f16 lets matrix units multiply halves, in prompts alone.
TEST(Stories, ProductsOfHalvesAreNearlyTheSame) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const AdapterInfo adapter = choose_adapter("webgpu");
  if (!adapter.features.subgroup_matrix) GTEST_SKIP() << "this adapter has no matrix units";
  DeviceOptions device_options;
  device_options.limits = adapter.limits;
  device_options.features = adapter.features;
  const Device with_matrices = open_device(device_options);
  const Json reference = reference_of(test_data() / "llm/stories260K/reference.json");
  for (const char* format : {"f32", "q8_0", "q4_1"})
    for (const NamedLimits& limits : all_limits()) {
      if (limits.limits && std::string(format) != "q8_0") continue;
      SCOPED_TRACE(std::string(format) + " " + limits.name);
      TextOptions options = under(limits.limits);
      options.precision = Precision::F16;
      options.matrix = MatrixUse::On;
      const auto model = model_of(std::make_shared<TextModelFile>(stories(format).string()), options);
      llm::Runner runner(with_matrices, model);
      const auto tokens = reference.at(format).at("teacher_forced_tokens").get<std::vector<int32_t>>();
      const auto want =
          numbers_of<float>(stories(format).string().substr(0, stories(format).string().size() - 5) + ".logits.f32");
      const double off = largest_difference(forced(runner, tokens), want);
      // Rows and weights have 11 bits each, as keys and values in halves have.
      EXPECT_LE(off, kHalves);
      if (std::string(limits.name) != "tiny") {
        EXPECT_GT(off, 1e-4) << "nothing was rounded";
      }
      // A token alone is not.
      const size_t width = want.size() / tokens.size();
      for (size_t i = 0; i < 8; ++i) {
        const Tensor logits = runner.prefill(rows_from(tokens, i, i + 1), {}, true).logits;
        EXPECT_LE(
            largest_difference(logits, std::vector<float>(want.begin() + static_cast<std::ptrdiff_t>(i * width),
                                                          want.begin() + static_cast<std::ptrdiff_t>((i + 1) * width))),
            kBlocks);
      }
      std::printf("stories260K-%s %s, products of halves: logits within %.2e\n", format, limits.name, off);
    }
}

TEST(Synthetic, KFormatsMatchFloat64) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const Json reference = reference_of(test_data() / "llm/synthetic/reference.json");
  for (const auto& [name, about] : reference.items()) {
    SCOPED_TRACE(name);
    llm::Runner runner = runner_of(test_data() / "llm/synthetic" / (name + ".gguf"), under({}));
    const auto tokens = about.at("tokens").get<std::vector<int32_t>>();
    const Tensor got = forced(runner, tokens);
    const double off =
        largest_difference(got, numbers_of<float>(test_data() / "llm/synthetic" / (name + ".logits.f32")));
    EXPECT_LE(off, kBlocks);
    std::printf("%s: logits within %.2e\n", name.c_str(), off);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const float* row = got.as<float>() + i * 512;
      EXPECT_EQ(std::max_element(row, row + 512) - row, about.at("argmax").at(i).get<int64_t>()) << i;
    }
  }
}

// Models of every architecture, and variants in single keys: each as its own reference says, and other than its base.
class Architectures : public InFolder {};

TEST_F(Architectures, MatchFloat64AndEveryKeyMatters) {
  const std::string script = std::string(GYRUS_SOURCE_DIR) + "/tests/support/tiny_llms.py";
  ASSERT_EQ(std::system(("/usr/bin/python3 " + script + " " + folder_.string()).c_str()), 0)
      << "needs Debian's python3-numpy";
  const std::vector<int32_t> tokens = {3, 17, 5, 60, 9, 9, 42, 0, 31, 22, 8, 57, 13, 2, 29, 50, 11, 7, 36, 19};
  std::ifstream index(path("index.txt"));
  std::string name, base;
  size_t count = 0;
  double largest = 0;
  while (index >> name >> base) {
    SCOPED_TRACE(name);
    TextOptions options = under({});
    options.context = 64;
    llm::Runner runner = runner_of(path(name + ".gguf"), options);
    const Tensor got = forced(runner, tokens);
    const double off = largest_difference(got, numbers_of<double>(path(name + ".logits")));
    EXPECT_LE(off, kFloats);
    largest = std::max(largest, off);
    if (name != base) {
      EXPECT_GT(largest_difference(got, numbers_of<double>(path(base + ".logits"))), 0.1);
    }
    ++count;
  }
  EXPECT_EQ(count, 52u);
  std::printf("%zu models: logits within %.2e\n", count, largest);

  // As transformers writes them: weights in safetensors, shapes in config.json.
  std::ifstream folders(path("folders.txt"));
  std::string folder;
  for (count = 0; folders >> folder >> name; ++count) {
    SCOPED_TRACE(folder + " " + name);
    TextOptions options = under({});
    options.context = 64;
    llm::Runner runner = runner_of(path(folder), options);
    EXPECT_LE(largest_difference(forced(runner, tokens), numbers_of<double>(path(name + ".logits"))), kFloats);
  }
  EXPECT_EQ(count, 14u);
}

TEST_F(Architectures, OthersAreRefusedByName) {
  const std::string script = std::string(GYRUS_SOURCE_DIR) + "/tests/support/tiny_llms.py";
  ASSERT_EQ(std::system(("/usr/bin/python3 " + script + " " + folder_.string()).c_str()), 0);
  std::vector<std::byte> bytes = file_bytes(path("llama.gguf"));
  auto* text = reinterpret_cast<char*>(bytes.data());
  const std::string key = "general.architecture";
  char* at = std::search(text, text + 4096, key.begin(), key.end()) + key.size() + 4 + 8;
  ASSERT_EQ(std::string(at, 5), "llama");
  std::memcpy(at, "mamba", 5);
  std::ofstream(path("mamba.gguf"), std::ios::binary).write(text, static_cast<std::streamsize>(bytes.size()));
  try {
    describe_text_model(path("mamba.gguf"));
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_NE(std::string(error.what()).find("mamba"), std::string::npos) << error.what();
  }
}

// The network of the goldens as a model whose tensors come from a safetensors file.
std::shared_ptr<const llm::Model> golden_model(const std::shared_ptr<const StateDict>& weights, int64_t chunk) {
  llm::Config c;
  c.architecture = "llama";
  c.layers = 2;
  c.width = 48;
  c.heads = 6;
  c.kv_heads = 2;
  c.depth = c.turning = 8;
  c.hidden = 128;
  c.vocabulary = 61;
  c.context = 64;
  c.halves = true;
  c.attention_scale = 1 / std::sqrt(8.0);
  const auto sources = [weights](std::string name) -> std::optional<llm::Source> {
    const std::pair<const char*, const char*> names[] = {
        {"token_embd", "embed"}, {"output_norm", "norm"}, {"blk.", "layers."},   {"attn_output", "out"},
        {"attn_q.", "q."},       {"attn_k.", "k."},       {"attn_v.", "v."},     {"ffn_norm", "mlp_norm"},
        {"ffn_gate.", "gate."},  {"ffn_up.", "up."},      {"ffn_down.", "down."}};
    if (name == "output.weight") name = "head.weight";
    for (const auto& [ours, theirs] : names)
      if (const size_t at = name.find(ours); at != std::string::npos) name.replace(at, std::strlen(ours), theirs);
    const NamedTensor* found = weights->find("param/" + name);
    if (!found) return std::nullopt;
    return llm::Source{BlockType::F32, found->tensor->shape, bytes_of(found->tensor->data)};
  };
  TextOptions options;
  options.context = 64;
  options.chunk = chunk;
  return std::make_shared<llm::Model>(c, sources, options, "net_lm");
}

TEST(Golden, TokensAndLogitsAreTorchs) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const std::vector<std::byte> file = file_bytes(test_data() / "goldens/net_lm.safetensors");
  const auto weights = std::make_shared<const StateDict>(read_safetensors(bytes_of(file), "net_lm"));
  const auto integers = [&](const char* name) {
    const Tensor& t = *weights->find(name)->tensor;
    std::vector<int32_t> values;
    for (int64_t i = 0; i < t.size(); ++i) values.push_back(static_cast<int32_t>(get(t, i)));
    return values;
  };
  const std::vector<int32_t> prompt = integers("input/prompt"), generated = integers("output/generated");
  const Tensor& logits = *weights->find("output/logits")->tensor;
  const std::vector<float> want(logits.as<float>(), logits.as<float>() + logits.size());
  llm::Runner runner(device(), golden_model(weights, 40));
  // At once (in steps of what logits come in), in chunks, and token by token.
  for (const size_t together : {size_t{16}, size_t{7}, size_t{1}}) {
    const double off = largest_difference(forced(runner, prompt, together), want);
    EXPECT_LE(off, kGolden) << together;
    std::printf("net_lm, %zu at once: logits within %.2e\n", together, off);
  }
  for (const size_t together : {size_t{40}, size_t{11}, size_t{1}}) {
    std::vector<int32_t> tokens = prompt;
    llm::StepResult step;
    for (size_t begin = 0; begin < prompt.size(); begin += together)
      step = runner.prefill(rows_from(prompt, begin, begin + together), {});
    std::vector<int32_t> made;
    while (made.size() < generated.size()) {
      made.push_back(step.tokens.at(0));
      tokens.push_back(made.back());
      step = runner.decode(rows_from(tokens, tokens.size() - 1, tokens.size()), {{}});
    }
    EXPECT_EQ(made, generated) << together;
  }
}

int64_t made_once(const std::map<std::string, int64_t>& objects) {
  int64_t count = 0;
  for (const auto& [name, number] : objects) count += number;
  return count;
}

TEST(Counted, ATokenCostsOneSubmissionAndNoObject) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const uint64_t before = device().buffer_bytes();
  llm::Runner runner = runner_of(stories("q4_0"), under({}));
  const uint64_t made = device().buffer_bytes() - before;
  const TextMemory planned =
      llm::planned_memory(runner.model(), device().target(),
                          device().adapter().type == AdapterType::Software ? software_options() : PlanOptions{});
  const TextMemory allocated = runner.allocated();
  EXPECT_EQ(planned.weights, allocated.weights);
  EXPECT_EQ(planned.cache, allocated.cache);
  EXPECT_EQ(planned.scratch, allocated.scratch);
  EXPECT_LE(made, planned.total() + 64);  // what else there is takes inputs up
  std::vector<int32_t> tokens = {1};
  llm::StepResult step = runner.prefill(rows_from(tokens, 0, 1), {});
  std::map<std::string, int64_t> objects;
  uint64_t bytes = 0;
  size_t kernels = 0;
  for (int i = 0; i < 20; ++i) {
    tokens.push_back(step.tokens.at(0));
    llm::Choice choice;
    choice.sampling = {0.8, 40, 0.95, 0.05, 1.1, 7};
    step = runner.decode(rows_from(tokens, tokens.size() - 1, tokens.size()), {choice});
    EXPECT_EQ(step.profile.submissions, 1u);
    EXPECT_LE(step.profile.uploaded_bytes, 64u);
    EXPECT_LE(step.profile.read_back_bytes, 64u);
    if (i == 0) {
      objects = live_objects();
      bytes = device().buffer_bytes();
      kernels = device().compiled_kernels();
    }
  }
  EXPECT_EQ(live_objects(), objects) << made_once(objects);
  EXPECT_EQ(device().buffer_bytes(), bytes);
  EXPECT_EQ(device().compiled_kernels(), kernels);
  const Plan plan = llm::step_plan(runner.model(), 1, llm::StepKind::Last, device().target());
  for (const Step& s : plan.steps) EXPECT_FALSE(std::holds_alternative<Copy>(s)) << "something is copied";
  std::printf("%zu dispatches a token, %llu bytes up, %llu down\n", plan.steps.size(),
              static_cast<unsigned long long>(step.profile.uploaded_bytes),
              static_cast<unsigned long long>(step.profile.read_back_bytes));
}

// The token of a step is the next one's on the device: the host need not have seen it.
TEST(Counted, AStepMayBeStartedBeforeTheTokenOfTheLastIsKnown) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  TextOptions options = under({});
  options.sequences = 2;
  llm::Runner runner = runner_of(stories("q4_0"), options);
  std::vector<int32_t> tokens = {1};
  llm::StepResult step = runner.prefill(rows_from(tokens, 0, 1), {});
  std::vector<int32_t> want;
  for (int i = 0; i < 6; ++i) {
    want.push_back(step.tokens.at(0));
    tokens.push_back(want.back());
    step = runner.decode(rows_from(tokens, tokens.size() - 1, tokens.size()), {{}});
  }
  std::vector<llm::PendingStep> flying;
  flying.push_back(runner.start_prefill({{1, 1, 0}}, {}));
  for (int64_t i = 1; i < 6; ++i) flying.push_back(runner.start_decode({{-1, 1, i}}, {{}}));
  std::vector<int32_t> made;
  for (llm::PendingStep& pending : flying) made.push_back(pending.finish().tokens.at(0));
  EXPECT_EQ(made, want);
}

TEST(Generator, BatchesStopsShiftsAndScores) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  TextOptions text;
  text.context = 48;
  text.sequences = 3;
  text.chunk = 32;
  TextGenerator generator(device(), stories("f32").string(), text);
  GenerateOptions options;
  options.tokens = 20;
  const std::vector<std::string> prompts = {"Once upon a time", "The dog", "Lily and Tom"};
  std::vector<std::string> alone;
  for (const std::string& prompt : prompts) {
    generator.forget();
    alone.push_back(generator.generate(prompt, options).text);
  }
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(generator.tokenize(prompt));
  const std::vector<Generated> batch = generator.generate_batch(tokens, {options, options, options});
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(batch[i].text, alone[i]) << prompts[i];

  // A prompt that is there already is not read again, and gives the same.
  const Generated again = generator.generate(prompts[0], options);
  EXPECT_EQ(again.text, alone[0]);
  EXPECT_GT(again.reused_tokens, 0);

  GenerateOptions stopped = options;
  stopped.stop = {"little girl"};
  const std::string before = alone[0].substr(0, alone[0].find("little girl"));
  ASSERT_NE(before, alone[0]);
  std::string streamed;
  stopped.on_token = [&](const GeneratedToken& token) {
    streamed += token.text;
    return true;
  };
  const Generated cut = generator.generate(prompts[0], stopped);
  EXPECT_EQ(cut.text, before);
  EXPECT_EQ(streamed, before);
  EXPECT_EQ(cut.finish, Finish::Stop);

  GenerateOptions scored = options;
  scored.candidates = 3;
  const Generated scores = generator.generate(prompts[0], scored);
  EXPECT_EQ(scores.text, alone[0]);
  for (const GeneratedToken& token : scores.tokens) {
    ASSERT_EQ(token.candidates.size(), 4u);
    EXPECT_EQ(token.candidates[0].token, token.candidates[1].token);  // the best one was taken
    EXPECT_LE(token.candidates[2].log_probability, token.candidates[1].log_probability);
    EXPECT_LT(token.candidates[1].log_probability, 0);
  }

  // More than the context holds: the older half goes.
  GenerateOptions longer = options;
  longer.tokens = 100;
  EXPECT_EQ(generator.generate(prompts[0], longer).tokens.size(), 100u);
  longer.shift = false;
  const Generated full = generator.generate(prompts[0], longer);
  EXPECT_EQ(full.finish, Finish::Length);
  EXPECT_EQ(static_cast<int64_t>(full.tokens.size()) + full.prompt_tokens, 48);

  const std::vector<float> embedded = generator.embed(tokens[0]);
  double length = 0;
  for (const float x : embedded) length += static_cast<double>(x) * x;
  EXPECT_EQ(embedded.size(), 64u);
  EXPECT_NEAR(length, 1, 1e-5);
}

// Kernels unpack blocks to the floats that others find in them: equal where nothing is fused, else but for the last
// bit.
TEST(Blocks, KernelsUnpackThem) {
  const std::filesystem::path folder = test_data() / "llm/quant-vectors";
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  int compared = 0;
  for (const BlockFormat& format : block_formats()) {
    const std::string name = format.name;
    if (!format.decode || name[0] == 'T' || !std::filesystem::exists(folder / (name + ".blocks"))) continue;
    SCOPED_TRACE(name);
    const std::vector<uint8_t> blocks = read_bytes(folder / (name + ".blocks"));
    const auto want = numbers_of<float>(folder / (name + ".f32"));
    const BlockMatrix matrix{format.type, 4, static_cast<int64_t>(want.size()) / 4};
    ASSERT_EQ(blocks.size(), 4 * matrix.row_bytes());
    Tensor words(DType::U32, matrix.shape());
    std::memcpy(words.data.data(), blocks.data(), blocks.size());
    Tensor places(DType::I32, {4});
    for (int32_t i = 0; i < 4; ++i) places.as<int32_t>()[i] = i;
    Graph graph;
    graph.output(
        "rows",
        apply("block_rows", {graph.constant(std::move(words)), graph.input("places", DType::I32, {4})},
              {{"format", static_cast<int64_t>(format.type)}, {"rows", matrix.rows}, {"columns", matrix.columns}}));
    Executor executor(device(), *plan_program(graph, device().target(), Precision::F32, {}).plan);
    const Tensor got = executor.run({{"places", places}}).outputs.at("rows");
    EXPECT_LE(largest_ratio(got, want), device().adapter().type == AdapterType::Software ? 0 : 2e-7);
    ++compared;
  }
  EXPECT_EQ(compared, 15);
}

class Damaged : public InFolder {};

// A NaN among the weights ends in an error, not in tokens.
TEST_F(Damaged, WeightsThatAreNoNumbersAreAnError) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  std::vector<std::byte> bytes = file_bytes(stories("f32"));
  const float nan = NAN;
  std::memcpy(bytes.data() + read_gguf(bytes_of(bytes), "m").tensor("output_norm.weight").offset, &nan, sizeof nan);
  std::ofstream(path("nan.gguf"), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  TextGenerator generator(device(), path("nan.gguf"), under({}));
  const auto expect_not_finite = [](const std::function<void()>& action) {
    try {
      action();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NonFinite) << error.what();
    }
  };
  GenerateOptions options;
  expect_not_finite([&] { generator.generate("Once", options); });
  options.sampling = {0.8, 40, 0.9, 0.05, 1.1, 7};
  expect_not_finite([&] { generator.generate("Once", options); });
  expect_not_finite([&] { generator.embed({1, 5, 7}); });
}

TEST(Generator, DrawsAreThoseOfTheSeed) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  TextGenerator generator(device(), stories("q8_0").string(), under({}));
  GenerateOptions options;
  options.tokens = 30;
  options.sampling = {0.9, 50, 0.95, 0, 1.05, 3};
  const std::string first = generator.generate("Once", options).text, second = generator.generate("Once", options).text;
  EXPECT_EQ(first, second);
  options.sampling.seed = 4;
  EXPECT_NE(generator.generate("Once", options).text, first);
  options.sampling = {};
  options.sampling.repetition_penalty = 50;
  const Generated made = generator.generate("Once", options);
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : made.tokens) ids.push_back(token.token);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "a token came twice";
}

}  // namespace
}  // namespace gyrus::test
