// The only file of src/volume that needs libpng.
#include <png.h>

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

}  // namespace

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
