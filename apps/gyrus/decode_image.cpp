// libpng and libjpeg leave by longjmp where they are not told otherwise, which must not cross C++ frames with
// destructors; exceptions may cross theirs.
#include <png.h>

#include <jpeglib.h>
#include <cstdio>  // before jpeglib.h, which needs it
#include <cstring>

#include "core/error.h"
#include "decode.h"

namespace gyrus::cli {
namespace {

constexpr uint64_t kMostPixels = uint64_t{1} << 28;

void check_size(uint64_t width, uint64_t height, const std::string& subject) {
  if (width == 0 || height == 0 || width * height > kMostPixels)
    fail(ErrorCode::InvalidInput, subject, "is a picture of ", width, "x", height, " pixels");
}

struct Source {
  Bytes bytes;
  size_t at = 0;
  const std::string* subject = nullptr;
};

void read_some(png_structp png, png_bytep data, png_size_t length) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->bytes.size() - source->at < length) png_error(png, "ends too early");
  std::memcpy(data, source->bytes.data() + source->at, length);
  source->at += length;
}
void on_png_error(png_structp png, png_const_charp message) {
  fail(ErrorCode::InvalidInput, *static_cast<Source*>(png_get_error_ptr(png))->subject, "is a broken PNG: ", message);
}
void on_png_warning(png_structp, png_const_charp) {}

struct PngReader {
  png_structp png;
  png_infop info;
  explicit PngReader(Source& source)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_png_error, on_png_warning)),
        info(png != nullptr ? png_create_info_struct(png) : nullptr) {
    if (info == nullptr) fail(ErrorCode::InvalidInput, *source.subject, "cannot be decoded: libpng does not start");
    png_set_read_fn(png, &source, read_some);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_jpeg_error(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, message);
  fail(ErrorCode::InvalidInput, *static_cast<const std::string*>(jpeg->client_data), "is a broken JPEG: ", message);
}
// What libjpeg goes on after (a file that ends too early) would be a picture with made-up parts.
void on_jpeg_message(j_common_ptr jpeg, int level) {
  if (level < 0) on_jpeg_error(jpeg);
}

struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  explicit JpegReader(const std::string& subject) {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_jpeg_error;
    errors.emit_message = on_jpeg_message;
    jpeg.client_data = const_cast<std::string*>(&subject);
    jpeg_create_decompress(&jpeg);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

}  // namespace

bool is_png(Bytes file) { return file.size() >= 8 && std::memcmp(file.data(), "\x89PNG\r\n\x1a\n", 8) == 0; }
bool is_jpeg(Bytes file) { return file.size() >= 3 && std::memcmp(file.data(), "\xff\xd8\xff", 3) == 0; }

Pixels decode_png(Bytes file, const std::string& subject) {
  Source source{file, 0, &subject};
  PngReader reader(source);
  png_read_info(reader.png, reader.info);
  check_size(png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info), subject);
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  Pixels pixels;
  pixels.width = png_get_image_width(reader.png, reader.info);
  pixels.height = png_get_image_height(reader.png, reader.info);
  pixels.channels = png_get_channels(reader.png, reader.info);
  const size_t row = static_cast<size_t>(pixels.width * pixels.channels);
  pixels.values.resize(row * static_cast<size_t>(pixels.height));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < pixels.height; ++y) rows.push_back(pixels.values.data() + row * static_cast<size_t>(y));
  png_read_image(reader.png, rows.data());
  png_read_end(reader.png, nullptr);
  return pixels;
}

Pixels decode_jpeg(Bytes file, const std::string& subject) {
  JpegReader reader(subject);
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  check_size(jpeg.image_width, jpeg.image_height, subject);
  jpeg.out_color_space = jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  Pixels pixels{jpeg.output_width, jpeg.output_height, jpeg.output_components, {}};
  const size_t row = static_cast<size_t>(pixels.width * pixels.channels);
  pixels.values.resize(row * static_cast<size_t>(pixels.height));
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW to = pixels.values.data() + row * jpeg.output_scanline;
    jpeg_read_scanlines(&jpeg, &to, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return pixels;
}

}  // namespace gyrus::cli
