#include "media.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "decode.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

// Values with their axes: channels first, then what the file has in the order in which arrays name it.
struct Media {
  Shape extents;  // rows and columns; x, y, z; samples
  int64_t channels = 1;
  std::vector<float> values;  // [channels, extents…]
  double scale = 1;           // unless told otherwise
};

bool ends_with(const std::string& path, const std::string& end) {
  if (path.size() < end.size()) return false;
  return std::equal(end.begin(), end.end(), path.end() - static_cast<std::ptrdiff_t>(end.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

bool is_volume(const std::string& path) {
  for (const char* end : {".nii", ".nii.gz", ".mgh", ".mgz", ".mgh.gz", ".hdr", ".img", ".hdr.gz", ".img.gz"})
    if (ends_with(path, end)) return true;
  return false;
}

// The axis of the channels where the input has one: before the extents or, of pictures, behind them.
struct Places {
  bool batch = false;
  bool channel = false;
  bool last = false;  // channels behind the extents
};

bool may_be(int64_t wanted, int64_t given) { return wanted < 0 || wanted == given; }

Places places_of(const WantedInput& wanted, size_t spatial, bool picture, const std::string& path) {
  Places places;
  const size_t rank = wanted.shape.size();
  if (rank == spatial) return places;
  if (rank < spatial || rank > spatial + 2)
    fail(ErrorCode::InvalidInput, path, "has ", spatial, " axes and channels, but the input ", in_quotes(wanted.name),
         " is ", to_string(wanted.shape));
  places.channel = true;
  places.batch = rank == spatial + 2;
  const auto is_count = [](int64_t extent) { return extent == 1 || extent == 3 || extent == 4; };
  const size_t first = places.batch ? 1 : 0;
  places.last = picture && !is_count(wanted.shape[first]) && is_count(wanted.shape.back());
  if (places.batch && !may_be(wanted.shape[0], 1))
    fail(ErrorCode::InvalidInput, path, "is one, but the input ", in_quotes(wanted.name), " takes ", wanted.shape[0],
         " at a time: ", to_string(wanted.shape));
  return places;
}

Media picture(const Pixels& pixels, int64_t channels) {
  if (channels < 0) channels = 3;
  Media media{{pixels.height, pixels.width}, channels, {}, 1.0 / 255};
  const int64_t count = pixels.width * pixels.height;
  media.values.resize(static_cast<size_t>(count * channels));
  const bool coloured = pixels.channels >= 3;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* p = pixels.values.data() + i * pixels.channels;
    const uint8_t rgba[4] = {p[0], p[coloured ? 1 : 0], p[coloured ? 2 : 0],
                             pixels.channels % 2 == 0 ? p[pixels.channels - 1] : uint8_t{255}};
    // Grey as ITU-R BT.601 weighs colours, which other programs do too.
    const float grey = coloured ? std::round(0.299f * rgba[0] + 0.587f * rgba[1] + 0.114f * rgba[2]) : p[0];
    for (int64_t c = 0; c < channels; ++c)
      media.values[static_cast<size_t>(c * count + i)] = channels == 1 ? grey : static_cast<float>(rgba[c]);
  }
  return media;
}

Media sound(const Sound& sound, int64_t channels) {
  const int64_t frames = static_cast<int64_t>(sound.samples.size()) / sound.channels;
  const bool mixed = channels == 1 && sound.channels > 1;
  Media media{{frames}, mixed ? 1 : sound.channels, {}, 1};
  media.values.resize(static_cast<size_t>(media.channels * frames));
  for (int64_t t = 0; t < frames; ++t)
    for (int64_t c = 0; c < sound.channels; ++c) {
      const float value = sound.samples[static_cast<size_t>(t * sound.channels + c)];
      if (mixed)
        media.values[static_cast<size_t>(t)] += value / static_cast<float>(sound.channels);
      else
        media.values[static_cast<size_t>(c * frames + t)] = value;
    }
  return media;
}

// Axes x, y, z, the slowest first, as nibabel gives them.
Media scan(const Volume& volume) {
  Media media{{volume.dims[0], volume.dims[1], volume.dims[2]}, 1, {}, 1};
  const std::vector<float> values = to_floats(volume);
  media.values.reserve(values.size());
  for (int64_t x = 0; x < volume.dims[0]; ++x)
    for (int64_t y = 0; y < volume.dims[1]; ++y)
      for (int64_t z = 0; z < volume.dims[2]; ++z)
        media.values.push_back(values[static_cast<size_t>(volume.index(x, y, z))]);
  return media;
}

double of_channel(const std::vector<double>& values, int64_t channel, int64_t channels, double otherwise,
                  const char* option) {
  if (values.empty()) return otherwise;
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels)
    fail(ErrorCode::InvalidInput, option, values.size(), " numbers are given for ", channels, " channels");
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

Array laid_out(const Media& media, const Places& places, const WantedInput& wanted, const MediaOptions& options,
               const std::string& path) {
  Shape shape = media.extents;
  if (places.channel) shape.insert(places.last ? shape.end() : shape.begin(), media.channels);
  if (places.batch) shape.insert(shape.begin(), 1);
  for (size_t i = 0; i < shape.size(); ++i)
    if (!may_be(wanted.shape[i], shape[i]))
      fail(ErrorCode::InvalidInput, path, "gives ", to_string(shape), ", but the input ", in_quotes(wanted.name),
           " takes ", to_string(wanted.shape), "; bring it to that size first");
  const bool floats = wanted.elem == onnx::Elem::F32 || wanted.elem == onnx::Elem::F16 ||
                      wanted.elem == onnx::Elem::BF16 || wanted.elem == onnx::Elem::F64;
  const double scale = options.scale.value_or(floats ? media.scale : 1);
  Array array{floats ? onnx::Elem::F32 : onnx::Elem::I64, Tensor(floats ? DType::F32 : DType::I64, shape)};
  const int64_t count = element_count(media.extents);
  for (int64_t c = 0; c < media.channels; ++c) {
    const double mean = of_channel(options.mean, c, media.channels, 0, "--mean");
    const double std = of_channel(options.std, c, media.channels, 1, "--std");
    for (int64_t i = 0; i < count; ++i)
      set(array.tensor, places.last ? i * media.channels + c : c * count + i,
          (media.values[static_cast<size_t>(c * count + i)] * scale - mean) / std);
  }
  return array;
}

}  // namespace

bool is_media(Bytes file, const std::string& path) {
  return is_png(file) || is_jpeg(file) || is_wav(file) || is_volume(path);
}

Array read_media(Bytes file, const std::string& path, const WantedInput& wanted, const MediaOptions& options) {
  const bool pixels = is_png(file) || is_jpeg(file);
  const Places places = places_of(wanted, pixels ? 2 : is_wav(file) ? 1 : 3, pixels, path);
  const int64_t channels = !places.channel ? 1 : places.last ? wanted.shape.back() : wanted.shape[places.batch ? 1 : 0];
  Media media;
  if (pixels) {
    if (channels > 4 || channels == 2)
      fail(ErrorCode::InvalidInput, path, "is a picture of 1, 3 or 4 channels, but the input ", in_quotes(wanted.name),
           " takes ", to_string(wanted.shape));
    media = picture(is_png(file) ? decode_png(file, path) : decode_jpeg(file, path), channels);
  } else if (is_wav(file)) {
    media = sound(decode_wav(file, path), channels);
  } else {
    media = scan(read_volume(path));
  }
  return laid_out(media, places, wanted, options, path);
}

}  // namespace gyrus::cli
