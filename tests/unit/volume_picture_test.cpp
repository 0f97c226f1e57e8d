#include <algorithm>
#include <cstring>

#include "unit/volume_support.h"
#include "volume/phantom.h"
#include "volume/picture.h"
#include "volume/slices.h"

namespace gyrus {
namespace {

using test::expect_error;

TEST(Slices, OrientationFollowsTheAffine) {
  // A bright voxel at the patient's right, front and top, in a volume of every orientation.
  const char* letters = "RLAPSI";
  for (int first = 0; first < 6; ++first)
    for (int second = 0; second < 6; ++second) {
      if (first / 2 == second / 2) continue;
      const int axes[3] = {first, second, 0};
      Affine affine;
      affine.rows = {};
      std::string codes;
      for (int v = 0; v < 3; ++v) {
        const int code = v < 2 ? axes[v] : 2 * (3 - first / 2 - second / 2);
        affine(code / 2, v) = code % 2 == 0 ? 1 : -1;
        codes += letters[code];
      }
      Volume volume({5, 5, 5}, VoxelType::U8);
      set_affine(volume, affine);
      ASSERT_EQ(axis_codes(volume.affine), codes);
      int64_t index[3];
      for (int v = 0; v < 3; ++v)
        index[v] = codes[static_cast<size_t>(v)] == 'L' || codes[static_cast<size_t>(v)] == 'P' ||
                           codes[static_cast<size_t>(v)] == 'I'
                       ? 0
                       : 4;
      volume.as<uint8_t>()[volume.index(index[0], index[1], index[2])] = 255;
      const AnatomicalGrid grid = anatomical_grid(volume);
      EXPECT_EQ(volume.as<uint8_t>()[grid.at(4, 4, 4)], 255) << codes;
      SliceStyle style;
      style.pixels_per_mm = 1;
      const Box all{{0, 0, 0}, {4, 4, 4}};
      for (Plane plane : {Plane::Sagittal, Plane::Coronal, Plane::Axial}) {
        const Image image = draw_slice(volume, nullptr, {}, grid, all, plane, 4, style);
        EXPECT_EQ(image.pixel(0, 0)[0], 255) << codes << ": right, front and top come first";
        EXPECT_EQ(image.pixel(4, 4)[0], 0);
      }
    }
}

TEST(Picture, IsAPngOfReasonableSize) {
  const Phantom phantom = make_phantom({{32, 32, 32}, 1});
  const Image image = picture_of_slices(phantom.image, phantom.truth, phantom_labels());
  EXPECT_GT(image.width, 800);
  EXPECT_LT(image.width, 1600);
  const std::vector<std::byte> png = encode_png(image);
  ASSERT_GT(png.size(), 1000u);
  EXPECT_EQ(std::memcmp(png.data(), "\x89PNG\r\n\x1a\n", 8), 0);
  // The colours of the legend are there.
  for (const LabelEntry& entry : phantom_labels().entries) {
    if (entry.value == 0) continue;
    bool found = false;
    for (size_t i = 0; i + 2 < image.rgb.size() && !found; i += 3)
      found = std::memcmp(image.rgb.data() + i, entry.colour.data(), 3) == 0;
    EXPECT_TRUE(found) << entry.name;
  }
  Volume wrong({2, 2, 2}, VoxelType::U8);
  EXPECT_THROW(picture_of_slices(phantom.image, wrong, phantom_labels()), Error);
}

// T-M17: pictures of the QC page have 256 colours at most and are less than half as large.
TEST(Picture, SmallPngs) {
  const Phantom phantom = make_phantom({{64, 64, 64}, 1});
  const Image image = picture_mosaic(phantom.image, phantom.truth, phantom_labels());
  const size_t small = encode_small_png(image).size(), whole = encode_png(image).size();
  EXPECT_LT(2 * small, whole) << small << " of " << whole;
  EXPECT_GT(small, 1000u);
}

// Outlines leave the inside of a label as it is in the scan.
TEST(Picture, ContoursLeaveTheInside) {
  const Phantom phantom = make_phantom({{32, 32, 32}, 1});
  MosaicOptions plain, outlined;
  plain.overlay.opacity = outlined.overlay.opacity = 0;
  outlined.overlay.contours = true;
  const Image a = picture_mosaic(phantom.image, phantom.truth, phantom_labels(), plain);
  const Image b = picture_mosaic(phantom.image, phantom.truth, phantom_labels(), outlined);
  ASSERT_EQ(a.rgb.size(), b.rgb.size());
  size_t changed = 0;
  for (size_t i = 0; i < a.rgb.size(); i += 3) changed += std::memcmp(a.rgb.data() + i, b.rgb.data() + i, 3) != 0;
  EXPECT_GT(changed, a.rgb.size() / 3 / 100);
  EXPECT_LT(changed, a.rgb.size() / 3 / 2);
}

TEST(Labels, ColormapOfBrainchop) {
  const std::string text =
      R"({"R":[0,245,205],"G":[0,245,62],"B":[0,245,78],"labels":["Unknown","White Matter","Cortex"]})";
  const LabelTable table = parse_colormap(text, "colormap.json");
  ASSERT_EQ(table.entries.size(), 3u);
  EXPECT_EQ(table.find(2)->name, "Cortex");
  EXPECT_EQ(table.find(2)->colour, (Rgb{205, 62, 78}));
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_NE(itksnap_table(table).find("2       205  62   78   1     1   1    \"Cortex\""), std::string::npos);
  EXPECT_NE(freesurfer_table(table).find("1       White-Matter"), std::string::npos);
  EXPECT_NE(sidecar_json(table).find("\"#cd3e4e\""), std::string::npos);
  const LabelTable odd{{{1, "two\nlines", {1, 2, 3}}}};
  EXPECT_NE(itksnap_table(odd).find("\"two lines\""), std::string::npos);  // T-L23
  for (const char* bad :
       {"", "[]", "{", "{\"R\":[1],\"G\":[1,2],\"B\":[1]}", "{\"R\":[\"a\"],\"G\":[0],\"B\":[0]}", "{\"R\":5}"})
    expect_error(ErrorCode::InvalidModel, "colormap.json", [&] { parse_colormap(bad, "colormap.json"); });
}

TEST(Labels, PublicColormapsRead) {
  GYRUS_NEED_DATA(data);
  const auto count = [&](const char* name) {
    const auto bytes = read_file(data + "/models/" + name);
    return parse_colormap({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name).entries.size();
  };
  EXPECT_EQ(count("model18cls/colormap.json"), 18u);
  EXPECT_EQ(count("model5_gw_ae/colormap3.json"), 3u);
  EXPECT_GE(count("model21_104class/colormap.json"), 104u);
}

TEST(Labels, DefaultColoursDiffer) {
  const LabelTable table = default_labels(40);
  for (size_t i = 0; i < table.entries.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(table.entries[i].colour, table.entries[j].colour) << i << " " << j;
}

}  // namespace
}  // namespace gyrus
