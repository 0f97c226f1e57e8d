#include <gyrus/gyrus.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

// The mel spectrogram of a WAV file as a PNG picture: time from left to right, low sounds below, 80 dB from dark to
// bright. Everything from samples to brightness is one graph on the GPU.

namespace {

using Bytes = std::vector<uint8_t>;

struct Sound {
  int64_t rate = 0;
  std::vector<float> samples;  // the mean of all channels, from -1 to 1
};

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw gyrus::Error(gyrus::ErrorCode::InvalidInput, "[" + file + "] " + why);
}

uint64_t little(const Bytes& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint64_t{bytes.at(at + i)} << (8 * i);
  return value;
}

// Integers of 8 (unsigned), 16, 24 or 32 bits, or floats of 32.
float sample_at(const Bytes& bytes, size_t at, size_t width, bool floats) {
  if (floats) {
    const auto bits = static_cast<uint32_t>(little(bytes, at, 4));
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  if (width == 1) return static_cast<float>(bytes.at(at) - 128) / 128;
  const auto high = static_cast<int32_t>(little(bytes, at, width) << (32 - 8 * width));
  return static_cast<float>(high) / 2147483648.0F;
}

Sound read_wav(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
  const auto tag = [&](size_t at) {
    return std::string(bytes.begin() + static_cast<long>(at), bytes.begin() + static_cast<long>(at) + 4);
  };
  if (bytes.size() < 12 || tag(0) != "RIFF" || tag(8) != "WAVE") refuse(file, "is no WAV file");
  Sound sound;
  size_t channels = 0, width = 0;
  bool floats = false;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const std::string name = tag(at);
    const size_t begin = at + 8, size = std::min<size_t>(little(bytes, at + 4, 4), bytes.size() - begin);
    if (name == "fmt " && size >= 16) {
      uint64_t format = little(bytes, begin, 2);
      if (format == 0xFFFE && size >= 26) format = little(bytes, begin + 24, 2);
      channels = little(bytes, begin + 2, 2);
      sound.rate = static_cast<int64_t>(little(bytes, begin + 4, 4));
      width = little(bytes, begin + 14, 2) / 8;
      floats = format == 3;
      if ((format != 1 && !floats) || channels < 1 || sound.rate < 1 || width < 1 || width > 4 ||
          (floats && width != 4))
        refuse(file, "holds samples of a kind that is not read: integers of 8 to 32 bits or floats of 32 are");
    } else if (name == "data" && channels > 0) {
      for (size_t frame = 0; frame < size / (channels * width); ++frame) {
        float sum = 0;
        for (size_t c = 0; c < channels; ++c)
          sum += sample_at(bytes, begin + (frame * channels + c) * width, width, floats);
        if (!std::isfinite(sum)) refuse(file, "holds samples that are infinite or not a number");
        sound.samples.push_back(sum / static_cast<float>(channels));
      }
    }
    at = begin + size + size % 2;
  }
  if (sound.samples.empty()) refuse(file, "holds no samples");
  return sound;
}

// Brightness from 0 to 1, [mels, frames].
gyrus::Tensor spectrogram(const gyrus::Device& device, const Sound& sound, int64_t n_fft, int64_t hop, int64_t mels) {
  using namespace gyrus;
  const auto count = static_cast<int64_t>(sound.samples.size());
  Graph graph;
  const Value x = graph.input("samples", DType::F32, {count});
  const Value window = graph.constant(window_tensor(WindowKind::Hann, n_fft));
  const Value power = stft_power(x, {.n_fft = n_fft, .hop = hop, .window = window});
  const Value filters = graph.constant(
      mel_filters({.sample_rate = static_cast<double>(sound.rate), .n_fft = n_fft, .mels = mels, .normalized = false}));
  const Value heard = matmul(filters, power);
  const Value decibels = log(max(heard, scalar(heard, 1e-10))) * (10 / std::log(10));
  graph.output("brightness", clamp((decibels - reduce_max(decibels)) / 80 + 1, 0, 1));
  return Program(device, graph)
      .run({{"samples", Tensor::from_floats({count}, sound.samples)}})
      .outputs.at("brightness");
}

// From black over violet and orange to white.
std::array<uint8_t, 3> colour(float brightness) {
  constexpr float kStops[5][3] = {{0, 0, 10}, {90, 15, 110}, {210, 60, 75}, {250, 165, 40}, {255, 255, 220}};
  const float at = brightness * 4;
  const int below = std::min(static_cast<int>(at), 3);
  std::array<uint8_t, 3> rgb{};
  for (size_t i = 0; i < 3; ++i)
    rgb[i] = static_cast<uint8_t>(
        std::lround(kStops[below][i] + (at - static_cast<float>(below)) * (kStops[below + 1][i] - kStops[below][i])));
  return rgb;
}

void put_big(Bytes& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

void put_chunk(Bytes& png, const std::string& name, const Bytes& data) {
  put_big(png, static_cast<uint32_t>(data.size()));
  const size_t begin = png.size();
  png.insert(png.end(), name.begin(), name.end());
  png.insert(png.end(), data.begin(), data.end());
  uint32_t crc = ~0U;
  for (size_t i = begin; i < png.size(); ++i) {
    crc ^= png[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320U : crc >> 1;
  }
  put_big(png, ~crc);
}

// A zlib stream that packs nothing.
Bytes stored(const Bytes& raw) {
  Bytes out = {0x78, 0x01};
  uint32_t a = 1, b = 0;
  for (size_t at = 0; at < raw.size(); at += 65535) {
    const size_t size = std::min<size_t>(65535, raw.size() - at);
    const auto low = static_cast<uint8_t>(size), high = static_cast<uint8_t>(size >> 8);
    out.insert(out.end(), {static_cast<uint8_t>(at + size == raw.size()), low, high, static_cast<uint8_t>(~low),
                           static_cast<uint8_t>(~high)});
    out.insert(out.end(), raw.begin() + static_cast<long>(at), raw.begin() + static_cast<long>(at + size));
  }
  for (const uint8_t byte : raw) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  put_big(out, b << 16 | a);
  return out;
}

void write_png(const std::string& file, const gyrus::Tensor& brightness) {
  const int64_t rows = brightness.shape[0], columns = brightness.shape[1];
  Bytes pixels, png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, head;
  for (int64_t row = rows - 1; row >= 0; --row) {
    pixels.push_back(0);  // this row is stored as it is
    for (int64_t column = 0; column < columns; ++column)
      for (const uint8_t part : colour(brightness.as<float>()[row * columns + column])) pixels.push_back(part);
  }
  put_big(head, static_cast<uint32_t>(columns));
  put_big(head, static_cast<uint32_t>(rows));
  head.insert(head.end(), {8, 2, 0, 0, 0});  // 8 bits, RGB
  put_chunk(png, "IHDR", head);
  put_chunk(png, "IDAT", stored(pixels));
  put_chunk(png, "IEND", {});
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  if (!out.flush()) throw gyrus::Error(gyrus::ErrorCode::Io, "[" + file + "] cannot be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return std::cerr << "usage: spectrogram SOUND.wav PICTURE.png\n", 2;
  const Sound sound = read_wav(argv[1]);
  const gyrus::Device device = gyrus::open_gpu();
  const gyrus::Tensor brightness = spectrogram(device, sound, /*n_fft=*/2048, /*hop=*/512, /*mels=*/256);
  write_png(argv[2], brightness);
  std::cout << argv[2] << ": " << brightness.shape[1] << " x " << brightness.shape[0] << ", "
            << static_cast<double>(sound.samples.size()) / static_cast<double>(sound.rate) << " s at " << sound.rate
            << " Hz, on " << device.adapter().name << "\n";
} catch (const gyrus::Error& error) {
  return std::cerr << error.what() << "\n", 1;
}
