#include <cstring>

#include "core/error.h"
#include "op_cases_build.h"
#include "ops/blocks.h"
#include "ops/cache.h"

// Products with weights in blocks, the cache of keys and values, and the choice of tokens.

namespace gyrus::test {
namespace {

// Any bytes, and scales of ordinary size.
Tensor random_integers(const BlockMatrix& matrix, Rng& rng) {
  Tensor words(DType::U32, matrix.shape());
  for (int64_t i = 0; i < words.size(); ++i) words.as<uint32_t>()[i] = static_cast<uint32_t>(rng.bits() >> 32);
  const IntegerRow row = matrix.integer_row();
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t g = 0; g < row.groups(); ++g) {
      const auto scale = static_cast<float>(rng.uniform(-0.02, 0.02) * 16 / (1 << integer_bits(matrix.type)));
      std::memcpy(words.as<uint8_t>() + static_cast<uint64_t>(r) * row.bytes() + g * 4, &scale, sizeof scale);
    }
  return words;
}

// Random blocks whose scales are halves of ordinary size.
Tensor random_blocks(const BlockMatrix& matrix, Rng& rng) {
  if (matrix.integers()) return random_integers(matrix, rng);
  const BlockFormat& format = block_format(matrix.type);
  Tensor words(DType::U32, matrix.shape());
  auto* bytes = words.as<uint8_t>();
  const auto put_half = [&](size_t at, double value) {
    const uint16_t half = float_to_half(static_cast<float>(value));
    std::memcpy(bytes + at, &half, sizeof half);
  };
  const uint64_t used = matrix.row_bytes() * static_cast<uint64_t>(matrix.rows);
  for (size_t i = 0; i < words.data.size(); ++i) bytes[i] = static_cast<uint8_t>(rng.bits() >> 32);
  for (size_t at = 0; at < used; at += format.bytes) {
    const double scale = rng.uniform(-0.02, 0.02);
    switch (matrix.type) {
      case BlockType::F32: {
        const auto value = static_cast<float>(rng.normal());
        std::memcpy(bytes + at, &value, sizeof value);
        break;
      }
      case BlockType::F16: put_half(at, rng.normal()); break;
      case BlockType::BF16: bytes[at + 1] = static_cast<uint8_t>(0x3e | (bytes[at + 1] & 0x80)); break;
      case BlockType::Q4_1:
      case BlockType::Q5_1:
      case BlockType::Q4_K:
      case BlockType::Q5_K: put_half(at + 2, rng.uniform(-0.02, 0.02)); [[fallthrough]];
      case BlockType::Q4_0:
      case BlockType::Q5_0:
      case BlockType::Q8_0:
      case BlockType::IQ4_NL:
      case BlockType::IQ4_XS: put_half(at, scale); break;
      case BlockType::Q2_K:
        put_half(at + 80, scale);
        put_half(at + 82, rng.uniform(-0.02, 0.02));
        break;
      case BlockType::Q3_K: put_half(at + 108, scale); break;
      case BlockType::Q6_K: put_half(at + 208, scale); break;
      case BlockType::MXFP4: bytes[at] = static_cast<uint8_t>(118 + bytes[at] % 8); break;
      default: break;  // NVFP4: every byte is a scale
    }
  }
  return words;
}

struct BlockSpec {
  std::string name;
  Shape x;
  std::vector<BlockType> types;
  std::vector<int64_t> rows;
  bool bias = false;
  std::vector<Node> body = {};
  bool further = false;  // one more operand of the body
  int64_t experts = 1, used = 0;
  bool large = false;
  int64_t group = 0;  // of integers
  bool zeros = false;
};

void add_matmul(std::vector<OpCase>& cases, const BlockSpec& spec) {
  OpCase base;
  base.name = (spec.large ? "large_block_matmul_" : "block_matmul_") + spec.name;
  base.op = "block_matmul";
  base.large = spec.large;
  cases.push_back(make_case(base, [spec](CaseBuilder& b) {
    Rng rng(11);
    Node node;
    node.op = "block_matmul";
    node.body = spec.body;
    node.inputs.assign(6, kNoValue);
    node.inputs[0] = b.input(spec.x);
    std::vector<int64_t> formats;
    int64_t n = 0;
    for (size_t m = 0; m < spec.types.size(); ++m) {
      const BlockMatrix matrix{spec.types[m], spec.rows[m] * spec.experts, spec.x.back(), spec.group, spec.zeros};
      node.inputs[1 + m] = b.graph.add_constant(cat("w", m), random_blocks(matrix, rng));
      formats.push_back(static_cast<int64_t>(spec.types[m]));
      n += spec.rows[m];
    }
    node.attrs = {{"formats", formats}, {"rows", spec.rows}, {"expert_count", spec.experts}};
    if (spec.group > 0) {
      node.attrs.set("groups", std::vector<int64_t>(spec.types.size(), spec.group));
      node.attrs.set("zeros", std::vector<int64_t>(spec.types.size(), spec.zeros));
    }
    Shape result = spec.x;
    result.back() = n;
    if (spec.bias) node.inputs[BlockMatmul::kBias] = b.input({n});
    if (spec.used > 0) {
      Tensor chosen(DType::I32, {spec.x[0], spec.used});
      for (int64_t i = 0; i < chosen.size(); ++i) set(chosen, i, static_cast<double>(rng.integer(0, spec.experts - 1)));
      node.inputs[BlockMatmul::kExperts] = b.graph.add_constant("experts", std::move(chosen));
      result = {spec.x[0], spec.used, n};
    }
    if (spec.further) node.inputs.push_back(b.input(result));
    while (node.inputs.back() == kNoValue) node.inputs.pop_back();
    b.output(b.add_node(std::move(node)).front());
  }));
}

constexpr BlockType kTypes[] = {
    BlockType::F32,  BlockType::F16,    BlockType::BF16,   BlockType::Q4_0,  BlockType::Q4_1, BlockType::Q5_0,
    BlockType::Q5_1, BlockType::Q8_0,   BlockType::Q2_K,   BlockType::Q3_K,  BlockType::Q4_K, BlockType::Q5_K,
    BlockType::Q6_K, BlockType::IQ4_NL, BlockType::IQ4_XS, BlockType::MXFP4, BlockType::NVFP4};

std::string lower(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

void add_rows(std::vector<OpCase>& cases, const BlockMatrix& matrix, const std::string& name) {
  OpCase base;
  base.name = "block_rows_" + name;
  base.op = "block_rows";
  base.fill = Fill::Whole;
  base.lo = 0;
  base.hi = static_cast<double>(matrix.rows - 1);
  cases.push_back(make_case(base, [=](CaseBuilder& b) {
    Rng rng(12);
    const ValueId w = b.graph.add_constant("w", random_blocks(matrix, rng));
    b.output(b.add("block_rows", {w, b.input({5, 2}, DType::I32)},
                   {{"format", static_cast<int64_t>(matrix.type)},
                    {"rows", matrix.rows},
                    {"columns", matrix.columns},
                    {"group", matrix.group},
                    {"zeros", int64_t{matrix.zeros}},
                    {"column", int64_t{1}},
                    {"scale", 1.5}}));
  }));
}

struct NormedSpec {
  std::string name;
  Shape x;
  std::vector<BlockType> types;
  std::vector<int64_t> rows;
  std::string act = "";
  bool bias = false;
};

void add_normed(std::vector<OpCase>& cases, const NormedSpec& spec) {
  OpCase base;
  base.name = "block_normed_" + spec.name;
  base.op = "block_normed";
  cases.push_back(make_case(base, [spec](CaseBuilder& b) {
    Rng rng(13);
    const int64_t k = spec.x.back();
    std::vector<ValueId> inputs(6, kNoValue);
    inputs[0] = b.input(spec.x);
    inputs[1] = b.input({k});
    std::vector<int64_t> formats;
    int64_t n = 0;
    for (size_t m = 0; m < spec.types.size(); ++m) {
      inputs[2 + m] = b.graph.add_constant(cat("w", m), random_blocks({spec.types[m], spec.rows[m], k}, rng));
      formats.push_back(static_cast<int64_t>(spec.types[m]));
      n += spec.rows[m];
    }
    if (spec.bias) inputs[5] = b.input({n});
    while (inputs.back() == kNoValue) inputs.pop_back();
    Attrs attrs = {{"formats", formats}, {"rows", spec.rows}, {"eps", 1e-5}};
    if (!spec.act.empty()) attrs = {{"formats", formats}, {"rows", spec.rows}, {"eps", 1e-5}, {"act", spec.act}};
    b.output(b.add("block_normed", inputs, attrs));
  }));
}

// Integers with scales: of 2, 4 and 8 bits, with and without zeros; a scale for 16, 32 or 64 columns or for a row; rows
// that are no whole units.
void add_integers(std::vector<OpCase>& cases) {
  const auto product = [&](const char* name, Shape x, BlockType type, int64_t rows, int64_t group, bool zeros) {
    add_matmul(cases, {.name = cat("integers_", name),
                       .x = std::move(x),
                       .types = {type},
                       .rows = {rows},
                       .group = group,
                       .zeros = zeros});
  };
  using enum BlockType;
  product("u4", {1, 96}, U4, 37, 32, true);
  product("u4_half", {1, 112}, U4, 37, 16, true);
  product("u4_tiles", {19, 112}, U4, 37, 16, true);
  product("u4_ragged", {2, 77}, U4, 37, 64, false);
  product("u8", {1, 96}, U8, 37, 96, false);
  product("u8_ragged_tiles", {9, 77}, U8, 37, 77, true);
  product("u2", {3, 128}, U2, 37, 64, false);
  product("u2_half", {1, 50}, U2, 37, 16, true);
  add_rows(cases, {U4, 9, 77, 16, true}, "u4");
  add_rows(cases, {U8, 9, 96, 96, false}, "u8");
  add_matmul(cases,
             {.name = "cut_integers", .x = {1, 512}, .types = {U4}, .rows = {10001}, .large = true, .group = 128});
}

void add_products(std::vector<OpCase>& cases) {
  for (const BlockType type : kTypes) {
    const int64_t block = block_format(type).elements, k = block == 1 ? 76 : block == 32 ? 96 : 512;
    add_matmul(cases, {"row_" + lower(to_string(type)), {1, k}, {type}, {37}});
    // What unpacks a block is the same text in the other kernels.
    if (type == BlockType::F16 || type == BlockType::Q8_0 || type == BlockType::Q6_K) {
      add_matmul(cases, {"tiles_" + lower(to_string(type)), {19, k}, {type}, {37}});
      add_rows(cases, {type, 9, k}, lower(to_string(type)));
    }
  }
  using enum BlockType;
  add_integers(cases);
  add_matmul(cases, {"two_rows", {2, 96}, {Q8_0}, {37}});
  add_matmul(cases, {"three_rows", {3, 96}, {Q8_0}, {37}});
  add_matmul(cases, {"seven_rows", {7, 96}, {Q8_0}, {37}});
  add_matmul(cases, {"odd", {1, 77}, {F16}, {5}});
  add_matmul(cases, {"odd_tiles", {9, 77}, {F16}, {5}});
  add_matmul(cases, {"joined", {1, 256}, {Q4_K, Q6_K, Q8_0}, {20, 12, 9}, true});
  add_matmul(cases, {"joined_tiles", {12, 256}, {Q4_K, Q6_K, Q8_0}, {20, 12, 9}, true});
  add_matmul(cases, {"residual", {1, 96}, {Q4_0}, {37}, true, {step("add", {0, 1})}, true});
  add_matmul(cases, {"residual_tiles", {12, 96}, {Q4_0}, {37}, false, {step("add", {0, 1})}, true});
  add_matmul(cases, {"body", {1, 96}, {Q4_0}, {37}, false, {step("gelu", {0})}});
  add_matmul(cases, {"experts", {3, 96}, {Q4_0}, {20}, false, {}, false, 5, 2});
  add_matmul(cases, {"experts_each", {3, 2, 96}, {Q4_0}, {20}, false, {}, false, 5, 2});
  add_normed(cases, {"row", {1, 96}, {Q4_0}, {37}});
  add_normed(cases, {"joined", {2, 512}, {Q4_K, Q8_0, F16}, {20, 12, 9}, "", true});
  add_normed(cases, {"ragged", {1, 77}, {F16}, {6}, "silu"});
  add_normed(cases, {"gate", {1, 2304}, {Q4_0}, {74}, "gelu_tanh", true});
  add_normed(cases, {"gate_two_rows", {2, 96}, {Q8_0}, {14}, "silu"});
  add_normed(cases, {"gate_many_rows", {12, 96}, {Q8_0}, {14}, "gelu"});
  add_matmul(cases, {"cut", {1, 512}, {F32}, {1500}, false, {}, false, 1, 0, true});
  add_matmul(cases, {"cut_tiles", {12, 512}, {Q8_0}, {4001}, false, {}, false, 1, 0, true});
  add_matmul(cases, {"cut_experts", {2, 512}, {F16}, {700}, false, {}, false, 4, 3, true});
}

void add_gated(std::vector<OpCase>& cases, const std::string& act) {
  OpCase base;
  base.name = "gated_" + act;
  base.op = "gated";
  cases.push_back(make_case(base, [act](CaseBuilder& b) {
    b.output(b.add("gated", {b.input({3, 14})}, {{"act", act}}));
  }));
}

struct CacheSpec {
  std::string name;
  int64_t rows = 3, heads = 4, kv_heads = 2, depth = 8, half = 4;
  DType cache = DType::F32;
  bool halves = false, norm = false;
  int64_t window = 0;
  double softcap = 0;
  int64_t cache_rows = 32;
  bool large = false;
};

// Rows of two sequences: the second begins in the middle of the cache; one row is not active.
Tensor step_rows(int64_t rows, int64_t cache_rows) {
  Tensor t(DType::I32, {rows, 4});
  auto* to = t.as<int32_t>();
  for (int64_t r = 0; r < rows; ++r) {
    const bool second = r % 2 == 1;
    to[r * 4] = static_cast<int32_t>(r);
    to[r * 4 + 1] = static_cast<int32_t>(second ? cache_rows / 2 : 0);
    to[r * 4 + 2] = r == 2 ? -1 : static_cast<int32_t>(cache_rows / 4 + r);
    to[r * 4 + 3] = second;
  }
  return t;
}

void add_cache(std::vector<OpCase>& cases, const std::string& op, const CacheSpec& spec) {
  OpCase base;
  base.name = cat(spec.large ? "large_" : "", op, "_", spec.name);
  base.op = op;
  base.large = spec.large;
  cases.push_back(make_case(base, [op, spec](CaseBuilder& b) {
    const ValueId rows = b.graph.add_constant("rows", step_rows(spec.rows, spec.cache_rows));
    Tensor speeds(DType::F32, {spec.half});
    for (int64_t i = 0; i < spec.half; ++i) set(speeds, i, 1.0 / static_cast<double>(1 + i * i));
    const ValueId turns =
        b.add("rope_turns", {rows, b.graph.add_constant("speeds", std::move(speeds))}, {{"scale", 1.25}});
    const ValueId x = b.input({spec.rows, (spec.heads + 2 * spec.kv_heads) * spec.depth});
    const Shape shape = cache_shape(spec.cache, spec.cache_rows, spec.kv_heads, spec.depth);
    ValueId cache = spec.cache == DType::U32 ? kNoValue : b.input(shape, spec.cache);
    if (cache == kNoValue) {
      // Words of bytes with scales that are floats.
      Rng rng(13);
      Tensor words(DType::U32, shape);
      for (int64_t i = 0; i < words.size(); ++i) {
        const auto scale = static_cast<float>(rng.uniform(0.005, 0.02));
        uint32_t word = static_cast<uint32_t>(rng.bits() >> 32);
        if (i % (spec.depth / 4 + 1) == 0) std::memcpy(&word, &scale, sizeof word);
        words.as<uint32_t>()[i] = word;
      }
      cache = b.graph.add_constant("cache", std::move(words));
    }
    const Attrs attrs{{"heads", spec.heads}, {"kv_heads", spec.kv_heads}};
    if (op == "cached_attention") {
      Attrs own = attrs;
      own.set("scale", 0.3);
      own.set("softcap", spec.softcap);
      own.set("window", spec.window);
      b.output(b.add(op, {x, cache, turns}, own));
      return;
    }
    Node node;
    node.op = op;
    node.attrs = attrs;
    node.attrs.set("halves", int64_t{spec.halves});
    node.inputs = {x, cache, turns};
    if (spec.norm) node.inputs.push_back(b.positive({2, spec.depth}));
    const std::vector<ValueId> made = b.add_node(std::move(node));
    b.output(made[0]);
    // Bytes may differ by one where a value lies between two: what attention makes of them is compared instead.
    if (spec.cache == DType::U32)
      b.output(b.add("cached_attention", {made[0], made[1], turns},
                     {{"heads", spec.heads}, {"kv_heads", spec.kv_heads}, {"scale", 0.3}}));
    else
      b.output(made[1]);
  }));
}

void add_turns(std::vector<OpCase>& cases) {
  OpCase base;
  base.name = "rope_turns_rows";
  base.op = "rope_turns";
  cases.push_back(make_case(base, [](CaseBuilder& b) {
    const ValueId rows = b.graph.add_constant("rows", step_rows(5, 128));
    b.output(b.add("rope_turns", {rows, b.input({6})}));
  }));
}

void add_choices(std::vector<OpCase>& cases) {
  struct Settings {
    const char* name;
    float temperature;
    int32_t top_k;
    float top_p, min_p, penalty;
  };
  const auto bits = [](float value) {
    int32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    return word;
  };
  for (const Settings& s : {Settings{"greedy", 0, 0, 1, 0, 1},
                            {"penalty", 0, 0, 1, 0, 3},
                            {"temperature", 0.8F, 0, 1, 0, 1},
                            {"top_k", 1.5F, 7, 1, 0, 1},
                            {"top_p", 1.5F, 0, 0.6F, 0, 1},
                            {"min_p", 3, 0, 1, 0.2F, 1},
                            {"all", 2, 20, 0.9F, 0.02F, 1.3F}}) {
    OpCase base;
    base.name = cat("choose_token_", s.name);
    base.op = "choose_token";
    base.hi = 2;
    cases.push_back(make_case(base, [=](CaseBuilder& b) {
      constexpr int64_t kRows = 12, kWidth = 301;
      Tensor params(DType::I32, {kRows, 8}), seen(DType::U32, {3, kWidth});
      for (int32_t r = 0; r < kRows; ++r) {
        const int32_t row[8] = {
            bits(s.temperature), s.top_k, bits(s.top_p), bits(s.min_p), bits(s.penalty), -7, r, r % 3};
        std::memcpy(params.as<int32_t>() + r * 8, row, sizeof row);
      }
      Rng rng(14);
      for (int64_t i = 0; i < seen.size(); ++i) seen.as<uint32_t>()[i] = rng.integer(0, 3) == 0;
      const ValueId given = b.graph.add_constant("params", std::move(params));
      std::vector<ValueId> inputs = {b.input({kRows, kWidth}), given};
      if (s.penalty != 1) inputs.push_back(b.graph.add_constant("seen", std::move(seen)));
      b.output(b.add("choose_token", inputs));
    }));
  }
  OpCase chosen;
  chosen.name = "chosen_rows_some";
  chosen.op = "chosen_rows";
  chosen.fill = Fill::Whole;
  chosen.lo = -2;
  chosen.hi = 9;
  chosen.exact = true;
  cases.push_back(make_case(chosen, [](CaseBuilder& b) {
    Tensor rows = step_rows(5, 32);
    for (int32_t r = 0; r < 5; r += 2) rows.as<int32_t>()[r * 4] = -1 - r;
    const ValueId given = b.graph.add_constant("rows", std::move(rows));
    b.output(b.add("chosen_rows", {given, b.input({4}, DType::I32)}));
  }));
  OpCase mark;
  mark.name = "mark_tokens_rows";
  mark.op = "mark_tokens";
  mark.fill = Fill::Whole;
  mark.hi = 1;
  mark.exact = true;
  cases.push_back(make_case(mark, [](CaseBuilder& b) {
    const ValueId rows = b.graph.add_constant("rows", step_rows(5, 32));
    b.output(b.add("mark_tokens", {b.input({2, 9}, DType::U32), rows}));
  }));
}

}  // namespace

void add_block_cases(std::vector<OpCase>& cases) {
  add_products(cases);
  for (const char* act : {"silu", "gelu", "gelu_tanh"}) add_gated(cases, act);
  add_turns(cases);
  for (const char* op : {"cache_rows", "cached_attention"}) {
    add_cache(cases, op, {"singles"});
    add_cache(cases, op, {.name = "halves", .cache = DType::F16});
    add_cache(cases, op, {.name = "bytes", .depth = 16, .cache = DType::U32});
    add_cache(cases, op, {.name = "no_turns", .half = 0});
  }
  add_cache(cases, "cache_rows", {.name = "norm", .depth = 20, .half = 10, .halves = true, .norm = true});
  add_cache(cases, "cached_attention", {.name = "window", .window = 3, .cache_rows = 640});
  add_cache(cases, "cached_attention", {.name = "softcap", .kv_heads = 4, .depth = 80, .softcap = 2});
  add_cache(cases, "cached_attention", {.name = "deep", .rows = 2, .heads = 2, .kv_heads = 1, .depth = 320});
  CacheSpec large{.name = "cut", .rows = 4, .heads = 4, .kv_heads = 2, .depth = 64, .half = 32, .cache_rows = 4000};
  large.large = true;
  add_cache(cases, "cached_attention", large);
  add_cache(cases, "cache_rows", large);
  add_choices(cases);
}

}  // namespace gyrus::test
