#include "ops/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace gyrus {
namespace {

constexpr double kUnit = 0x1p-24;  // uniform numbers are multiples of it, as many as an f32 holds

using D = const Chain&;
using Terms = std::vector<Term>;

uint32_t word_of(double x) { return static_cast<uint32_t>(static_cast<int64_t>(x)); }

// The two words of an element: x holds the row's operand, the key and the position, a[0] the stream.
std::array<uint32_t, 2> drawn(const double* x, const double* a) {
  return threefry2x32({word_of(x[3]), word_of(a[0])}, {word_of(x[1]), word_of(x[2])});
}

double uniform(uint32_t word) { return static_cast<double>(word >> 8) * kUnit; }

// Box and Muller.
double normal(const double* x, const double* a) {
  const std::array<uint32_t, 2> words = drawn(x, a);
  return std::sqrt(-2 * std::log1p(-uniform(words[0]))) * std::cos(2 * std::numbers::pi * uniform(words[1]));
}

double dropped(const double* x, const double* a) {
  // The share as the kernel has it: the same elements everywhere.
  return uniform(drawn(x, a)[0]) >= static_cast<double>(static_cast<float>(a[1])) ? x[0] / (1 - a[1]) : 0;
}

void check_stream(const Node& node, const double* a) {
  if (a[0] < 0 || a[0] >= 0x1p24 || a[0] != std::floor(a[0]))
    fail(ErrorCode::InvalidGraph, node.op, "stream is ", a[0], ", expected a whole number from 0 to 16777215");
}

void check_dropout(const Node& node, const double* a) {
  check_stream(node, a);
  if (!(a[1] >= 0 && a[1] < 1))
    fail(ErrorCode::InvalidGraph, node.op, "p is ", a[1], ", expected a share from 0 to below 1");
}

Terms none(D) { return {{}, {}, {}}; }

Elementwise random_row(std::string_view name, Gives gives, double (*value)(const double*, const double*),
                       std::string_view wgsl) {
  return {.name = name,
          .arity = 3,
          .gives = gives,
          .attrs = {{"stream", 0}},
          .indexed = true,
          .value = value,
          .wgsl = wgsl,
          .derivative = gives == Gives::Common ? none : nullptr,
          .check = check_stream};
}

}  // namespace

std::array<uint32_t, 2> threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key) {
  constexpr int kTurns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  uint32_t a = counter[0] + keys[0], b = counter[1] + keys[1];
  for (uint32_t round = 0; round < 20; ++round) {
    a += b;
    b = std::rotl(b, kTurns[round % 8]) ^ a;
    if (round % 4 != 3) continue;
    const uint32_t group = round / 4 + 1;
    a += keys[group % 3];
    b += keys[(group + 1) % 3] + group;
  }
  return {a, b};
}

std::vector<Elementwise> random_rows() {
  return {
      // A word of 32 bits.
      random_row(
          "random_bits", Gives::Word,
          [](const double* x, const double* a) { return static_cast<double>(drawn(x, a)[0]); },
          "act_random($i, $U(u32($stream)), bitcast<$U>($1), bitcast<$U>($2))[0]"),
      // From 0 to below 1 in steps of 2^-24: the same on every device.
      random_row(
          "random_uniform", Gives::Common, [](const double* x, const double* a) { return uniform(drawn(x, a)[0]); },
          "act_random_uniform(act_random($i, $U(u32($stream)), bitcast<$U>($1), bitcast<$U>($2))[0])"),
      // Of mean 0 and variance 1: the same on every device but for the rounding of logarithm, root and cosine.
      random_row("random_normal", Gives::Common, normal,
                 "act_random_normal(act_random($i, $U(u32($stream)), bitcast<$U>($1), bitcast<$U>($2)))"),
      // x / (1 - p), or in a share p of the elements 0. Its gradient draws the same again. Nothing where a network only
      // runs.
      {.name = "dropout",
       .arity = 3,
       .attrs = {{"stream", 0}, {"p", 0.5}},
       .indexed = true,
       .only_trains = true,
       .value = dropped,
       .wgsl = "act_dropout($0, act_random($i, $U(u32($stream)), bitcast<$U>($1), bitcast<$U>($2))[0], $p)",
       .derivative = [](D d) -> Terms {
         const Term slope =
             d.g.steps->add("dropout", {d.g, d.x[1], d.x[2]}, {{"stream", d.attrs[0]}, {"p", d.attrs[1]}});
         return {slope, {}, {}};
       },
       .check = check_dropout},
  };
}

}  // namespace gyrus
