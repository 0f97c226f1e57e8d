// gyrus run on pictures, volumes and sound.
#include <png.h>

#include <jpeglib.h>
#include <bit>
#include <cmath>
#include <cstdio>  // before jpeglib.h, which needs it

#include "core/files.h"
#include "e2e/e2e_support.h"
#include "import/npy.h"
#include "support/onnx_writer.h"
#include "volume/image.h"

namespace gyrus::test {
namespace {

using namespace onnx_file;

class RunMedia : public Program {
 protected:
  // y = x, of this type.
  void write_identity(int type, const std::vector<int64_t>& shape) const {
    write_file(in_folder("model.onnx"), model(input("x", type, shape) + node("Identity", {"x"}, {"y"}) + output("y")));
  }
  Array result_of(const std::string& file, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"run", "model.onnx", "-i", "x=" + file, "--output-dir", "out"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = run_well(arguments);
    if (outcome.status != 0) return {};
    const std::vector<std::byte> bytes = read_file(in_folder("out/y.npy"));
    return read_npy(gyrus::bytes_of(bytes), "y");
  }
  // Red, green, blue in the first row, white, black and (10, 20, 30) in the second.
  void write_picture() const {
    Image image(3, 2);
    const uint8_t values[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 10, 20, 30};
    std::copy(std::begin(values), std::end(values), image.rgb.begin());
    write_file(in_folder("picture.png"), encode_png(image));
  }
};

TEST_F(RunMedia, PicturesComeInTheLayoutOfTheInput) {
  write_picture();
  write_identity(Float, {-1, 3, -1, -1});
  const Tensor first = result_of("picture.png").tensor;
  ASSERT_EQ(first.shape, (Shape{1, 3, 2, 3}));
  EXPECT_EQ(get(first, 0), 1);
  EXPECT_EQ(get(first, 1), 0);
  EXPECT_NEAR(get(first, 2 * 6 + 5), 30 / 255.0, 1e-7);
  write_identity(Float, {1, 2, 3, 3});  // rows, columns, channels
  const Tensor last = result_of("picture.png").tensor;
  ASSERT_EQ(last.shape, (Shape{1, 2, 3, 3}));
  EXPECT_NEAR(get(last, 5 * 3 + 1), 20 / 255.0, 1e-7);
  write_identity(Uint8, {1, 2, 3});  // grey, as bytes
  const Tensor grey = result_of("picture.png").tensor;
  EXPECT_EQ(get(grey, 0), 76);
  EXPECT_EQ(get(grey, 3), 255);
}

TEST_F(RunMedia, ValuesAreScaledAndNormalised) {
  write_picture();
  write_identity(Float, {1, 3, 2, 3});
  const Tensor t = result_of("picture.png", {"--scale", "0.5", "--mean", "1,2,3", "--std", "2,4,8"}).tensor;
  EXPECT_NEAR(get(t, 5), (10 * 0.5 - 1) / 2, 1e-6);
  EXPECT_NEAR(get(t, 6 + 5), (20 * 0.5 - 2) / 4, 1e-6);
  EXPECT_NEAR(get(t, 12 + 5), (30 * 0.5 - 3) / 8, 1e-6);
}

TEST_F(RunMedia, JpegIsRead) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = jpeg.image_height = 16;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<uint8_t> row;
  for (int x = 0; x < 16; ++x) row.insert(row.end(), {200, 100, 50});
  for (int y = 0; y < 16; ++y) {
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&jpeg, &rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  const std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  write_file(in_folder("photo.jpg"), file);
  write_identity(Float, {1, 3, 16, 16});
  const Tensor t = result_of("photo.jpg", {"--scale", "1"}).tensor;
  for (const auto& [channel, value] : {std::pair(0, 200), std::pair(1, 100), std::pair(2, 50)})
    EXPECT_NEAR(get(t, channel * 256 + 37), value, 3) << channel;
  write_file(in_folder("half.jpg"), file.substr(0, file.size() / 2));
  expect_refused({"run", "model.onnx", "-i", "x=half.jpg"}, 2, "broken JPEG");
}

TEST_F(RunMedia, VolumesHaveTheirAxesInOrder) {
  Volume volume({2, 3, 4}, VoxelType::I16);
  for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<int16_t>()[i] = static_cast<int16_t>(i);
  volume.slope = 2;
  write_scan("scan.nii.gz", volume);
  write_identity(Float, {1, 1, -1, -1, -1});
  const Tensor t = result_of("scan.nii.gz").tensor;
  ASSERT_EQ(t.shape, (Shape{1, 1, 2, 3, 4}));
  EXPECT_EQ(get(t, (1 * 3 + 2) * 4 + 3), 2.0 * static_cast<double>(volume.index(1, 2, 3)));
  EXPECT_EQ(get(t, 1), 2.0 * static_cast<double>(volume.index(0, 0, 1)));
}

std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}
std::string wav(int kind, int channels, int bits, const std::string& data) {
  const std::string format = little(kind, 2) + little(channels, 2) + little(16000, 4) +
                             little(16000 * channels * bits / 8, 4) + little(channels * bits / 8, 2) + little(bits, 2);
  const std::string chunks = "WAVEfmt " + little(16, 4) + format + "LIST" + little(3, 4) + std::string("abc\0", 4) +
                             "data" + little(data.size(), 4) + data;
  return "RIFF" + little(chunks.size(), 4) + chunks;
}

TEST_F(RunMedia, SoundIsReadInAllItsForms) {
  write_identity(Float, {1, -1});
  const auto first_of = [&](const std::string& file) {
    write_file(in_folder("sound.wav"), file);
    return result_of("sound.wav").tensor;
  };
  EXPECT_EQ(get(first_of(wav(1, 1, 8, little(192, 1) + little(64, 1))), 0), 0.5);
  EXPECT_EQ(get(first_of(wav(1, 1, 16, little(0xc000, 2) + little(1, 2))), 0), -0.5);
  EXPECT_EQ(get(first_of(wav(1, 1, 24, little(0xc00000, 3))), 0), -0.5);
  EXPECT_EQ(get(first_of(wav(1, 1, 32, little(0x40000000, 4))), 0), 0.5);
  EXPECT_EQ(get(first_of(wav(3, 1, 32, little(std::bit_cast<uint32_t>(0.75f), 4))), 0), 0.75);
  EXPECT_EQ(get(first_of(wav(3, 1, 64, little(std::bit_cast<uint64_t>(0.75), 8))), 0), 0.75);
  const Tensor mixed = first_of(wav(1, 2, 16, little(0x4000, 2) + little(0x2000, 2)));
  EXPECT_EQ(mixed.shape, (Shape{1, 1}));
  EXPECT_EQ(get(mixed, 0), 0.375);
  write_identity(Float, {1, 2, -1});
  const Tensor both = first_of(wav(1, 2, 16, little(0x4000, 2) + little(0x2000, 2)));
  EXPECT_EQ(both.shape, (Shape{1, 2, 1}));
  EXPECT_EQ(get(both, 1), 0.25);
}

TEST_F(RunMedia, WhatDoesNotFitIsOneLine) {
  write_picture();
  write_identity(Float, {1, 3, 8, 8});
  expect_refused({"run", "model.onnx", "-i", "x=picture.png"}, 2, "bring it to that size first");
  expect_refused({"run", "model.onnx", "-i", "x=picture.png", "--std", "0"}, 2, "--std");
  write_identity(Float, {1, 3, 2, 3});
  expect_refused({"run", "model.onnx", "-i", "x=picture.png", "--mean", "1,2"}, 2, "3 channels");
  expect_refused({"run", "model.onnx", "-i", "z=picture.png"}, 2, "no input 'z'");
  write_file(in_folder("half.png"), text_of(in_folder("picture.png")).substr(0, 40));
  expect_refused({"run", "model.onnx", "-i", "x=half.png"}, 2, "broken PNG");
  write_identity(Float, {1, 7});
  expect_refused({"run", "model.onnx", "-i", "x=picture.png"}, 2, "picture.png");
  write_file(in_folder("law.wav"), wav(7, 1, 8, "ab"));
  expect_refused({"run", "model.onnx", "-i", "x=law.wav"}, 2, "PCM");
  write_file(in_folder("short.wav"), wav(1, 1, 16, "abcd").substr(0, 50));
  expect_refused({"run", "model.onnx", "-i", "x=short.wav"}, 2, "broken WAV");
}

// A network of layers takes the same options.
TEST_F(RunMedia, KnownModelsTakeVolumesAndGiveEverythingElse) {
  write_model("net");
  write_scan("scan.nii.gz", ramp_volume(8));
  const Outcome stats = run_well({"run", "net", "-i", "image=scan.nii.gz", "--stats", "--nan-check", "--profile"});
  EXPECT_NE(stats.out.find("logits"), std::string::npos) << stats.out;
  EXPECT_NE(stats.err.find("ms"), std::string::npos) << stats.err;
  const std::string label =
      stats.out.substr(stats.out.find('\n') + 1, stats.out.find(' ', stats.out.find('\n')) - stats.out.find('\n') - 1);
  run_well({"run", "net", "--shape", "image=1,1,8,8,8", "--capture", label, "--device", "0", "--output-dir", "out"});
  EXPECT_TRUE(fs::exists(folder_ / "out/logits.npy"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "out"), {}), 2);
  expect_refused({"run", "net", "-i", "image=scan.nii.gz", "--bind", "image=scan.nii.gz"}, 2, "--bind");
}

}  // namespace
}  // namespace gyrus::test
