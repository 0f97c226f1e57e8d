#include "gyrus/signal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "nn/taps.h"
#include "ops/building.h"

// Transforms along axes, and what is made of short ones: spectra of frames, and signals from them.

namespace gyrus {
namespace {

const char* name_of(FftNorm norm) {
  return norm == FftNorm::Backward ? "backward" : norm == FftNorm::Ortho ? "ortho" : "forward";
}

Value transform(Value x, const FftOptions& options, const char* kind, bool inverse) {
  Attrs attrs{{"axis", options.axis}, {"norm", name_of(options.norm)}, {"inverse", int64_t{inverse}}, {"kind", kind}};
  if (options.n) attrs.set("n", *options.n);
  return apply("fft", {x}, std::move(attrs));
}

// The axes of an n-dimensional transform and their sizes; `kept` axes behind them are no axes of the signal.
std::vector<FftOptions> along_axes(Value x, const FftnOptions& options, size_t kept, const char* op) {
  const auto rank = static_cast<int64_t>(x.shape().size() - std::min(kept, x.shape().size()));
  std::vector<int64_t> axes = options.axes;
  if (axes.empty())
    for (int64_t a = 0; a < rank; ++a) axes.push_back(a);
  if (axes.empty() || (!options.sizes.empty() && options.sizes.size() != axes.size()))
    fail(ErrorCode::InvalidGraph, op, options.sizes.size(), " sizes for ", axes.size(), " axes of ",
         to_string(x.shape()), "; expected one for each of at least one axis");
  std::vector<FftOptions> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    all.push_back({{}, axes[i], options.norm});
    if (!options.sizes.empty()) all.back().n = options.sizes[i];
  }
  return all;
}

Value part_of(Value x, int64_t part, const char* op) {
  Shape shape = x.shape();
  if (shape.empty() || shape.back() != 2)
    fail(ErrorCode::InvalidGraph, op, "input is ", to_string(shape), ", expected complex numbers, a last axis of 2");
  const Value y = slice_axis(x, shape.size() - 1, part, part + 1);
  shape.pop_back();
  return reshape(y, shape);
}

void check_stft(const StftOptions& options, const char* op) {
  if (options.n_fft < 1 || options.hop < 1)
    fail(ErrorCode::InvalidGraph, op, "n_fft is ", options.n_fft, " and the hop ", options.hop, "; expected 1 or more");
  if (!options.window) return;
  const Shape shape = options.window.shape();
  if (shape.size() != 1 || shape[0] < 1 || shape[0] > options.n_fft)
    fail(ErrorCode::InvalidGraph, op, "the window is ", to_string(shape), ", expected [1 to ", options.n_fft, "]");
}

// Zeros around a window, so that it stands in the middle of a frame.
Value framed_window(Value window, int64_t n_fft) {
  const int64_t rest = n_fft - window.shape()[0];
  return rest == 0 ? window : pad(window, {rest / 2, rest - rest / 2});
}

// [..., frames, bins, 2]
Value spectra(Value x, const StftOptions& options, const char* op) {
  check_stft(options, op);
  if (x.shape().empty()) fail(ErrorCode::InvalidGraph, op, "the input is a scalar; expected [..., T]");
  if (options.center) {
    const int64_t half = options.n_fft / 2, length = x.shape().back();
    if (half >= length)
      fail(ErrorCode::InvalidGraph, op, "a signal of ", length, " elements cannot be mirrored by ", half,
           "; expected more, or center = false");
    std::vector<int64_t> pads(2 * x.shape().size(), 0);
    pads[x.shape().size() - 1] = pads.back() = half;
    x = pad(x, pads, PadMode::Reflect);
  }
  x = frames(x, options.n_fft, options.hop);
  if (options.window) x = x * framed_window(options.window, options.n_fft);
  if (options.onesided) return rfft(x, {.norm = options.norm});
  Shape shape = x.shape();
  shape.push_back(1);
  std::vector<int64_t> pads(2 * shape.size(), 0);
  pads.back() = 1;
  return fft(pad(reshape(x, shape), pads), {.norm = options.norm});
}

Value last_two_swapped(Value x, size_t behind) {
  std::vector<int64_t> perm;
  for (size_t a = 0; a < x.shape().size(); ++a) perm.push_back(static_cast<int64_t>(a));
  std::swap(perm.at(perm.size() - 1 - behind), perm.at(perm.size() - 2 - behind));
  return transpose(x, perm);
}

// The sum of the squares of all windows over each element, one over that; it must not be 0 in [begin, end).
Tensor one_over_squares(const std::vector<double>& window, int64_t count, int64_t hop, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(window.size());
  std::vector<double> sums(static_cast<size_t>((count - 1) * hop + size), 0);
  for (int64_t f = 0; f < count; ++f)
    for (int64_t i = 0; i < size; ++i)
      sums[static_cast<size_t>(f * hop + i)] += window[static_cast<size_t>(i)] * window[static_cast<size_t>(i)];
  Tensor shares(DType::F32, {end - begin});
  for (int64_t i = begin; i < end; ++i) {
    if (sums[static_cast<size_t>(i)] < 1e-11)
      fail(ErrorCode::InvalidGraph, "istft", "windows add up to 0 at element ", i - begin, ": the hop is too large");
    shares.as<float>()[i - begin] = static_cast<float>(1 / sums[static_cast<size_t>(i)]);
  }
  return shares;
}

std::vector<double> window_numbers(Value window, int64_t n_fft) {
  if (!window) return std::vector<double>(static_cast<size_t>(n_fft), 1);
  const Graph& graph = window.graph();
  if (!graph.is_constant(window.id()))
    fail(ErrorCode::Unsupported, "istft", "the window is computed; expected a constant, such as window_tensor gives");
  const Tensor& tensor = graph.constant(window.id());
  const int64_t before = (n_fft - tensor.size()) / 2;
  std::vector<double> numbers(static_cast<size_t>(n_fft), 0);
  for (int64_t i = 0; i < tensor.size(); ++i) numbers.at(static_cast<size_t>(before + i)) = get(tensor, i);
  return numbers;
}

}  // namespace

Value fft(Value x, const FftOptions& options) { return transform(x, options, "complex", false); }
Value ifft(Value x, const FftOptions& options) { return transform(x, options, "complex", true); }
Value rfft(Value x, const FftOptions& options) { return transform(x, options, "real", false); }
Value irfft(Value x, const FftOptions& options) { return transform(x, options, "half", true); }

Value fftn(Value x, const FftnOptions& options) {
  for (const FftOptions& along : along_axes(x, options, 1, "fftn")) x = fft(x, along);
  return x;
}

Value ifftn(Value x, const FftnOptions& options) {
  for (const FftOptions& along : along_axes(x, options, 1, "ifftn")) x = ifft(x, along);
  return x;
}

Value rfftn(Value x, const FftnOptions& options) {
  std::vector<FftOptions> all = along_axes(x, options, 0, "rfftn");
  Value y = rfft(x, all.back());
  all.pop_back();
  for (const FftOptions& along : all) y = fft(y, along);
  return y;
}

Value irfftn(Value x, const FftnOptions& options) {
  std::vector<FftOptions> all = along_axes(x, options, 1, "irfftn");
  const FftOptions last = all.back();
  all.pop_back();
  for (const FftOptions& along : all) x = ifft(x, along);
  return irfft(x, last);
}

Value complex_of(Value real, Value imaginary) { return stack({real, imaginary}, -1); }

Value real_part(Value x) { return part_of(x, 0, "real_part"); }
Value imaginary_part(Value x) { return part_of(x, 1, "imaginary_part"); }
Value conjugate(Value x) { return x * x.graph().constant(Tensor::from_floats({2}, {1, -1})); }

Value complex_mul(Value a, Value b) {
  const Value ar = real_part(a), ai = imaginary_part(a), br = real_part(b), bi = imaginary_part(b);
  return complex_of(ar * br - ai * bi, ar * bi + ai * br);
}

Value squared_magnitude(Value x) { return square(real_part(x)) + square(imaginary_part(x)); }

Value frames(Value x, int64_t size, int64_t hop) { return apply("frames", {x}, {{"size", size}, {"hop", hop}}); }

Value stft(Value x, const StftOptions& options) { return last_two_swapped(spectra(x, options, "stft"), 1); }

Value stft_power(Value x, const StftOptions& options) {
  return last_two_swapped(squared_magnitude(spectra(x, options, "stft_power")), 0);
}

Value istft(Value x, const StftOptions& options, std::optional<int64_t> length) {
  check_stft(options, "istft");
  const Shape shape = x.shape();
  const int64_t n = options.n_fft, bins = options.onesided ? n / 2 + 1 : n;
  if (shape.size() < 3 || shape.back() != 2 || shape[shape.size() - 3] != bins || shape[shape.size() - 2] < 1)
    fail(ErrorCode::InvalidGraph, "istft", "input is ", to_string(shape), ", expected [..., ", bins, ", frames, 2]");
  const int64_t count = shape[shape.size() - 2], whole = (count - 1) * options.hop + n;
  const int64_t begin = options.center ? n / 2 : 0, size = length.value_or(whole - 2 * begin);
  if (size < 1 || size > whole - begin)
    fail(ErrorCode::InvalidGraph, "istft", "the signal would have ", size, " elements; frames hold 1 to ",
         whole - begin);
  const Value spectrum = last_two_swapped(x, 1);
  Value y = options.onesided ? irfft(spectrum, {.n = n, .norm = options.norm})
                             : real_part(ifft(spectrum, {.norm = options.norm}));
  const Tensor shares = one_over_squares(window_numbers(options.window, n), count, options.hop, begin, begin + size);
  if (options.window) y = y * framed_window(options.window, n);
  y = overlap_add(y, options.hop, begin + size);
  return slice_axis(y, y.shape().size() - 1, begin, begin + size) * x.graph().constant(shares);
}

Value log_mel(Value x, Value filters, const LogMelOptions& options) {
  Value power = squared_magnitude(spectra(x, options.stft, "log_mel"));  // [..., frames, bins]
  const size_t rank = power.shape().size();
  const int64_t count = power.shape()[rank - 2], bins = power.shape()[rank - 1];
  if (filters.shape().size() != 2 || filters.shape()[1] != bins)
    fail(ErrorCode::InvalidGraph, "log_mel", "filters are ", to_string(filters.shape()), ", expected [mels, ", bins,
         "]");
  if (options.drop_last_frame) {
    if (count < 2) fail(ErrorCode::InvalidGraph, "log_mel", "there is one frame alone, which would be left out");
    power = slice_axis(power, rank - 2, 0, count - 1);
  }
  const Value mels = matmul(filters, power, {.transpose_b = true});
  if (options.log == MelLog::Ln) return log(max(mels, scalar(mels, options.floor)));
  const Value l = log(max(mels, scalar(mels, 1e-10))) * (1 / std::numbers::ln10);
  const Value most = reduce_max(l, {{-2, -1}, true});
  return (max(l, most - 8) + 4) * 0.25;
}

Value welch(Value x, const WelchOptions& options) {
  const int64_t n = options.n_fft, hop = options.hop.value_or(std::max<int64_t>(1, n / 2));
  const Value window = options.window ? options.window : x.graph().constant(window_tensor(WindowKind::Hann, n));
  if (window.shape() != Shape{n})
    fail(ErrorCode::InvalidGraph, "welch", "the window is ", to_string(window.shape()), ", expected [", n, "]");
  Value pieces = frames(x, n, hop);
  if (options.detrend) pieces = pieces - reduce_mean(pieces, {{-1}, true});
  const Value power = reduce_mean(squared_magnitude(rfft(pieces * window)), {{-2}});
  // What the window takes away, and the other half of the spectrum.
  std::vector<float> twice(static_cast<size_t>(n / 2 + 1), 2);
  twice.front() = 1;
  if (n % 2 == 0) twice.back() = 1;
  const Value given = options.density ? reduce_sum(square(window)) * options.sample_rate : square(reduce_sum(window));
  return power * x.graph().constant(Tensor::from_floats({n / 2 + 1}, twice)) / given;
}

SpectrumPeaks spectrum_peaks(Value spectrum, int64_t k, bool maxima) {
  const Shape shape = spectrum.shape();
  if (shape.empty() || k < 1 || k > shape.back())
    fail(ErrorCode::InvalidGraph, "spectrum_peaks", "k is ", k, " of a spectrum ", to_string(shape),
         ", expected 1 to the number of bins");
  if (!maxima) {
    const TopK top = top_k(spectrum, k, -1);
    return {top.positions, top.values};
  }
  // A bin at an end has one neighbour. Spectra may be negative, as logarithms are.
  const size_t axis = shape.size() - 1;
  const int64_t bins = shape.back();
  const double lowest = std::numeric_limits<float>::lowest();
  std::vector<int64_t> pads(2 * shape.size(), 0);
  pads[axis] = pads.back() = 1;
  const Value around = pad(spectrum, pads, lowest);
  const Value higher = logical_and(greater(spectrum, slice_axis(around, axis, 0, bins)),
                                   greater(spectrum, slice_axis(around, axis, 2, bins + 2)));
  const TopK top = top_k(where(higher, spectrum, scalar(spectrum, lowest)), k, -1);
  const Value found = greater(top.values, scalar(top.values, lowest));
  return {where(found, top.positions, scalar(top.positions, -1)), where(found, top.values, scalar(top.values, 0))};
}

}  // namespace gyrus
