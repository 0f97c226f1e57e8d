#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "gyrus/nn.h"

// Signals: Fourier transforms of any length, frames, spectra. Complex numbers are a trailing axis of 2 (real,
// imaginary) of f32, which other axes do not count. Every function that takes values adds nodes to their graph.

namespace gyrus {

// Which direction has the scale: Backward the inverse 1/n, Forward the other one, Ortho both 1/sqrt(n).
enum class FftNorm : uint8_t { Backward, Ortho, Forward };
struct FftOptions {
  std::optional<int64_t> n{};  // cut or filled with zeros to so many elements first
  int64_t axis = -1;
  FftNorm norm = FftNorm::Backward;
};
// y[k] = sum over t of x[t] exp(-2 pi i k t / n); ifft with +.
Value fft(Value x, const FftOptions& options = {});
Value ifft(Value x, const FftOptions& options = {});
// Real numbers to the first n/2 + 1 results, and back: n is 2 (bins - 1) by default, and imaginary parts of bin 0 and,
// for even n, of bin n/2 do not count.
Value rfft(Value x, const FftOptions& options = {});
Value irfft(Value x, const FftOptions& options = {});

struct FftnOptions {
  std::vector<int64_t> axes{};   // empty: all
  std::vector<int64_t> sizes{};  // one for each of the axes; empty: as they are
  FftNorm norm = FftNorm::Backward;
};
// Along several axes; of real numbers along the last one of them.
Value fftn(Value x, const FftnOptions& options = {});
Value ifftn(Value x, const FftnOptions& options = {});
Value rfftn(Value x, const FftnOptions& options = {});
Value irfftn(Value x, const FftnOptions& options = {});

Value complex_of(Value real, Value imaginary);  // of one shape
Value real_part(Value x);
Value imaginary_part(Value x);
Value conjugate(Value x);
Value complex_mul(Value a, Value b);
Value squared_magnitude(Value x);  // re^2 + im^2

enum class WindowKind : uint8_t {
  Rectangular,
  Hann,
  Hamming,
  Blackman,
  BlackmanHarris,
  Nuttall,
  FlatTop,
  Bartlett,
  Kaiser
};
// [size]: one period, or symmetric. `beta` is Kaiser's.
Tensor window_tensor(WindowKind kind, int64_t size, bool periodic = true, double beta = 14);

// Pieces of `size` elements of the last axis, `hop` apart: [..., T] to [..., frames, size], and back to `length`
// elements with overlaps added.
Value frames(Value x, int64_t size, int64_t hop);
Value overlap_add(Value x, int64_t hop, int64_t length);

struct StftOptions {
  int64_t n_fft = 400;
  int64_t hop = 160;
  Value window{};        // [at most n_fft], in the middle of a frame; absent: ones
  bool center = true;    // frame f has its middle at f hop: x is mirrored by n_fft/2 at both ends
  bool onesided = true;  // n_fft/2 + 1 bins, else n_fft
  FftNorm norm = FftNorm::Backward;
};
// x [..., T] to [..., bins, frames, 2].
Value stft(Value x, const StftOptions& options = {});
// |stft|^2, [..., bins, frames].
Value stft_power(Value x, const StftOptions& options = {});
// Back to [..., length], by default (frames - 1) hop (+ n_fft without center): overlapping frames are weighted by the
// window and divided by the sum of its squares. Throws InvalidGraph where that sum is 0 somewhere; the window is a
// constant.
Value istft(Value x, const StftOptions& options = {}, std::optional<int64_t> length = {});

enum class MelScale : uint8_t { Slaney, Htk };
struct MelOptions {
  double sample_rate = 16000;
  int64_t n_fft = 400;
  int64_t mels = 80;
  double f_min = 0;
  std::optional<double> f_max{};  // half of the rate
  MelScale scale = MelScale::Slaney;
  bool normalized = true;  // triangles of area 1 over frequency, as Slaney's
};
// [mels, n_fft/2 + 1]
Tensor mel_filters(const MelOptions& options = {});

enum class MelLog : uint8_t { Whisper, Ln };
struct LogMelOptions {
  StftOptions stft{};
  // Whisper: l = log10(max(m, 1e-10)), l = max(l, its largest of the item of the batch - 8), (l + 4) / 4.
  // Ln: ln(max(m, floor)).
  MelLog log = MelLog::Whisper;
  double floor = 1e-5;
  bool drop_last_frame = true;
};
// x [..., T], filters [mels, bins] to [..., mels, frames].
Value log_mel(Value x, Value filters, const LogMelOptions& options = {});

// Welch's spectrum: |rfft|^2 of pieces of n_fft elements, `hop` apart, averaged. x [..., T] to [..., n_fft/2 + 1].
struct WelchOptions {
  int64_t n_fft = 256;
  std::optional<int64_t> hop{};  // half of n_fft
  Value window{};                // [n_fft]; absent: Hann, one period
  double sample_rate = 1;
  bool density = true;  // power for each unit of frequency, else power of each bin
  bool detrend = true;  // each piece less its mean
};
Value welch(Value x, const WelchOptions& options = {});
// The k highest bins of a spectrum [..., bins], best first, equal ones in their order: their numbers (i32) and powers,
// [..., k]. With `maxima` only bins that are higher than both neighbours count; where there are fewer, the bin is -1
// and the power 0.
struct SpectrumPeaks {
  Value bins, powers;
};
SpectrumPeaks spectrum_peaks(Value spectrum, int64_t k, bool maxima = false);

}  // namespace gyrus
