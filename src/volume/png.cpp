// The only file of src/volume that needs libpng.
#include <png.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "volume/image.h"

namespace gyrus {

namespace {

void append(png_structp png, png_bytep data, png_size_t length) {
  auto* out = static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  out->insert(out->end(), begin, begin + length);
}

void flush(png_structp) {}

// libpng's own way out is longjmp, which must not cross C++ frames with destructors; an exception may.
void on_error(png_structp, png_const_charp message) { fail(ErrorCode::Io, "png", message); }
void on_warning(png_structp, png_const_charp) {}

struct Writer {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, on_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

// Colours as numbers of a palette.
struct Indexed {
  std::vector<png_color> palette;
  std::vector<uint8_t> pixels;
};

// A colour in coarser steps: greys keep 5 bits, the others `bits` of each channel.
uint32_t coarse(const uint8_t* rgb, int bits) {
  const auto spread = std::max({rgb[0], rgb[1], rgb[2]}) - std::min({rgb[0], rgb[1], rgb[2]});
  const int kept = spread < 8 ? 5 : bits;
  uint32_t code = 0;
  for (int c = 0; c < 3; ++c) {
    const uint32_t step = rgb[spread < 8 ? 1 : c] >> (8 - kept);
    code = code << 8 | step * 255 / ((1u << kept) - 1);
  }
  return code;
}

Indexed indexed(const Image& image) {
  const size_t count = image.rgb.size() / 3;
  for (int bits = 4; bits > 0; --bits) {
    Indexed out;
    std::unordered_map<uint32_t, uint8_t> numbers;
    out.pixels.reserve(count);
    for (size_t i = 0; i < count && numbers.size() <= 256; ++i) {
      const uint32_t code = coarse(image.rgb.data() + 3 * i, bits);
      const auto [place, is_new] = numbers.try_emplace(code, static_cast<uint8_t>(numbers.size()));
      if (is_new)
        out.palette.push_back({static_cast<png_byte>(code >> 16), static_cast<png_byte>(code >> 8 & 255),
                               static_cast<png_byte>(code & 255)});
      out.pixels.push_back(place->second);
    }
    if (numbers.size() <= 256) return out;
  }
  fail(ErrorCode::Io, "png", "too many colours");
}

}  // namespace

std::vector<std::byte> encode_small_png(const Image& image) {
  const Indexed small = indexed(image);
  Writer writer;
  if (writer.info == nullptr) fail(ErrorCode::Io, "png", "no memory");
  std::vector<std::byte> out;
  png_set_write_fn(writer.png, &out, append, flush);
  png_set_compression_level(writer.png, 7);
  png_set_filter(writer.png, 0, PNG_FILTER_NONE);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               8, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_PLTE(writer.png, writer.info, small.palette.data(), static_cast<int>(small.palette.size()));
  png_write_info(writer.png, writer.info);
  for (int y = 0; y < image.height; ++y)
    png_write_row(writer.png, small.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(image.width));
  png_write_end(writer.png, writer.info);
  return out;
}

std::vector<std::byte> encode_png(const Image& image) {
  Writer writer;
  if (writer.info == nullptr) fail(ErrorCode::Io, "png", "no memory");
  std::vector<std::byte> out;
  png_set_write_fn(writer.png, &out, append, flush);
  png_set_compression_level(writer.png, 6);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  for (int y = 0; y < image.height; ++y) png_write_row(writer.png, image.pixel(0, y));
  png_write_end(writer.png, writer.info);
  return out;
}

}  // namespace gyrus
