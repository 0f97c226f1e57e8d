// Fourier transforms. A length is cut into passes that are each made in workgroup memory; Stockham's order lets every
// pass read and write where the next wants it, so nothing is sorted: with n = l1 l2 …, pass i transforms the columns of
// l_i numbers that stand n / l_i apart, turns its results and writes them l_1 … l_(i-1) apart. An axis that is not the
// last one only begins with a larger distance. Lengths with large prime factors are convolved (Bluestein) by two
// transforms of a power of two, or of another smooth length that one pass makes. Lines lie in one binding; the op's
// decomposition cuts what does not.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "ops/fft.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

using Complex = std::complex<double>;

constexpr uint64_t kNumber = 8;             // bytes of a complex number
constexpr uint32_t kLanes = 256;            // of a workgroup that makes steps, at most
constexpr uint32_t kLanesOfRegisters = 64;  // of one that makes butterflies of 16: its lanes wait for one another least
constexpr uint64_t kRunOfColumns = 8;       // neighbours that are read together, so that memory is used well
constexpr uint64_t kAtOnce = uint64_t{128} << 20;  // bytes between two passes, at most
constexpr WgslType kPair{Scalar::F32, 2};

uint64_t shared_numbers(const Limits& limits) { return limits.max_compute_workgroup_storage_size / kNumber; }
// The longest transform of one pass: two halves of workgroup memory, one read while the other is written.
int64_t longest_pass(const Limits& limits) { return static_cast<int64_t>(shared_numbers(limits) / 2); }

// The length of the two transforms that convolve a line of n: both in one pass where that can be.
int64_t convolution_length(int64_t n, const Limits& limits) {
  for (int64_t length = 2 * n - 1; length <= longest_pass(limits); ++length)
    if (prime_factors(length).back() <= 5) return length;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
}

// fft_16.wgsl makes these.
bool has_registers(int64_t length) { return length == 32 || length == 64 || length == 128 || length == 256; }

// The lengths of the passes of a power of two: as few as can be, nearly equal.
std::vector<int64_t> powers(int64_t n) {
  const int bits = std::countr_zero(static_cast<uint64_t>(n)), count = (bits + 7) / 8;
  std::vector<int64_t> passes;
  for (int i = 0; i < count; ++i) passes.push_back(int64_t{1} << ((bits + count - 1 - i) / count));
  return passes;
}

// Factors shared out over so many passes, the largest first, each to the shortest pass.
std::vector<int64_t> shared_out(const std::vector<int64_t>& factors, size_t count) {
  std::vector<int64_t> passes(count, 1);
  for (auto it = factors.rbegin(); it != factors.rend(); ++it) *std::min_element(passes.begin(), passes.end()) *= *it;
  return passes;
}

std::vector<int64_t> passes_of(int64_t n, const Limits& limits) {
  const int64_t longest = longest_pass(limits);
  if (n <= longest) return {n};
  if (std::has_single_bit(static_cast<uint64_t>(n))) return powers(n);
  const std::vector<int64_t> factors = prime_factors(n);
  const auto fit = [&](const std::vector<int64_t>& passes, int64_t most) {
    return *std::max_element(passes.begin(), passes.end()) <= most;
  };
  // Of as many columns together as are read well, else of any.
  for (const int64_t most : {longest / static_cast<int64_t>(kRunOfColumns), longest})
    for (size_t count = 2; count <= factors.size(); ++count)
      if (const std::vector<int64_t> passes = shared_out(factors, count); fit(passes, most)) return passes;
  return {};
}

// The radices of the steps of one pass.
std::vector<int64_t> radices_of(int64_t length) {
  std::vector<int64_t> radices;
  for (; length % 4 == 0; length /= 4) radices.push_back(4);
  for (int64_t factor : prime_factors(length))
    if (factor > 1) radices.push_back(factor);
  return radices;
}

// Numbers that kernels multiply with, one list after another.
class Tables {
 public:
  uint32_t add(const std::vector<Complex>& numbers) {
    const auto at = static_cast<uint32_t>(bytes_.size() / kNumber);
    for (const Complex& number : numbers) {
      const float pair[2] = {static_cast<float>(number.real()), static_cast<float>(number.imag())};
      const size_t end = bytes_.size();
      bytes_.resize(end + sizeof pair);
      std::memcpy(bytes_.data() + end, pair, sizeof pair);
    }
    return at;
  }
  // exp(-2 pi i k step / n) for k < count
  uint32_t add_turns(int64_t count, int64_t step, int64_t n) {
    std::vector<Complex> turns;
    for (int64_t k = 0; k < count; ++k) turns.push_back(turn(k * step, n));
    return add(turns);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Storage pairs(const Storage& storage) {
  Storage view = storage;
  view.lanes = 2;
  view.units /= 2;
  view.slab_units = view.units;
  view.plane_units = 1;
  for (Chunk& chunk : view.chunks) {
    chunk.first /= 2;
    chunk.count /= 2;
  }
  return view;
}

// Lines of numbers that a pass reads or writes.
struct Lines {
  const Storage* storage = nullptr;
  uint64_t line = 0;   // units of one
  uint64_t first = 0;  // unit of the first at hand
  WgslType type = kPair;
};

// Where in the whole transform a pass stands.
struct Pass {
  int64_t length = 1;      // of its columns
  int64_t whole = 1;       // length of the transform
  int64_t stride = 1;      // inner times the lengths of the passes before
  bool last = false;       // of its transform
  bool starts = false;     // the node's operand is read
  bool ends = false;       // the node's results are written
  bool filters = false;    // last of the first transform of a convolution
  bool backwards = false;  // begins with the last columns
};

class FftEmitter {
 public:
  FftEmitter(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        label_(label_of(node)),
        g_(fft_geometry(node, lowering.graph().type(node.inputs[0]).shape)),
        in_(*whole_lines(lowering.storage(node.inputs[0]), in_units())),
        convolved_(!is_smooth(g_.n)),
        length_(convolved_ ? convolution_length(g_.n, lowering.limits()) : g_.n) {
    result_ = lowering.make_scratch(lines_type(out_units()), label_);
    lowering.set_storage(node.outputs[0], result_);
  }

  void run() {
    if (g_.outer * g_.inner == 0) return;
    in_ = g_.kind == FftKind::Real ? in_ : pairs(in_);
    out_ = g_.kind == FftKind::Half ? *result_ : pairs(*result_);
    list_passes();
    const uint64_t most = lines_at_once();
    make_scratches(most);
    for (uint64_t line = 0; line < outer();) {
      const uint64_t count = lines_that_fit(line, std::min(most, outer() - line));
      emit_lines(line, count);
      line += count;
    }
  }

 private:
  uint64_t outer() const { return static_cast<uint64_t>(g_.outer); }
  uint64_t in_line() const { return static_cast<uint64_t>(g_.given * g_.inner); }
  uint64_t out_line() const { return static_cast<uint64_t>(g_.results * g_.inner); }
  uint64_t scratch_line() const { return static_cast<uint64_t>(length_ * g_.inner); }
  int64_t in_units() const { return g_.given * g_.inner * (g_.kind == FftKind::Real ? 1 : 2); }
  int64_t out_units() const { return g_.results * g_.inner * (g_.kind == FftKind::Half ? 1 : 2); }

  // Cuts never split a plane, so that a line never lies in two buffers.
  TensorType lines_type(int64_t units) const { return {DType::F32, {1, 1, g_.outer, units}, Layout::Plain}; }

  // The operand, copied where a line of it lies in two buffers or does not begin with a whole number.
  StoragePtr whole_lines(const StoragePtr& in, int64_t units) {
    const bool whole = std::all_of(in->chunks.begin(), in->chunks.end(), [&](const Chunk& chunk) {
      return units == 0 || (chunk.first % static_cast<uint64_t>(units) == 0 && chunk.byte_offset % kNumber == 0);
    });
    if (whole) return in;
    const StoragePtr copy = lowering_.make_scratch(lines_type(units), label_);
    lowering_.builder().copy(*in, *copy);
    return copy;
  }

  void list_passes() {
    const std::vector<int64_t> lengths = passes_of(length_, lowering_.limits());
    for (int transform = 0; transform < (convolved_ ? 2 : 1); ++transform) {
      int64_t stride = g_.inner;
      for (size_t i = 0; i < lengths.size(); ++i) {
        Pass pass{lengths[i], length_, stride, i + 1 == lengths.size()};
        pass.starts = passes_.empty();
        pass.backwards = passes_.size() % 2 == 1;
        pass.filters = convolved_ && transform == 0 && pass.last;
        stride *= lengths[i];
        passes_.push_back(pass);
      }
    }
    passes_.back().ends = true;
  }

  // What lies between two passes is kept of so many lines at a time, at least of one.
  uint64_t lines_at_once() const {
    if (passes_.size() == 1) return outer();
    const uint64_t bytes = scratch_line() * kNumber;
    const uint64_t room = std::min(kAtOnce, lowering_.limits().max_storage_buffer_binding_size);
    return std::clamp<uint64_t>(room / bytes, 1, outer());
  }

  uint64_t lines_that_fit(uint64_t line, uint64_t most) const {
    const auto fits = [&](uint64_t count) {
      return fits_window(in_, line * in_line(), count * in_line(), lowering_.limits()) &&
             fits_window(out_, line * out_line(), count * out_line(), lowering_.limits());
    };
    if (!fits(1))
      fail(ErrorCode::OverLimits, label_, "a transform of ", g_.n, " numbers is larger than a binding may be");
    uint64_t least = 1;
    while (least < most) {
      const uint64_t middle = (least + most + 1) / 2;
      (fits(middle) ? least : most) = fits(middle) ? middle : middle - 1;
    }
    return least;
  }

  void make_scratches(uint64_t lines) {
    const TensorType type{DType::F32, {1, 1, static_cast<int64_t>(lines), length_ * g_.inner * 2}, Layout::Plain};
    for (size_t i = 0; i + 1 < std::min<size_t>(passes_.size(), 3); ++i)
      scratches_.push_back(pairs(*lowering_.make_scratch(type, label_)));
  }

  void emit_lines(uint64_t line, uint64_t count) {
    Lines from{&in_, in_line(), line * in_line(), g_.kind == FftKind::Real ? wgsl::f32 : kPair};
    for (size_t i = 0; i < passes_.size(); ++i) {
      Lines to{nullptr, scratch_line(), 0, kPair};
      if (passes_[i].ends)
        to = {&out_, out_line(), line * out_line(), g_.kind == FftKind::Half ? wgsl::f32 : kPair};
      else
        to.storage = &scratches_[i % 2];
      emit(passes_[i], from, to, count);
      from = to;
    }
  }

  Window window_of(const Lines& lines, uint64_t count) const {
    return window(*lines.storage, lines.first, count * lines.line, lowering_.limits());
  }

  // The multipliers of a pass, and where each list begins.
  void add_tables(Kernel& k, const Pass& pass) {
    Tables tables;
    tables.add_turns(pass.length, 1, pass.length);
    const int64_t whole = pass.last ? 1 : pass.whole;  // results of the last pass are not turned
    const int fine_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(whole)) / 2);
    const int64_t fine = int64_t{1} << fine_bits;
    k.param("fine", uint64_t{tables.add_turns(fine, 1, whole)}).param("fine_bits", int64_t{fine_bits});
    k.param("coarse", uint64_t{tables.add_turns((whole + fine - 1) / fine, fine, whole)});
    k.param("turns", pass.last ? 0 : pass.stride / g_.inner);
    const bool in = convolved_ && pass.starts, out = convolved_ && pass.ends;
    k.param("chirp", uint64_t{in || out ? tables.add(chirp(g_.n)) : 0});
    k.param("filter_at", uint64_t{pass.filters ? tables.add(chirp_filter(g_.n, length_)) : 0});
    k.flag("chirp_in", in).flag("chirp_out", out).flag("filter", pass.filters);
    k.read("tables", lowering_.builder().add_constant(tables.bytes(), label_), kPair);
  }

  void add_ends(Kernel& k, const Pass& pass, const Lines& from, const Lines& to, uint64_t count) {
    const Window in = window_of(from, count), out = window_of(to, count);
    k.read("input", in.range, from.type).param("input_shift", in.skip - in.first);
    k.write("output", out.range, to.type).param("output_shift", out.skip - out.first);
    k.checks_stored();
    const uint64_t all = scratch_line();
    k.param("in_first", from.first).param("in_line", from.line).param("out_first", to.first).param("out_line", to.line);
    const uint64_t given = std::min<uint64_t>(in_line(), static_cast<uint64_t>(g_.n * g_.inner));
    const uint64_t in_limit = pass.starts ? given : all, out_limit = pass.ends ? out_line() : all;
    k.param("in_limit", in_limit).flag("limited_in", in_limit < all);
    k.param("out_limit", out_limit).flag("limited_out", out_limit < all);
    k.param("n", g_.n).param("given", g_.given).param("inner", g_.inner);
    k.param("swap_in", int64_t{pass.starts && g_.inverse}).param("swap_out", int64_t{pass.ends && g_.inverse});
    k.param("scale", static_cast<float>(pass.ends ? g_.scale : 1));
    k.flag("real", pass.starts && g_.kind == FftKind::Real).flag("half", pass.starts && g_.kind == FftKind::Half);
    k.flag("half_out", pass.ends && g_.kind == FftKind::Half);
    const Storage scalar;  // of f32: parts are tested one by one
    k.text("store_real", k.stored(scalar, "value.x")).text("store_imaginary", k.stored(scalar, "value.y"));
  }

  void emit(const Pass& pass, const Lines& from, const Lines& to, uint64_t lines) {
    const auto across = static_cast<uint64_t>(pass.whole / pass.length * g_.inner);
    const uint64_t columns = lines * across, length = static_cast<uint64_t>(pass.length);
    const bool registers = has_registers(pass.length) && fits_registers(length);
    Kernel k(lowering_, registers ? "fft_16" : "fft", label_);
    k.param("length", pass.length).param("across", across).param("columns", columns).param("stride", pass.stride);
    k.param("load_across", int64_t{across >= 4}).param("store_across", int64_t{pass.stride >= 4});
    add_tables(k, pass);
    add_ends(k, pass, from, to, lines);
    const uint64_t together = registers ? set_registers(k, pass, length) : set_steps(k, length, columns);
    const uint64_t groups = (columns + together - 1) / together;
    k.param("last_group", groups - 1).param("backwards", int64_t{pass.backwards});
    const double n = static_cast<double>(length) * static_cast<double>(columns);
    const double bytes = static_cast<double>(lines) * (static_cast<double>(from.line) * (from.type.lanes * 4) +
                                                       static_cast<double>(to.line) * (to.type.lanes * 4));
    k.dispatch(groups, {5 * n * std::log2(static_cast<double>(length)), bytes});
  }

  // A row of workgroup memory: one element in 17 is left out, and columns lie so far apart that neighbours among lanes
  // meet in no bank, of which 16 hold a number each.
  static uint64_t row_in_registers(uint64_t length, uint64_t together) {
    const uint64_t row = length + length / 16, apart = together < 16 ? 16 / together : 1;
    return row + (16 + apart - row % 16) % 16;
  }
  // Columns that fit the workgroup's lanes and memory.
  uint64_t columns_in_registers(uint64_t length) const {
    const uint64_t lanes = lowering_.workgroup(kLanesOfRegisters);
    uint64_t together = std::bit_floor(lanes / (length / 16));
    while (together > 1 && together * row_in_registers(length, together) > shared_numbers(lowering_.limits()))
      together /= 2;
    return together;
  }
  bool fits_registers(uint64_t length) const {
    return lowering_.workgroup(kLanesOfRegisters) >= length / 16 &&
           shared_numbers(lowering_.limits()) >= row_in_registers(length, 1);
  }
  uint64_t set_registers(Kernel& k, const Pass& pass, uint64_t length) const {
    const uint64_t together = columns_in_registers(length);
    const uint64_t rest = length / 16;
    const uint64_t row = row_in_registers(length, together);
    k.workgroup(static_cast<uint32_t>(together * rest)).shared("stage", kPair, together * row).param("row", row);
    // Kernels of registers leave out what they need not do; those of steps are few texts instead.
    k.flag("as_it_is_in", !(pass.starts && g_.inverse));
    k.flag("as_it_is_out", !pass.ends || (!g_.inverse && g_.scale == 1));
    k.flag("turned", !pass.last)
        .constant("low", rest == 2 ? 2 : 4)
        .constant("high", rest <= 4 ? 1 : static_cast<int64_t>(rest) / 4);
    k.param("together_bits", int64_t{std::countr_zero(together)}).constant("rest", static_cast<int64_t>(rest));
    for (const uint64_t radix : {2, 4, 8, 16}) k.flag(cat("rest", radix), rest == radix);
    return together;
  }

  uint64_t set_steps(Kernel& k, uint64_t length, uint64_t columns) const {
    // Workgroup memory is part of the text: always the same, so that lengths share it.
    const uint64_t numbers = shared_numbers(lowering_.limits());
    const uint64_t together = std::clamp<uint64_t>(numbers / 2 / (length | 1), 1, columns);
    k.workgroup(kLanes).shared("stage", kPair, numbers).param("together", together);
    k.param("row", together > 1 ? length | 1 : length);  // odd: columns lie in different banks
    const std::vector<int64_t> radices = radices_of(static_cast<int64_t>(length));
    uint32_t packed[2] = {0, 0};
    for (size_t i = 0; i < radices.size(); ++i) packed[i / 4] |= static_cast<uint32_t>(radices[i]) << (8 * (i % 4));
    k.param("steps", uint64_t{radices.size()}).param("radices", uint64_t{packed[0]});
    k.param("radices_behind", uint64_t{packed[1]});
    return together;
  }

  Lowering& lowering_;
  std::string label_;
  FftGeometry g_;
  Storage in_, out_;
  StoragePtr result_;
  bool convolved_;
  int64_t length_;
  std::vector<Pass> passes_;
  std::vector<Storage> scratches_;
};

}  // namespace

// Whether a line, what lies between passes, and the multipliers each fit a binding.
bool suits_fft(const Graph& graph, const Node& node, const Target& target, const PlanOptions&) {
  const FftGeometry g = fft_geometry(node, graph.type(node.inputs[0]).shape);
  const Limits& limits = target.limits;
  const bool smooth = is_smooth(g.n);
  const int64_t length = smooth ? g.n : convolution_length(g.n, limits);
  if (passes_of(length, limits).empty()) return false;
  const uint64_t most = std::min<uint64_t>(limits.max_storage_buffer_binding_size, UINT32_MAX) -
                        limits.min_storage_buffer_offset_alignment;
  const auto fits = [&](int64_t numbers) { return static_cast<uint64_t>(numbers) <= most / kNumber; };
  const int64_t tables = length <= longest_pass(limits) ? length : 4096;
  return fits(g.given * g.inner) && fits(length * g.inner) && (smooth || fits(tables + length + g.n));
}

void lower_fft(Lowering& lowering, const Node& node) { FftEmitter(lowering, node).run(); }

}  // namespace gyrus
